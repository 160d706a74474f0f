//! Ranges, physical memory, mappings and access.
//!
//! All these calls go through one lock of the process: the runtime's books of them have had races
//! (a set access right after a map that fails now and then, handles looked up without its lock).
//! The owner's device is current, since newer runtimes create memory on the current device,
//! whatever the properties say.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard};

use allocator_core::call::{Call, judge};
use allocator_core::waiting::lock;
use allocator_core::{Address, Device, Error, ErrorKind, Operation, Range, Result};

use crate::Hip;
use crate::context::{Scope, ordinal};
use crate::device::Slot;
use crate::loader::Symbols;
use crate::sys::error::SUCCESS;
use crate::sys::{
    ACCESS_NONE, ACCESS_READ_WRITE, ALLOCATION_PINNED, AccessDescriptor, AllocationFlags,
    AllocationProperties, HANDLE_NONE, Handle, LOCATION_DEVICE, LOCATION_HOST, Location,
};

/// Whose turn it is to call the runtime's virtual memory functions.
static TURN: Mutex<()> = Mutex::new(());

/// A handle of physical memory on a device. Dropping it calls no driver; it ends in
/// [`Driver::release`](allocator_core::Driver::release).
#[derive(Debug)]
#[must_use = "dropped physical memory is a leak"]
pub struct Physical {
    handle: Handle,
    device: Device,
    bytes: u64,
}

impl Physical {
    /// The device that holds the memory.
    #[must_use]
    pub fn device(&self) -> Device {
        self.device
    }

    /// Its size in bytes, in whole granules.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn location(device: Device) -> Location {
    Location { kind: LOCATION_DEVICE, id: ordinal(device) }
}

/// What `create` makes, and what the granularity is asked for.
pub(crate) fn properties(device: Device) -> AllocationProperties {
    AllocationProperties {
        kind: ALLOCATION_PINNED,
        requested_handle_types: HANDLE_NONE,
        location: location(device),
        win32_handle_meta_data: 0,
        // The runtime reads none of them.
        flags: AllocationFlags { compression_type: 0, gpu_direct_rdma_capable: 0, usage: 0 },
        padding: 0,
    }
}

/// Access for a device.
pub(crate) fn access(device: Device, flags: u32) -> AccessDescriptor {
    AccessDescriptor { location: location(device), flags }
}

/// Access for the host. The number is that of the owner: runtimes that know of no host read it as
/// a device's, and the owner has access anyway.
fn host_access(owner: Device) -> AccessDescriptor {
    let location = Location { kind: LOCATION_HOST, id: ordinal(owner) };
    AccessDescriptor { location, flags: ACCESS_READ_WRITE }
}

/// Virtual memory calls on one device, while nobody else makes any.
#[derive(Debug)]
pub(crate) struct Vmm<'a> {
    symbols: &'a Symbols,
    device: Device,
    _scope: Scope<'a>,
    _turn: MutexGuard<'static, ()>,
}

