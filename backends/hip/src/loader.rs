//! The runtime library and the functions we need of it.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use allocator_core::call::Call;
use allocator_core::loader::Library;
use allocator_core::{DriverInfo, Error, ErrorKind, Operation, Result, symbol_table};

use crate::result::Code;
use crate::sys::error::{INVALID_DEVICE, NO_DEVICE};
use crate::sys::{
    AccessDescriptor, AllocationProperties, DevicePointer, Handle, Location, Ordinal, StreamHandle,
};

/// The runtime's names, the newest first. Its major version follows that of ROCm.
const NAMES: [&str; 4] =
    ["libamdhip64.so.10", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"];

/// Names a library file to use instead.
const OVERRIDE: &str = "DORMANT_HIP_LIBRARY";

/// How `HIP_VERSION` is put together.
const MAJOR: c_int = 10_000_000;
const MINOR: c_int = 100_000;

/// The oldest version whose structs are those of [`sys`](crate::sys).
const OLDEST: c_int = 6 * MAJOR;

symbol_table! {
    /// What the runtime is asked to do.
    pub(crate) struct Symbols {
        init: unsafe extern "C" fn(c_uint) -> Code = "hipInit",
        runtime_get_version: unsafe extern "C" fn(*mut c_int) -> Code = "hipRuntimeGetVersion",
        get_error_name: unsafe extern "C" fn(Code) -> *const c_char = "hipGetErrorName",
        get_error_string: unsafe extern "C" fn(Code) -> *const c_char = "hipGetErrorString",

        get_device_count: unsafe extern "C" fn(*mut c_int) -> Code = "hipGetDeviceCount",
        device_get_name: unsafe extern "C" fn(*mut c_char, c_int, Ordinal) -> Code =
            "hipDeviceGetName",
        device_total_mem: unsafe extern "C" fn(*mut usize, Ordinal) -> Code = "hipDeviceTotalMem",
        device_get_attribute: unsafe extern "C" fn(*mut c_int, c_uint, Ordinal) -> Code =
            "hipDeviceGetAttribute",
        device_can_access_peer: unsafe extern "C" fn(*mut c_int, Ordinal, Ordinal) -> Code =
            "hipDeviceCanAccessPeer",

        get_device: unsafe extern "C" fn(*mut Ordinal) -> Code = "hipGetDevice",
        set_device: unsafe extern "C" fn(Ordinal) -> Code = "hipSetDevice",
        device_synchronize: unsafe extern "C" fn() -> Code = "hipDeviceSynchronize",
        thread_exchange_stream_capture_mode: unsafe extern "C" fn(*mut c_uint) -> Code =
            "hipThreadExchangeStreamCaptureMode",

        mem_get_info: unsafe extern "C" fn(*mut usize, *mut usize) -> Code = "hipMemGetInfo",
        mem_get_allocation_granularity: unsafe extern "C" fn(
            *mut usize,
            *const AllocationProperties,
            c_uint,
        ) -> Code = "hipMemGetAllocationGranularity",
        mem_address_reserve: unsafe extern "C" fn(
            *mut DevicePointer,
            usize,
            usize,
            DevicePointer,
            c_ulonglong,
        ) -> Code = "hipMemAddressReserve",
        mem_address_free: unsafe extern "C" fn(DevicePointer, usize) -> Code = "hipMemAddressFree",
        mem_create: unsafe extern "C" fn(
            *mut Handle,
            usize,
            *const AllocationProperties,
            c_ulonglong,
        ) -> Code = "hipMemCreate",
        mem_release: unsafe extern "C" fn(Handle) -> Code = "hipMemRelease",
        mem_map: unsafe extern "C" fn(DevicePointer, usize, usize, Handle, c_ulonglong) -> Code =
            "hipMemMap",
        mem_unmap: unsafe extern "C" fn(DevicePointer, usize) -> Code = "hipMemUnmap",
        mem_set_access: unsafe extern "C" fn(
            DevicePointer,
            usize,
            *const AccessDescriptor,
            usize,
        ) -> Code = "hipMemSetAccess",

        stream_create: unsafe extern "C" fn(*mut StreamHandle, c_uint) -> Code =
            "hipStreamCreateWithFlags",
        stream_destroy: unsafe extern "C" fn(StreamHandle) -> Code = "hipStreamDestroy",
        stream_synchronize: unsafe extern "C" fn(StreamHandle) -> Code = "hipStreamSynchronize",
        stream_is_capturing: unsafe extern "C" fn(StreamHandle, *mut c_uint) -> Code =
            "hipStreamIsCapturing",
        memcpy_dtoh_async: unsafe extern "C" fn(
            *mut c_void,
            DevicePointer,
            usize,
            StreamHandle,
        ) -> Code = "hipMemcpyDtoHAsync",
        memcpy_htod_async: unsafe extern "C" fn(
            DevicePointer,
            *const c_void,
            usize,
            StreamHandle,
        ) -> Code = "hipMemcpyHtoDAsync",
        memset_d8_async: unsafe extern "C" fn(DevicePointer, u8, usize, StreamHandle) -> Code =
            "hipMemsetD8Async",
        host_register: unsafe extern "C" fn(*mut c_void, usize, c_uint) -> Code =
            "hipHostRegister",
        host_unregister: unsafe extern "C" fn(*mut c_void) -> Code = "hipHostUnregister",
    }
    optional {
        device_get_pci_bus_id: unsafe extern "C" fn(*mut c_char, c_int, Ordinal) -> Code =
            "hipDeviceGetPCIBusId",
        mem_get_access: unsafe extern "C" fn(
            *mut c_ulonglong,
            *const Location,
            DevicePointer,
        ) -> Code = "hipMemGetAccess",
        get_last_error: unsafe extern "C" fn() -> Code = "hipGetLastError",
        peek_at_last_error: unsafe extern "C" fn() -> Code = "hipPeekAtLastError",
    }
}

/// Finds the runtime as [`Hip::open`](crate::Hip::open) describes.
pub(crate) fn find() -> Result<Library> {
    // SAFETY: the names are those of the HIP runtime, and whoever sets the variable answers for the
    // file that it names, as for any library path of the environment's.
    unsafe { Library::chosen(OVERRIDE, &NAMES) }
}

/// Looks the symbols up, starts the runtime, and refuses one that is too old. Uses no device.
pub(crate) fn start(library: &Library) -> Result<(Symbols, DriverInfo)> {
    // SAFETY: the types in the table are those of hip_runtime_api.h for these names, with enums
    // and with pointers that the host never follows as the integers they are passed as.
    let symbols = unsafe { Symbols::load(library) }?;
    let file = library.file("hipInit");
    let name = file.as_deref().unwrap_or(library.name());
    let about_devices = |error| explain(error, name);
    // SAFETY: hipInit may be called at any time and any number of times; flags must be zero.
    let code = unsafe { (symbols.init)(0) };
    symbols.check(code, Call::new(Operation::Open, "hipInit")).map_err(about_devices)?;
    let mut version = 0;
    // SAFETY: `version` is writable.
    let code = unsafe { (symbols.runtime_get_version)(&raw mut version) };
    symbols.check(code, Call::new(Operation::Open, "hipRuntimeGetVersion"))?;
    let text = format!("{}.{}.{}", version / MAJOR, version % MAJOR / MINOR, version % MINOR);
    if version < OLDEST {
        let text = format!("{name} is HIP {text}; 6.0 is the oldest that this build can drive");
        return Err(Error::new(ErrorKind::NotSupported, Operation::Open, text));
    }
    Ok((symbols, DriverInfo { backend: "hip", version: text, library: file }))
}

/// Says more about a failure to start. Without a device to be seen, the runtime answers with one
/// or the other of two codes.
pub(crate) fn explain(error: Error, name: &str) -> Error {
    let code = error.code();
    if code == Some(NO_DEVICE.into()) || code == Some(INVALID_DEVICE.into()) {
        error.with_kind(ErrorKind::NoDriver).with_note(format_args!(
            "{name} sees no device; HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES may hide those \
             there are, or /dev/kfd may be missing or closed to this user"
        ))
    } else {
        error.with_note(format_args!("the library is {name}"))
    }
}
