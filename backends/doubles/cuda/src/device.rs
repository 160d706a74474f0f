//! Starting the driver, facts of devices, error names, function addresses.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::Ordering;

use double_common::abi::{number, ordinal};
use double_common::calls::call;
use double_common::errors::{
    INVALID_DEVICE, INVALID_VALUE, Meaning, NO_DEVICE, NOT_FOUND, Refused, meaning,
};
use double_common::memory::put_text;
use double_common::{Code, Out, exports, put};

use crate::{INITIALIZED, driver};

/// CUDA 13.0.
const VERSION: c_int = 13_000;

/// What attributes that somebody asks for are, by their numbers in cuda.h. Others are zero.
const ATTRIBUTES: [(c_int, c_int); 11] = [
    (16, 132), // MULTIPROCESSOR_COUNT
    (41, 1),   // UNIFIED_ADDRESSING
    (75, 9),   // COMPUTE_CAPABILITY_MAJOR
    (76, 0),   // COMPUTE_CAPABILITY_MINOR
    (102, 1),  // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
    (103, 1),  // HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
    (110, 1),  // GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED
    (115, 1),  // MEMORY_POOLS_SUPPORTED
    (116, 1),  // GPU_DIRECT_RDMA_SUPPORTED
    (128, 1),  // HANDLE_TYPE_FABRIC_SUPPORTED, although no process is permitted one
    (10, 32),  // WARP_SIZE
];

exports! { find as find via call;
    /// Starts the driver.
    fn cuInit(flags: c_uint) {
        if flags != 0 {
            return Err(Refused(INVALID_VALUE));
        }
        if double_common::machine::machine()?.device_count() == 0 {
            return Err(Refused(NO_DEVICE));
        }
        INITIALIZED.store(std::process::id(), Ordering::SeqCst);
        Ok(())
    }

    /// The version that the driver is of.
    fn cuDriverGetVersion(version: Out<'_, c_int>) {
        put(version, VERSION)
    }

    /// A code's name.
    fn cuGetErrorName(code: Code, text: Out<'_, *const c_char>) {
        describe(code, text, |meaning| meaning.driver)
    }

    /// What a code means.
    fn cuGetErrorString(code: Code, text: Out<'_, *const c_char>) {
        describe(code, text, |meaning| meaning.text)
    }

    /// A device by its number.
    fn cuDeviceGet(device: Out<'_, c_int>, number: c_int) {
        exists(number)?;
        put(device, number)
    }

    /// How many devices there are.
    fn cuDeviceGetCount(count: Out<'_, c_int>) {
        put(count, ordinal(driver()?.device_count()))
    }

    /// A device's name.
    fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) {
        exists(device)?;
        // SAFETY: the caller's promise.
        unsafe { put_text(name, length, "simulated device") }
    }

    /// Where a device is on a bus that is not there.
    fn cuDeviceGetPCIBusId(address: *mut c_char, length: c_int, device: c_int) {
        exists(device)?;
        // SAFETY: the caller's promise.
        unsafe { put_text(address, length, &format!("FFFF:{device:02X}:00.0")) }
    }

    /// All bytes of a device.
    fn cuDeviceTotalMem_v2(bytes: Out<'_, usize>, device: c_int) {
        exists(device)?;
        let total = usize::try_from(driver()?.total_bytes()).map_err(|_| Refused(INVALID_VALUE))?;
        put(bytes, total)
    }

    /// An attribute of a device.
    fn cuDeviceGetAttribute(value: Out<'_, c_int>, attribute: c_int, device: c_int) {
        exists(device)?;
        if attribute <= 0 {
            return Err(Refused(INVALID_VALUE));
        }
        let known = ATTRIBUTES.iter().find(|(number, _)| *number == attribute);
        put(value, known.map_or(0, |(_, value)| *value))
    }

    /// Whether a device can reach memory of another.
    fn cuDeviceCanAccessPeer(can: Out<'_, c_int>, from: c_int, to: c_int) {
        let (from, to) = (exists(from)?, exists(to)?);
        put(can, c_int::from(driver()?.can_access_peer(from, to)?))
    }

    /// The address of a function, by the name without a suffix as well.
    fn cuGetProcAddress_v2(
        name: *const c_char,
        function: Out<'_, *const c_void>,
        _version: c_int,
        _flags: u64,
        status: Out<'_, c_int>,
    ) {
        if name.is_null() {
            return Err(Refused(INVALID_VALUE));
        }
        // SAFETY: not null; it ends with a zero byte (the caller's promise).
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let found = crate::find(&format!("{name}_v2")).or_else(|| crate::find(&name));
        if let Some(status) = status {
            // Found, or no such symbol.
            status.write(c_int::from(found.is_none()));
        }
        put(function, found.unwrap_or(ptr::null()))?;
        found.map(|_| ()).ok_or(Refused(NOT_FOUND))
    }
}

/// The device, if there is one of this number.
pub(crate) fn exists(device: c_int) -> Result<u32, Refused> {
    let machine = driver()?;
    number(device)
        .ok()
        .filter(|device| *device < machine.device_count())
        .ok_or(Refused(INVALID_DEVICE))
}

fn describe(
    code: Code,
    text: Out<'_, *const c_char>,
    which: impl Fn(&Meaning) -> &'static CStr,
) -> Result<(), Refused> {
    let found = meaning(code);
    put(text, found.map_or(ptr::null(), |meaning| which(meaning).as_ptr()))?;
    found.map(|_| ()).ok_or(Refused(INVALID_VALUE))
}
