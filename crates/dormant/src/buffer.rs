//! A block that is freed when its owner goes.

use std::sync::Arc;

use allocator_core::{Error, ErrorKind, Operation};
use dormant_engine::{Address, Allocation, BlockInfo, Device, Result, Tag};
use dormant_host::process;

use crate::Engine;
use crate::select::Driver;

/// A block of device memory with an owner. Freed through its engine when dropped, in whatever
/// state it is; a drop never panics, and does nothing in a forked child or while the process
/// exits. A drop waits shortly for a busy device, and then leaves the free to a later call of the
/// engine. To learn whether the free worked, use [`free`](Self::free).
#[derive(Debug)]
pub struct Buffer<D: allocator_core::Driver = Driver> {
    engine: Arc<Engine<D>>,
    address: Address,
    /// The block's own: its address may be another's, should the driver have lost it.
    id: u64,
    bytes: u64,
    tag: Tag,
    device: Device,
    freed: bool,
}

impl<D: allocator_core::Driver> Buffer<D> {
    /// Allocates. What the allocation leaves open the thread's [`region`](crate::region) says.
    ///
    /// # Errors
    /// Those of [`Engine::allocate`].
    pub fn new(engine: &Arc<Engine<D>>, allocation: &Allocation) -> Result<Self> {
        let address = engine.allocate(allocation)?;
        let found = engine.find(address);
        let Some(BlockInfo { id, bytes, tag, device, .. }) = found else {
            // Somebody else freed an address that was never theirs.
            let text = "the block was freed while it was handed out";
            return Err(Error::new(ErrorKind::NotFound, Operation::Engine, text)
                .with_address(address)
                .into());
        };
        Ok(Self { engine: Arc::clone(engine), address, id, bytes, tag, device, freed: false })
    }

    /// The device address, the same for life.
    #[must_use]
    pub fn address(&self) -> Address {
        self.address
    }

    /// The device address as a pointer, to hand to kernels. The host must not follow it.
    #[must_use]
    pub fn as_device_ptr(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(usize::try_from(self.address.0).unwrap_or(0))
    }

    /// The size in bytes, as it was asked for.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Always false: there is no block of no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The tag under which it is paused.
    #[must_use]
    pub fn tag(&self) -> &Tag {
        &self.tag
    }

    /// The device that owns it.
    #[must_use]
    pub fn device(&self) -> Device {
        self.device
    }

    /// What the engine knows of it now, its state among it. `None` once somebody else has freed
    /// its address.
    #[must_use]
    pub fn info(&self) -> Option<BlockInfo> {
        self.engine.find(self.address).filter(|info| info.id == self.id)
    }

    /// Copies host memory into the block at `offset` bytes. Not ordered with the caller's streams.
    ///
    /// # Errors
    /// `WrongState` while it is paused, and the others of [`Engine::write`].
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<()> {
        self.engine.write(self.place("write", offset, from.len())?, from)
    }

    /// Copies from the block at `offset` bytes into host memory. Not ordered with the caller's
    /// streams.
    ///
    /// # Errors
    /// `WrongState` while it is paused, and the others of [`Engine::read`].
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.engine.read(self.place("read", offset, into.len())?, into)
    }

    /// Where `bytes` at `offset` are, if this block has them.
    fn place(&self, action: &str, offset: u64, bytes: usize) -> Result<Address> {
        let refused = |kind, text: &'static str| {
            let cause = Error::new(kind, Operation::Engine, text).with_address(self.address);
            dormant_engine::Error::new(action, cause)
        };
        if offset.checked_add(bytes as u64).is_none_or(|end| end > self.bytes) {
            return Err(refused(ErrorKind::InvalidArgument, "that is past the block's end"));
        }
        if self.info().is_none() {
            return Err(refused(ErrorKind::NotFound, "the block is gone"));
        }
        Ok(self.address.offset(offset))
    }

    /// Frees it, and says whether that worked.
    ///
    /// # Errors
    /// Those of [`Engine::free`]. After `Busy` the block lives on without an owner, and
    /// [`Engine::free`] can be called on its address.
    pub fn free(mut self) -> Result<()> {
        self.freed = true;
        self.engine.free_block(self.address, self.id)
    }
}

impl<D: allocator_core::Driver> Drop for Buffer<D> {
    fn drop(&mut self) {
        if !self.freed && !process::is_forked_child() && !process::is_exiting() {
            self.engine.free_eventually(self.address, self.id);
        }
    }
}
