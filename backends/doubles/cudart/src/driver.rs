//! The driver below, and the calling thread's device.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use allocator_core::loader::Library;
use allocator_core::symbol_table;
use double_common::errors::SUCCESS;
use double_common::{Code, Refused};

/// The driver is missing or too old.
const INSUFFICIENT_DRIVER: Code = 35;

type Context = *mut c_void;
type Stream = *mut c_void;

symbol_table! {
    /// What the runtime asks of the driver.
    pub(crate) struct Driver {
        init: unsafe extern "C" fn(c_uint) -> Code = "cuInit",
        device_get_count: unsafe extern "C" fn(*mut c_int) -> Code = "cuDeviceGetCount",
        can_access_peer: unsafe extern "C" fn(*mut c_int, c_int, c_int) -> Code =
            "cuDeviceCanAccessPeer",
        ctx_retain: unsafe extern "C" fn(*mut Context, c_int) -> Code = "cuDevicePrimaryCtxRetain",
        ctx_get_current: unsafe extern "C" fn(*mut Context) -> Code = "cuCtxGetCurrent",
        ctx_set_current: unsafe extern "C" fn(Context) -> Code = "cuCtxSetCurrent",
        ctx_get_device: unsafe extern "C" fn(*mut c_int) -> Code = "cuCtxGetDevice",
        ctx_synchronize: unsafe extern "C" fn() -> Code = "cuCtxSynchronize",
        ctx_enable_peer: unsafe extern "C" fn(Context, c_uint) -> Code = "cuCtxEnablePeerAccess",
        ctx_disable_peer: unsafe extern "C" fn(Context) -> Code = "cuCtxDisablePeerAccess",
        ipc_handle: unsafe extern "C" fn(*mut [u8; 64], u64) -> Code = "cuIpcGetMemHandle",
        exchange_mode: unsafe extern "C" fn(*mut c_uint) -> Code =
            "cuThreadExchangeStreamCaptureMode",
        mem_get_info: unsafe extern "C" fn(*mut usize, *mut usize) -> Code = "cuMemGetInfo_v2",
        mem_alloc: unsafe extern "C" fn(*mut u64, usize) -> Code = "cuMemAlloc_v2",
        mem_free: unsafe extern "C" fn(u64) -> Code = "cuMemFree_v2",
        mem_alloc_host: unsafe extern "C" fn(*mut *mut c_void, usize) -> Code =
            "cuMemAllocHost_v2",
        mem_free_host: unsafe extern "C" fn(*mut c_void) -> Code = "cuMemFreeHost",
        pointer_attribute: unsafe extern "C" fn(*mut c_void, c_int, u64) -> Code =
            "cuPointerGetAttribute",
        to_host: unsafe extern "C" fn(*mut c_void, u64, usize) -> Code = "cuMemcpyDtoH_v2",
        to_device: unsafe extern "C" fn(u64, *const c_void, usize) -> Code = "cuMemcpyHtoD_v2",
        within: unsafe extern "C" fn(u64, u64, usize) -> Code = "cuMemcpyDtoD_v2",
        fill: unsafe extern "C" fn(u64, u8, usize) -> Code = "cuMemsetD8_v2",
        to_host_async: unsafe extern "C" fn(*mut c_void, u64, usize, Stream) -> Code =
            "cuMemcpyDtoHAsync_v2",
        to_device_async: unsafe extern "C" fn(u64, *const c_void, usize, Stream) -> Code =
            "cuMemcpyHtoDAsync_v2",
        within_async: unsafe extern "C" fn(u64, u64, usize, Stream) -> Code =
            "cuMemcpyDtoDAsync_v2",
        fill_async: unsafe extern "C" fn(u64, u8, usize, Stream) -> Code = "cuMemsetD8Async",
        stream_create: unsafe extern "C" fn(*mut Stream, c_uint) -> Code = "cuStreamCreate",
        stream_destroy: unsafe extern "C" fn(Stream) -> Code = "cuStreamDestroy_v2",
        stream_synchronize: unsafe extern "C" fn(Stream) -> Code = "cuStreamSynchronize",
        stream_is_capturing: unsafe extern "C" fn(Stream, *mut c_uint) -> Code =
            "cuStreamIsCapturing",
        begin_capture: unsafe extern "C" fn(Stream, c_uint) -> Code = "cuStreamBeginCapture_v2",
        begin_capture_to: unsafe extern "C" fn(
            Stream, *mut c_void, *const c_void, *const c_void, usize, c_uint
        ) -> Code = "cuStreamBeginCaptureToGraph",
        graph_create: unsafe extern "C" fn(*mut *mut c_void, c_uint) -> Code = "cuGraphCreate",
        end_capture: unsafe extern "C" fn(Stream, *mut *mut c_void) -> Code = "cuStreamEndCapture",
        graph_destroy: unsafe extern "C" fn(*mut c_void) -> Code = "cuGraphDestroy",
    }
}

