//! Statuses, and what is remembered of a thread's last error.

use std::cell::RefCell;
use std::ffi::{CString, c_void};

use dormant::{Error, ErrorKind};

use crate::edge::{self, forward};
use crate::text;
use crate::types::{DormantError, DormantFailure, DormantStatus};

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) status: DormantStatus,
    kind: &'static str,
    text: String,
    error: Option<Error>,
}

impl Failed {
    /// An error that is the edge's own.
    pub(crate) fn new(status: DormantStatus, text: impl Into<String>) -> Self {
        let kind = match status {
            DormantStatus::Internal => "internal",
            DormantStatus::TwoBuilds => "two_builds",
            DormantStatus::NotFound => "not_found",
            DormantStatus::NotSupported => "not_supported",
            DormantStatus::WrongState => "wrong_state",
            DormantStatus::NoDriver => "no_driver",
            DormantStatus::OutOfMemory => "out_of_memory",
            DormantStatus::Forked => "forked",
            _ => "invalid_argument",
        };
        Self { status, kind, text: text.into(), error: None }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(DormantStatus::InvalidArgument, text)
    }

    /// The driver's own error code; 0 where it did not answer with one.
    pub(crate) fn driver_code(&self) -> i64 {
        self.error.as_ref().and_then(|error| error.cause().code()).unwrap_or(0)
    }

    /// The report of a pause that had committed.
    pub(crate) fn report(&self) -> Option<&dormant::Report> {
        self.error.as_ref().and_then(Error::report)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self {
            status: status_of(error.kind()),
            kind: error.kind().name(),
            text: error.to_string(),
            error: Some(error),
        }
    }
}

impl From<dormant::core::Error> for Failed {
    fn from(error: dormant::core::Error) -> Self {
        Error::from(error).into()
    }
}

fn status_of(kind: ErrorKind) -> DormantStatus {
    match kind {
        ErrorKind::OutOfMemory => DormantStatus::OutOfMemory,
        ErrorKind::TooLarge => DormantStatus::TooLarge,
        ErrorKind::NotSupported => DormantStatus::NotSupported,
        ErrorKind::InvalidArgument => DormantStatus::InvalidArgument,
        ErrorKind::NotFound => DormantStatus::NotFound,
        ErrorKind::WrongState => DormantStatus::WrongState,
        ErrorKind::Busy => DormantStatus::Busy,
        ErrorKind::DeviceLost => DormantStatus::DeviceLost,
        ErrorKind::EarlierWorkFailed => DormantStatus::EarlierWorkFailed,
        ErrorKind::AddressLost => DormantStatus::AddressLost,
        ErrorKind::Poisoned => DormantStatus::Poisoned,
        ErrorKind::HostMemory => DormantStatus::HostMemory,
        ErrorKind::Io => DormantStatus::Io,
        ErrorKind::NoDriver => DormantStatus::NoDriver,
        ErrorKind::Forked => DormantStatus::Forked,
        ErrorKind::ChecksumMismatch => DormantStatus::ChecksumMismatch,
        // The kinds are not exhaustive.
        _ => DormantStatus::Unknown,
    }
}

/// A failure with its texts in the form that C reads.
struct Last {
    failed: Failed,
    kind: CString,
    text: CString,
}

/// How many errors of a thread keep their texts.
const KEPT: usize = 8;

thread_local! {
    /// The last one is the thread's last error. Those before keep texts that somebody may just be reading.
    static LAST: RefCell<Vec<Last>> = const { RefCell::new(Vec::new()) };
}

/// Remembers a failure as this thread's last one.
pub(crate) fn remember(failed: Failed) -> DormantStatus {
    let status = failed.status;
    let last =
        Last { kind: text::c_string(failed.kind), text: text::c_string(&failed.text), failed };
    // The thread may be at its end, with nobody left who would ask.
    let _ = LAST.try_with(|place| {
        let mut place = place.borrow_mut();
        if place.len() == KEPT {
            place.remove(0);
        }
        place.push(last);
    });
    status
}

/// Fills `error` with the thread's last error: of its last call that failed. `NotFound` if none has.
///
/// # Safety
/// `error` is a `DormantError` whose `size` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_last_error(error: *mut DormantError) -> DormantStatus {
    forward!(dormant_last_error(error));
    let filled = LAST.try_with(|last| {
        let last = last.borrow();
        let Some(last) = last.last() else { return DormantStatus::NotFound };
        let cause = last.failed.error.as_ref().map(Error::cause);
        let known = |bytes: Option<u64>| bytes.unwrap_or(u64::MAX);
        let whole = last.failed.error.as_ref();
        let value = DormantError {
            size: 0,
            status: last.failed.status,
            kind: last.kind.as_ptr(),
            text: last.text.as_ptr(),
            driver_code: cause.and_then(|cause| cause.code()).unwrap_or(0),
            device: cause.and_then(|cause| cause.device()).map_or(-1, |device| device.0.into()),
            address: cause.and_then(|cause| cause.address()).map_or(std::ptr::null_mut(), pointer),
            wanted_bytes: known(whole.and_then(Error::wanted_bytes)),
            free_bytes: known(whole.and_then(Error::free_bytes)),
            failures: whole.map_or(0, |error| error.failures().len() as u64),
            has_report: last.failed.report().is_some().into(),
            reserved: 0,
        };
        // SAFETY: the caller's promise.
        match unsafe { edge::write_sized(error, value) } {
            Ok(()) => DormantStatus::Ok,
            Err(failed) => failed.status,
        }
    });
    filled.unwrap_or(DormantStatus::NotFound)
}

/// Calls `each` for every block that the thread's last error names.
///
/// # Safety
/// `each` can be called with `user` now; it calls nothing of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_last_failures(
    each: Option<unsafe extern "C" fn(*const DormantFailure, *mut c_void)>,
    user: *mut c_void,
) {
    forward!(dormant_last_failures(each, user));
    let Some(each) = each else { return };
    let failures = LAST.try_with(|last| {
        let last = last.borrow();
        last.last()
            .and_then(|last| last.failed.error.as_ref())
            .map_or_else(Vec::new, |error| error.failures().to_vec())
    });
    for failure in failures.unwrap_or_default() {
        let tag = text::c_string(failure.tag.as_str());
        let text = text::c_string(&failure.error.to_string());
        let value = DormantFailure {
            address: pointer(failure.address),
            bytes: failure.bytes,
            tag: tag.as_ptr(),
            text: text.as_ptr(),
            device: failure.device.0,
            poisoned: failure.poisoned.into(),
        };
        // SAFETY: the caller's promise.
        unsafe { each(&raw const value, user) };
    }
}

/// A device address as C has it.
pub(crate) fn pointer(address: dormant::Address) -> *mut c_void {
    usize::try_from(address.0).map_or(std::ptr::null_mut(), std::ptr::without_provenance_mut)
}

/// What C has as a device address.
pub(crate) fn address(pointer: *const c_void) -> dormant::Address {
    dormant::Address(pointer.addr() as u64)
}
