//! Plain allocation, as `cudaMalloc` and `cudaFree` do it.

use allocator_core::Access;

use super::Machine;
use super::answer::{Answer, Code};
use super::physical::CreateFlags;

impl Machine {
    /// Allocates device memory on the current device (`cudaMalloc`). No bytes are address zero.
    ///
    /// # Errors
    /// `OutOfMemory`, `StreamCaptureUnsupported`, sticky errors.
    pub fn malloc(&self, bytes: u64) -> Answer<u64> {
        self.core.enter();
        let device = self.context()?;
        self.core.alive(device)?;
        self.core.refuse_unsafe()?;
        if bytes == 0 {
            return Ok(0);
        }
        let bytes = bytes
            .checked_next_multiple_of(self.core.config.granularity)
            .ok_or(Code::OutOfMemory.because("more than any device has"))?;
        let handle = self.create(bytes, device, CreateFlags::new())?;
        let placed = self.take_range(bytes, 0, 0, true).and_then(|address| {
            let mut memory = self.core.change();
            let mapped = self.map_in(&mut memory, address, bytes, 0, handle, true);
            let usable = mapped.and_then(|()| {
                self.set_one(&mut memory, address, &[(device, Access::READ | Access::WRITE)])
            });
            drop(memory);
            match usable {
                Ok(()) => Ok(address),
                Err(refusal) => {
                    self.take_apart(address)?;
                    Err(refusal)
                }
            }
        });
        // The mapping alone keeps the memory; without one, this gives it back.
        self.release(handle)?;
        placed
    }

    /// Frees what [`malloc`](Self::malloc) gave out, once the owner's work has ended
    /// (`cudaFree`). Address zero is nothing to do.
    ///
    /// # Errors
    /// `InvalidValue` for anything else, virtual memory included; `StreamCaptureUnsupported`;
    /// sticky errors.
    pub fn free(&self, address: u64) -> Answer {
        self.core.enter();
        let device = self.context()?;
        self.core.alive(device)?;
        self.core.refuse_unsafe()?;
        if address == 0 {
            return Ok(());
        }
        let owner = {
            let memory = self.core.look();
            memory.mappings.get(&address).filter(|m| m.malloc).map(|m| m.owner)
        };
        let owner = owner.ok_or(Code::InvalidValue.because("nothing was allocated there"))?;
        let marks = self.core.streams().marks(owner);
        for mark in marks {
            mark.queue.wait(mark.ticket, &self.core);
        }
        self.settled(owner)?;
        self.take_apart(address)
    }

    fn take_apart(&self, address: u64) -> Answer {
        let mut memory = self.core.change();
        let bytes = memory
            .spans
            .get(&address)
            .filter(|span| span.malloc)
            .map(|span| span.bytes)
            .ok_or(Code::InvalidValue.because("nothing was allocated there"))?;
        let doomed = match memory.mappings.get(&address).map(|mapping| mapping.handle) {
            Some(handle) => {
                memory
                    .addresses
                    .unmap(address, bytes)
                    .map_err(|_| Code::OutOfMemory.because("the host refused the unmapping"))?;
                memory.mappings.remove(&address);
                memory.drop_use(handle)
            }
            None => None,
        };
        drop(memory);
        self.core.bury(doomed);
        self.give_range(address, bytes, true)
    }
}
