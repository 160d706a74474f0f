//! From the driver's result codes to error kinds.

use std::ffi::{CStr, c_char};

use allocator_core::call::{Call, Codes};
use allocator_core::{Error, ErrorKind, Result};

use crate::loader::Symbols;

/// A `CUresult` as a number: the enum of the bindings depends on the toolkit they were made
/// from, and a newer driver answers with numbers it does not have.
pub(crate) type Code = u32;

pub(crate) const SUCCESS: Code = 0;
pub(crate) const NOT_READY: Code = 600;
pub(crate) const NOT_SUPPORTED: Code = 801;
/// An operating system call failed: locking memory, when registering.
pub(crate) const OPERATING_SYSTEM: Code = 304;

/// What the codes mean.
pub(crate) const CODES: Codes = Codes { meanings: MEANINGS, capture: FIRST_CAPTURE..=LAST_CAPTURE };

/// First code, last code, what they mean. The names are those of cuda.h without `CUDA_ERROR_`.
/// `meanings_agree_with_the_bindings` checks the numbers.
const MEANINGS: &[(Code, Code, ErrorKind)] = &[
    (1, 1, ErrorKind::InvalidArgument),       // INVALID_VALUE
    (2, 2, ErrorKind::OutOfMemory),           // OUT_OF_MEMORY
    (3, 3, ErrorKind::NoDriver),              // NOT_INITIALIZED (a forked child's answer)
    (4, 4, ErrorKind::DeviceLost),            // DEINITIALIZED (the process is ending)
    (34, 34, ErrorKind::NoDriver),            // STUB_LIBRARY
    (36, 36, ErrorKind::NotSupported),        // CALL_REQUIRES_NEWER_DRIVER
    (46, 46, ErrorKind::DeviceLost),          // DEVICE_UNAVAILABLE
    (100, 100, ErrorKind::NoDriver),          // NO_DEVICE
    (101, 101, ErrorKind::NotFound),          // INVALID_DEVICE
    (102, 102, ErrorKind::NotSupported),      // DEVICE_NOT_LICENSED
    (201, 201, ErrorKind::InvalidArgument),   // INVALID_CONTEXT
    (208, 208, ErrorKind::InvalidArgument),   // ALREADY_MAPPED
    (211, 211, ErrorKind::InvalidArgument),   // NOT_MAPPED
    (214, 214, ErrorKind::DeviceLost),        // ECC_UNCORRECTABLE
    (215, 215, ErrorKind::NotSupported),      // UNSUPPORTED_LIMIT
    (217, 217, ErrorKind::NotSupported),      // PEER_ACCESS_UNSUPPORTED
    (220, 220, ErrorKind::DeviceLost),        // NVLINK_UNCORRECTABLE
    (226, 226, ErrorKind::DeviceLost),        // CONTAINED
    (400, 400, ErrorKind::InvalidArgument),   // INVALID_HANDLE
    (401, 401, ErrorKind::WrongState),        // ILLEGAL_STATE
    (500, 500, ErrorKind::NotFound),          // NOT_FOUND
    (600, 600, ErrorKind::Busy),              // NOT_READY
    (700, 700, ErrorKind::EarlierWorkFailed), // ILLEGAL_ADDRESS
    (702, 702, ErrorKind::EarlierWorkFailed), // LAUNCH_TIMEOUT
    (709, 709, ErrorKind::DeviceLost),        // CONTEXT_IS_DESTROYED
    (710, 710, ErrorKind::EarlierWorkFailed), // ASSERT
    (712, 712, ErrorKind::InvalidArgument),   // HOST_MEMORY_ALREADY_REGISTERED
    (713, 713, ErrorKind::InvalidArgument),   // HOST_MEMORY_NOT_REGISTERED
    // HARDWARE_STACK_ERROR, ILLEGAL_INSTRUCTION, MISALIGNED_ADDRESS, INVALID_ADDRESS_SPACE,
    // INVALID_PC, LAUNCH_FAILED
    (714, 719, ErrorKind::EarlierWorkFailed),
    (721, 721, ErrorKind::EarlierWorkFailed), // TENSOR_MEMORY_LEAK
    (800, 801, ErrorKind::NotSupported),      // NOT_PERMITTED, NOT_SUPPORTED
    (802, 804, ErrorKind::NoDriver), // SYSTEM_NOT_READY, .._DRIVER_MISMATCH, COMPAT_NOT_SUPPORTED..
    (805, 805, ErrorKind::NoDriver), // MPS_CONNECTION_FAILED
    (806, 806, ErrorKind::DeviceLost), // MPS_RPC_FAILURE
    (807, 809, ErrorKind::Busy),     // MPS_SERVER_NOT_READY, MPS_MAX_CLIENTS.., .._CONNECTIONS..
    (810, 810, ErrorKind::DeviceLost), // MPS_CLIENT_TERMINATED
    (FIRST_CAPTURE, LAST_CAPTURE, ErrorKind::Busy),
    (911, 911, ErrorKind::DeviceLost), // EXTERNAL_DEVICE
];

/// STREAM_CAPTURE_UNSUPPORTED to STREAM_CAPTURE_WRONG_THREAD: all are about a capture.
const FIRST_CAPTURE: Code = 900;
const LAST_CAPTURE: Code = 908;

impl Symbols {
    /// `Ok`, or the error that the code stands for.
    #[inline]
    pub(crate) fn check(&self, code: Code, call: Call) -> Result<()> {
        if code == SUCCESS { Ok(()) } else { Err(self.error(code, call)) }
    }

    #[cold]
    fn error(&self, code: Code, call: Call) -> Error {
        let name = error_text(self.get_error_name, code);
        let text = error_text(self.get_error_string, code);
        CODES.error(call, code, name.as_deref(), text.as_deref())
    }
}

