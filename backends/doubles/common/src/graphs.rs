//! Captured work by number.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use dormant_sim::{CaptureMode, Graph};

use crate::errors::{INVALID_HANDLE, INVALID_VALUE, Refused};

static GRAPHS: LazyLock<Mutex<HashMap<u64, Graph>>> = LazyLock::new(Mutex::default);
static LAST: AtomicU64 = AtomicU64::new(0x9000);

fn table() -> MutexGuard<'static, HashMap<u64, Graph>> {
    GRAPHS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a graph and numbers it.
#[must_use]
pub fn keep(graph: Graph) -> u64 {
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    table().insert(number, graph);
    number
}

/// The graph of a number.
///
/// # Errors
/// `INVALID_HANDLE`.
pub fn get(number: u64) -> Result<Graph, Refused> {
    table().get(&number).cloned().ok_or(Refused(INVALID_HANDLE))
}

/// Forgets a graph.
///
/// # Errors
/// `INVALID_HANDLE`.
pub fn forget(number: u64) -> Result<(), Refused> {
    table().remove(&number).map(|_| ()).ok_or(Refused(INVALID_HANDLE))
}

/// A capture mode by its number in C.
///
/// # Errors
/// `INVALID_VALUE`.
pub fn mode(number: u32) -> Result<CaptureMode, Refused> {
    match number {
        0 => Ok(CaptureMode::Global),
        1 => Ok(CaptureMode::ThreadLocal),
        2 => Ok(CaptureMode::Relaxed),
        _ => Err(Refused(INVALID_VALUE)),
    }
}

/// The number of a capture mode in C.
#[must_use]
pub fn mode_number(mode: CaptureMode) -> u32 {
    match mode {
        CaptureMode::Global => 0,
        CaptureMode::ThreadLocal => 1,
        CaptureMode::Relaxed => 2,
    }
}
