//! Backups that were handed out as bare pointers, which nobody gives back: they live until their
//! blocks are resumed or freed.

use std::collections::HashSet;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dormant::{Backup, BlockState, Engine};

use crate::backups::{lend, nothing_at};
use crate::edge;
use crate::status::{Failed, address};

struct Loan {
    /// The block's.
    id: u64,
    /// How many beginnings and ends of transitions there had been.
    transitions: u64,
    backup: Backup,
}

static LOANS: Mutex<Vec<Loan>> = Mutex::new(Vec::new());
static TRANSITIONS: AtomicU64 = AtomicU64::new(0);

fn loans() -> MutexGuard<'static, Vec<Loan>> {
    LOANS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The saved bytes at a place, at least `size` of them.
pub(crate) fn bytes_at(place: *const c_void, size: u64) -> Result<*const c_void, Failed> {
    let engine = edge::engine()?;
    let block = engine.find(address(place)).ok_or_else(|| nothing_at(place))?;
    let transitions = TRANSITIONS.load(Ordering::SeqCst);
    let offset = address(place).0 - block.address.0;
    let bytes = |backup: &Backup| {
        let part = usize::try_from(offset).ok().and_then(|offset| backup.get(offset..));
        match part {
            Some(part) if part.len() as u64 >= size => Ok(part.as_ptr().cast()),
            _ => Err(Failed::invalid(format!(
                "{size} bytes at {place:p} reach past the end of the block's {} bytes",
                block.bytes
            ))),
        }
    };
    // Contents on disk are read for a loan: once for all tensors of a block. Since a transition may
    // have begun, a loan from before it may be of an earlier sleep.
    let known = |loan: &&Loan| (loan.id, loan.transitions) == (block.id, transitions);
    if let Some(loan) = loans().iter().find(known) {
        return bytes(&loan.backup);
    }
    let (backup, _) = lend(place)?;
    let found = bytes(&backup)?;
    // For copies of the caller's own; a refusal makes them slower, and nothing else.
    let _ = engine.register_backup(&backup);
    loans().push(Loan { id: block.id, transitions, backup });
    Ok(found)
}

/// A transition begins.
pub(crate) fn transition_begins() {
    TRANSITIONS.fetch_add(1, Ordering::SeqCst);
}

/// A transition has ended: ends the loans of blocks that sleep no longer.
pub(crate) fn transition_ended(engine: &Engine) {
    TRANSITIONS.fetch_add(1, Ordering::SeqCst);
    let before = std::mem::take(&mut *loans());
    if before.is_empty() {
        return;
    }
    let asleep: HashSet<u64> = engine
        .blocks()
        .into_iter()
        .filter(|block| block.state != BlockState::Active)
        .map(|block| block.id)
        .collect();
    loans().extend(before.into_iter().filter(|loan| asleep.contains(&loan.id)));
}
