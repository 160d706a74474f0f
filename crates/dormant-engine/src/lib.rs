//! The rules of pausable GPU memory, over any [`Driver`](allocator_core::Driver).
//!
//! An [`Engine`] knows blocks by address and groups them by tag. [`Engine::pause`] gives the
//! physical memory of a selection back to the device, [`Engine::resume`] puts physical memory
//! under the same addresses again, [`Engine::free`] is legal in either state. What happens to the
//! contents is a [`Policy`].
//!
//! The rules, and the tests that hold the engine to them:
//!
//! 1. Nothing exits, aborts or panics: a failure is an [`Error`] that says what was tried, where,
//!    how many bytes were wanted and are free, and who holds the memory. (`rules`: `rule_1_...`)
//! 2. A pause commits at its first detach: a failure before leaves every block, backup and count
//!    as it was; after it the pause only rolls forward, and blocks whose driver call failed are
//!    named. A resume is all or nothing. (`faults`: every driver call failed once in every
//!    transition; conformance: `a_resume_of_two_tags_is_all_or_nothing`)
//! 3. One transition at a time; a second waits up to its timeout, then it is `Busy`.
//!    (`rule_3_...`)
//! 4. Pausing what is paused and resuming what is active is counted, not an error. (conformance:
//!    `pausing_the_paused_and_resuming_the_active_is_counted`, `an_unknown_tag_is_no_error`,
//!    `a_block_allocated_under_a_paused_tag_is_active`)
//! 5. Ownership is by address. A free never waits for a transition. (`rule_5_...`; `deferred`)
//! 6. A tag belongs to the bytes: memory of one tag is never handed out under another.
//!    (conformance: `memory_of_one_tag_is_not_handed_out_under_another`)
//! 7. Regions are a stack per thread ([`region`]). (conformance:
//!    `a_region_gives_tag_and_policy_and_the_outer_one_comes_back`; `region`'s own tests)
//! 8. Policies are given at allocation; a pause may override them for what it pauses.
//!    (conformance: `a_policy_given_at_pause_holds_for_the_blocks_of_that_pause_alone`,
//!    `one_tag_may_hold_blocks_of_every_policy`)
//! 9. No driver call and no copy happens under the registry's lock. (`rule_9_...`)
//! 10. Access of peer devices is given again at every resume. (`rule_10_...`)
//! 11. Reports give our own counts, and the device's free reading beside them. (conformance:
//!     `a_report_counts_blocks_bytes_and_tags`)
//! 12. A forked child is refused everything, and frees nothing of its parent's. (`rule_12_...`;
//!     `forked`)
//!
//! `model` checks them together: random calls against a plain map.

#![forbid(unsafe_code)]

mod allocate;
mod capture;
mod config;
mod contents;
mod disk;
mod engine;
mod error;
mod free;
mod host;
mod lookup;
mod named;
mod notice;
mod pause;
mod peers;
mod pieces;
mod policy;
mod prepare;
mod reaper;
pub mod region;
mod registry;
mod report;
mod resume;
mod save;
mod stash;
mod sync;
mod tag;
mod transfer;
mod turn;
mod wake;

pub use allocate::Allocation;
pub use config::{Config, MAX_WORKERS};
pub use engine::{CaptureGuard, Engine};
pub use error::{Error, Failure, Holder, Result};
pub use lookup::{BlockInfo, Stats, TagStats};
pub use notice::Notice;
pub use pause::PauseOptions;
pub use policy::{Checksum, HostMode, Policy};
pub use prepare::{Plan, PrepareOptions, Prepared};
pub use registry::BlockState;
pub use report::{Amount, DeviceReport, Phases, Report, TagReport};
pub use resume::ResumeOptions;
pub use stash::Backup;
pub use tag::{Selection, Tag};

pub use allocator_core::{Address, Device, ErrorKind, RawStream};
