//! The CUDA driver API as a dormant driver: [`Cuda`] implements
//! [`allocator_core::Driver`] with one driver call, or few, per method. No policy, no retries.
//!
//! - Nothing links to CUDA. The driver library is found at run time, and its functions are looked
//!   up once. Types come from `cudarc`; its functions are never called.
//! - Virtual memory needs a driver of CUDA 10.2 or later. `cuCtxRecordEvent` (12.5) lets a quiesce
//!   poll; without it a helper thread synchronises the context.
//! - The **primary context** of a device is retained at the first reserve, create or stream there
//!   and kept for the life of the process: `Cuda` has no `Drop` that calls the driver, since that
//!   could run while the process ends. [`memory`](allocator_core::Driver::memory) and
//!   [`quiesce`](allocator_core::Driver::quiesce) on another device borrow the context for the
//!   length of the call. Nothing else makes one. A program that resets a device
//!   (`cudaDeviceReset`) destroys that context and every block on it.
//! - The calling thread's current context and capture mode are put back after every call. Calls
//!   that a stream capture elsewhere in the process forbids are made in relaxed capture mode, so
//!   that it stays good; only a quiesce breaks one.
//! - Error kinds come from a table of the driver's codes. An error carries the driver function,
//!   its code, name and text, and the device, address and bytes of the request.
//!
//! | file | what |
//! |---|---|
//! | `loader.rs` | the library, the symbol table, `cuInit` |
//! | `result.rs` | result codes to error kinds |
//! | `context.rs` | primary contexts, scopes that put the thread back |
//! | `device.rs` | facts of a device, asked once; memory, granularity, peers |
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
mod result;
mod stream;

use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use allocator_core::loader::Library;
use allocator_core::{DriverInfo, Result};

use device::Slot;
use loader::Symbols;
pub use memory::Physical;
pub use stream::Stream;

/// The CUDA driver of this process.
pub struct Cuda {
    symbols: Symbols,
    info: DriverInfo,
    slots: Box<[Slot]>,
    /// Whether `cuCtxRecordEvent` may be used; cleared when it answers that it is not supported.
    polls: AtomicBool,
}

impl Cuda {
    /// Finds the driver and starts it: the file that `DORMANT_CUDA_LIBRARY` names, if set, else
    /// `libcuda.so.1` or `libcuda.so` that the process has already, else the first of the two
    /// that can be loaded. Whatever has one of these names is trusted to be a CUDA driver: its
    /// initialisers run, and its functions are called. Makes no context.
    ///
    /// # Errors
    /// `NoDriver` when there is no library, it lacks a symbol, it is a toolkit's stub, or it sees
    /// no device; else the driver's own error.
    pub fn open() -> Result<Self> {
        Self::start(&loader::find()?)
    }

    /// Starts the driver library at `path` and no other.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    ///
    /// # Safety
    /// The file's initialisers, and its symbols of a CUDA driver's names, are those of such a driver.
    pub unsafe fn open_at(path: impl AsRef<Path>) -> Result<Self> {
        // SAFETY: the caller's promise.
        Self::start(&unsafe { Library::at(path.as_ref()) }?)
    }

    fn start(library: &Library) -> Result<Self> {
        let (symbols, info) = loader::start(library)?;
        let slots = Slot::all(&symbols)?;
        Ok(Self { symbols, info, slots, polls: AtomicBool::new(true) })
    }
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cuda")
            .field("info", &self.info)
            .field("devices", &self.slots.len())
            .finish_non_exhaustive()
    }
}
