//! GPU memory that can sleep.
//!
//! A block keeps its address for life. [`pause`](Engine::pause) gives its physical memory back to
//! the device, [`resume`](Engine::resume) puts physical memory under the same address again,
//! [`free`](Engine::free) is legal in either state. What happens to the contents is a [`Policy`]:
//! discarded, zeroed, or kept in host memory or on disk.
//!
#![cfg_attr(feature = "sim", doc = "```")]
#![cfg_attr(not(feature = "sim"), doc = "```ignore")]
//! use std::sync::Arc;
//! use dormant::{Allocation, Buffer, Config, Device, Engine, PauseOptions, Policy, ResumeOptions};
//!
//! # fn main() -> Result<(), dormant::Error> {
#![cfg_attr(feature = "sim", doc = "let driver = dormant::open(Some(dormant::Backend::Sim))?;")]
#![cfg_attr(not(feature = "sim"), doc = "let driver = dormant::open(None)?;")]
//! let engine = Arc::new(Engine::new(Arc::new(driver), Config::default()));
//! let weights = Allocation::new(4 << 20, Device(0)).tag("weights").policy(Policy::Host);
//! let buffer = Buffer::new(&engine, &weights)?;
//! buffer.write(0, b"hello")?;
//! let address = buffer.address();
//! engine.pause("weights", &PauseOptions::default())?; // the memory is the device's again
//! engine.resume("weights", &ResumeOptions::default())?; // and here it is back
//! let mut back = [0; 5];
//! buffer.read(0, &mut back)?;
//! assert_eq!((&back, buffer.address()), (b"hello", address));
//! # Ok(())
//! # }
//! ```
//!
//! # Backends
//!
//! Each is a cargo feature; they are additive, and none needs a GPU toolkit to build:
//!
//! | feature | device | found at run time |
//! |---|---|---|
//! | `cuda` | NVIDIA | `libcuda.so.1` |
//! | `hip` | AMD (ROCm 6.0 and later) | `libamdhip64.so` |
//! | `sim` | a simulated device with real memory, for tests | always |
//!
//! With one of them, [`Driver`] is that backend's type. With several it is an enum, and
//! [`open`] takes the one that is present, in the order of the table; `sim` is taken only when
//! it is asked for (`DORMANT_BACKEND=sim`), or alone.
//!
//! # What pausing does to your pointers
//!
//! Nothing: they stay valid addresses. Touching the memory while it sleeps is an illegal access,
//! on the device a sticky one. Do not keep work in flight on a block that is about to be paused
//! from another thread; work that was queued before is waited for.

#![deny(unsafe_code)]

mod buffer;
pub mod build_info;
mod global;
mod select;

pub use allocator_core as core;
pub use allocator_core::{
    Capabilities, DeviceInfo, DriverInfo, Granularity, MemoryInfo, Operation,
};
pub use buffer::Buffer;
pub use build_info::{BuildInfo, build_info};
pub use dormant_engine::{
    Address, Allocation, Amount, Backup, BlockInfo, BlockState, CaptureGuard, Checksum, Config,
    Device, DeviceReport, Error, ErrorKind, Failure, Holder, HostMode, MAX_WORKERS, Notice,
    PauseOptions, Phases, Plan, Policy, PrepareOptions, Prepared, RawStream, Report, Result,
    ResumeOptions, Selection, Stats, Tag, TagReport, TagStats, region,
};
pub use global::{engine, engine_with};
pub use select::{Backend, Driver, open};

/// An engine over the compiled-in driver; over another with an explicit type.
pub type Engine<D = Driver> = dormant_engine::Engine<D>;
