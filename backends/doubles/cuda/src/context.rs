//! Primary contexts, what is current, and waiting for all of a context.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use dormant_sim::Machine;
use double_common::abi::ordinal;
use double_common::calls::call;
use double_common::errors::{INVALID_CONTEXT, INVALID_VALUE, Refused};
use double_common::graphs::{mode, mode_number};
use double_common::{Out, exports, peers, put};

use crate::device::exists;
use crate::{context_of, device_of, driver};

exports! { find as find via call;
    /// Makes a device's primary context, or counts one more user.
    fn cuDevicePrimaryCtxRetain(context: Out<'_, *mut c_void>, device: c_int) {
        let device = exists(device)?;
        let context = context.ok_or(Refused(INVALID_VALUE))?;
        driver()?.context_retain(device)?;
        put(Some(context), context_of(device))
    }

    /// One user less.
    fn cuDevicePrimaryCtxRelease_v2(device: c_int) {
        Ok(driver()?.context_release(exists(device)?)?)
    }

    /// Whether the context is there.
    fn cuDevicePrimaryCtxGetState(
        device: c_int,
        flags: Out<'_, c_uint>,
        active: Out<'_, c_int>,
    ) {
        let device = exists(device)?;
        put(flags, 0)?;
        put(active, c_int::from(driver()?.has_context(device)))
    }

    /// The calling thread's context.
    fn cuCtxGetCurrent(context: Out<'_, *mut c_void>) {
        put(context, driver()?.current().map_or(ptr::null_mut(), context_of))
    }

    /// Makes a context the calling thread's.
    fn cuCtxSetCurrent(context: *mut c_void) {
        let machine = driver()?;
        if context.is_null() {
            return Ok(machine.set_current(None)?);
        }
        Ok(machine.set_current(Some(alive(machine, context)?))?)
    }

    /// The device of the calling thread's context.
    fn cuCtxGetDevice(device: Out<'_, c_int>) {
        let current = driver()?.current().ok_or(Refused(INVALID_CONTEXT))?;
        put(device, ordinal(current))
    }

    /// Waits for everything in the context.
    fn cuCtxSynchronize() {
        Ok(driver()?.context_synchronize()?)
    }

    /// Lets an event stand for all of the context's work.
    fn cuCtxRecordEvent(context: *mut c_void, event: *mut c_void) {
        let machine = driver()?;
        let device = alive(machine, context)?;
        let before = machine.current();
        machine.set_current(Some(device))?;
        let answer = machine.context_record_event(event.addr() as u64);
        machine.set_current(before)?;
        Ok(answer?)
    }

    /// Lets the current context reach memory that another has allocated.
    fn cuCtxEnablePeerAccess(context: *mut c_void, flags: c_uint) {
        let machine = driver()?;
        if flags != 0 {
            return Err(Refused(INVALID_VALUE));
        }
        peers::enable(machine, alive(machine, context)?)
    }

    /// Takes that back.
    fn cuCtxDisablePeerAccess(context: *mut c_void) {
        let machine = driver()?;
        peers::disable(machine, alive(machine, context)?)
    }

    /// The calling thread's capture mode, for another.
    fn cuThreadExchangeStreamCaptureMode(new: Option<&mut c_uint>) {
        let slot = new.ok_or(Refused(INVALID_VALUE))?;
        *slot = mode_number(driver()?.exchange_capture_mode(mode(*slot)?));
        Ok(())
    }
}

/// The device of a context that is there.
fn alive(machine: &Machine, context: *mut c_void) -> Result<u32, Refused> {
    let device = device_of(context)?;
    machine.has_context(device).then_some(device).ok_or(Refused(INVALID_CONTEXT))
}
