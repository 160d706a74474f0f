//! The runtime's calls, each one or few of the driver's.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use double_common::calls::call_and_remember;
use double_common::errors::{INVALID_DEVICE, INVALID_VALUE};
use double_common::memory::low_byte;
use double_common::{Out, Refused, exports, put};

use crate::driver::{Driver, check, context, device, driver, on_device, set_device};

exports! { via call_and_remember;
    /// How many devices there are.
    fn cudaGetDeviceCount(count: Out<'_, c_int>) {
        put(count, devices(driver()?)?)
    }

    /// The calling thread's device.
    fn cudaGetDevice(number: Out<'_, c_int>) {
        put(number, device(driver()?)?.unwrap_or(0))
    }

    /// Sets the calling thread's device, and its context up.
    fn cudaSetDevice(number: c_int) {
        let driver = driver()?;
        if !(0..devices(driver)?).contains(&number) {
            return Err(Refused(INVALID_DEVICE));
        }
        set_device(driver, number)
    }

    /// Waits for everything on the device.
    fn cudaDeviceSynchronize() {
        // SAFETY: the call has no conditions.
        check(unsafe { (on_device()?.ctx_synchronize)() })
    }

    /// Whether a device can reach memory of another.
    fn cudaDeviceCanAccessPeer(can: Option<&mut c_int>, from: c_int, to: c_int) {
        let can = can.ok_or(Refused(INVALID_VALUE))?;
        // SAFETY: `can` is writable.
        check(unsafe { (driver()?.can_access_peer)(can, from, to) })
    }

    /// Lets the current device reach memory that another has allocated.
    fn cudaDeviceEnablePeerAccess(to: c_int, flags: c_uint) {
        let driver = on_device()?;
        let peer = context(driver, to)?;
        // SAFETY: the context is held for good.
        check(unsafe { (driver.ctx_enable_peer)(peer, flags) })
    }

    /// Takes that back.
    fn cudaDeviceDisablePeerAccess(to: c_int) {
        let driver = on_device()?;
        let peer = context(driver, to)?;
        // SAFETY: the context is held for good.
        check(unsafe { (driver.ctx_disable_peer)(peer) })
    }

    /// A handle for other processes.
    fn cudaIpcGetMemHandle(handle: Option<&mut [u8; 64]>, address: *mut c_void) {
        let handle = handle.ok_or(Refused(INVALID_VALUE))?;
        // SAFETY: `handle` is writable, and the driver checks the address.
        check(unsafe { (on_device()?.ipc_handle)(handle, number(address)) })
    }

    /// Free and total bytes of the device.
    fn cudaMemGetInfo(free: Option<&mut usize>, total: Option<&mut usize>) {
        let (Some(free), Some(total)) = (free, total) else { return Err(Refused(INVALID_VALUE)) };
        // SAFETY: both are writable.
        check(unsafe { (on_device()?.mem_get_info)(free, total) })
    }

    /// Allocates device memory; no bytes are null.
    fn cudaMalloc(address: Out<'_, *mut c_void>, bytes: usize) {
        let address = address.ok_or(Refused(INVALID_VALUE))?;
        let driver = on_device()?;
        let mut at = 0;
        if bytes > 0 {
            // SAFETY: `at` is writable.
            check(unsafe { (driver.mem_alloc)(&raw mut at, bytes) })?;
        }
        let at = usize::try_from(at).map_err(|_| Refused(INVALID_VALUE))?;
        put(Some(address), ptr::with_exposed_provenance_mut(at))
    }

    /// Frees device memory; null is nothing to do.
    fn cudaFree(address: *mut c_void) {
        let driver = on_device()?;
        if address.is_null() {
            return Ok(());
        }
        // SAFETY: the driver checks the address.
        check(unsafe { (driver.mem_free)(number(address)) })
    }

    /// Allocates registered host memory.
    fn cudaMallocHost(address: Option<&mut *mut c_void>, bytes: usize) {
        let address = address.ok_or(Refused(INVALID_VALUE))?;
        // SAFETY: `address` is writable.
        check(unsafe { (on_device()?.mem_alloc_host)(address, bytes) })
    }

    /// The same; all of it is portable anyway.
    fn cudaHostAlloc(address: Option<&mut *mut c_void>, bytes: usize, _flags: c_uint) {
        let address = address.ok_or(Refused(INVALID_VALUE))?;
        // SAFETY: `address` is writable.
        check(unsafe { (on_device()?.mem_alloc_host)(address, bytes) })
    }

    /// Frees registered host memory; null is nothing to do.
    fn cudaFreeHost(address: *mut c_void) {
        let driver = on_device()?;
        if address.is_null() {
            return Ok(());
        }
        // SAFETY: the driver checks the address; nobody uses it (the caller's promise).
        check(unsafe { (driver.mem_free_host)(address) })
    }

    /// Copies and waits.
    fn cudaMemcpy(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int) {
        let driver = on_device()?;
        check(match Kind::of(driver, kind, to, from)? {
            Kind::Host => {
                // SAFETY: both are good for these bytes (the caller's promise).
                unsafe { from.cast::<u8>().copy_to(to.cast::<u8>(), bytes) };
                0
            }
            // SAFETY: the host side is good for these bytes (the caller's promise).
            Kind::ToDevice => unsafe { (driver.to_device)(number(to), from, bytes) },
            // SAFETY: as above.
            Kind::ToHost => unsafe { (driver.to_host)(to, number(from), bytes) },
            // SAFETY: the driver checks both.
            Kind::Within => unsafe { (driver.within)(number(to), number(from), bytes) },
        })
    }

    /// Queues a copy. One from host to host is done at once.
    fn cudaMemcpyAsync(
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
        kind: c_int,
        stream: *mut c_void,
    ) {
        let driver = on_device()?;
        check(match Kind::of(driver, kind, to, from)? {
            Kind::Host => {
                // SAFETY: both are good for these bytes (the caller's promise).
                unsafe { from.cast::<u8>().copy_to(to.cast::<u8>(), bytes) };
                0
            }
            Kind::ToDevice => {
                // SAFETY: the host side is good until the stream is done (the caller's promise).
                unsafe { (driver.to_device_async)(number(to), from, bytes, stream) }
            }
            Kind::ToHost => {
                // SAFETY: as above.
                unsafe { (driver.to_host_async)(to, number(from), bytes, stream) }
            }
            Kind::Within => {
                // SAFETY: the driver checks both.
                unsafe { (driver.within_async)(number(to), number(from), bytes, stream) }
            }
        })
    }

    /// Fills and waits.
    fn cudaMemset(at: *mut c_void, byte: c_int, bytes: usize) {
        // SAFETY: the driver checks the address.
        check(unsafe { (on_device()?.fill)(number(at), low_byte(byte), bytes) })
    }

    /// Queues a fill.
    fn cudaMemsetAsync(at: *mut c_void, byte: c_int, bytes: usize, stream: *mut c_void) {
        // SAFETY: the driver checks the address and the stream.
        check(unsafe { (on_device()?.fill_async)(number(at), low_byte(byte), bytes, stream) })
    }

    /// The calling thread's capture mode, for another.
    fn cudaThreadExchangeStreamCaptureMode(mode: Option<&mut c_uint>) {
        let mode = mode.ok_or(Refused(INVALID_VALUE))?;
        // SAFETY: `mode` is writable, and the driver checks its value.
        check(unsafe { (driver()?.exchange_mode)(mode) })
    }
}

