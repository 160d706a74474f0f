//! What the hooks do: nothing, unless the thread is in a region.
//!
//! A call that is not for us is the real function and nothing else. One that is leaves the thread as
//! the real call would: the device's primary context is current, and after a shortage of memory the
//! runtime's own last error is set.

use std::ffi::CStr;
use std::sync::{Mutex, OnceLock, PoisonError};

use dormant::Device;
use dormant::core::Driver as _;
use dormant::region::{self, Current};
use dormant_host::process;
use dormant_interpose::real::Real;
use dormant_interpose::{
    Api, BeginCaptureFn, BeginCaptureToFn, CaptureTo, DisablePeerFn, EnablePeerFn, EndCaptureFn,
    FreeFn, Hooks, Instance, IpcGetFn, MallocFn, NOT_INITIALIZED, Pointer, Raw, call_real, loaded,
};

use crate::captures::{self, Capture};
use crate::edge::{self, guarded};
use crate::environment;
use crate::memory::{allocate_for_runtime, free_block, is_ours};
use crate::status::{Failed, address, remember};
use crate::tms;
use crate::types::DormantStatus;

pub(crate) const HOOKS: Hooks = Hooks {
    malloc,
    free,
    enable_peer,
    disable_peer,
    begin_capture,
    begin_capture_to,
    end_capture,
    ipc_get,
};

fn instance() -> Option<&'static Instance> {
    crate::identity::resolved().get()
}

dormant_interpose::export_hooks!(instance);

const CUDA: &[&str] = &["libcudart.so", "libcudart-"];
const HIP: &[&str] = &["libamdhip64.so", "libamdhip64-"];
pub(crate) static CUDA_MALLOC: Real = Real::new(c"cudaMalloc", CUDA);
pub(crate) static CUDA_FREE: Real = Real::new(c"cudaFree", CUDA);
pub(crate) static HIP_MALLOC: Real = Real::new(c"hipMalloc", HIP);
pub(crate) static HIP_FREE: Real = Real::new(c"hipFree", HIP);

/// The function of whichever runtime the process has.
pub(crate) fn any_real(cuda: &Real, hip: &Real) -> Raw {
    cuda.address().or_else(|| hip.address()).unwrap_or(std::ptr::null_mut())
}

/// Another function of the runtime that `real` belongs to; where `real` is itself somebody's hook,
/// of a runtime that is loaded.
fn sibling(api: Api, real: Raw, name: &'static CStr) -> Raw {
    static FOUND: Mutex<Vec<(usize, &CStr, usize)>> = Mutex::new(Vec::new());
    let lock = || FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let known = |found: &[(usize, &CStr, usize)]| {
        found.iter().find(|entry| (entry.0, entry.1) == (real.addr(), name)).map(|entry| entry.2)
    };
    if let Some(known) = known(&lock()) {
        return std::ptr::with_exposed_provenance_mut(known);
    }
    let libraries = match api {
        Api::Cuda => CUDA,
        Api::Hip => HIP,
    };
    let found = loaded::at(real)
        .and_then(|object| object.own_symbol(name))
        .or_else(|| Real::new(name, libraries).address())
        .unwrap_or(std::ptr::null_mut());
    lock().push((real.addr(), name, found.expose_provenance()));
    found
}

/// The names of functions that hooks need beside the one that was called.
struct Names {
    get_device: &'static CStr,
    free: &'static CStr,
    exchange_mode: &'static CStr,
    is_capturing: &'static CStr,
}

fn names(api: Api) -> Names {
    match api {
        Api::Cuda => Names {
            get_device: c"cudaGetDevice",
            free: c"cudaFree",
            exchange_mode: c"cudaThreadExchangeStreamCaptureMode",
            is_capturing: c"cudaStreamIsCapturing",
        },
        Api::Hip => Names {
            get_device: c"hipGetDevice",
            free: c"hipFree",
            exchange_mode: c"hipThreadExchangeStreamCaptureMode",
            is_capturing: c"hipStreamIsCapturing",
        },
    }
}

type GetDeviceFn = unsafe extern "C" fn(*mut i32) -> i32;
type ExchangeModeFn = unsafe extern "C" fn(*mut i32) -> i32;
type IsCapturingFn = unsafe extern "C" fn(Pointer, *mut i32) -> i32;
const RELAXED: i32 = 2;

/// Runs something of the runtime in relaxed capture mode: it then breaks no capture.
fn relaxed<T>(api: Api, real: Raw, run: impl FnOnce() -> T) -> T {
    let exchange = sibling(api, real, names(api).exchange_mode);
    let mut mode = RELAXED;
    let exchanged = call_real!(ExchangeModeFn, exchange, &raw mut mode) == 0;
    let result = run();
    if exchanged {
        call_real!(ExchangeModeFn, exchange, &raw mut mode);
    }
    result
}

