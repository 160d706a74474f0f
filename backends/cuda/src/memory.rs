//! Ranges, physical memory, mappings and access. None of these calls needs the context of a
//! certain device current, and none breaks a stream capture (seen on driver 580).

use std::ffi::c_int;
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::Ordering;

use allocator_core::call::{Call, judge};
use allocator_core::{Address, Device, Operation, Range, Result};
use cudarc::driver::sys::{
    CUdevice, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationHandleType, CUmemAllocationProp,
    CUmemAllocationProp_st__bindgen_ty_1 as Flags, CUmemAllocationType,
    CUmemGenericAllocationHandle, CUmemLocation, CUmemLocationType,
};

use crate::Cuda;
use crate::context::ContextScope;
use crate::device::Facts;
use crate::result::SUCCESS;

/// A handle of physical memory on a device. Dropping it calls no driver; it ends in
/// [`Driver::release`](allocator_core::Driver::release).
#[derive(Debug)]
#[must_use = "dropped physical memory is a leak"]
pub struct Physical {
    handle: CUmemGenericAllocationHandle,
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

/// `CUmemLocation` as it is laid out in all versions; the bindings move the number into an
/// anonymous union from 13.2 on.
#[repr(C)]
struct Location {
    kind: CUmemLocationType,
    id: c_int,
}

fn location(handle: CUdevice) -> CUmemLocation {
    let location = Location { kind: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: handle };
    // SAFETY: both are C structs of a kind and four bytes that are, for a device, its number;
    // `transmute` refuses to compile for another size, and a test compares the fields.
    unsafe { transmute::<Location, CUmemLocation>(location) }
}

/// What `create` makes, and what the granularity is asked for.
pub(crate) fn properties(handle: CUdevice, facts: &Facts) -> CUmemAllocationProp {
    CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        // Not exportable: with an exported descriptor open, a release gives nothing back (seen).
        requestedHandleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: location(handle),
        win32HandleMetaData: ptr::null_mut(),
        allocFlags: Flags {
            compressionType: 0,
            gpuDirectRDMACapable: u8::from(facts.rdma),
            usage: 0,
            reserved: [0; 4],
        },
    }
}

fn access(handle: CUdevice, flags: CUmemAccess_flags) -> CUmemAccessDesc {
    CUmemAccessDesc { location: location(handle), flags }
}