fn number(address: *const c_void) -> u64 {
    address.addr() as u64
}

fn devices(driver: &Driver) -> Result<c_int, Refused> {
    let mut count = 0;
    // SAFETY: `count` is writable.
    check(unsafe { (driver.device_get_count)(&raw mut count) })?;
    Ok(count)
}

/// From where to where.
enum Kind {
    Host,
    ToDevice,
    ToHost,
    Within,
}

impl Kind {
    fn of(
        driver: &Driver,
        kind: c_int,
        to: *const c_void,
        from: *const c_void,
    ) -> Result<Self, Refused> {
        if to.is_null() || from.is_null() {
            return Err(Refused(INVALID_VALUE));
        }
        Ok(match kind {
            0 => Self::Host,
            1 => Self::ToDevice,
            2 => Self::ToHost,
            3 => Self::Within,
            4 => match (of_device(driver, to), of_device(driver, from)) {
                (false, false) => Self::Host,
                (true, false) => Self::ToDevice,
                (false, true) => Self::ToHost,
                (true, true) => Self::Within,
            },
            _ => return Err(Refused(INVALID_VALUE)),
        })
    }
}

fn of_device(driver: &Driver, address: *const c_void) -> bool {
    const MEMORY_TYPE: c_int = 2;
    let mut kind: c_uint = 0;
    // SAFETY: `kind` is writable and of this attribute's type.
    let code =
        unsafe { (driver.pointer_attribute)((&raw mut kind).cast(), MEMORY_TYPE, number(address)) };
    code == 0 && kind == 2
}
