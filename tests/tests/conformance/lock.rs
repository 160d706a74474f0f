//! Cases of one module share one device, and take turns.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits for the turn.
pub(crate) fn turn(device: &'static Mutex<()>) -> Option<MutexGuard<'static, ()>> {
    Some(device.lock().unwrap_or_else(PoisonError::into_inner))
}
