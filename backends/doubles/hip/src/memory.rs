//! Virtual memory, plain allocations, host memory, copies that wait.

use std::ffi::{c_int, c_uint, c_void};

use double_common::abi::{AccessDescriptor, Location, Properties};
use double_common::calls::call_and_remember;
use double_common::errors::{INVALID_DEVICE, INVALID_VALUE, Refused};
use double_common::{Out, exports, host, memory, put};

use crate::{Version, current, number, on_device, pointer, runtime};

/// The size of a legacy handle.
type IpcHandle = [u8; 64];

exports! { via call_and_remember;
    /// Free and total bytes of the current device.
    fn hipMemGetInfo(free: Out<'_, usize>, total: Out<'_, usize>) {
        let (free_bytes, total_bytes) = on_device()?.mem_info()?;
        put(free, size(free_bytes)?)?;
        put(total, size(total_bytes)?)
    }

    /// The granule.
    fn hipMemGetAllocationGranularity(
        bytes: Out<'_, usize>,
        properties: Option<&Properties>,
        option: c_int,
    ) {
        put(bytes, memory::granularity(runtime()?, properties, option)?)
    }

    /// Reserves addresses.
    fn hipMemAddressReserve(
        address: Out<'_, *mut c_void>,
        bytes: usize,
        alignment: usize,
        hint: *mut c_void,
        flags: u64,
    ) {
        let address = address.filter(|_| flags == 0).ok_or(Refused(INVALID_VALUE))?;
        let reserved = on_device()?.reserve(bytes as u64, alignment as u64, number(hint))?;
        put(Some(address), pointer(reserved))
    }

    /// Gives addresses back.
    fn hipMemAddressFree(address: *mut c_void, bytes: usize) {
        Ok(runtime()?.address_free(number(address), bytes as u64)?)
    }

    /// Creates physical memory on the current device.
    fn hipMemCreate(
        handle: Out<'_, *mut c_void>,
        bytes: usize,
        properties: Option<&Properties>,
        flags: u64,
    ) {
        let handle = handle.ok_or(Refused(INVALID_VALUE))?;
        let machine = on_device()?;
        let (device, _) = properties.ok_or(Refused(INVALID_VALUE))?.read()?;
        if device != current(machine) {
            return Err(Refused(INVALID_DEVICE));
        }
        put(Some(handle), pointer(memory::create(machine, bytes, properties, flags)?))
    }

    /// Gives a handle up.
    fn hipMemRelease(handle: *mut c_void) {
        Ok(runtime()?.release(number(handle))?)
    }

    /// The handle that is mapped at an address.
    fn hipMemRetainAllocationHandle(handle: Out<'_, *mut c_void>, address: *mut c_void) {
        put(handle, pointer(runtime()?.retain_allocation_handle(number(address))?))
    }

    /// Maps a handle.
    fn hipMemMap(
        address: *mut c_void,
        bytes: usize,
        offset: usize,
        handle: *mut c_void,
        flags: u64,
    ) {
        if flags != 0 {
            return Err(Refused(INVALID_VALUE));
        }
        Ok(runtime()?.map(number(address), bytes as u64, offset as u64, number(handle))?)
    }

    /// Takes mappings away.
    fn hipMemUnmap(address: *mut c_void, bytes: usize) {
        Ok(runtime()?.unmap(number(address), bytes as u64)?)
    }

    /// Says who may use a mapping.
    fn hipMemSetAccess(
        address: *mut c_void,
        bytes: usize,
        descriptors: *const AccessDescriptor,
        count: usize,
    ) {
        let (machine, address) = (runtime()?, number(address));
        let host = Version::get().knows_the_host();
        // SAFETY: the caller's promise.
        unsafe { memory::set_access(machine, address, bytes, descriptors, count, host) }
    }

    /// Who may use a mapping.
    fn hipMemGetAccess(flags: Out<'_, u64>, location: Option<&Location>, address: *mut c_void) {
        put(flags, memory::access(runtime()?, location, number(address))?)
    }

    /// A legacy handle for other processes.
    fn hipIpcGetMemHandle(handle: Out<'_, IpcHandle>, address: *mut c_void) {
        runtime()?.ipc_handle(number(address))?;
        put(handle, [0; 64])
    }

    /// Allocates device memory.
    fn hipMalloc(address: Out<'_, *mut c_void>, bytes: usize) {
        let address = address.ok_or(Refused(INVALID_VALUE))?;
        put(Some(address), pointer(on_device()?.malloc(bytes as u64)?))
    }

    /// Frees device memory.
    fn hipFree(address: *mut c_void) {
        Ok(on_device()?.free(number(address))?)
    }

    /// Allocates registered host memory.
    fn hipHostMalloc(address: Out<'_, *mut c_void>, bytes: usize, _flags: c_uint) {
        let address = address.ok_or(Refused(INVALID_VALUE))?;
        put(Some(address), host::allocate(on_device()?, bytes)?)
    }

    /// Frees registered host memory.
    fn hipHostFree(address: *mut c_void) {
        if address.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { host::free(on_device()?, address) }
    }

    /// Registers host memory.
    fn hipHostRegister(address: *mut c_void, bytes: usize, _flags: c_uint) {
        // SAFETY: the caller's promise.
        Ok(unsafe { on_device()?.host_register(address.cast(), bytes as u64) }?)
    }

    /// Unregisters host memory.
    fn hipHostUnregister(address: *mut c_void) {
        // SAFETY: the caller's promise.
        Ok(unsafe { on_device()?.host_unregister(address.cast()) }?)
    }

    /// Copies and waits.
    fn hipMemcpy(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int) {
        // SAFETY: the caller's promise.
        unsafe { memory::copy(on_device()?, to, from, bytes, kind) }
    }

    /// Fills and waits.
    fn hipMemset(at: *mut c_void, byte: c_int, bytes: usize) {
        Ok(on_device()?.fill(number(at), memory::low_byte(byte), bytes as u64)?)
    }
}

fn size(bytes: u64) -> Result<usize, Refused> {
    usize::try_from(bytes).map_err(|_| Refused(INVALID_VALUE))
}
