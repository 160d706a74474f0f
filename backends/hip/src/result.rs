//! From the runtime's result codes to error kinds.

use std::ffi::{CStr, c_char};

use allocator_core::call::{Call, Codes};
use allocator_core::{Error, ErrorKind, Result};

use crate::loader::Symbols;
pub(crate) use crate::sys::Code;
use crate::sys::error::{self as codes, SUCCESS};

/// What the codes mean.
pub(crate) const CODES: Codes = Codes {
    meanings: MEANINGS,
    capture: codes::STREAM_CAPTURE_UNSUPPORTED..=codes::STREAM_CAPTURE_WRONG_THREAD,
};

/// First code, last code, what they mean.
const MEANINGS: &[(Code, Code, ErrorKind)] = &[
    one(codes::INVALID_VALUE, ErrorKind::InvalidArgument),
    one(codes::OUT_OF_MEMORY, ErrorKind::OutOfMemory),
    // A forked child's answer.
    one(codes::NOT_INITIALIZED, ErrorKind::NoDriver),
    // The process is ending.
    one(codes::DEINITIALIZED, ErrorKind::DeviceLost),
    one(codes::INVALID_DEVICE_POINTER, ErrorKind::InvalidArgument),
    one(codes::INSUFFICIENT_DRIVER, ErrorKind::NoDriver),
    one(codes::PRIOR_LAUNCH_FAILURE, ErrorKind::EarlierWorkFailed),
    one(codes::NO_DEVICE, ErrorKind::NoDriver),
    one(codes::INVALID_DEVICE, ErrorKind::NotFound),
    one(codes::INVALID_CONTEXT, ErrorKind::InvalidArgument),
    one(codes::ALREADY_MAPPED, ErrorKind::InvalidArgument),
    one(codes::NOT_MAPPED, ErrorKind::InvalidArgument),
    one(codes::ECC_NOT_CORRECTABLE, ErrorKind::DeviceLost),
    one(codes::UNSUPPORTED_LIMIT, ErrorKind::NotSupported),
    one(codes::PEER_ACCESS_UNSUPPORTED, ErrorKind::NotSupported),
    one(codes::INVALID_HANDLE, ErrorKind::InvalidArgument),
    one(codes::ILLEGAL_STATE, ErrorKind::WrongState),
    one(codes::NOT_FOUND, ErrorKind::NotFound),
    one(codes::NOT_READY, ErrorKind::Busy),
    one(codes::ILLEGAL_ADDRESS, ErrorKind::EarlierWorkFailed),
    one(codes::LAUNCH_TIME_OUT, ErrorKind::EarlierWorkFailed),
    one(codes::CONTEXT_IS_DESTROYED, ErrorKind::DeviceLost),
    one(codes::ASSERT, ErrorKind::EarlierWorkFailed),
    one(codes::HOST_MEMORY_ALREADY_REGISTERED, ErrorKind::InvalidArgument),
    one(codes::HOST_MEMORY_NOT_REGISTERED, ErrorKind::InvalidArgument),
    one(codes::LAUNCH_FAILURE, ErrorKind::EarlierWorkFailed),
    one(codes::NOT_SUPPORTED, ErrorKind::NotSupported),
    (codes::STREAM_CAPTURE_UNSUPPORTED, codes::STREAM_CAPTURE_WRONG_THREAD, ErrorKind::Busy),
    // The layer below HIP has run out of something.
    one(codes::RUNTIME_MEMORY, ErrorKind::OutOfMemory),
];

const fn one(code: Code, kind: ErrorKind) -> (Code, Code, ErrorKind) {
    (code, code, kind)
}

impl Symbols {
    /// `Ok`, or the error that the code stands for.
    #[inline]
    pub(crate) fn check(&self, code: Code, call: Call) -> Result<()> {
        if code == SUCCESS { Ok(()) } else { Err(self.error(code, call)) }
    }

    #[cold]
    fn error(&self, code: Code, call: Call) -> Error {
        let (name, text) = (words(self.get_error_name, code), words(self.get_error_string, code));
        let error = CODES.error(call, code, name.as_deref(), text.as_deref());
        // What is wrong with the program's own work stays for the program to find.
        if !error.kind().is_sticky() {
            self.forget(code);
        }
        error
    }

    /// Takes a failure of ours out of the thread's last error. HIP has one for all its callers:
    /// a program that checks `hipGetLastError` after a launch would take ours for the launch's.
    pub(crate) fn forget(&self, code: Code) {
        if let (Some(peek), Some(take)) = (self.peek_at_last_error, self.get_last_error)
            // SAFETY: the call has no conditions.
            && unsafe { peek() } == code
        {
            // SAFETY: as above.
            let _ours = unsafe { take() };
        }
    }
}

fn words(ask: unsafe extern "C" fn(Code) -> *const c_char, code: Code) -> Option<String> {
    // SAFETY: any number may be asked about.
    let text = unsafe { ask(code) };
    if text.is_null() {
        return None;
    }
    // SAFETY: `text` is a NUL-terminated constant of the library, which is never unloaded.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn codes_have_the_kinds_that_callers_act_on() {
        for (code, expected) in [
            (1, ErrorKind::InvalidArgument),
            (2, ErrorKind::OutOfMemory),
            (100, ErrorKind::NoDriver),
            (101, ErrorKind::NotFound),
            (214, ErrorKind::DeviceLost),
            (700, ErrorKind::EarlierWorkFailed),
            (709, ErrorKind::DeviceLost),
            (719, ErrorKind::EarlierWorkFailed),
            (801, ErrorKind::NotSupported),
            (900, ErrorKind::Busy),
            (908, ErrorKind::Busy),
            (999, ErrorKind::Unknown),
            // A real code that is nobody's business here, and one that does not exist.
            (701, ErrorKind::Unknown),
            (4711, ErrorKind::Unknown),
        ] {
            assert_eq!(CODES.kind(code), expected, "{code}");
        }
        assert!(CODES.note(906).unwrap().contains("capture"));
        assert!(CODES.note(700).unwrap().contains("earlier"));
        assert_eq!(CODES.note(1), None);
    }
}
