//! Pause and resume, and their reports.

use std::cell::RefCell;
use std::ffi::{c_char, c_void};
use std::time::Duration;

use dormant::{Amount, PauseOptions, Report, ResumeOptions, Selection};

use crate::choices::{checksum, host_mode, policy};
use crate::edge::{self, engine, entry, forward};
use crate::loans;
use crate::memory::refuse_in_a_child;
use crate::notices;
use crate::status::Failed;
use crate::text::{c_string, text};
use crate::types::{
    DORMANT_CHECKSUM_OWN, DORMANT_HOST_MODE_OWN, DORMANT_POLICY_OWN, DormantAmount,
    DormantDeviceReport, DormantPauseOptions, DormantReport, DormantResumeOptions, DormantStatus,
    DormantTagReport,
};

/// A thread's last transition.
#[derive(Clone, Default)]
struct Last {
    report: Report,
    is_pause: bool,
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

/// The tags of a call.
///
/// # Safety
/// `tags` is NULL, for all of them, or an array of `count` texts.
pub(crate) unsafe fn selection(
    tags: *const *const c_char,
    count: usize,
) -> Result<Selection, Failed> {
    if tags.is_null() {
        return Ok(Selection::All);
    }
    edge::bounded::<*const c_char>(count, "tags")?;
    // SAFETY: the caller's promise.
    let tags = unsafe { std::slice::from_raw_parts(tags, count) };
    let names = tags.iter().map(|tag| {
        // SAFETY: the caller's promise.
        let name = unsafe { text(*tag, "a tag") }?;
        name.ok_or_else(|| Failed::invalid("a tag is NULL"))
    });
    Ok(Selection::tags(names.collect::<Result<Vec<_>, _>>()?))
}

fn waiting(milliseconds: i64) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

/// How to pause.
///
/// # Safety
/// `options` is NULL or a struct whose `size` is set.
pub(crate) unsafe fn pausing(options: *const DormantPauseOptions) -> Result<PauseOptions, Failed> {
    let otherwise = DormantPauseOptions {
        size: 0,
        policy: DORMANT_POLICY_OWN,
        timeout_ms: -1,
        checksum: DORMANT_CHECKSUM_OWN,
        host_mode: DORMANT_HOST_MODE_OWN,
    };
    // SAFETY: the caller's promise; numbers may be any bytes.
    let options = unsafe { edge::read_sized(options, otherwise) }?;
    let mut how = PauseOptions::default();
    how.timeout = waiting(options.timeout_ms);
    if options.policy != DORMANT_POLICY_OWN {
        how.policy = Some(policy(options.policy)?);
    }
    how.checksum = checksum(options.checksum)?;
    how.host_mode = host_mode(options.host_mode)?;
    Ok(how)
}

/// Gives the physical memory of every active block of these tags back to its device; the addresses
/// stay. With `tags` NULL: of all tags. A tag without blocks is no error, nor is one that is paused.
/// A failure before the first block is given up changes nothing; after that the pause goes on,
/// `dormant_last_failures` names the blocks concerned, and the report says what was done.
///
/// # Safety
/// `tags` is NULL or an array of `count` texts; `options` and `report` are NULL or structs whose
/// `size` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_pause(
    tags: *const *const c_char,
    count: usize,
    options: *const DormantPauseOptions,
    report: *mut DormantReport,
) -> DormantStatus {
    forward!(dormant_pause(tags, count, options, report));
    entry(|| {
        // SAFETY: the caller's promise.
        unsafe { edge::check_sized(report) }?;
        // SAFETY: the caller's promise.
        let selection = unsafe { selection(tags, count) }?;
        // SAFETY: the caller's promise.
        let how = unsafe { pausing(options) }?;
        let done = transition(|engine| engine.pause(selection, &how));
        // SAFETY: the caller's promise.
        unsafe { hand_out(done, true, report) }
    })
}

/// Puts physical memory under every paused block of these tags and makes the contents what each
/// block's policy says. With `tags` NULL: of all tags. All or nothing: a failure keeps every backup,
/// and can be tried again.
///
/// # Safety
/// As for `dormant_pause`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_resume(
    tags: *const *const c_char,
    count: usize,
    options: *const DormantResumeOptions,
    report: *mut DormantReport,
) -> DormantStatus {
    forward!(dormant_resume(tags, count, options, report));
    entry(|| {
        // SAFETY: the caller's promise.
        unsafe { edge::check_sized(report) }?;
        // SAFETY: the caller's promise.
        let selection = unsafe { selection(tags, count) }?;
        let otherwise =
            DormantResumeOptions { size: 0, reserved: 0, timeout_ms: -1, wait_for_memory_ms: 0 };
        // SAFETY: the caller's promise; numbers may be any bytes.
        let options = unsafe { edge::read_sized(options, otherwise) }?;
        let mut how = ResumeOptions::default();
        how.timeout = waiting(options.timeout_ms);
        how.wait_for_memory = waiting(options.wait_for_memory_ms).unwrap_or_default();
        let done = transition(|engine| engine.resume(selection, &how));
        // SAFETY: the caller's promise.
        unsafe { hand_out(done, false, report) }
    })
}

