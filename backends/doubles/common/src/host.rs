//! Host memory that a stand-in hands out: registered from the start.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use dormant_sim::Machine;

use crate::errors::{INVALID_VALUE, OUT_OF_MEMORY, Refused};

const PAGE: usize = 4096;

static BLOCKS: LazyLock<Mutex<HashMap<usize, Layout>>> = LazyLock::new(Mutex::default);

fn table() -> MutexGuard<'static, HashMap<usize, Layout>> {
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Allocates and registers host memory.
///
/// # Errors
/// `INVALID_VALUE` for no bytes, `OUT_OF_MEMORY`, those of a registration.
pub fn allocate(machine: &Machine, bytes: usize) -> Result<*mut c_void, Refused> {
    let layout = Layout::from_size_align(bytes, PAGE).map_err(|_| Refused(OUT_OF_MEMORY))?;
    if bytes == 0 {
        return Err(Refused(INVALID_VALUE));
    }
    // SAFETY: the layout is not of size zero.
    let at = unsafe { alloc_zeroed(layout) };
    if at.is_null() {
        return Err(Refused(OUT_OF_MEMORY));
    }
    // SAFETY: the bytes were just allocated, and are unregistered before they are freed.
    if let Err(refusal) = unsafe { machine.host_register(at, bytes as u64) } {
        // SAFETY: allocated above with this layout, and known to nobody.
        unsafe { dealloc(at, layout) };
        return Err(refusal.into());
    }
    table().insert(at.addr(), layout);
    Ok(at.cast())
}

/// Frees what [`allocate`] gave out, once the copies queued on it have ended.
///
/// # Errors
/// `INVALID_VALUE` for anything else; those of an unregistration.
///
/// # Safety
/// Nobody uses the memory any more.
pub unsafe fn free(machine: &Machine, at: *mut c_void) -> Result<(), Refused> {
    let layout = *table().get(&at.addr()).ok_or(Refused(INVALID_VALUE))?;
    // SAFETY: registered by `allocate`; no capture uses it (the caller's promise).
    unsafe { machine.host_unregister(at.cast()) }?;
    table().remove(&at.addr());
    // SAFETY: allocated by `allocate` with this layout, removed from the table by this call.
    unsafe { dealloc(at.cast(), layout) };
    Ok(())
}
