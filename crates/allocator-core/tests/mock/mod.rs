//! A driver without a device. It keeps books of ranges, handles and mappings, panics when a
//! contract of [`Driver`] is broken, and fails when told to.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};

use allocator_core::{
    Address, Capabilities, Deadline, Device, DeviceInfo, Driver, DriverInfo, Error, ErrorKind,
    Granularity, MemoryInfo, Operation, Range, RawStream, Result,
};

pub(crate) const GRANULE: u64 = 2 << 20;

pub(crate) fn granularity() -> Granularity {
    Granularity::new(GRANULE).expect("a power of two")
}

/// A handle by its number; numbers are never used again.
#[derive(Debug)]
pub(crate) struct Handle {
    id: usize,
    bytes: u64,
}

/// One mapped piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    address: u64,
    bytes: u64,
    handle: usize,
    pub(crate) access: Vec<Device>,
}

#[derive(Debug, Default)]
struct Books {
    calls: Vec<Operation>,
    /// Calls of an operation still to go before it fails.
    failures: BTreeMap<Operation, Vec<(usize, ErrorKind)>>,
    next_address: u64,
    reserved: BTreeMap<u64, u64>,
    /// How often each handle was released, by its number.
    released: Vec<usize>,
    mapped: BTreeMap<u64, Mapping>,
}

#[derive(Debug, Default)]
pub(crate) struct Mock {
    books: Mutex<Books>,
}

impl Mock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Makes the `nth` call from now on fail; one is the next.
    pub(crate) fn fail(&self, operation: Operation, nth: usize, kind: ErrorKind) {
        self.books().failures.entry(operation).or_default().push((nth, kind));
    }

    pub(crate) fn calls(&self) -> Vec<Operation> {
        self.books().calls.clone()
    }

    pub(crate) fn forget_calls(&self) {
        self.books().calls.clear();
    }

    pub(crate) fn count(&self, operation: Operation) -> usize {
        self.books().calls.iter().filter(|call| **call == operation).count()
    }

    pub(crate) fn live_handles(&self) -> usize {
        self.books().released.iter().filter(|count| **count == 0).count()
    }

    pub(crate) fn reserved_ranges(&self) -> usize {
        self.books().reserved.len()
    }

    pub(crate) fn mapped_pieces(&self) -> usize {
        self.books().mapped.len()
    }

    pub(crate) fn mappings(&self) -> Vec<Mapping> {
        self.books().mapped.values().cloned().collect()
    }

    #[track_caller]
    pub(crate) fn assert_every_handle_released_once(&self, created: usize) {
        assert_eq!(self.books().released, vec![1; created], "releases per handle");
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("no test goes on after a broken contract")
    }

    /// Notes a call, and fails it if that was wanted.
    fn enter(&self, operation: Operation) -> (MutexGuard<'_, Books>, Result<()>) {
        let mut books = self.books();
        books.calls.push(operation);
        let mut failed = Ok(());
        for (left, kind) in books.failures.entry(operation).or_default() {
            // Zero is one that has failed already.
            *left = match *left {
                0 => continue,
                1 => {
                    failed = Err(Error::new(*kind, operation, "told to fail"));
                    0
                }
                more => more - 1,
            };
        }
        (books, failed)
    }
}

fn unused<T>(operation: Operation) -> Result<T> {
    Err(Error::new(ErrorKind::NotSupported, operation, "a block needs no such call"))
}

// SAFETY: addresses and handle numbers are never given out twice, and nothing is ever copied.
unsafe impl Driver for Mock {
    type Physical = Handle;
    type Stream = ();

    fn info(&self) -> DriverInfo {
        DriverInfo { backend: "mock", version: String::new(), library: None }
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        unused(Operation::Devices)
    }

    fn memory(&self, _: Device) -> Result<MemoryInfo> {
        unused(Operation::Memory)
    }

    fn granularity(&self, _: Device) -> Result<Granularity> {
        Ok(granularity())
    }

    fn capabilities(&self, _: Device) -> Result<Capabilities> {
        unused(Operation::Capabilities)
    }

    fn quiesce(&self, _: Device, _: Deadline) -> Result<()> {
        unused(Operation::Quiesce)
    }

    unsafe fn is_capturing(&self, _: Device, _: RawStream) -> Result<bool> {
        unused(Operation::IsCapturing)
    }

    fn enable_peer(&self, _: Device, _: Device) -> Result<()> {
        unused(Operation::EnablePeer)
    }