impl Vmm<'_> {
    /// The device, which is current.
    pub(crate) fn device(&self) -> Device {
        self.device
    }

    /// Reserves a range, at an address if it can be had there.
    pub(crate) fn reserve(
        &self,
        operation: Operation,
        bytes: u64,
        wish: Option<Address>,
    ) -> Result<Address> {
        let mut call = Call::new(operation, "hipMemAddressReserve").on(self.device).of(bytes);
        if let Some(wish) = wish {
            call = call.at(wish);
        }
        let size = call.size(bytes)?;
        let wish = wish.map_or(0, |address| address.0);
        let mut address = 0;
        let reserve = self.symbols.mem_address_reserve;
        // SAFETY: `address` is writable; alignment 0 is the runtime's own, address 0 no wish, and
        // flags must be zero.
        let code = unsafe { reserve(&raw mut address, size, 0, wish, 0) };
        self.symbols.check(code, call)?;
        Ok(Address(address))
    }

    /// Takes physical memory.
    pub(crate) fn create(&self, operation: Operation, bytes: u64) -> Result<Handle> {
        let call = Call::new(operation, "hipMemCreate").on(self.device).of(bytes);
        let size = call.size(bytes)?;
        let properties = properties(self.device);
        let mut handle = 0;
        let create = self.symbols.mem_create;
        // SAFETY: `handle` is writable and `properties` readable, fully set; flags must be zero.
        let code = unsafe { create(&raw mut handle, size, &raw const properties, 0) };
        self.symbols.check(code, call)?;
        Ok(handle)
    }

    /// Maps a whole handle.
    ///
    /// # Safety
    /// The place lies within a range of ours and holds no mapping; the handle is alive and of
    /// this size.
    pub(crate) unsafe fn map(
        &self,
        operation: Operation,
        at: Address,
        bytes: u64,
        handle: Handle,
    ) -> Result<()> {
        let call = Call::new(operation, "hipMemMap").on(self.device).at(at).of(bytes);
        let size = call.size(bytes)?;
        // SAFETY: the caller's promise; a handle is mapped from its start on, the only way the
        // runtime supports. Flags must be zero.
        let code = unsafe { (self.symbols.mem_map)(at.0, size, 0, handle, 0) };
        self.symbols.check(code, call)
    }

    /// Opens one mapping.
    ///
    /// # Safety
    /// Address and size are those of one mapping.
    pub(crate) unsafe fn set_access(
        &self,
        operation: Operation,
        at: Address,
        bytes: u64,
        descriptors: &[AccessDescriptor],
    ) -> Result<()> {
        let call = Call::new(operation, "hipMemSetAccess").on(self.device).at(at).of(bytes);
        let size = call.size(bytes)?;
        let set = self.symbols.mem_set_access;
        // SAFETY: the caller's promise; the array is readable and has this many entries.
        let code = unsafe { set(at.0, size, descriptors.as_ptr(), descriptors.len()) };
        self.symbols.check(code, call)
    }

    /// Whether a device has access. One that the runtime cannot tell about has none.
    ///
    /// # Safety
    /// Something is mapped at the address.
    unsafe fn is_open_to(&self, at: Address, device: Device) -> bool {
        let Some(ask) = self.symbols.mem_get_access else { return false };
        let location = location(device);
        let mut flags = 0;
        // SAFETY: `flags` is writable, `location` readable; the address is mapped (the caller's
        // promise).
        let code = unsafe { ask(&raw mut flags, &raw const location, at.0) };
        if code != SUCCESS {
            self.symbols.forget(code);
        }
        code == SUCCESS && flags != 0
    }

    /// Takes a mapping away.
    ///
    /// # Safety
    /// Address and size are those of one mapping (or, for who asks whether that works, of
    /// several side by side), and nothing in flight uses it.
    pub(crate) unsafe fn unmap(&self, operation: Operation, at: Address, bytes: u64) -> Result<()> {
        let call = Call::new(operation, "hipMemUnmap").on(self.device).at(at).of(bytes);
        let size = call.size(bytes)?;
        // SAFETY: the caller's promise.
        let code = unsafe { (self.symbols.mem_unmap)(at.0, size) };
        self.symbols.check(code, call)
    }

    /// Gives physical memory back.
    ///
    /// # Safety
    /// The handle came from [`create`](Self::create), was not released before and is not mapped.
    pub(crate) unsafe fn release(
        &self,
        operation: Operation,
        handle: Handle,
        bytes: u64,
    ) -> Result<()> {
        let call = Call::new(operation, "hipMemRelease").on(self.device).of(bytes);
        // SAFETY: the caller's promise.
        let code = unsafe { (self.symbols.mem_release)(handle) };
        self.symbols.check(code, call)
    }

    /// Gives a range back.
    ///
    /// # Safety
    /// It is a whole reservation of ours with nothing mapped in it, and given back once.
    pub(crate) unsafe fn unreserve(
        &self,
        operation: Operation,
        at: Address,
        bytes: u64,
    ) -> Result<()> {
        let call = Call::new(operation, "hipMemAddressFree").on(self.device).at(at).of(bytes);
        let size = call.size(bytes)?;
        // SAFETY: the caller's promise.
        let code = unsafe { (self.symbols.mem_address_free)(at.0, size) };
        self.symbols.check(code, call)
    }
}

