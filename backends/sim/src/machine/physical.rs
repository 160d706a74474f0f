//! Physical memory: create, release, and what else a handle can do.

use std::os::fd::OwnedFd;

use allocator_core::Capabilities;
use rustix::pipe::PipeFlags;

use super::Machine;
use super::answer::{Answer, Code};
use super::memory::{Doomed, Handle};
use crate::config::Fault;

/// What physical memory is made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CreateFlags {
    /// It can be exported as a file descriptor.
    pub exportable: bool,
    /// It can be exported as a fabric handle, which no process here is permitted.
    pub fabric: bool,
    /// It can be used by GPUDirect RDMA.
    pub rdma: bool,
}

impl CreateFlags {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self { exportable: false, fabric: false, rdma: false }
    }

    /// With a file descriptor.
    #[must_use]
    pub const fn exportable(mut self) -> Self {
        self.exportable = true;
        self
    }

    /// With a fabric handle.
    #[must_use]
    pub const fn fabric(mut self) -> Self {
        self.fabric = true;
        self
    }

    /// With RDMA.
    #[must_use]
    pub const fn rdma(mut self) -> Self {
        self.rdma = true;
        self
    }
}

impl Machine {
    /// Takes physical memory (`cuMemCreate`). Needs no context.
    ///
    /// # Errors
    /// `InvalidValue` for no bytes or not whole granules, `OutOfMemory`, `InvalidDevice`,
    /// `NotPermitted` for a fabric handle, `NotSupported`, `DeviceLost`.
    pub fn create(&self, bytes: u64, device: u32, flags: CreateFlags) -> Answer<u64> {
        self.core.enter();
        let state = self.core.device(device)?;
        self.needs_virtual_memory()?;
        if bytes == 0 || !self.is_granular(bytes) {
            return Err(Code::InvalidValue.because("physical memory comes in whole granules"));
        }
        if flags.fabric {
            return Err(Code::NotPermitted.because("no channel for fabric handles"));
        }
        if flags.rdma && !self.core.config.capabilities.contains(Capabilities::RDMA) {
            return Err(Code::NotSupported.because("no GPUDirect RDMA"));
        }
        if state.lost.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(Code::DeviceLost.because("the device was lost"));
        }
        if self.core.config.max_piece().is_some_and(|most| bytes > most) {
            return Err(
                Code::OutOfMemory.because("no piece this large (a fault that is acted out)")
            );
        }
        let at = self.take_extent(bytes, device)?;
        let scribbled = state.arena.populate(at, bytes).map(|()| self.scribble(device, at, bytes));
        if let Err(refusal) = scribbled {
            self.core.bury([Doomed { device, at, bytes }]);
            return Err(refusal);
        }
        let mut memory = self.core.change();
        let handle = memory.fresh_handle();
        memory.handles.insert(
            handle,
            Handle {
                device,
                bytes,
                at,
                references: 1,
                uses: 0,
                exportable: flags.exportable,
                exports: Vec::new(),
            },
        );
        Ok(handle)
    }

    fn take_extent(&self, bytes: u64, device: u32) -> Answer<u64> {
        let mut doomed = self.core.change().reap_lingering();
        self.core.bury(doomed.drain(..));
        let capacity = self.core.capacity.saturating_sub(self.core.config.held_back_bytes);
        let mut memory = self.core.change();
        let pool = memory.pool(device)?;
        if pool.used.checked_add(bytes).is_none_or(|used| used > capacity) {
            return Err(Code::OutOfMemory.because("the device has not as much free"));
        }
        let at = pool
            .extents
            .take(bytes, self.core.config.granularity)
            .ok_or(Code::OutOfMemory.because("the device's arena is used up"))?;
        pool.used += bytes;
        Ok(at)
    }

    /// Fresh memory has any contents.
    fn scribble(&self, device: u32, at: u64, bytes: u64) {
        let Some(byte) = self.core.config.scribble else { return };
        let Ok(state) = self.core.device(device) else { return };
        let pattern = vec![byte; super::addresses::length(bytes.min(1 << 20))];
        let mut done = 0;
        while done < bytes {
            let step = (pattern.len() as u64).min(bytes - done);
            let part = pattern.get(..super::addresses::length(step)).unwrap_or_default();
            // Best effort: contents are not promised.
            let _ = state.arena.write(at + done, part);
            done += step.max(1);
        }
    }

    /// Gives a handle up (`cuMemRelease`). Its memory stays while it is mapped or exported.
    ///
    /// # Errors
    /// `InvalidValue` for zero, a handle released before, or one that never was.
    pub fn release(&self, handle: u64) -> Answer {
        self.core.enter();
        let doomed = {
            let mut memory = self.core.change();
            memory.live_handle(handle)?.references -= 1;
            if self.core.config.has(Fault::EarlyReleaseKeepsRange) {
                memory.mark_busy(handle);
            }
            memory.reap(handle)
        };
        self.core.bury(doomed);
        Ok(())
    }

    /// The handle that is mapped at an address; one more release is owed
    /// (`cuMemRetainAllocationHandle`).
    ///
    /// # Errors
    /// `InvalidValue` where nothing is mapped.
    pub fn retain_allocation_handle(&self, address: u64) -> Answer<u64> {
        self.core.enter();
        let mut memory = self.core.change();
        let (_, mapping) = memory
            .mapping_of(address)
            .filter(|(_, mapping)| !mapping.malloc)
            .ok_or(Code::InvalidValue.because("nothing is mapped there"))?;
        let id = mapping.handle;
        if let Some(handle) = memory.handles.get_mut(&id) {
            handle.references += 1;
        }
        Ok(id)
    }

    /// A file descriptor for the memory (`cuMemExportToShareableHandle`). While it or a duplicate
    /// is open the memory stays; nothing else can be done with it.
    ///
    /// # Errors
    /// `InvalidValue` when it was not created for this, `OperatingSystem`.
    pub fn export_fd(&self, handle: u64) -> Answer<OwnedFd> {
        self.core.enter();
        let mut memory = self.core.change();
        let found = memory.live_handle(handle)?;
        if !found.exportable {
            return Err(Code::InvalidValue.because("not created to be exported"));
        }
        let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
            .map_err(|_| Code::OperatingSystem.because("no file descriptor left"))?;
        found.exports.push(ours);
        Ok(theirs)
    }

    pub(crate) fn needs_virtual_memory(&self) -> Answer {
        if self.core.config.capabilities.contains(Capabilities::VIRTUAL_MEMORY) {
            Ok(())
        } else {
            Err(Code::NotSupported.because("no virtual memory management"))
        }
    }
}
