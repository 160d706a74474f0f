//! The HIP runtime API (ROCm) as a dormant driver: [`Hip`] implements
//! [`allocator_core::Driver`] with one driver call, or few, per method. No policy, no retries.
//!
//! - Nothing links to ROCm. The runtime library is found at run time, and its functions are looked
//!   up once. Types are checked in (`sys.rs`); neither `hipconfig` nor `libhiprtc` is needed. HIP
//!   6.0 or later is; older ones are refused, since their structs differ.
//! - HIP has no contexts to speak of. A device is used from the first reserve, create or stream
//!   there, or when somebody asks for its [memory](allocator_core::Driver::memory), its
//!   [capabilities](allocator_core::Driver::capabilities) or waits for it; nothing else touches
//!   it. `Hip` has no `Drop` that calls the driver, since that could run while the process ends.
//! - The calling thread's current device and capture mode are put back after every call, and a
//!   failure of ours does not stay behind as the thread's `hipGetLastError`. All calls that may
//!   concern a stream capture are made in relaxed capture mode; only a quiesce breaks one.
//! - Virtual memory calls of the process come one at a time.
//! - Quirks are found by asking the device, see `quirks.rs`, and can be set by `DORMANT_HIP_QUIRKS`.
//! - Error kinds come from a table of the runtime's codes. An error carries the runtime's function,
//!   its code, name and text, and the device, address and bytes of the request.
//!
//! | file | what |
//! |---|---|
//! | `sys.rs` | structs and numbers of HIP |
//! | `loader.rs` | the library, the symbol table, `hipInit`, the version |
//! | `result.rs` | result codes to error kinds |
//! | `context.rs` | scopes that put the thread back |
//! | `device.rs` | facts of a device, asked once; memory, granularity, peers |
//! | `quirks.rs` | what a device does otherwise than documented |
//! | `memory.rs` | ranges, handles, mappings, access |
//! | `stream.rs` | streams, copies, registered host memory |
//! | `quiesce.rs` | waiting for a device, with a deadline |
//! | `driver.rs` | the trait |

mod context;
mod device;
mod driver;
mod loader;
mod memory;
mod quiesce;
mod quirks;
mod result;
mod stream;
mod sys;

use std::fmt;
use std::path::Path;

use allocator_core::loader::Library;
use allocator_core::{DriverInfo, Result};

use device::Slot;
use loader::Symbols;
pub use memory::Physical;
use quirks::Overrides;
pub use stream::Stream;

/// The HIP runtime of this process.
pub struct Hip {
    symbols: Symbols,
    info: DriverInfo,
    slots: Box<[Slot]>,
    overrides: Overrides,
}

impl Hip {
    /// Finds the runtime and starts it: the file that `DORMANT_HIP_LIBRARY` names, if set, else a
    /// `libamdhip64.so.10`, `.so.7`, `.so.6` or `libamdhip64.so` that the process has already,
    /// else the first of them that can be loaded. Whatever has one of these names is trusted to be
    /// a HIP runtime: its initialisers run, and its functions are called. Uses no device.
    ///
    /// # Errors
    /// `NoDriver` when there is no library, it lacks a symbol, or it sees no device;
    /// `NotSupported` for HIP before 6.0; `InvalidArgument` when `DORMANT_HIP_QUIRKS` is not
    /// understood; else the runtime's own error.
    pub fn open() -> Result<Self> {
        Self::start(&loader::find()?)
    }

    /// Starts the runtime library at `path` and no other.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    ///
    /// # Safety
    /// The file's initialisers, and its symbols of the HIP runtime's names, are those of such a runtime.
    pub unsafe fn open_at(path: impl AsRef<Path>) -> Result<Self> {
        // SAFETY: the caller's promise.
        Self::start(&unsafe { Library::at(path.as_ref()) }?)
    }

    fn start(library: &Library) -> Result<Self> {
        let overrides = Overrides::from_env()?;
        let (symbols, info) = loader::start(library)?;
        let slots = Slot::all(&symbols).map_err(|error| {
            loader::explain(error, info.library.as_deref().unwrap_or(library.name()))
        })?;
        Ok(Self { symbols, info, slots, overrides })
    }
}

impl fmt::Debug for Hip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hip")
            .field("info", &self.info)
            .field("devices", &self.slots.len())
            .finish_non_exhaustive()
    }
}
