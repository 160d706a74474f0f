//! What the stand-in libraries share: the one simulated machine of the process, counters of calls,
//! error names, and the shape of an exported function.
//!
//! A stand-in exports the names of a GPU library, so that the real backend code runs through its
//! own loader on any machine. What is asked of it is [`dormant_sim::Machine`]'s to answer. All state
//! is per library file: a byte copy of one that is loaded beside it has a machine of its own.
//!
//! | variable | what |
//! |---|---|
//! | `DORMANT_SIM_…` | the machine, as [`dormant_sim::SimConfig::from_lookup`] reads it |
//! | `DORMANT_DOUBLE_REPORT` | a file that gets the counters when the process ends |
//!
//! Every stand-in with a machine also exports `double_configure`, `double_calls`,
//! `double_contexts`, `double_contexts_made` and `double_reset` for tests.

pub mod abi;
pub mod calls;
mod control;
pub mod errors;
mod export;
pub mod graphs;
pub mod host;
pub mod machine;
pub mod memory;
pub mod peers;

pub use abi::{Code, Out, put};
pub use errors::Refused;
