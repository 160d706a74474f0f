//! The simulated machine: its calls mirror the CUDA driver's one to one, and answer as the real
//! driver was seen to answer (`tests/driver_truth` is the list).
//!
//! Handles and addresses are numbers. Memory is real: the physical memory of a device is an
//! unnamed file in memory, mapped shared at the block's address once a device has access. What no
//! device may use, the CPU may not touch either: it faults. Host code that reads or writes mapped
//! memory directly must not race with an unmap, as with any memory; streams and kernels may, and
//! get `IllegalAddress`.
//!
//! Where the real driver is lax or crashes, this one refuses and says so.

mod addresses;
mod allocate;
mod answer;
mod arena;
mod capture;
mod context;
mod copies;
mod core;
mod events;
mod extents;
mod here;
mod host;
mod link;
mod mapping;
mod memory;
mod physical;
mod queue;
mod ranges;
mod streams;
mod work;

use std::sync::Arc;

pub use answer::{Answer, Code, Refusal};
pub(crate) use arena::ARENA_BYTES;
pub use capture::{CaptureMode, CaptureStatus, Graph};
pub use physical::CreateFlags;
pub use work::Lane;

use self::core::Core;
use self::queue::Queue;
use crate::config::SimConfig;

/// One simulated machine: some devices, one address space, one process.
///
/// Dropping it ends its streams, waits for kernel bodies that run, and unmaps everything; addresses
/// in it are dead then.
#[derive(Debug)]
pub struct Machine {
    core: Arc<Core>,
}

impl Machine {
    /// Builds a machine.
    ///
    /// # Errors
    /// `InvalidValue` for a configuration that cannot be, `OperatingSystem`.
    pub fn new(config: SimConfig) -> Answer<Self> {
        config
            .validate()
            .map_err(|_| Code::InvalidValue.because("this machine cannot be built"))?;
        Ok(Self { core: Arc::new(Core::new(config)?) })
    }

    /// A number that no other machine of this process has or had.
    pub(crate) fn id(&self) -> u64 {
        self.core.id
    }

    /// How it was configured.
    #[must_use]
    pub fn config(&self) -> &SimConfig {
        &self.core.config
    }

    /// How many devices there are.
    #[must_use]
    pub fn device_count(&self) -> u32 {
        self.core.config.devices
    }

    /// The bytes that every device has.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.core.capacity
    }

    /// The granule, minimum and recommended.
    ///
    /// # Errors
    /// `InvalidDevice`.
    pub fn granularity(&self, device: u32) -> Answer<u64> {
        self.core.enter();
        self.core.device(device).map(|_| self.core.config.granularity)
    }

    /// Bytes of the host's memory that stand in for a device's now. They fall when physical
    /// memory is given back.
    ///
    /// # Errors
    /// `InvalidDevice`.
    pub fn resident_bytes(&self, device: u32) -> Answer<u64> {
        self.core.device(device).map(|state| state.arena.resident_bytes())
    }

    /// Mappings, handles with physical memory, and reserved ranges there are now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let memory = self.core.look();
        Counts {
            mappings: memory.mappings.len(),
            handles: memory.handles.len(),
            ranges: memory.spans.len(),
        }
    }

    /// A stream of any device; zero is the current device's legacy stream.
    fn any_stream(&self, stream: u64) -> Answer<Arc<Queue>> {
        let device = match stream {
            0 => self.context()?,
            _ => 0,
        };
        self.core.streams().get(stream, device)
    }

    /// A stream of the current device.
    fn stream(&self, stream: u64) -> Answer<Arc<Queue>> {
        let device = self.context()?;
        let queue = self.core.streams().get(stream, device)?;
        if queue.device != device {
            return Err(Code::InvalidValue
                .because("the stream belongs to another device than the current one"));
        }
        Ok(queue)
    }

    fn is_granular(&self, bytes: u64) -> bool {
        bytes.is_multiple_of(self.core.config.granularity)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.core.halt.now();
        self.core.stir();
        let queues: Vec<_> = self.core.streams().all().map(Arc::clone).collect();
        for queue in queues {
            queue.join();
        }
    }
}

/// How much of everything there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Whole handles mapped somewhere.
    pub mappings: usize,
    /// Handles with physical memory, released ones that are still mapped included.
    pub handles: usize,
    /// Reserved ranges.
    pub ranges: usize,
}
