//! Starting the runtime, facts of devices, what is current, errors.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::ptr;

use double_common::abi::ordinal;
use double_common::calls::{call, call_and_remember, count};
use double_common::errors::{
    INVALID_VALUE, Meaning, NO_DEVICE, Refused, UNKNOWN, last, meaning, take_last,
};
use double_common::graphs::{mode, mode_number};
use double_common::memory::put_text;
use double_common::{Code, Out, exports, peers, put};

use crate::{Version, current, exists, on_device, runtime};

/// What attributes that somebody asks for are, by their numbers in HIP. Others are zero.
const ATTRIBUTES: [(c_int, c_int); 4] = [
    (23, 9),     // ComputeCapabilityMajor
    (61, 4),     // ComputeCapabilityMinor
    (89, 1),     // VirtualMemoryManagementSupported
    (10_011, 1), // IsLargeBar
];

exports! { via call_and_remember;
    /// Starts the runtime.
    fn hipInit(flags: c_uint) {
        match (flags, runtime()?.device_count()) {
            (0, 0) => Err(Refused(NO_DEVICE)),
            (0, _) => Ok(()),
            _ => Err(Refused(INVALID_VALUE)),
        }
    }

    /// The version of the runtime.
    fn hipRuntimeGetVersion(version: Out<'_, c_int>) {
        put(version, Version::get().number())
    }

    /// The version of the driver: the same.
    fn hipDriverGetVersion(version: Out<'_, c_int>) {
        put(version, Version::get().number())
    }

    /// How many devices there are.
    fn hipGetDeviceCount(count: Out<'_, c_int>) {
        let devices = runtime()?.device_count();
        put(count, ordinal(devices))?;
        if devices == 0 { Err(Refused(NO_DEVICE)) } else { Ok(()) }
    }

    /// A device by its number.
    fn hipDeviceGet(device: Out<'_, c_int>, number: c_int) {
        exists(number)?;
        put(device, number)
    }

    /// A device's name.
    fn hipDeviceGetName(name: *mut c_char, length: c_int, device: c_int) {
        exists(device)?;
        // SAFETY: the caller's promise.
        unsafe { put_text(name, length, "simulated device") }
    }

    /// Where a device is on a bus that is not there.
    fn hipDeviceGetPCIBusId(address: *mut c_char, length: c_int, device: c_int) {
        exists(device)?;
        // SAFETY: the caller's promise.
        unsafe { put_text(address, length, &format!("FFFF:{device:02X}:00.0")) }
    }

    /// All bytes of a device.
    fn hipDeviceTotalMem(bytes: Out<'_, usize>, device: c_int) {
        exists(device)?;
        let total = usize::try_from(runtime()?.total_bytes()).map_err(|_| Refused(INVALID_VALUE))?;
        put(bytes, total)
    }

    /// An attribute of a device.
    fn hipDeviceGetAttribute(value: Out<'_, c_int>, attribute: c_int, device: c_int) {
        exists(device)?;
        let known = ATTRIBUTES.iter().find(|(number, _)| *number == attribute);
        put(value, known.map_or(0, |(_, value)| *value))
    }

    /// Whether a device can reach memory of another.
    fn hipDeviceCanAccessPeer(can: Out<'_, c_int>, from: c_int, to: c_int) {
        let (from, to) = (exists(from)?, exists(to)?);
        put(can, c_int::from(runtime()?.can_access_peer(from, to)?))
    }

    /// Lets the current device reach memory that another has allocated.
    fn hipDeviceEnablePeerAccess(to: c_int, flags: c_uint) {
        let to = exists(to)?;
        if flags != 0 {
            return Err(Refused(INVALID_VALUE));
        }
        peers::enable(on_device()?, to)
    }

    /// Takes that back.
    fn hipDeviceDisablePeerAccess(to: c_int) {
        let to = exists(to)?;
        peers::disable(on_device()?, to)
    }

    /// The calling thread's device.
    fn hipGetDevice(device: Out<'_, c_int>) {
        put(device, ordinal(current(runtime()?)))
    }

    /// Sets the calling thread's device.
    fn hipSetDevice(device: c_int) {
        Ok(runtime()?.set_current(Some(exists(device)?))?)
    }

    /// Whether a device has been set up.
    fn hipDevicePrimaryCtxGetState(device: c_int, flags: Out<'_, c_uint>, active: Out<'_, c_int>) {
        let device = exists(device)?;
        put(flags, 0)?;
        put(active, c_int::from(runtime()?.has_context(device)))
    }

    /// Waits for everything on the current device.
    fn hipDeviceSynchronize() {
        Ok(on_device()?.context_synchronize()?)
    }

    /// The calling thread's capture mode, for another.
    fn hipThreadExchangeStreamCaptureMode(new: Option<&mut c_uint>) {
        let slot = new.ok_or(Refused(INVALID_VALUE))?;
        *slot = mode_number(runtime()?.exchange_capture_mode(mode(*slot)?));
        Ok(())
    }
}

exports! { via call;
    /// A code's name, in the driver's manner.
    fn hipDrvGetErrorName(code: Code, text: Out<'_, *const c_char>) {
        describe(code, text, |meaning| meaning.hip)
    }

    /// What a code means, in the driver's manner.
    fn hipDrvGetErrorString(code: Code, text: Out<'_, *const c_char>) {
        describe(code, text, |meaning| meaning.text)
    }
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

fn known(code: Code, which: impl Fn(&Meaning) -> &'static CStr) -> *const c_char {
    meaning(code).or_else(|| meaning(UNKNOWN)).map_or(ptr::null(), |found| which(found).as_ptr())
}

/// A code's name.
#[unsafe(no_mangle)]
extern "C" fn hipGetErrorName(code: Code) -> *const c_char {
    count("hipGetErrorName");
    known(code, |meaning| meaning.hip)
}

/// What a code means.
#[unsafe(no_mangle)]
extern "C" fn hipGetErrorString(code: Code) -> *const c_char {
    count("hipGetErrorString");
    known(code, |meaning| meaning.text)
}

/// This thread's last error, and forgets it.
#[unsafe(no_mangle)]
extern "C" fn hipGetLastError() -> Code {
    count("hipGetLastError");
    take_last()
}

/// This thread's last error.
#[unsafe(no_mangle)]
extern "C" fn hipPeekAtLastError() -> Code {
    count("hipPeekAtLastError");
    last()
}
