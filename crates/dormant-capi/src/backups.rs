//! The saved contents of blocks that sleep.

use std::ffi::{c_char, c_void};

use crate::edge::{self, engine, entry, forward};
use crate::memory::refuse_in_a_child;
use crate::status::{Failed, address};
use crate::transitions::selection;
use crate::types::{DormantBackup, DormantStatus};

/// Lends the saved contents of the paused block that `place` lies in, from `place` to the block's end.
/// They live until `dormant_backup_release`, also when the block is resumed or freed; after a resume
/// they are an old copy. `WrongState` if the block is active or nothing was saved, `NotFound` if it is not ours.
///
/// # Safety
/// The three places can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_backup(
    place: *const c_void,
    lease: *mut *mut DormantBackup,
    bytes: *mut *const c_void,
    length: *mut usize,
) -> DormantStatus {
    forward!(dormant_backup(place, lease, bytes, length));
    entry(|| {
        // SAFETY: the caller's promise.
        let lease = unsafe { edge::place(lease, "lease") }?;
        // SAFETY: the caller's promise.
        let bytes = unsafe { edge::place(bytes, "bytes") }?;
        // SAFETY: the caller's promise.
        let length = unsafe { edge::place(length, "length") }?;
        let (backup, offset) = lend(place)?;
        let lent = Box::new(DormantBackup(backup));
        let part = &lent.0[offset..];
        (*bytes, *length) = (part.as_ptr().cast(), part.len());
        *lease = Box::into_raw(lent);
        Ok(())
    })
}

/// The backup of the block that a place lies in, and how far inside that is.
pub(crate) fn lend(place: *const c_void) -> Result<(dormant::Backup, usize), Failed> {
    refuse_in_a_child()?;
    edge::refuse_at_the_end()?;
    let none = || nothing_at(place);
    let engine = edge::opened().ok_or_else(none)?;
    let block = engine.find(address(place)).ok_or_else(none)?;
    let backup = engine.backup(block.address)?;
    let offset = usize::try_from(address(place).0 - block.address.0).map_err(|_| none())?;
    if offset > backup.len() {
        return Err(none());
    }
    Ok((backup, offset))
}

/// The refusal where there is no block.
pub(crate) fn nothing_at(place: *const c_void) -> Failed {
    Failed::new(DormantStatus::NotFound, format!("backup: no block of ours is at {place:p}"))
}

/// Registers a loan's pages with the driver, so that copies of your own from it to a device run at the
/// link's full speed. A refusal leaves the bytes as readable as before, and copies slower.
///
/// # Safety
/// `lease` is from `dormant_backup` and not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_backup_register(lease: *const DormantBackup) -> DormantStatus {
    forward!(dormant_backup_register(lease));
    entry(|| {
        refuse_in_a_child()?;
        // SAFETY: the caller's promise.
        let lease = unsafe { lease.as_ref() }.ok_or_else(|| Failed::invalid("lease is NULL"))?;
        Ok(engine()?.register_backup(&lease.0)?)
    })
}

/// Ends a loan. NULL is fine.
///
/// # Safety
/// `lease` is NULL, or from `dormant_backup` and not ended before; nobody reads the bytes any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_backup_release(lease: *mut DormantBackup) {
    forward!(dormant_backup_release(lease));
    // In a forked child the pages are the parent's.
    if !lease.is_null() && !dormant_host::process::is_forked_child() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(lease) });
    }
}

/// Throws the saved contents of these tags away; the blocks wake with undefined contents. `bytes`
/// becomes how many that were.
///
/// # Safety
/// `tags` is NULL, for all, or an array of `count` texts; `bytes` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_drop_backup(
    tags: *const *const c_char,
    count: usize,
    bytes: *mut u64,
) -> DormantStatus {
    forward!(dormant_drop_backup(tags, count, bytes));
    entry(|| {
        // SAFETY: the caller's promise.
        let selection = unsafe { selection(tags, count) }?;
        refuse_in_a_child()?;
        edge::refuse_at_the_end()?;
        let dropped = match edge::opened() {
            Some(engine) => engine.drop_backup(selection)?,
            None => 0,
        };
        // SAFETY: the caller's promise.
        if let Some(place) = unsafe { bytes.as_mut() } {
            *place = dropped;
        }
        Ok(())
    })
}

/// Gives back what is kept for the next transition: retained host memory and disk space that no contents
/// are in, staging memory and streams. `bytes` becomes how much retained memory that was.
///
/// # Safety
/// `bytes` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_trim(bytes: *mut u64) -> DormantStatus {
    forward!(dormant_trim(bytes));
    entry(|| {
        refuse_in_a_child()?;
        edge::refuse_at_the_end()?;
        let trimmed = edge::opened().map_or(0, dormant::Engine::trim);
        // SAFETY: the caller's promise.
        if let Some(place) = unsafe { bytes.as_mut() } {
            *place = trimmed;
        }
        Ok(())
    })
}
