//! The [`Driver`] contract on the functions of the other files.

use std::ptr::NonNull;

use allocator_core::{
    Address, Capabilities, Deadline, Device, DeviceInfo, Driver, DriverInfo, Granularity,
    MemoryInfo, Range, RawStream, Result,
};

use crate::{Hip, Physical, Stream};

// SAFETY: the runtime hands out ranges and handles that are nobody else's (HIP's own contract);
// copies and fills are given to it with exactly the caller's addresses and sizes, and have ended
// once their stream is synchronised; `OutOfMemory` is the runtime's, except for more than the
// device has, which is `TooLarge`, and for a size not in granules.
unsafe impl Driver for Hip {
    type Physical = Physical;
    type Stream = Stream;

    fn info(&self) -> DriverInfo {
        self.info.clone()
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        self.device_list()
    }

    fn memory(&self, device: Device) -> Result<MemoryInfo> {
        self.memory_info(device)
    }

    fn granularity(&self, device: Device) -> Result<Granularity> {
        self.granule(device)
    }

    fn capabilities(&self, device: Device) -> Result<Capabilities> {
        self.offers(device)
    }

    fn quiesce(&self, device: Device, deadline: Deadline) -> Result<()> {
        self.await_idle(device, deadline)
    }

    unsafe fn is_capturing(&self, device: Device, stream: RawStream) -> Result<bool> {
        // SAFETY: the caller's promise.
        unsafe { self.captures(device, stream) }
    }

    /// Checks only: `set_access` alone opens memory to a peer, and `hipDeviceEnablePeerAccess`
    /// would open every other allocation of the program as well.
    fn enable_peer(&self, from: Device, to: Device) -> Result<()> {
        self.check_peer(from, to)
    }

    fn reserve(&self, device: Device, bytes: u64) -> Result<Range> {
        self.reserve_range(device, bytes)
    }

    fn create(&self, device: Device, bytes: u64) -> Result<Physical> {
        self.create_physical(device, bytes)
    }

    unsafe fn map(&self, range: &Range, offset: u64, physical: &Physical) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.map_physical(range, offset, physical) }
    }

    unsafe fn set_access(
        &self,
        range: &Range,
        offset: u64,
        bytes: u64,
        devices: &[Device],
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.open_to(range, offset, bytes, devices) }
    }

    unsafe fn unmap(&self, range: &Range, offset: u64, bytes: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.unmap_piece(range, offset, bytes) }
    }

    fn release(&self, physical: Physical) -> Result<()> {
        self.release_physical(physical)
    }

    /// Whether it is needed, `capabilities` says; whoever calls it gets it.
    unsafe fn vacate(&self, range: &mut Range) -> Result<()> {
        // SAFETY: the caller's promise; nobody else has the range meanwhile.
        unsafe { self.renew(range) }
    }

    unsafe fn unreserve(&self, range: Range) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.free_range(range) }
    }

    fn open_stream(&self, device: Device) -> Result<Stream> {
        self.create_stream(device)
    }

    fn close_stream(&self, stream: Stream) -> Result<()> {
        self.destroy_stream(stream)
    }

    unsafe fn read(
        &self,
        stream: &Stream,
        from: Address,
        to: NonNull<u8>,
        bytes: u64,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.copy_to_host(stream, from, to, bytes) }
    }

    unsafe fn write(
        &self,
        stream: &Stream,
        to: Address,
        from: NonNull<u8>,
        bytes: u64,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.copy_to_device(stream, to, from, bytes) }
    }

    unsafe fn fill(&self, stream: &Stream, at: Address, byte: u8, bytes: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.set_bytes(stream, at, byte, bytes) }
    }

    fn wait(&self, stream: &Stream) -> Result<()> {
        self.synchronize(stream)
    }

    unsafe fn register_host(&self, at: NonNull<u8>, bytes: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.register(at, bytes) }
    }

    unsafe fn unregister_host(&self, at: NonNull<u8>) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.unregister(at) }
    }
}
