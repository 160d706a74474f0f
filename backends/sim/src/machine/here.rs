//! What a thread has set: its current device and its capture mode, by machine.

use std::cell::RefCell;
use std::collections::HashMap;

use super::capture::CaptureMode;

#[derive(Clone, Copy, Debug, Default)]
struct Here {
    device: Option<u32>,
    mode: CaptureMode,
}

thread_local! {
    static HERE: RefCell<HashMap<u64, Here>> = RefCell::new(HashMap::new());
}

/// In a thread that is ending there may be nothing left; then it is as if nothing had been set.
fn get(machine: u64) -> Here {
    HERE.try_with(|all| all.borrow().get(&machine).copied()).ok().flatten().unwrap_or_default()
}

fn set(machine: u64, here: Here) {
    let _ = HERE.try_with(|all| all.borrow_mut().insert(machine, here));
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
