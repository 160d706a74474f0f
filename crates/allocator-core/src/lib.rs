//! The ground that dormant stands on: what a driver must do, one block of pausable memory,
//! errors, sizes, and the loader of symbol tables.
//!
//! Layers, from below:
//!
//! - A [`Driver`] makes one driver call per method, all or nothing, and decides nothing.
//! - A [`Block`] is one address range that keeps its address for life. Its state is a type:
//!   [`Active`] and [`Attached`] own physical memory, [`Paused`] has none, so releasing one
//!   handle twice does not compile.
//! - Everything above (tags, policies, backups, retries) belongs to the engine, which is
//!   written once for all drivers.
//!
//! ```text
//!  Active  --detach(stash)-->  Paused  --attach-->  Attached  --settle-->  Active
//!     \                          |                     |
//!      `------------ free ------' `------ free -------'        from each state, once
//! ```

pub mod any;
pub mod backing;
pub mod block;
pub mod call;
pub mod deadline;
pub mod device;
pub mod driver;
pub mod error;
pub mod flags;
pub mod loader;
pub mod parts;
pub mod range;
pub mod size;
pub mod waiting;

pub use backing::{Backing, leaked_handles};
pub use block::{
    Active, ActiveBlock, AttachFailed, Attached, AttachedBlock, Block, DetachFailed, Mapped,
    Paused, PausedBlock, Remnant, Stuck,
};
pub use deadline::Deadline;
pub use device::{Address, Device, DeviceInfo, DriverInfo, MemoryInfo, RawStream};
pub use driver::Driver;
pub use error::{Error, ErrorKind, Operation, Result};
pub use flags::{Access, Capabilities};
pub use range::{Range, leaked_ranges};
pub use size::Granularity;
