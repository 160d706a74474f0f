//! Captured work by number.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use dormant_sim::{CaptureMode, Graph, Machine};

use crate::errors::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, Refused};

#[derive(Default)]
struct Table {
    /// A graph that was made empty is `None` until something is captured into it.
    graphs: HashMap<u64, Option<Graph>>,
    /// Streams that are captured into a graph which is there already.
    into: HashMap<u64, u64>,
}

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);
static LAST: AtomicU64 = AtomicU64::new(0x9000);

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number(graph: Option<Graph>) -> u64 {
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    table().graphs.insert(number, graph);
    number
}

/// Keeps a graph and numbers it.
#[must_use]
pub fn keep(graph: Graph) -> u64 {
    number(Some(graph))
}

/// Makes an empty graph and numbers it.
#[must_use]
pub fn create() -> u64 {
    number(None)
}

/// The graph of a number.
///
/// # Errors
/// `INVALID_HANDLE`; `NOT_SUPPORTED` for an empty one.
pub fn get(number: u64) -> Result<Graph, Refused> {
    let table = table();
    let graph = table.graphs.get(&number).ok_or(Refused(INVALID_HANDLE))?;
    graph.clone().ok_or(Refused(NOT_SUPPORTED))
}

/// Forgets a graph.
///
/// # Errors
/// `INVALID_HANDLE`.
pub fn forget(number: u64) -> Result<(), Refused> {
    table().graphs.remove(&number).map(|_| ()).ok_or(Refused(INVALID_HANDLE))
}

/// Begins to capture a stream into a graph. Graphs have no nodes here that it could depend on.
///
/// # Errors
/// `INVALID_HANDLE`, `NOT_SUPPORTED` for dependencies, those of the machine.
pub fn begin_into(
    machine: &Machine,
    stream: u64,
    graph: u64,
    dependencies: usize,
    mode: CaptureMode,
) -> Result<(), Refused> {
    if !table().graphs.contains_key(&graph) {
        return Err(Refused(INVALID_HANDLE));
    }
    if dependencies > 0 {
        return Err(Refused(NOT_SUPPORTED));
    }
    machine.begin_capture(stream, mode)?;
    table().into.insert(stream, graph);
    Ok(())
}

/// Ends a capture. The number is that of a new graph, or of the one that was captured into.
///
/// # Errors
/// Those of the machine.
pub fn end(machine: &Machine, stream: u64) -> Result<u64, Refused> {
    let ended = machine.end_capture(stream);
    let mut table = table();
    match ended {
        Ok(captured) => {
            let into = table.into.remove(&stream);
            let number = into.unwrap_or_else(|| LAST.fetch_add(1, Ordering::Relaxed));
            table.graphs.insert(number, Some(captured));
            Ok(number)
        }
        Err(refusal) => {
            // All but one refusal end the capture.
            let refused = Refused::from(refusal);
            if refused != WRONG_THREAD {
                table.into.remove(&stream);
            }
            Err(refused)
        }
    }
}

const WRONG_THREAD: Refused = Refused(908);

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
