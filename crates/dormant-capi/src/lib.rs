//! `libdormant.so`: the C interface, hooks for the GPU runtimes, entry points for torch, and the
//! names that users of `torch_memory_saver` know.
//!
//! The header is `include/dormant.h`, made from these sources. Every function may be called from any
//! thread. None ends the process, panics across its edge or prints, but for one line on standard
//! error where an environment variable makes no sense or a memory margin refuses an allocation.
//! In a forked child every function that is about memory or a driver answers `DORMANT_STATUS_FORKED`,
//! and the hooks are the real functions.
//!
//! However many files of ours are in a process, they are one: each hands its calls on to the one
//! that was loaded first.

// What C calls is public here without being of use in Rust.
#![allow(clippy::missing_errors_doc, reason = "the status is documented at DormantStatus")]

pub mod backups;
pub mod captures;
mod choices;
pub mod config;
mod edge;
mod environment;
pub mod hooks;
pub mod identity;
mod loans;
pub mod memory;
pub mod notices;
pub mod plans;
pub mod regions;
pub mod stats;
pub mod status;
mod text;
pub mod tms;
pub mod torch;
pub mod transitions;
mod types;
pub mod verify;

pub use types::*;
