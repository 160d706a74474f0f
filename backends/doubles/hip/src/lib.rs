//! A stand-in for `libamdhip64.so.7` over the simulated device: it exports what `dormant-hip` and
//! small C programs import. See [`double_common`] for its configuration and counters.
//!
//! `DORMANT_DOUBLE_HIP_VERSION` makes it one of three that are in the field:
//!
//! | value | what |
//! |---|---|
//! | `7.0` (also when unset) | gives memory back at the last unmap and release; takes every location for a device's |
//! | `7.2` | as shipped: memory stays with the reserved range |
//! | `7.2-patched` | with the runtime patched: it goes back, as in 7.0 |
//!
//! No AMD machine has been asked. Where the documentation and reports are silent it answers as the
//! CUDA driver does. Stricter than the runtime: memory is created on the current device only, since
//! some runtimes take that one whatever the properties say.

mod device;
mod memory;
mod stream;

use std::ffi::{c_int, c_void};

use dormant_sim::{Fault, Machine};
use double_common::Refused;
use double_common::errors::INVALID_DEVICE;
use double_common::machine::{machine_with, variable};

double_common::control_exports!();

/// Which runtime is acted out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// 7.0.
    Seven0,
    /// 7.2 as shipped.
    Seven2,
    /// 7.2 with a patched runtime.
    Seven2Patched,
}

impl Version {
    fn get() -> Self {
        match variable("DORMANT_DOUBLE_HIP_VERSION").as_deref() {
            Some("7.2") => Self::Seven2,
            Some("7.2-patched") => Self::Seven2Patched,
            _ => Self::Seven0,
        }
    }

    /// `HIP_VERSION`: major, minor, patch. The patched build has another patch number, as those
    /// in the field do; nothing may depend on it.
    fn number(self) -> c_int {
        match self {
            Self::Seven0 => 70_051_831,
            Self::Seven2 => 70_253_211,
            Self::Seven2Patched => 70_253_299,
        }
    }

    /// Whether a location can be the host.
    fn knows_the_host(self) -> bool {
        self != Self::Seven0
    }
}

/// The machine, which needs no initialisation.
fn runtime() -> Result<&'static Machine, Refused> {
    match Version::get() {
        Version::Seven2 => machine_with(&[Fault::KeepUntilUnreserved]),
        Version::Seven0 | Version::Seven2Patched => machine_with(&[]),
    }
}

/// The calling thread's device: the first, until it has set one.
fn current(machine: &Machine) -> u32 {
    machine.current().unwrap_or(0)
}

/// The machine, with the current device set up: the first call that concerns one does that.
fn on_device() -> Result<&'static Machine, Refused> {
    let machine = runtime()?;
    let device = current(machine);
    if machine.current().is_none() {
        machine.set_current(Some(device))?;
    }
    if !machine.has_context(device) {
        machine.context_retain(device)?;
    }
    Ok(machine)
}

/// The device, if there is one of this number.
fn exists(device: c_int) -> Result<u32, Refused> {
    let count = runtime()?.device_count();
    u32::try_from(device).ok().filter(|device| *device < count).ok_or(Refused(INVALID_DEVICE))
}

fn number(pointer: *const c_void) -> u64 {
    pointer.addr() as u64
}

fn pointer(number: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(usize::try_from(number).unwrap_or(usize::MAX))
}
