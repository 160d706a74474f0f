//! Virtual memory, plain allocations, host memory, copies that wait.

use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::IntoRawFd;

use double_common::abi::{AccessDescriptor, Location, Properties, ordinal};
use double_common::calls::call;
use double_common::errors::{INVALID_VALUE, NOT_SUPPORTED, Refused};
use double_common::{Out, exports, host, memory, put};

use crate::{context_of, driver};

/// The size of a legacy handle.
type IpcHandle = [u8; 64];

const FILE_DESCRIPTOR: c_int = 1;

exports! { find as find via call;
    /// Free and total bytes of the current device.
    fn cuMemGetInfo_v2(free: Out<'_, usize>, total: Out<'_, usize>) {
        let (free_bytes, total_bytes) = driver()?.mem_info()?;
        put(free, size(free_bytes)?)?;
        put(total, size(total_bytes)?)
    }

    /// The granule.
    fn cuMemGetAllocationGranularity(
        bytes: Out<'_, usize>,
        properties: Option<&Properties>,
        option: c_int,
    ) {
        put(bytes, memory::granularity(driver()?, properties, option)?)
    }

    /// Reserves addresses.
    fn cuMemAddressReserve(
        address: Out<'_, u64>,
        bytes: usize,
        alignment: usize,
        hint: u64,
        flags: u64,
    ) {
        let address = address.filter(|_| flags == 0).ok_or(Refused(INVALID_VALUE))?;
        put(Some(address), driver()?.reserve(bytes as u64, alignment as u64, hint)?)
    }

    /// Gives addresses back.
    fn cuMemAddressFree(address: u64, bytes: usize) {
        Ok(driver()?.address_free(address, bytes as u64)?)
    }

    /// Creates physical memory.
    fn cuMemCreate(
        handle: Out<'_, u64>,
        bytes: usize,
        properties: Option<&Properties>,
        flags: u64,
    ) {
        let handle = handle.ok_or(Refused(INVALID_VALUE))?;
        put(Some(handle), memory::create(driver()?, bytes, properties, flags)?)
    }

    /// Gives a handle up.
    fn cuMemRelease(handle: u64) {
        Ok(driver()?.release(handle)?)
    }

    /// The handle that is mapped at an address.
    fn cuMemRetainAllocationHandle(handle: Out<'_, u64>, address: *mut c_void) {
        put(handle, driver()?.retain_allocation_handle(address.addr() as u64)?)
    }

    /// Maps a handle.
    fn cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, flags: u64) {
        if flags != 0 {
            return Err(Refused(INVALID_VALUE));
        }
        Ok(driver()?.map(address, bytes as u64, offset as u64, handle)?)
    }

    /// Takes mappings away.
    fn cuMemUnmap(address: u64, bytes: usize) {
        Ok(driver()?.unmap(address, bytes as u64)?)
    }

    /// Says who may use a mapping.
    fn cuMemSetAccess(
        address: u64,
        bytes: usize,
        descriptors: *const AccessDescriptor,
        count: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe { memory::set_access(driver()?, address, bytes, descriptors, count, true) }
    }

    /// Who may use a mapping.
    fn cuMemGetAccess(flags: Out<'_, u64>, location: Option<&Location>, address: u64) {
        put(flags, memory::access(driver()?, location, address)?)
    }

    /// A file descriptor for physical memory.
    fn cuMemExportToShareableHandle(
        shareable: Out<'_, c_int>,
        handle: u64,
        kind: c_int,
        flags: u64,
    ) {
        let shareable = shareable.filter(|_| flags == 0).ok_or(Refused(INVALID_VALUE))?;
        if kind != FILE_DESCRIPTOR {
            return Err(Refused(NOT_SUPPORTED));
        }
        put(Some(shareable), driver()?.export_fd(handle)?.into_raw_fd())
    }

    /// A legacy handle for other processes.
    fn cuIpcGetMemHandle(handle: Out<'_, IpcHandle>, address: u64) {
        driver()?.ipc_handle(address)?;
        put(handle, [0; 64])
    }

    /// What is mapped at an address.
    fn cuMemGetAddressRange_v2(base: Out<'_, u64>, bytes: Out<'_, usize>, address: u64) {
        let (start, length) = driver()?.address_range(address)?;
        if let Some(base) = base {
            base.write(start);
        }
        if let Some(bytes) = bytes {
            bytes.write(size(length)?);
        }
        Ok(())
    }

    /// An attribute of an address.
    fn cuPointerGetAttribute(data: *mut c_void, attribute: c_int, address: u64) {
        let machine = driver()?;
        let owner = machine.pointer_device(address)?;
        let (start, length) = machine.address_range(address)?;
        if data.is_null() {
            return Err(Refused(INVALID_VALUE));
        }
        // The types are those that cuda.h gives the attributes of these numbers.
        match attribute {
            // SAFETY: not null, and good for this attribute's type (the caller's promise).
            1 => unsafe { data.cast::<*mut c_void>().write(context_of(owner)) },
            // MEMORY_TYPE: that of a device.
            // SAFETY: as above.
            2 => unsafe { data.cast::<c_uint>().write(2) },
            // SAFETY: as above.
            3 => unsafe { data.cast::<u64>().write(address) },
            // SAFETY: as above.
            9 => unsafe { data.cast::<c_int>().write(ordinal(owner)) },
            // SAFETY: as above.
            11 => unsafe { data.cast::<u64>().write(start) },
            // SAFETY: as above.
            12 => unsafe { data.cast::<usize>().write(size(length)?) },
            _ => return Err(Refused(NOT_SUPPORTED)),
        }
        Ok(())
    }

    /// Allocates device memory.
    fn cuMemAlloc_v2(address: Out<'_, u64>, bytes: usize) {
        let address = address.filter(|_| bytes > 0).ok_or(Refused(INVALID_VALUE))?;
        put(Some(address), driver()?.malloc(bytes as u64)?)
    }

    /// Frees device memory.
    fn cuMemFree_v2(address: u64) {
        Ok(driver()?.free(address)?)
    }

    /// Allocates registered host memory.
    fn cuMemAllocHost_v2(address: Out<'_, *mut c_void>, bytes: usize) {
        let address = address.ok_or(Refused(INVALID_VALUE))?;
        put(Some(address), host::allocate(driver()?, bytes)?)
    }

    /// The same; all of it is portable anyway.
    fn cuMemHostAlloc(address: Out<'_, *mut c_void>, bytes: usize, _flags: c_uint) {
        let address = address.ok_or(Refused(INVALID_VALUE))?;
        put(Some(address), host::allocate(driver()?, bytes)?)
    }

    /// Frees registered host memory.
    fn cuMemFreeHost(address: *mut c_void) {
        // SAFETY: the caller's promise.
        unsafe { host::free(driver()?, address) }
    }

    /// Registers host memory.
    fn cuMemHostRegister_v2(address: *mut c_void, bytes: usize, _flags: c_uint) {
        // SAFETY: the caller's promise.
        Ok(unsafe { driver()?.host_register(address.cast(), bytes as u64) }?)
    }

    /// Unregisters host memory.
    fn cuMemHostUnregister(address: *mut c_void) {
        // SAFETY: the caller's promise.
        Ok(unsafe { driver()?.host_unregister(address.cast()) }?)
    }

    /// Copies to the host and waits.
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { memory::to_host(driver()?, to, from, bytes) }
    }

    /// Copies to the device and waits.
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { memory::to_device(driver()?, to, from, bytes) }
    }

    /// Copies within device memory and waits.
    fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) {
        Ok(driver()?.copy_within(to, from, bytes as u64)?)
    }

    /// Fills device memory and waits.
    fn cuMemsetD8_v2(at: u64, byte: u8, bytes: usize) {
        Ok(driver()?.fill(at, byte, bytes as u64)?)
    }
}

fn size(bytes: u64) -> Result<usize, Refused> {
    usize::try_from(bytes).map_err(|_| Refused(INVALID_VALUE))
}
