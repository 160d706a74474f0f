//! A stand-in for `libcuda.so.1` over the simulated device: it exports what `dormant-cuda`, the
//! CUDA runtime's stand-in and preload libraries import, and answers as the real driver was seen to
//! answer. See [`double_common`] for its configuration and counters.
//!
//! It has no kernels, no textures, no modules. Contexts other than primary ones there are none, and
//! the per-thread stream is the legacy one.

mod context;
mod device;
mod memory;
mod stream;

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use dormant_sim::Machine;
use double_common::Refused;
use double_common::errors::{INVALID_CONTEXT, NOT_INITIALIZED};

double_common::control_exports!();

/// The process that called `cuInit`; a forked child has to begin anew, and cannot.
static INITIALIZED: AtomicU32 = AtomicU32::new(0);

/// The machine, for calls that need `cuInit` before them.
fn driver() -> Result<&'static Machine, Refused> {
    if INITIALIZED.load(Ordering::SeqCst) != std::process::id() {
        return Err(Refused(NOT_INITIALIZED));
    }
    double_common::machine::machine()
}

/// The number that stands for the primary context of device zero.
const FIRST_CONTEXT: usize = 0xC000;

fn context_of(device: u32) -> *mut c_void {
    std::ptr::without_provenance_mut(FIRST_CONTEXT + device as usize)
}

fn device_of(context: *mut c_void) -> Result<u32, Refused> {
    let device = context.addr().checked_sub(FIRST_CONTEXT).and_then(|n| u32::try_from(n).ok());
    device.ok_or(Refused(INVALID_CONTEXT))
}

/// Where an exported function is.
fn find(name: &str) -> Option<*const c_void> {
    device::find(name)
        .or_else(|| context::find(name))
        .or_else(|| memory::find(name))
        .or_else(|| stream::find(name))
}
