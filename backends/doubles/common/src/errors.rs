//! Result codes: the numbers are the same for the driver, the runtime and HIP; the names differ.

use std::cell::Cell;
use std::ffi::CStr;

use dormant_sim::machine::Refusal;

use crate::abi::Code;

/// All went well.
pub const SUCCESS: Code = 0;
/// An argument is wrong.
pub const INVALID_VALUE: Code = 1;
/// There is no room.
pub const OUT_OF_MEMORY: Code = 2;
/// `cuInit` was not called, or in another process.
pub const NOT_INITIALIZED: Code = 3;
/// No device.
pub const NO_DEVICE: Code = 100;
/// No such device.
pub const INVALID_DEVICE: Code = 101;
/// No context, or not one of ours.
pub const INVALID_CONTEXT: Code = 201;
/// No such stream, event or graph.
pub const INVALID_HANDLE: Code = 400;
/// No such name.
pub const NOT_FOUND: Code = 500;
/// Access that was not given cannot be taken back.
pub const PEER_NOT_ENABLED: Code = 705;
/// Not offered.
pub const NOT_SUPPORTED: Code = 801;
/// A mistake in the stand-in.
pub const UNKNOWN: Code = 999;

/// A call that is answered with a code other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub Code);

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self(refusal.code.number().unsigned_abs())
    }
}

/// A code's name in each interface, and its text.
#[derive(Debug)]
pub struct Meaning {
    code: Code,
    /// Its name in the CUDA driver interface.
    pub driver: &'static CStr,
    /// Its name in the CUDA runtime.
    pub runtime: &'static CStr,
    /// Its name in HIP.
    pub hip: &'static CStr,
    /// What it means.
    pub text: &'static CStr,
}

macro_rules! meanings {
    ($($code:literal $driver:literal $runtime:literal $hip:literal $text:literal;)*) => {
        const MEANINGS: &[Meaning] = &[$(Meaning {
            code: $code,
            driver: $driver,
            runtime: $runtime,
            hip: $hip,
            text: $text,
        }),*];
    };
}

