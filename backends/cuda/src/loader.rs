//! The driver library and the functions we need of it.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use allocator_core::call::Call;
use allocator_core::loader::Library;
use allocator_core::{DriverInfo, Error, ErrorKind, Operation, Result, symbol_table};
use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUmemAccessDesc,
    CUmemAllocationGranularity_flags, CUmemAllocationProp, CUmemGenericAllocationHandle,
    CUmemLocation, CUstream,
};

use crate::result::Code;

/// The driver's names, the versioned one first: a toolkit's stub is found under the plain one.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// Names a library file to use instead.
const OVERRIDE: &str = "DORMANT_CUDA_LIBRARY";

/// What a toolkit's stub library answers to everything.
const STUB_LIBRARY: Code = 34;
/// No device, or none that `CUDA_VISIBLE_DEVICES` leaves visible.
const NO_DEVICE: Code = 100;

// Results and out-parameters of enum type are plain numbers here: a newer driver may answer with
// a value that the enum of the bindings does not have, which would be undefined behaviour.
symbol_table! {
    /// What the driver is asked to do.
    pub(crate) struct Symbols {
        init: unsafe extern "C" fn(c_uint) -> Code = "cuInit",
        driver_get_version: unsafe extern "C" fn(*mut c_int) -> Code = "cuDriverGetVersion",
        get_error_name: unsafe extern "C" fn(Code, *mut *const c_char) -> Code = "cuGetErrorName",
        get_error_string: unsafe extern "C" fn(Code, *mut *const c_char) -> Code =
            "cuGetErrorString",

        device_get: unsafe extern "C" fn(*mut CUdevice, c_int) -> Code = "cuDeviceGet",
        device_get_count: unsafe extern "C" fn(*mut c_int) -> Code = "cuDeviceGetCount",
        device_get_name: unsafe extern "C" fn(*mut c_char, c_int, CUdevice) -> Code =
            "cuDeviceGetName",
        device_total_mem: unsafe extern "C" fn(*mut usize, CUdevice) -> Code =
            "cuDeviceTotalMem_v2",
        device_get_attribute: unsafe extern "C" fn(*mut c_int, CUdevice_attribute, CUdevice) -> Code =
            "cuDeviceGetAttribute",
        device_can_access_peer: unsafe extern "C" fn(*mut c_int, CUdevice, CUdevice) -> Code =
            "cuDeviceCanAccessPeer",

        primary_ctx_retain: unsafe extern "C" fn(*mut CUcontext, CUdevice) -> Code =
            "cuDevicePrimaryCtxRetain",
        primary_ctx_release: unsafe extern "C" fn(CUdevice) -> Code =
            "cuDevicePrimaryCtxRelease_v2",
        primary_ctx_get_state: unsafe extern "C" fn(CUdevice, *mut c_uint, *mut c_int) -> Code =
            "cuDevicePrimaryCtxGetState",
        ctx_get_current: unsafe extern "C" fn(*mut CUcontext) -> Code = "cuCtxGetCurrent",
        ctx_set_current: unsafe extern "C" fn(CUcontext) -> Code = "cuCtxSetCurrent",
        ctx_synchronize: unsafe extern "C" fn() -> Code = "cuCtxSynchronize",
        thread_exchange_stream_capture_mode: unsafe extern "C" fn(*mut c_uint) -> Code =
            "cuThreadExchangeStreamCaptureMode",

        mem_get_info: unsafe extern "C" fn(*mut usize, *mut usize) -> Code = "cuMemGetInfo_v2",
        mem_get_allocation_granularity: unsafe extern "C" fn(
            *mut usize,
            *const CUmemAllocationProp,
            CUmemAllocationGranularity_flags,
        ) -> Code = "cuMemGetAllocationGranularity",
        mem_address_reserve: unsafe extern "C" fn(
            *mut CUdeviceptr,
            usize,
            usize,
            CUdeviceptr,
            c_ulonglong,
        ) -> Code = "cuMemAddressReserve",
        mem_address_free: unsafe extern "C" fn(CUdeviceptr, usize) -> Code = "cuMemAddressFree",
        mem_create: unsafe extern "C" fn(
            *mut CUmemGenericAllocationHandle,
            usize,
            *const CUmemAllocationProp,
            c_ulonglong,
        ) -> Code = "cuMemCreate",
        mem_release: unsafe extern "C" fn(CUmemGenericAllocationHandle) -> Code = "cuMemRelease",
        mem_map: unsafe extern "C" fn(
            CUdeviceptr,
            usize,
            usize,
            CUmemGenericAllocationHandle,
            c_ulonglong,
        ) -> Code = "cuMemMap",
        mem_unmap: unsafe extern "C" fn(CUdeviceptr, usize) -> Code = "cuMemUnmap",
        mem_set_access: unsafe extern "C" fn(
            CUdeviceptr,
            usize,
            *const CUmemAccessDesc,
            usize,
        ) -> Code = "cuMemSetAccess",

        stream_create: unsafe extern "C" fn(*mut CUstream, c_uint) -> Code = "cuStreamCreate",
        stream_destroy: unsafe extern "C" fn(CUstream) -> Code = "cuStreamDestroy_v2",
        stream_synchronize: unsafe extern "C" fn(CUstream) -> Code = "cuStreamSynchronize",
        stream_is_capturing: unsafe extern "C" fn(CUstream, *mut c_uint) -> Code =
            "cuStreamIsCapturing",
        memcpy_dtoh_async: unsafe extern "C" fn(*mut c_void, CUdeviceptr, usize, CUstream) -> Code =
            "cuMemcpyDtoHAsync_v2",
        memcpy_htod_async: unsafe extern "C" fn(CUdeviceptr, *const c_void, usize, CUstream) -> Code =
            "cuMemcpyHtoDAsync_v2",
        memset_d8_async: unsafe extern "C" fn(CUdeviceptr, u8, usize, CUstream) -> Code =
            "cuMemsetD8Async",
        mem_host_register: unsafe extern "C" fn(*mut c_void, usize, c_uint) -> Code =
            "cuMemHostRegister_v2",
        mem_host_unregister: unsafe extern "C" fn(*mut c_void) -> Code = "cuMemHostUnregister",

        event_create: unsafe extern "C" fn(*mut CUevent, c_uint) -> Code = "cuEventCreate",
        event_query: unsafe extern "C" fn(CUevent) -> Code = "cuEventQuery",
        event_destroy: unsafe extern "C" fn(CUevent) -> Code = "cuEventDestroy_v2",
    }
    optional {
        device_get_pci_bus_id: unsafe extern "C" fn(*mut c_char, c_int, CUdevice) -> Code =
            "cuDeviceGetPCIBusId",
        ctx_record_event: unsafe extern "C" fn(CUcontext, CUevent) -> Code = "cuCtxRecordEvent",
        mem_get_access: unsafe extern "C" fn(
            *mut c_ulonglong,
            *const CUmemLocation,
            CUdeviceptr,
        ) -> Code = "cuMemGetAccess",
    }
}