/// The code as a result.
pub(crate) fn check(code: Code) -> Result<(), Refused> {
    if code == SUCCESS { Ok(()) } else { Err(Refused(code)) }
}

/// The driver, started.
pub(crate) fn driver() -> Result<&'static Driver, Refused> {
    static DRIVER: OnceLock<Result<Driver, Code>> = OnceLock::new();
    let found = DRIVER.get_or_init(|| {
        // SAFETY: this is the name of a CUDA driver, or of the stand-in for one.
        let library = unsafe { Library::find(&["libcuda.so.1"]) };
        let library = library.map_err(|_| INSUFFICIENT_DRIVER)?;
        // SAFETY: the types in the table are those of cuda.h for these names, with pointers and
        // enums that are never looked into as plain pointers and numbers.
        unsafe { Driver::load(&library) }.map_err(|_| INSUFFICIENT_DRIVER)
    });
    let driver = found.as_ref().map_err(|&code| Refused(code))?;
    // SAFETY: it may be called any number of times; flags must be zero.
    check(unsafe { (driver.init)(0) })?;
    Ok(driver)
}

/// The primary context of a device, which this library then holds for good.
pub(crate) fn context(driver: &Driver, device: c_int) -> Result<Context, Refused> {
    // Addresses, since pointers are not to be sent.
    static HELD: Mutex<BTreeMap<c_int, usize>> = Mutex::new(BTreeMap::new());
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(context) = held.get(&device) {
        return Ok(ptr::with_exposed_provenance_mut(*context));
    }
    let mut context = ptr::null_mut();
    // SAFETY: `context` is writable.
    check(unsafe { (driver.ctx_retain)(&raw mut context, device) })?;
    held.insert(device, context.expose_provenance());
    Ok(context)
}

/// Makes a device the calling thread's.
pub(crate) fn set_device(driver: &Driver, device: c_int) -> Result<(), Refused> {
    let context = context(driver, device)?;
    // SAFETY: the context is held for good.
    check(unsafe { (driver.ctx_set_current)(context) })
}

/// The calling thread's device, or `None` while it has set none and used none.
pub(crate) fn device(driver: &Driver) -> Result<Option<c_int>, Refused> {
    let mut context = ptr::null_mut();
    // SAFETY: `context` is writable.
    check(unsafe { (driver.ctx_get_current)(&raw mut context) })?;
    if context.is_null() {
        return Ok(None);
    }
    let mut device = 0;
    // SAFETY: `device` is writable.
    check(unsafe { (driver.ctx_get_device)(&raw mut device) })?;
    Ok(Some(device))
}

/// The driver, with a device current: the first, until the thread has set one.
pub(crate) fn on_device() -> Result<&'static Driver, Refused> {
    let driver = driver()?;
    if device(driver)?.is_none() {
        set_device(driver, 0)?;
    }
    Ok(driver)
}