/// The engine, where there is one. A process that has no block has nothing to do, and opens no driver
/// for it.
pub(crate) fn engine_with_blocks() -> Result<Option<&'static dormant::Engine>, Failed> {
    refuse_in_a_child()?;
    edge::refuse_at_the_end()?;
    if let dormant_interpose::Resolved::Foreign(_) = crate::identity::resolved() {
        engine()?;
    }
    match edge::opened() {
        Some(engine) => Ok(Some(engine)),
        // A pause of nothing must not pass for one of memory that could not be made pausable.
        None if edge::has_missed() => engine().map(|_| None),
        None => Ok(None),
    }
}

/// Runs a transition.
pub(crate) fn transition(
    run: impl FnOnce(&dormant::Engine) -> dormant::Result<Report>,
) -> Result<Report, Failed> {
    let Some(engine) = engine_with_blocks()? else {
        return Ok(Report { host_mode: "none", ..Report::default() });
    };
    loans::transition_begins();
    let done = run(engine);
    loans::transition_ended(engine);
    Ok(done?)
}

/// # Safety
/// `into` is NULL or a `DormantReport` whose `size` is set.
unsafe fn hand_out(
    done: Result<Report, Failed>,
    is_pause: bool,
    into: *mut DormantReport,
) -> Result<(), Failed> {
    let report = match &done {
        Ok(report) => report.clone(),
        Err(failed) => failed.report().cloned().unwrap_or_default(),
    };
    let value = in_sum(&report);
    // At the very end of a thread nobody is left who would ask for the parts.
    let _ = LAST.try_with(|last| *last.borrow_mut() = Some(Last { report, is_pause }));
    if !into.is_null() {
        // SAFETY: the caller's promise.
        unsafe { edge::write_sized(into, value) }?;
    }
    done.map(drop)
}

pub(crate) fn amount(amount: Amount) -> DormantAmount {
    DormantAmount { blocks: amount.blocks, bytes: amount.bytes }
}

fn in_sum(report: &Report) -> DormantReport {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let phases = &report.phases;
    DormantReport {
        size: 0,
        workers: u32::try_from(report.workers).unwrap_or(u32::MAX),
        moved: amount(report.moved()),
        copied: amount(report.copied()),
        zeroed: amount(report.zeroed()),
        already: amount(report.already()),
        poisoned: amount(report.poisoned()),
        turn_ns: ns(phases.turn),
        quiesce_ns: ns(phases.quiesce),
        create_ns: ns(phases.create),
        map_ns: ns(phases.map),
        copy_ns: ns(phases.copy),
        total_ns: ns(phases.total),
        host_mode: characters(report.host_mode),
        staging_registered: report.staging_registered.into(),
        notices: notices::bits(&report.notices),
        host_mode_reason: characters(report.host_mode_reason),
    }
}

/// A word in a struct, with a zero byte behind it.
fn characters<const N: usize>(word: &str) -> [c_char; N] {
    let mut characters = [0; N];
    for (to, from) in characters.iter_mut().take(N - 1).zip(word.bytes()) {
        *to = from.cast_signed() as c_char;
    }
    characters
}

fn last() -> Last {
    LAST.try_with(|last| last.borrow().clone()).ok().flatten().unwrap_or_default()
}

/// Calls `each` for every tag on every device of this thread's last pause or resume.
///
/// # Safety
/// `each` can be called with `user` now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_report_tags(
    each: Option<unsafe extern "C" fn(*const DormantTagReport, *mut c_void)>,
    user: *mut c_void,
) {
    forward!(dormant_report_tags(each, user));
    let Some(each) = each else { return };
    for part in last().report.tags {
        let tag = c_string(part.tag.as_str());
        let value = DormantTagReport {
            tag: tag.as_ptr(),
            device: part.device.0,
            reserved: 0,
            moved: amount(part.moved),
            copied: amount(part.copied),
            zeroed: amount(part.zeroed),
            already: amount(part.already),
            poisoned: amount(part.poisoned),
        };
        // SAFETY: the caller's promise.
        unsafe { each(&raw const value, user) };
    }
}

/// Calls `each` for every device of this thread's last pause or resume.
///
/// # Safety
/// `each` can be called with `user` now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_report_devices(
    each: Option<unsafe extern "C" fn(*const DormantDeviceReport, *mut c_void)>,
    user: *mut c_void,
) {
    forward!(dormant_report_devices(each, user));
    let Some(each) = each else { return };
    let Last { report, is_pause } = last();
    for part in report.devices {
        let value = DormantDeviceReport {
            device: part.device.0,
            freed_nothing: (is_pause && part.freed_nothing()).into(),
            moved_bytes: part.moved_bytes,
            free_before: part.free_before.unwrap_or(u64::MAX),
            free_after: part.free_after.unwrap_or(u64::MAX),
        };
        // SAFETY: the caller's promise.
        unsafe { each(&raw const value, user) };
    }
}