/// Finds the driver as [`Cuda::open`](crate::Cuda::open) describes.
pub(crate) fn find() -> Result<Library> {
    // SAFETY: the names are those of NVIDIA's driver, and whoever sets the variable answers for the
    // file that it names, as for any library path of the environment's.
    unsafe { Library::chosen(OVERRIDE, &NAMES) }
}

/// Looks the symbols up and starts the driver. Makes no context.
pub(crate) fn start(library: &Library) -> Result<(Symbols, DriverInfo)> {
    // SAFETY: the types in the table are those of cuda.h for these names, with enums that come
    // from the driver read as the integers they are.
    let symbols = unsafe { Symbols::load(library) }?;
    let file = library.file("cuInit");
    // SAFETY: cuInit may be called at any time and any number of times; flags must be zero.
    let code = unsafe { (symbols.init)(0) };
    let name = file.as_deref().unwrap_or(library.name());
    if code == STUB_LIBRARY {
        let text = format!(
            "{name} is the stub of a CUDA toolkit, made for linking, and not a driver \
             (CUDA_ERROR_STUB_LIBRARY); the driver's own libcuda.so.1 must be found before it"
        );
        let error = Error::new(ErrorKind::NoDriver, Operation::Open, text);
        return Err(error.with_code(code.into()));
    }
    symbols.check(code, Call::new(Operation::Open, "cuInit")).map_err(|error| {
        if code == NO_DEVICE {
            error.with_note(format_args!(
                "{name} sees no device; CUDA_VISIBLE_DEVICES may hide those there are"
            ))
        } else {
            error.with_note(format_args!("the library is {name}"))
        }
    })?;
    let mut version = 0;
    // SAFETY: `version` is writable.
    let code = unsafe { (symbols.driver_get_version)(&raw mut version) };
    symbols.check(code, Call::new(Operation::Open, "cuDriverGetVersion"))?;
    let version = format!("{}.{}", version / 1000, version % 1000 / 10);
    Ok((symbols, DriverInfo { backend: "cuda", version, library: file }))
}