impl Cuda {
    /// A context for a call that needs some context at most.
    fn some_context(&self, device: Device) -> ContextScope<'_> {
        let slot = self.slot(device, Operation::Engine).ok();
        ContextScope::if_none(&self.symbols, slot.and_then(|slot| slot.primary.kept()))
    }

    pub(crate) fn reserve_range(&self, device: Device, bytes: u64) -> Result<Range> {
        let operation = Operation::Reserve;
        let call = Call::new(operation, "cuMemAddressReserve").on(device).of(bytes);
        let slot = self.slot(device, operation)?;
        let facts = slot.virtual_memory(&self.symbols, operation)?;
        let context = slot.primary.keep(&self.symbols, operation)?;
        let size = call.size(bytes)?;
        let mut address = 0;
        let _scope = ContextScope::if_none(&self.symbols, Some(context));
        // SAFETY: `address` is writable; alignment 0 is the driver's own, address 0 no wish, and
        // flags must be zero.
        let code = unsafe { (self.symbols.mem_address_reserve)(&raw mut address, size, 0, 0, 0) };
        self.symbols.check(code, call).map_err(|error| judge(error, bytes, facts.total_bytes))?;
        Ok(Range::from_driver(device, Address(address), bytes))
    }

    pub(crate) fn create_physical(&self, device: Device, bytes: u64) -> Result<Physical> {
        let operation = Operation::Create;
        let call = Call::new(operation, "cuMemCreate").on(device).of(bytes);
        let slot = self.slot(device, operation)?;
        let facts = slot.virtual_memory(&self.symbols, operation)?;
        let context = slot.primary.keep(&self.symbols, operation)?;
        let size = call.size(bytes)?;
        let properties = properties(slot.handle, facts);
        let mut handle = 0;
        let _scope = ContextScope::if_none(&self.symbols, Some(context));
        let create = self.symbols.mem_create;
        // SAFETY: `handle` is writable and `properties` readable, fully set; flags must be zero.
        let code = unsafe { create(&raw mut handle, size, &raw const properties, 0) };
        self.symbols.check(code, call).map_err(|error| judge(error, bytes, facts.total_bytes))?;
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
        let address = range.address().offset(offset);
        let call =
            Call::new(Operation::Map, "cuMemMap").on(range.device()).at(address).of(physical.bytes);
        let size = call.size(physical.bytes)?;
        let _scope = self.some_context(range.device());
        // SAFETY: the place lies within a range of ours and holds no mapping (the caller's
        // promise); the handle is alive, since `physical` is, and is mapped whole from its start
        // on, the only way the driver supports. Flags must be zero.
        let code = unsafe { (self.symbols.mem_map)(address.0, size, 0, physical.handle, 0) };
        self.symbols.check(code, call)
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
        let address = range.address().offset(offset);
        let call = Call::new(operation, "cuMemSetAccess").on(range.device()).at(address).of(bytes);
        let size = call.size(bytes)?;
        let mut descriptors = Vec::with_capacity(devices.len());
        for device in devices {
            let slot = self.slot(*device, operation)?;
            let flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
            descriptors.push(access(slot.handle, flags));
            slot.granted.store(true, Ordering::Relaxed);
        }
        let _scope = self.some_context(range.device());
        // The driver leaves devices that are not named as they are; exactly these means that
        // others lose what they have. Only devices that ever got access are asked about.
        for slot in &self.slots {
            if slot.granted.load(Ordering::Relaxed)
                && !devices.contains(&slot.device)
                // SAFETY: the address is that of a piece mapped in `range`.
                && unsafe { self.is_open_to(address, slot.handle) }
            {
                let flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE;
                descriptors.push(access(slot.handle, flags));
            }
        }
        let set = self.symbols.mem_set_access;
        // SAFETY: address and size are those of one mapping (the caller's promise); the array is
        // readable and has this many entries.
        let code = unsafe { set(address.0, size, descriptors.as_ptr(), descriptors.len()) };
        self.symbols.check(code, call)
    }

    /// Whether a device has access. One that the driver cannot tell about has none.
    ///
    /// # Safety
    /// Something is mapped at the address.
    unsafe fn is_open_to(&self, address: Address, handle: CUdevice) -> bool {
        let Some(ask) = self.symbols.mem_get_access else { return false };
        let location = location(handle);
        let mut flags = 0;
        // SAFETY: `flags` is writable, `location` readable; the address is mapped (the caller's
        // promise).
        let code = unsafe { ask(&raw mut flags, &raw const location, address.0) };
        code == SUCCESS && flags != 0
    }

    /// # Safety
    /// That of [`Driver::unmap`](allocator_core::Driver::unmap).
    pub(crate) unsafe fn unmap_piece(&self, range: &Range, offset: u64, bytes: u64) -> Result<()> {
        let address = range.address().offset(offset);
        let call =
            Call::new(Operation::Unmap, "cuMemUnmap").on(range.device()).at(address).of(bytes);
        let size = call.size(bytes)?;
        let _scope = self.some_context(range.device());
        // SAFETY: address and size are those of one mapping, and nothing in flight uses it (the
        // caller's promise).
        let code = unsafe { (self.symbols.mem_unmap)(address.0, size) };
        self.symbols.check(code, call)
    }

    pub(crate) fn release_physical(&self, physical: Physical) -> Result<()> {
        let Physical { handle, device, bytes } = physical;
        let call = Call::new(Operation::Release, "cuMemRelease").on(device).of(bytes);
        let _scope = self.some_context(device);
        // SAFETY: the handle came from `cuMemCreate` and was not released before, since a
        // `Physical` can be neither made elsewhere nor copied, and is consumed here.
        let code = unsafe { (self.symbols.mem_release)(handle) };
        self.symbols.check(code, call)
    }

    /// Nothing to do: CUDA gives memory back at the last unmap and release.
    ///
    /// # Safety
    /// That of [`Driver::vacate`](allocator_core::Driver::vacate).
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "HIP's has something to do")]
    pub(crate) unsafe fn renew(&self, _range: &Range) -> Result<()> {
        Ok(())
    }

    /// # Safety
    /// That of [`Driver::unreserve`](allocator_core::Driver::unreserve).
    pub(crate) unsafe fn free_range(&self, range: Range) -> Result<()> {
        let (device, address, bytes) = (range.device(), range.address(), range.bytes());
        let call =
            Call::new(Operation::Unreserve, "cuMemAddressFree").on(device).at(address).of(bytes);
        let size = call.size(bytes)?;
        let _scope = self.some_context(device);
        // SAFETY: the range is a whole reservation of ours, consumed here, with nothing mapped in
        // it (the caller's promise).
        let code = unsafe { (self.symbols.mem_address_free)(address.0, size) };
        // On failure the range is dropped as it is, and so counted as a leak.
        self.symbols.check(code, call)?;
        let _given_back = range.into_driver();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{align_of, offset_of, size_of};

    use super::*;

    fn words<T, const N: usize>(value: &T) -> [u32; N] {
        assert_eq!(size_of::<T>(), 4 * N);
        assert!(align_of::<T>() >= 4);
        // SAFETY: `value` is readable for N aligned words, none of them padding in the structs
        // that this is used for.
        unsafe { ptr::from_ref(value).cast::<[u32; N]>().read() }
    }

    fn facts(rdma: bool) -> Facts {
        Facts {
            name: String::new(),
            total_bytes: 1 << 30,
            virtual_memory: true,
            rdma,
            pci_address: None,
        }
    }

    #[test]
    fn the_structs_are_laid_out_as_the_driver_expects() {
        assert_eq!(size_of::<CUmemAllocationProp>(), 32);
        assert_eq!(offset_of!(CUmemAllocationProp, type_), 0);
        assert_eq!(offset_of!(CUmemAllocationProp, requestedHandleTypes), 4);
        assert_eq!(offset_of!(CUmemAllocationProp, location), 8);
        assert_eq!(offset_of!(CUmemAllocationProp, win32HandleMetaData), 16);
        assert_eq!(offset_of!(CUmemAllocationProp, allocFlags), 24);
        assert_eq!(size_of::<Flags>(), 8);
        assert_eq!(offset_of!(Flags, compressionType), 0);
        assert_eq!(offset_of!(Flags, gpuDirectRDMACapable), 1);
        assert_eq!(offset_of!(Flags, usage), 2);
        assert_eq!(size_of::<CUmemAccessDesc>(), 12);
        assert_eq!(offset_of!(CUmemAccessDesc, location), 0);
        assert_eq!(offset_of!(CUmemAccessDesc, flags), 8);
        assert_eq!(size_of::<CUmemLocation>(), 8);
        assert_eq!(offset_of!(CUmemLocation, type_), 0);
    }

    #[test]
    fn the_properties_ask_for_pinned_device_memory_and_nothing_else() {
        // Pinned, no handle type, device 5, no metadata, no flags.
        let plain = properties(5, &facts(false));
        assert_eq!(words::<_, 8>(&plain), [1, 0, 1, 5, 0, 0, 0, 0]);
    }

    #[test]
    fn the_properties_ask_for_rdma_where_the_device_has_it() {
        let expected = u32::from_ne_bytes([0, 1, 0, 0]);
        assert_eq!(words::<_, 8>(&properties(5, &facts(true))), [1, 0, 1, 5, 0, 0, expected, 0]);
    }

    #[test]
    fn an_access_descriptor_names_device_and_rights() {
        let all = access(3, CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        assert_eq!(words::<_, 3>(&all), [1, 3, 3]);
        let none = access(3, CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE);
        assert_eq!(words::<_, 3>(&none), [1, 3, 0]);
    }
}
