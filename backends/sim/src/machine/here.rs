//! What a thread has set: its current device and its capture mode, by machine.
//!
//! A thread that ends may still call, from the destructor of a thread-local of its own, when this
//! module's is gone. What it sets then goes into a table of the process.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::capture::CaptureMode;
use super::core::lock;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Here {
    device: Option<u32>,
    mode: CaptureMode,
}

static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static HERE: RefCell<HashMap<u64, Here>> = RefCell::new(HashMap::new());
    /// It has no destructor, so it is there as long as the thread.
    static THREAD: u64 = THREADS.fetch_add(1, Ordering::Relaxed);
}

/// By thread and machine: what threads without a `HERE` have set. What is as at first is not kept,
/// so a thread whose calls leave it as it was leaves nothing behind.
static LATE: Mutex<BTreeMap<(u64, u64), Here>> = Mutex::new(BTreeMap::new());

/// A number of the calling thread that no other has or had.
pub(crate) fn thread() -> u64 {
    THREAD.with(|thread| *thread)
}

fn get(machine: u64) -> Here {
    HERE.try_with(|all| all.borrow().get(&machine).copied())
        .unwrap_or_else(|_| lock(&LATE).get(&(thread(), machine)).copied())
        .unwrap_or_default()
}

fn set(machine: u64, here: Here) {
    if HERE.try_with(|all| all.borrow_mut().insert(machine, here)).is_ok() {
        return;
    }
    let key = (thread(), machine);
    if here == Here::default() {
        lock(&LATE).remove(&key);
    } else {
        lock(&LATE).insert(key, here);
    }
}

pub(crate) fn device(machine: u64) -> Option<u32> {
    get(machine).device
}

pub(crate) fn set_device(machine: u64, device: Option<u32>) {
    set(machine, Here { device, ..get(machine) });
}

pub(crate) fn capture_mode(machine: u64) -> CaptureMode {
    get(machine).mode
}

pub(crate) fn exchange_capture_mode(machine: u64, mode: CaptureMode) -> CaptureMode {
    let here = get(machine);
    set(machine, Here { mode, ..here });
    here.mode
}
