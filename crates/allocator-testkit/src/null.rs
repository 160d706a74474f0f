//! A driver that does nothing at all, to measure what is above it.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use allocator_core::{
    Address, Capabilities, Deadline, Device, DeviceInfo, Driver, DriverInfo, Granularity,
    MemoryInfo, Range, RawStream, Result,
};

/// One device that has everything and holds nothing: every call succeeds, copies copy nothing.
/// For measuring bookkeeping, never for checking contents.
#[derive(Debug, Default)]
pub struct Null {
    next: AtomicU64,
}

/// A handle of no memory.
#[derive(Debug)]
pub struct Nothing;

const GRANULE: u64 = 2 << 20;
const TOTAL: u64 = 1 << 50;

// SAFETY: addresses only grow, so ranges do not overlap; there is no memory to mistake.
unsafe impl Driver for Null {
    type Physical = Nothing;
    type Stream = ();

    fn info(&self) -> DriverInfo {
        DriverInfo { backend: "null", version: "0".to_owned(), library: None }
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        Ok(vec![DeviceInfo {
            device: Device(0),
            name: "null".to_owned(),
            total_bytes: TOTAL,
            pci_address: None,
        }])
    }

    fn memory(&self, _: Device) -> Result<MemoryInfo> {
        Ok(MemoryInfo { free_bytes: TOTAL, total_bytes: TOTAL })
    }

    fn granularity(&self, _: Device) -> Result<Granularity> {
        Granularity::new(GRANULE)
    }

    fn capabilities(&self, _: Device) -> Result<Capabilities> {
        Ok(Capabilities::VIRTUAL_MEMORY)
    }

    fn quiesce(&self, _: Device, _: Deadline) -> Result<()> {
        Ok(())
    }

    unsafe fn is_capturing(&self, _: Device, _: RawStream) -> Result<bool> {
        Ok(false)
    }

    fn enable_peer(&self, _: Device, _: Device) -> Result<()> {
        Ok(())
    }

    fn reserve(&self, device: Device, bytes: u64) -> Result<Range> {
        let at = self.next.fetch_add(bytes, Ordering::Relaxed) + GRANULE;
        Ok(Range::from_driver(device, Address(at), bytes))
    }

    fn create(&self, _: Device, _: u64) -> Result<Nothing> {
        Ok(Nothing)
    }

    unsafe fn map(&self, _: &Range, _: u64, _: &Nothing) -> Result<()> {
        Ok(())
    }

    unsafe fn set_access(&self, _: &Range, _: u64, _: u64, _: &[Device]) -> Result<()> {
        Ok(())
    }

    unsafe fn unmap(&self, _: &Range, _: u64, _: u64) -> Result<()> {
        Ok(())
    }

    fn release(&self, _: Nothing) -> Result<()> {
        Ok(())
    }

    unsafe fn vacate(&self, _: &mut Range) -> Result<()> {
        Ok(())
    }

    unsafe fn unreserve(&self, range: Range) -> Result<()> {
        let _ = range.into_driver();
        Ok(())
    }

    fn open_stream(&self, _: Device) -> Result<()> {
        Ok(())
    }

    fn close_stream(&self, (): ()) -> Result<()> {
        Ok(())
    }

    unsafe fn read(&self, (): &(), _: Address, _: NonNull<u8>, _: u64) -> Result<()> {
        Ok(())
    }

    unsafe fn write(&self, (): &(), _: Address, _: NonNull<u8>, _: u64) -> Result<()> {
        Ok(())
    }

    unsafe fn fill(&self, (): &(), _: Address, _: u8, _: u64) -> Result<()> {
        Ok(())
    }

    fn wait(&self, (): &()) -> Result<()> {
        Ok(())
    }

    unsafe fn register_host(&self, _: NonNull<u8>, _: u64) -> Result<()> {
        Ok(())
    }

    unsafe fn unregister_host(&self, _: NonNull<u8>) -> Result<()> {
        Ok(())
    }
}