/// Makes the runtime do what it does at the beginning of each call: at a thread's first one, or
/// when somebody has taken the context away, it makes its own current. Says which device is.
fn current_device(api: Api, real: Raw) -> Result<Device, i32> {
    let names = names(api);
    let free = sibling(api, real, names.free);
    let code = relaxed(api, real, || call_real!(FreeFn, free, std::ptr::null_mut()));
    if code != 0 {
        return Err(code);
    }
    let mut device = 0;
    let get = sibling(api, real, names.get_device);
    let code = call_real!(GetDeviceFn, get, &raw mut device);
    match u32::try_from(device) {
        Ok(device) if code == 0 => Ok(Device(device)),
        _ => Err(if code == 0 { NOT_INITIALIZED } else { code }),
    }
}

/// Whether this call may be for us at all.
fn may_be_ours() -> bool {
    !process::is_forked_child() && !edge::is_inside()
}

/// What a failure of ours is in the runtime's codes. Those of the driver are the runtime's too.
fn code_of(failed: Failed) -> i32 {
    const INVALID_VALUE: i32 = 1;
    const INVALID_DEVICE: i32 = 101;
    const NOT_SUPPORTED: i32 = 801;
    const UNKNOWN: i32 = 999;
    let (status, code) = (failed.status, failed.driver_code());
    remember(failed);
    match status {
        DormantStatus::InvalidArgument => INVALID_VALUE,
        DormantStatus::NotFound => INVALID_DEVICE,
        DormantStatus::NotSupported if code == 0 => NOT_SUPPORTED,
        _ => i32::try_from(code).ok().filter(|code| *code > 0).unwrap_or(UNKNOWN),
    }
}

unsafe extern "C" fn malloc(api: Api, real: Raw, place: *mut Pointer, bytes: usize) -> i32 {
    let pass = || call_real!(MallocFn, real, place, bytes);
    if bytes == 0 || place.is_null() || real.is_null() || !may_be_ours() {
        return pass();
    }
    environment::ready();
    if !region::is_on() || process::is_exiting() {
        return pass();
    }
    let allocated = guarded(|| {
        let Current::Inside(settings) = tms::current() else { return Ok(Err(None)) };
        let device = match current_device(api, real) {
            Ok(device) => device,
            Err(code) => return Ok(Err(Some(code))),
        };
        refuse_another_vendor(api)?;
        allocate_for_runtime(bytes, device, settings).map(Ok)
    });
    match allocated {
        Ok(Ok(block)) => {
            // SAFETY: not null, and the caller's place for the result.
            unsafe { place.write(block) };
            0
        }
        Ok(Err(None)) => pass(),
        Ok(Err(Some(code))) => code,
        Err(failed) => match failed.status {
            DormantStatus::OutOfMemory | DormantStatus::TooLarge => {
                remember(failed);
                out_of_memory(api, real)
            }
            // Without an engine there is nothing that could pause it.
            DormantStatus::NoDriver | DormantStatus::TwoBuilds => {
                remember(failed);
                edge::miss();
                pass()
            }
            _ => code_of(failed),
        },
    }
}

/// Memory of another backend is nothing that this runtime's kernels could use. Who tests with a stand-in
/// for the runtime can say that the simulated device's memory is.
fn refuse_another_vendor(api: Api) -> Result<(), Failed> {
    static BACKEND: OnceLock<&'static str> = OnceLock::new();
    let engine = edge::engine()?;
    let wanted = match api {
        Api::Cuda => "cuda",
        Api::Hip => "hip",
    };
    let backend = BACKEND.get_or_init(|| engine.driver().info().backend);
    if *backend == wanted || (*backend == "sim" && environment::hooks_may_simulate()) {
        return Ok(());
    }
    let text = format!("the backend is {backend}, and the program allocates through {wanted}");
    Err(Failed::new(DormantStatus::NotSupported, text))
}

/// Lets the runtime itself say that memory is short, so that its last error says so too.
fn out_of_memory(api: Api, real: Raw) -> i32 {
    const OUT_OF_MEMORY: i32 = 2;
    let mut nothing = std::ptr::null_mut();
    let absurd = usize::MAX >> 2;
    relaxed(api, real, || call_real!(MallocFn, real, &raw mut nothing, absurd));
    OUT_OF_MEMORY
}

