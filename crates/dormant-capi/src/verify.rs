//! The conformance suite, run by this very library on a device.

use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

use allocator_testkit::suite::{self, CaseResult, Outcome, SuiteOptions};
use dormant::Device;
use dormant_interpose::Resolved;

use crate::edge::{self, bounded, forward, guarded, place, refuse_at_the_end};
use crate::memory::refuse_in_a_child;
use crate::status::{Failed, remember};
use crate::text;
use crate::types::{DORMANT_CASE_FAILED, DORMANT_CASE_PASSED, DORMANT_CASE_SKIPPED, DormantStatus};
use crate::{captures, environment, identity};

thread_local! {
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// The most devices that the suite uses.
const DEVICES: usize = 2;

/// Runs the conformance suite of this build on devices, in engines of its own beside the process's:
/// no block of the caller's is touched. Takes half a minute on a GPU and up to `limit_bytes` of each
/// device's memory (0: 1 GiB), beside what the driver takes for a context, and as much host memory.
/// Others may use the devices meanwhile; with `alone` nobody does, and the device's own reading of
/// free memory has to be right to the byte.
///
/// `backend` is `cuda`, `hip` or `sim`; NULL takes the one that would be opened otherwise. `devices` are the
/// ordinals of one or two. `each` is called for every case as it ends, on this thread, with texts that
/// live as long as the call: area, name, `DORMANT_CASE_...`, milliseconds, and why it failed, else NULL.
///
/// Answers `DORMANT_STATUS_OK` when all cases were run, whatever they found; `Busy` during a known graph
/// capture, which the suite would break. Runs of several threads take turns; `each` must not begin one.
///
/// # Safety
/// `backend` is NULL or a text, `devices` an array of `count` ordinals, `each` a function that does
/// not unwind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_verify(
    backend: *const c_char,
    devices: *const u32,
    count: usize,
    limit_bytes: u64,
    alone: i32,
    each: Option<
        unsafe extern "C" fn(
            area: *const c_char,
            name: *const c_char,
            outcome: i32,
            ms: u64,
            reason: *const c_char,
            user: *mut c_void,
        ),
    >,
    user: *mut c_void,
) -> DormantStatus {
    forward!(dormant_verify(backend, devices, count, limit_bytes, alone, each, user));
    // Not `entry`: the suite's cases are callers of ours, and what they find is no defect of this call.
    let done = guarded(|| {
        refuse_in_a_child()?;
        refuse_at_the_end()?;
        let _turn = Turn::take()?;
        if captures::is_any() {
            let text = "a stream capture is going on, which the suite would break";
            return Err(Failed::new(DormantStatus::Busy, text));
        }
        if let Resolved::Foreign(text) = identity::resolved() {
            return Err(Failed::new(DormantStatus::TwoBuilds, text.clone()));
        }
        let each = each.ok_or_else(|| Failed::invalid("each is NULL"))?;
        // SAFETY: the caller's promise.
        let backend = unsafe { text::text(backend, "backend") }?.map(str::parse).transpose()?;
        // SAFETY: the caller's promise.
        let options = unsafe { options(devices, count, limit_bytes, alone != 0) }?;
        environment::ready();
        let driver = Arc::new(dormant::open(backend)?);
        let mut tell = |result: &CaseResult| {
            let (area, name) = (text::c_string(result.case.area), text::c_string(result.case.name));
            let reason = result.reason.as_deref().map(text::c_string);
            let outcome = match result.outcome {
                Outcome::Passed => DORMANT_CASE_PASSED,
                Outcome::Failed => DORMANT_CASE_FAILED,
                Outcome::Skipped => DORMANT_CASE_SKIPPED,
            };
            let reason = reason.as_ref().map_or(std::ptr::null(), |reason| reason.as_ptr());
            // SAFETY: the caller's promise; the texts live as long as the call.
            edge::outside(|| unsafe {
                each(area.as_ptr(), name.as_ptr(), outcome, result.ms, reason, user);
            });
        };
        suite::run(driver, &options, &mut tell).map_err(Failed::from)
    });
    match done {
        Ok(()) => DormantStatus::Ok,
        Err(failed) => remember(failed),
    }
}

/// This thread's run, which must not begin another: that would wait for the first one's end.
struct Turn;

impl Turn {
    fn take() -> Result<Self, Failed> {
        if RUNNING.replace(true) {
            let text = "`each` must not call dormant_verify";
            return Err(Failed::new(DormantStatus::WrongState, text));
        }
        Ok(Self)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        RUNNING.set(false);
    }
}

/// # Safety
/// `devices` is an array of `count` ordinals.
unsafe fn options(
    devices: *const u32,
    count: usize,
    limit_bytes: u64,
    alone: bool,
) -> Result<SuiteOptions, Failed> {
    bounded::<u32>(count, "devices")?;
    if !(1..=DEVICES).contains(&count) {
        return Err(Failed::invalid(format!(
            "the suite runs on one or two devices, not on {count}"
        )));
    }
    // SAFETY: the caller's promise; nothing is written there.
    unsafe { place(devices.cast_mut(), "devices") }?;
    // SAFETY: the caller's promise.
    let ordinals = unsafe { std::slice::from_raw_parts(devices, count) };
    let mut options = SuiteOptions {
        devices: ordinals.iter().map(|ordinal| Device(*ordinal)).collect(),
        alone,
        ..SuiteOptions::default()
    };
    if limit_bytes != 0 {
        options.limit_bytes = limit_bytes;
    }
    Ok(options)
}