    fn reserve(&self, device: Device, bytes: u64) -> Result<Range> {
        let (mut books, result) = self.enter(Operation::Reserve);
        result?;
        assert!(bytes.is_multiple_of(GRANULE), "reserve in granules");
        books.next_address += GRANULE;
        let address = books.next_address;
        books.next_address += bytes;
        books.reserved.insert(address, bytes);
        Ok(Range::from_driver(device, Address(address), bytes))
    }

    fn create(&self, _: Device, bytes: u64) -> Result<Handle> {
        let (mut books, result) = self.enter(Operation::Create);
        result?;
        assert!(bytes > 0 && bytes.is_multiple_of(GRANULE), "create in granules");
        books.released.push(0);
        Ok(Handle { id: books.released.len() - 1, bytes })
    }

    unsafe fn map(&self, range: &Range, offset: u64, physical: &Handle) -> Result<()> {
        let (mut books, result) = self.enter(Operation::Map);
        result?;
        let (address, bytes) = (range.address().0 + offset, physical.bytes);
        assert!(books.reserved.contains_key(&range.address().0), "map into a reserved range");
        assert!(offset + bytes <= range.bytes(), "map within the range");
        assert_eq!(books.released[physical.id], 0, "map a handle that lives");
        assert!(
            books.mapped.values().all(|piece| {
                piece.handle != physical.id
                    && (piece.address + piece.bytes <= address || address + bytes <= piece.address)
            }),
            "map a handle once, where nothing is"
        );
        let access = Vec::new();
        books.mapped.insert(address, Mapping { address, bytes, handle: physical.id, access });
        Ok(())
    }

    unsafe fn set_access(
        &self,
        range: &Range,
        offset: u64,
        bytes: u64,
        devices: &[Device],
    ) -> Result<()> {
        let (mut books, result) = self.enter(Operation::SetAccess);
        result?;
        assert!(!devices.is_empty(), "access for some device");
        let piece = books.mapped.get_mut(&(range.address().0 + offset)).expect("a mapped piece");
        assert_eq!(piece.bytes, bytes, "access to exactly one piece");
        piece.access = devices.to_vec();
        Ok(())
    }

    unsafe fn unmap(&self, range: &Range, offset: u64, bytes: u64) -> Result<()> {
        let (mut books, result) = self.enter(Operation::Unmap);
        result?;
        let piece = books.mapped.remove(&(range.address().0 + offset)).expect("a mapped piece");
        assert_eq!(piece.bytes, bytes, "unmap exactly one piece");
        Ok(())
    }

    fn release(&self, physical: Handle) -> Result<()> {
        let (mut books, result) = self.enter(Operation::Release);
        let mapped = books.mapped.values().any(|piece| piece.handle == physical.id);
        assert!(!mapped, "release after unmap");
        // Gone also when the call fails.
        books.released[physical.id] += 1;
        result
    }

    unsafe fn vacate(&self, range: &mut Range) -> Result<()> {
        let (mut books, result) = self.enter(Operation::Vacate);
        let empty = !books.mapped.contains_key(&range.address().0);
        assert!(empty, "vacate an empty range");
        if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::AddressLost) {
            books.reserved.remove(&range.address().0);
        }
        result
    }

    unsafe fn unreserve(&self, range: Range) -> Result<()> {
        let (mut books, result) = self.enter(Operation::Unreserve);
        result?;
        let (_, address, bytes) = range.into_driver();
        let inside = books.mapped.range(address.0..address.0 + bytes).next();
        assert_eq!(inside, None, "unreserve an empty range");
        assert_eq!(books.reserved.remove(&address.0), Some(bytes), "unreserve once");
        Ok(())
    }

    fn open_stream(&self, _: Device) -> Result<()> {
        unused(Operation::OpenStream)
    }

    fn close_stream(&self, (): ()) -> Result<()> {
        unused(Operation::CloseStream)
    }

    unsafe fn read(&self, (): &(), _: Address, _: NonNull<u8>, _: u64) -> Result<()> {
        unused(Operation::Read)
    }

    unsafe fn write(&self, (): &(), _: Address, _: NonNull<u8>, _: u64) -> Result<()> {
        unused(Operation::Write)
    }

    unsafe fn fill(&self, (): &(), _: Address, _: u8, _: u64) -> Result<()> {
        unused(Operation::Fill)
    }

    fn wait(&self, (): &()) -> Result<()> {
        unused(Operation::Wait)
    }

    unsafe fn register_host(&self, _: NonNull<u8>, _: u64) -> Result<()> {
        unused(Operation::RegisterHost)
    }

    unsafe fn unregister_host(&self, _: NonNull<u8>) -> Result<()> {
        unused(Operation::UnregisterHost)
    }
}