unsafe extern "C" fn free(_api: Api, real: Raw, block: Pointer) -> i32 {
    let pass = || call_real!(FreeFn, real, block);
    if block.is_null() || !may_be_ours() || !is_ours(block) {
        return pass();
    }
    match guarded(|| free_block(block)) {
        Ok(()) => 0,
        // Another thread was quicker; the runtime has its own answer to a second free.
        Err(failed) if failed.status == DormantStatus::NotFound => pass(),
        Err(failed) => code_of(failed),
    }
}

unsafe extern "C" fn enable_peer(api: Api, real: Raw, owner: i32, flags: u32) -> i32 {
    const ALREADY_ENABLED: i32 = 704;
    let code = call_real!(EnablePeerFn, real, owner, flags);
    if !(code == 0 || code == ALREADY_ENABLED) || !may_be_ours() {
        return code;
    }
    match peers(api, real, owner, captures::enable_peer) {
        Ok(()) => code,
        Err(failed) => code_of(failed),
    }
}

unsafe extern "C" fn disable_peer(api: Api, real: Raw, owner: i32) -> i32 {
    let code = call_real!(DisablePeerFn, real, owner);
    if code != 0 || !may_be_ours() {
        return code;
    }
    match peers(api, real, owner, captures::disable_peer) {
        Ok(()) => code,
        Err(failed) => code_of(failed),
    }
}

/// Changes the access of the thread's current device to another one's memory.
fn peers(
    api: Api,
    real: Raw,
    owner: i32,
    change: impl FnOnce(Device, Device) -> Result<(), Failed>,
) -> Result<(), Failed> {
    guarded(|| {
        let owner = u32::try_from(owner).map_err(|_| Failed::invalid("a negative device"))?;
        match current_device(api, real) {
            Ok(peer) => change(peer, Device(owner)),
            Err(code) => Err(Failed::invalid(format!("no current device (code {code})"))),
        }
    })
}

/// Begins a capture, and tells the engine before the driver knows.
fn capture(stream: Pointer, begin: impl FnOnce() -> i32) -> i32 {
    if !may_be_ours() {
        return begin();
    }
    let key = Capture::Stream(stream.addr());
    let told = guarded(|| {
        captures::begin(key);
        Ok(())
    });
    let code = begin();
    if code != 0 && told.is_ok() {
        end(key);
    }
    code
}

fn end(key: Capture) {
    let ended = guarded(|| {
        captures::end(key);
        Ok(())
    });
    if let Err(failed) = ended {
        remember(failed);
    }
}

unsafe extern "C" fn begin_capture(_api: Api, real: Raw, stream: Pointer, mode: i32) -> i32 {
    capture(stream, || call_real!(BeginCaptureFn, real, stream, mode))
}

unsafe extern "C" fn begin_capture_to(
    _api: Api,
    real: Raw,
    stream: Pointer,
    to: *const CaptureTo,
) -> i32 {
    // SAFETY: the exported hook passes its own arguments.
    let CaptureTo { graph, dependencies, data, count, mode } = unsafe { *to };
    capture(stream, || {
        call_real!(BeginCaptureToFn, real, stream, graph, dependencies, data, count, mode)
    })
}

unsafe extern "C" fn end_capture(api: Api, real: Raw, stream: Pointer, graph: *mut Pointer) -> i32 {
    let code = call_real!(EndCaptureFn, real, stream, graph);
    if may_be_ours() && (code == 0 || !goes_on(api, real, stream, code)) {
        end(Capture::Stream(stream.addr()));
    }
    code
}

/// Whether a capture goes on after its end was refused: of some refusals it does.
fn goes_on(api: Api, real: Raw, stream: Pointer, code: i32) -> bool {
    const WRONG_THREAD: i32 = 908;
    let mut status = 0;
    let ask = sibling(api, real, names(api).is_capturing);
    let asked = call_real!(IsCapturingFn, ask, stream, &raw mut status);
    code == WRONG_THREAD || (asked == 0 && status != 0)
}

unsafe extern "C" fn ipc_get(_api: Api, real: Raw, handle: Pointer, place: Pointer) -> i32 {
    const INVALID_VALUE: i32 = 1;
    let ours =
        may_be_ours() && edge::opened().is_some_and(|engine| engine.find(address(place)).is_some());
    if !ours {
        return call_real!(IpcGetFn, real, handle, place);
    }
    // Some runtimes hand out a handle that no other process can use: peers then hang.
    let text = format!("{place:p} is pausable memory, which this kind of handle cannot share");
    remember(Failed::new(DormantStatus::NotSupported, text));
    // With no place for a handle the runtime refuses by itself, and its last error says so.
    call_real!(IpcGetFn, real, std::ptr::null_mut(), std::ptr::null_mut());
    INVALID_VALUE
}