impl Hip {
    /// The turn to make virtual memory calls on a device.
    pub(crate) fn vmm(&self, device: Device, operation: Operation) -> Result<Vmm<'_>> {
        let turn = lock(&TURN);
        let scope = Scope::enter(&self.symbols, device, operation)?;
        Ok(Vmm { symbols: &self.symbols, device, _scope: scope, _turn: turn })
    }

    /// The same for calls that must go through after a failure of the device as well.
    fn vmm_if_possible(&self, device: Device, operation: Operation) -> Vmm<'_> {
        let turn = lock(&TURN);
        let scope = Scope::if_possible(&self.symbols, device, operation);
        Vmm { symbols: &self.symbols, device, _scope: scope, _turn: turn }
    }

    /// What a refusal to reserve or create means.
    fn judge(&self, slot: &Slot, error: Error, bytes: u64, total_bytes: u64) -> Error {
        if error.kind() == ErrorKind::OutOfMemory
            && let Ok(granularity) = self.granule(slot.device)
            && !bytes.is_multiple_of(granularity.bytes())
        {
            // What ROCm 6 answers to such a size.
            let note = format!("the size is not in granules of {} bytes", granularity.bytes());
            return error.with_kind(ErrorKind::InvalidArgument).with_note(note);
        }
        judge(error, bytes, total_bytes)
    }

    pub(crate) fn reserve_range(&self, device: Device, bytes: u64) -> Result<Range> {
        let operation = Operation::Reserve;
        let slot = self.slot(device, operation)?;
        let facts = slot.virtual_memory(&self.symbols, operation)?;
        let vmm = self.vmm(device, operation)?;
        slot.use_it();
        let reserved = vmm.reserve(operation, bytes, None);
        drop(vmm);
        let address = reserved.map_err(|e| self.judge(slot, e, bytes, facts.total_bytes))?;
        Ok(Range::from_driver(device, address, bytes))
    }

    pub(crate) fn create_physical(&self, device: Device, bytes: u64) -> Result<Physical> {
        let operation = Operation::Create;
        let slot = self.slot(device, operation)?;
        let facts = slot.virtual_memory(&self.symbols, operation)?;
        let vmm = self.vmm(device, operation)?;
        slot.use_it();
        let created = vmm.create(operation, bytes);
        drop(vmm);
        let handle = created.map_err(|e| self.judge(slot, e, bytes, facts.total_bytes))?;
        Ok(Physical { handle, device, bytes })
    }

    /// # Safety
    /// That of [`Driver::map`](allocator_core::Driver::map).
    pub(crate) unsafe fn map_physical(
        &self,
        range: &Range,
        offset: u64,
        physical: &Physical,
    ) -> Result<()> {
        let operation = Operation::Map;
        let vmm = self.vmm(range.device(), operation)?;
        let at = range.address().offset(offset);
        // SAFETY: the place lies within a range of ours and holds no mapping (the caller's
        // promise); the handle is alive, since `physical` is.
        unsafe { vmm.map(operation, at, physical.bytes, physical.handle) }
    }

    /// # Safety
    /// That of [`Driver::set_access`](allocator_core::Driver::set_access).
    pub(crate) unsafe fn open_to(
        &self,
        range: &Range,
        offset: u64,
        bytes: u64,
        devices: &[Device],
    ) -> Result<()> {
        let operation = Operation::SetAccess;
        let at = range.address().offset(offset);
        let mut descriptors = Vec::with_capacity(devices.len() + 1);
        for device in devices {
            let slot = self.slot(*device, operation)?;
            descriptors.push(access(*device, ACCESS_READ_WRITE));
            slot.granted.store(true, Ordering::Relaxed);
        }
        let vmm = self.vmm(range.device(), operation)?;
        // The runtime leaves devices that are not named as they are; exactly these means that
        // others lose what they have. Only devices that ever got access are asked about.
        for slot in &self.slots {
            if slot.granted.load(Ordering::Relaxed)
                && !devices.contains(&slot.device)
                // SAFETY: the address is that of a piece mapped in `range`.
                && unsafe { vmm.is_open_to(at, slot.device) }
            {
                descriptors.push(access(slot.device, ACCESS_NONE));
            }
        }
        if self.overrides.host_access() {
            descriptors.push(host_access(range.device()));
        }
        // SAFETY: address and size are those of one mapping (the caller's promise).
        unsafe { vmm.set_access(operation, at, bytes, &descriptors) }
    }

    /// # Safety
    /// That of [`Driver::unmap`](allocator_core::Driver::unmap).
    pub(crate) unsafe fn unmap_piece(&self, range: &Range, offset: u64, bytes: u64) -> Result<()> {
        let operation = Operation::Unmap;
        let vmm = self.vmm_if_possible(range.device(), operation);
        // SAFETY: address and size are those of one mapping, and nothing in flight uses it (the
        // caller's promise).
        unsafe { vmm.unmap(operation, range.address().offset(offset), bytes) }
    }

    pub(crate) fn release_physical(&self, physical: Physical) -> Result<()> {
        let operation = Operation::Release;
        let Physical { handle, device, bytes } = physical;
        let vmm = self.vmm_if_possible(device, operation);
        // SAFETY: the handle came from `create` and was not released before, since a `Physical`
        // can be neither made elsewhere nor copied, and is consumed here. That it is not mapped
        // is the order that callers keep; the runtime keeps a mapped one until its unmap.
        unsafe { vmm.release(operation, handle, bytes) }
    }

    /// Gives the range back and reserves it again, while no other thread of ours can reserve.
    ///
    /// # Safety
    /// That of [`Driver::vacate`](allocator_core::Driver::vacate).
    pub(crate) unsafe fn renew(&self, range: &Range) -> Result<()> {
        let operation = Operation::Vacate;
        let (device, address, bytes) = (range.device(), range.address(), range.bytes());
        let vmm = self.vmm_if_possible(device, operation);
        // SAFETY: the range is a whole reservation of ours with nothing mapped in it (the
        // caller's promise). When it does not come back below, the error says so.
        unsafe { vmm.unreserve(operation, address, bytes) }?;
        match vmm.reserve(operation, bytes, Some(address)) {
            Ok(same) if same == address => Ok(()),
            Ok(other) => {
                // SAFETY: reserved just now, and nobody knows of it.
                let undone = unsafe { vmm.unreserve(operation, other, bytes) };
                let text = format!("the driver reserved {other} instead of the same addresses");
                let call = Call::new(operation, "hipMemAddressReserve").on(device);
                let error = call.at(address).of(bytes).refuse(ErrorKind::AddressLost, text);
                Err(error.with_undo(undone))
            }
            Err(error) => Err(error
                .with_kind(ErrorKind::AddressLost)
                .with_note("the same addresses could not be reserved again")),
        }
    }

    /// # Safety
    /// That of [`Driver::unreserve`](allocator_core::Driver::unreserve).
    pub(crate) unsafe fn free_range(&self, range: Range) -> Result<()> {
        let operation = Operation::Unreserve;
        let vmm = self.vmm_if_possible(range.device(), operation);
        // SAFETY: the range is a whole reservation of ours, consumed here, with nothing mapped in
        // it (the caller's promise).
        unsafe { vmm.unreserve(operation, range.address(), range.bytes()) }?;
        // On failure the range is dropped as it is, and so counted as a leak.
        let _given_back = range.into_driver();
        Ok(())
    }
}