fn error_text(
    ask: unsafe extern "C" fn(Code, *mut *const c_char) -> Code,
    code: Code,
) -> Option<String> {
    let mut text = std::ptr::null();
    // SAFETY: `text` is writable; a code that does not exist is answered with INVALID_VALUE.
    let answer = unsafe { ask(code, &raw mut text) };
    if answer != SUCCESS || text.is_null() {
        return None;
    }
    // SAFETY: on success `text` is a NUL-terminated constant of the driver, which is never
    // unloaded.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use cudarc::driver::sys::CUresult;

    use super::*;

    #[test]
    fn meanings_agree_with_the_bindings() {
        use CUresult::*;
        for (code, expected) in [
            (CUDA_ERROR_INVALID_VALUE, ErrorKind::InvalidArgument),
            (CUDA_ERROR_OUT_OF_MEMORY, ErrorKind::OutOfMemory),
            (CUDA_ERROR_NOT_INITIALIZED, ErrorKind::NoDriver),
            (CUDA_ERROR_DEINITIALIZED, ErrorKind::DeviceLost),
            (CUDA_ERROR_STUB_LIBRARY, ErrorKind::NoDriver),
            (CUDA_ERROR_NO_DEVICE, ErrorKind::NoDriver),
            (CUDA_ERROR_INVALID_DEVICE, ErrorKind::NotFound),
            (CUDA_ERROR_INVALID_CONTEXT, ErrorKind::InvalidArgument),
            (CUDA_ERROR_ECC_UNCORRECTABLE, ErrorKind::DeviceLost),
            (CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, ErrorKind::NotSupported),
            (CUDA_ERROR_NVLINK_UNCORRECTABLE, ErrorKind::DeviceLost),
            (CUDA_ERROR_INVALID_HANDLE, ErrorKind::InvalidArgument),
            (CUDA_ERROR_ILLEGAL_STATE, ErrorKind::WrongState),
            (CUDA_ERROR_NOT_FOUND, ErrorKind::NotFound),
            (CUDA_ERROR_NOT_READY, ErrorKind::Busy),
            (CUDA_ERROR_ILLEGAL_ADDRESS, ErrorKind::EarlierWorkFailed),
            (CUDA_ERROR_LAUNCH_TIMEOUT, ErrorKind::EarlierWorkFailed),
            (CUDA_ERROR_CONTEXT_IS_DESTROYED, ErrorKind::DeviceLost),
            (CUDA_ERROR_ASSERT, ErrorKind::EarlierWorkFailed),
            (CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, ErrorKind::InvalidArgument),
            (CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, ErrorKind::InvalidArgument),
            (CUDA_ERROR_HARDWARE_STACK_ERROR, ErrorKind::EarlierWorkFailed),
            (CUDA_ERROR_ILLEGAL_INSTRUCTION, ErrorKind::EarlierWorkFailed),
            (CUDA_ERROR_MISALIGNED_ADDRESS, ErrorKind::EarlierWorkFailed),
            (CUDA_ERROR_INVALID_ADDRESS_SPACE, ErrorKind::EarlierWorkFailed),
            (CUDA_ERROR_INVALID_PC, ErrorKind::EarlierWorkFailed),
            (CUDA_ERROR_LAUNCH_FAILED, ErrorKind::EarlierWorkFailed),
            (CUDA_ERROR_NOT_PERMITTED, ErrorKind::NotSupported),
            (CUDA_ERROR_NOT_SUPPORTED, ErrorKind::NotSupported),
            (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, ErrorKind::NoDriver),
            (CUDA_ERROR_MPS_RPC_FAILURE, ErrorKind::DeviceLost),
            (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, ErrorKind::Busy),
            (CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, ErrorKind::Busy),
            (CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, ErrorKind::Busy),
            (CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, ErrorKind::Busy),
            (CUDA_ERROR_UNKNOWN, ErrorKind::Unknown),
            // Real codes that are nobody's business here.
            (CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, ErrorKind::Unknown),
            (CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, ErrorKind::Unknown),
        ] {
            assert_eq!(CODES.kind(code as Code), expected, "{code:?}");
        }
        assert_eq!(CUDA_ERROR_OPERATING_SYSTEM as Code, OPERATING_SYSTEM);
        assert_eq!(CUDA_ERROR_NOT_READY as Code, NOT_READY);
        assert_eq!(CUDA_ERROR_NOT_SUPPORTED as Code, NOT_SUPPORTED);
        assert_eq!(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED as Code, FIRST_CAPTURE);
        assert_eq!(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD as Code, LAST_CAPTURE);
    }

    #[test]
    fn codes_that_only_newer_bindings_name_have_a_kind_too() {
        for (code, expected) in [
            (46, ErrorKind::DeviceLost),
            (226, ErrorKind::DeviceLost),
            (721, ErrorKind::EarlierWorkFailed),
            (911, ErrorKind::DeviceLost),
            (4711, ErrorKind::Unknown),
        ] {
            assert_eq!(CODES.kind(code), expected, "{code}");
        }
    }

    #[test]
    fn the_table_is_in_order_and_says_nothing_twice() {
        for (first, last, _) in MEANINGS {
            assert!(first <= last);
        }
        for pair in MEANINGS.windows(2) {
            assert!(pair[0].1 < pair[1].0, "{pair:?}");
        }
    }

    #[test]
    fn only_captures_and_failures_of_earlier_work_are_explained() {
        assert!(CODES.note(906).unwrap().contains("capture"));
        assert!(CODES.note(700).unwrap().contains("earlier"));
        assert_eq!(CODES.note(1), None);
    }
}
