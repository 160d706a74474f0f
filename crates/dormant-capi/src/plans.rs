//! What can be done ahead of a pause, and what can be known of it.

use std::ffi::c_char;

use dormant::PrepareOptions;

use crate::choices::host_mode;
use crate::edge::{self, entry, forward};
use crate::status::Failed;
use crate::transitions::{amount, engine_with_blocks, pausing, selection};
use crate::types::{
    DORMANT_HOST_MODE_OWN, DormantPauseOptions, DormantPlan, DormantPrepareOptions,
    DormantPrepared, DormantStatus,
};

/// How to prepare.
///
/// # Safety
/// `options` is NULL or a struct whose `size` is set.
unsafe fn preparing(options: *const DormantPrepareOptions) -> Result<PrepareOptions, Failed> {
    let otherwise = DormantPrepareOptions {
        size: 0,
        background: 0,
        host_mode: DORMANT_HOST_MODE_OWN,
        reserved: 0,
    };
    // SAFETY: the caller's promise; numbers may be any bytes.
    let options = unsafe { edge::read_sized(options, otherwise) }?;
    let mut how = PrepareOptions::default().background(options.background != 0);
    how.host_mode = host_mode(options.host_mode)?;
    Ok(how)
}

/// Makes the next pause of these tags quick: takes and registers the host memory that their backups
/// will be retained in, and opens what will copy. Breaks no capture and holds up no transition.
/// `dormant_trim` gives it back.
///
/// # Safety
/// `tags` is NULL, for all, or an array of `count` texts; `options` and `prepared` are NULL or structs
/// whose `size` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_prepare(
    tags: *const *const c_char,
    count: usize,
    options: *const DormantPrepareOptions,
    prepared: *mut DormantPrepared,
) -> DormantStatus {
    forward!(dormant_prepare(tags, count, options, prepared));
    entry(|| {
        // SAFETY: the caller's promise.
        unsafe { edge::check_sized(prepared) }?;
        // SAFETY: the caller's promise.
        let selection = unsafe { selection(tags, count) }?;
        // SAFETY: the caller's promise.
        let how = unsafe { preparing(options) }?;
        let done = match engine_with_blocks()? {
            Some(engine) => engine.prepare(selection, &how)?,
            None => dormant::Prepared { registered: !how.background, bytes: 0 },
        };
        if prepared.is_null() {
            return Ok(());
        }
        let value =
            DormantPrepared { size: 0, registered: done.registered.into(), bytes: done.bytes };
        // SAFETY: the caller's promise.
        unsafe { edge::write_sized(prepared, value) }
    })
}

/// Says what a pause of these tags with these options would come to, for the blocks that are active
/// now. Calls no driver and changes nothing. Others take memory as well, so the pause may still be
/// refused, which changes nothing either.
///
/// # Safety
/// `tags` is NULL, for all, or an array of `count` texts; `options` is NULL or a struct whose `size`
/// is set, as is `plan`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_plan(
    tags: *const *const c_char,
    count: usize,
    options: *const DormantPauseOptions,
    plan: *mut DormantPlan,
) -> DormantStatus {
    forward!(dormant_plan(tags, count, options, plan));
    entry(|| {
        // SAFETY: the caller's promise.
        let selection = unsafe { selection(tags, count) }?;
        // SAFETY: the caller's promise.
        let how = unsafe { pausing(options) }?;
        let value = match engine_with_blocks()? {
            Some(engine) => in_numbers(&engine.plan(selection, &how)?),
            None => DormantPlan { host_allowed_bytes: u64::MAX, ..DormantPlan::default() },
        };
        // SAFETY: the caller's promise.
        unsafe { edge::write_sized(plan, value) }
    })
}

fn in_numbers(plan: &dormant::Plan) -> DormantPlan {
    DormantPlan {
        size: 0,
        reserved: 0,
        freed: amount(plan.freed),
        host: amount(plan.host),
        disk: amount(plan.disk),
        host_wanted_bytes: plan.host_wanted_bytes,
        host_allowed_bytes: plan.host_allowed_bytes,
        host_short_bytes: plan.host_short_bytes,
    }
}