meanings! {
    0 c"CUDA_SUCCESS" c"cudaSuccess" c"hipSuccess" c"no error";
    1 c"CUDA_ERROR_INVALID_VALUE" c"cudaErrorInvalidValue" c"hipErrorInvalidValue"
        c"invalid argument";
    2 c"CUDA_ERROR_OUT_OF_MEMORY" c"cudaErrorMemoryAllocation" c"hipErrorOutOfMemory"
        c"out of memory";
    3 c"CUDA_ERROR_NOT_INITIALIZED" c"cudaErrorInitializationError" c"hipErrorNotInitialized"
        c"initialization error";
    46 c"CUDA_ERROR_DEVICE_UNAVAILABLE" c"cudaErrorDevicesUnavailable" c"hipErrorUnknown"
        c"CUDA-capable device(s) is/are busy or unavailable";
    100 c"CUDA_ERROR_NO_DEVICE" c"cudaErrorNoDevice" c"hipErrorNoDevice"
        c"no device is detected";
    101 c"CUDA_ERROR_INVALID_DEVICE" c"cudaErrorInvalidDevice" c"hipErrorInvalidDevice"
        c"invalid device ordinal";
    201 c"CUDA_ERROR_INVALID_CONTEXT" c"cudaErrorDeviceUninitialized" c"hipErrorInvalidContext"
        c"invalid device context";
    304 c"CUDA_ERROR_OPERATING_SYSTEM" c"cudaErrorOperatingSystem" c"hipErrorOperatingSystem"
        c"OS call failed or operation not supported on this OS";
    400 c"CUDA_ERROR_INVALID_HANDLE" c"cudaErrorInvalidResourceHandle" c"hipErrorInvalidHandle"
        c"invalid resource handle";
    500 c"CUDA_ERROR_NOT_FOUND" c"cudaErrorSymbolNotFound" c"hipErrorNotFound"
        c"named symbol not found";
    600 c"CUDA_ERROR_NOT_READY" c"cudaErrorNotReady" c"hipErrorNotReady" c"device not ready";
    700 c"CUDA_ERROR_ILLEGAL_ADDRESS" c"cudaErrorIllegalAddress" c"hipErrorIllegalAddress"
        c"an illegal memory access was encountered";
    704 c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED" c"cudaErrorPeerAccessAlreadyEnabled"
        c"hipErrorPeerAccessAlreadyEnabled" c"peer access is already enabled";
    705 c"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED" c"cudaErrorPeerAccessNotEnabled"
        c"hipErrorPeerAccessNotEnabled" c"peer access has not been enabled";
    712 c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED" c"cudaErrorHostMemoryAlreadyRegistered"
        c"hipErrorHostMemoryAlreadyRegistered"
        c"part or all of the requested memory range is already mapped";
    713 c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED" c"cudaErrorHostMemoryNotRegistered"
        c"hipErrorHostMemoryNotRegistered"
        c"pointer does not correspond to a registered memory region";
    719 c"CUDA_ERROR_LAUNCH_FAILED" c"cudaErrorLaunchFailure" c"hipErrorLaunchFailure"
        c"unspecified launch failure";
    800 c"CUDA_ERROR_NOT_PERMITTED" c"cudaErrorNotPermitted" c"hipErrorUnknown"
        c"operation not permitted";
    801 c"CUDA_ERROR_NOT_SUPPORTED" c"cudaErrorNotSupported" c"hipErrorNotSupported"
        c"operation not supported";
    900 c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" c"cudaErrorStreamCaptureUnsupported"
        c"hipErrorStreamCaptureUnsupported" c"operation not permitted when stream is capturing";
    901 c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" c"cudaErrorStreamCaptureInvalidated"
        c"hipErrorStreamCaptureInvalidated"
        c"operation failed due to a previous error during capture";
    906 c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT" c"cudaErrorStreamCaptureImplicit"
        c"hipErrorStreamCaptureImplicit"
        c"operation would make the legacy stream depend on a capturing blocking stream";
    907 c"CUDA_ERROR_CAPTURED_EVENT" c"cudaErrorCapturedEvent" c"hipErrorCapturedEvent"
        c"operation not permitted on an event last recorded in a capturing stream";
    908 c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD" c"cudaErrorStreamCaptureWrongThread"
        c"hipErrorStreamCaptureWrongThread"
        c"attempt to terminate a thread-local capture sequence from another thread";
    999 c"CUDA_ERROR_UNKNOWN" c"cudaErrorUnknown" c"hipErrorUnknown" c"unknown error";
}

/// What a code means, or `None` for one that there is not.
#[must_use]
pub fn meaning(code: Code) -> Option<&'static Meaning> {
    MEANINGS.iter().find(|meaning| meaning.code == code)
}

thread_local! {
    // Without a destructor, so that it can be used while the thread ends.
    static LAST: Cell<Code> = const { Cell::new(SUCCESS) };
}

/// Remembers a failure as this thread's last error, for runtimes that have one.
pub fn remember(code: Code) {
    // Not ready is no failure.
    if code != SUCCESS && code != 600 {
        LAST.set(code);
    }
}

/// This thread's last error.
#[must_use]
pub fn last() -> Code {
    LAST.get()
}

/// This thread's last error, and forgets it.
pub fn take_last() -> Code {
    LAST.replace(SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_of_the_machine_has_a_name() {
        for code in [
            1, 2, 46, 101, 201, 304, 400, 600, 700, 704, 705, 712, 713, 719, 800, 801, 900, 901,
            906, 907, 908,
        ] {
            assert!(meaning(code).is_some(), "{code}");
        }
        assert!(meaning(4711).is_none());
    }

    #[test]
    fn the_last_error_is_kept_until_it_is_taken() {
        remember(2);
        remember(0);
        remember(600);
        assert_eq!((last(), take_last(), last()), (2, 2, 0));
    }
}
