//! Waiting until a device has no work of this process in flight.
//!
//! Where the driver has `cuCtxRecordEvent`, an event behind all work of the context is polled:
//! no thread is held, and a deadline is kept. Elsewhere a helper thread synchronises the context,
//! which cannot be called off; the caller stops waiting for it at the deadline.

use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use allocator_core::call::Call;
use allocator_core::waiting::{Backoff, Rounds, busy, lock};
use allocator_core::{Deadline, Device, Operation, Result};
use cudarc::driver::sys::{CUcontext, CUdevice, CUevent, CUevent_flags};

use crate::Cuda;
use crate::context::{CaptureScope, Scope};
use crate::device::Slot;
use crate::loader::Symbols;
use crate::result::{Code, NOT_READY, NOT_SUPPORTED, SUCCESS};

const OPERATION: Operation = Operation::Quiesce;

/// `cuCtxRecordEvent`.
pub(crate) type Recorder = unsafe extern "C" fn(CUcontext, CUevent) -> Code;

/// What a device needs for quiescing.
#[derive(Debug, Default)]
pub(crate) struct Quiescer {
    /// Events of the kept context that nobody uses now.
    idle: Mutex<Vec<Event>>,
    rounds: Arc<Rounds>,
}

/// An event without a time stamp.
#[derive(Debug)]
struct Event(CUevent);

// SAFETY: an event handle is a name for an object of the driver, which may be used from any
// thread.
unsafe impl Send for Event {}

impl Cuda {
    /// `cuCtxRecordEvent`, unless it is missing or has answered that it is not supported.
    pub(crate) fn recorder(&self) -> Option<Recorder> {
        self.symbols.ctx_record_event.filter(|_| self.polls.load(Ordering::Relaxed))
    }

    pub(crate) fn await_idle(&self, device: Device, deadline: Deadline) -> Result<()> {
        let slot = self.slot(device, OPERATION)?;
        if slot.primary.kept().is_none() && !slot.primary.is_active(&self.symbols, OPERATION)? {
            return Ok(());
        }
        if let Some(record) = self.recorder()
            && self.poll(slot, record, deadline)?
        {
            return Ok(());
        }
        let (symbols, handle) = (self.symbols, slot.handle);
        slot.quiescer.rounds.join(device, deadline, move || {
            let (code, name) = synchronize(&symbols, handle);
            symbols.check(code, Call::new(OPERATION, name).on(device))
        })
    }

    /// Waits for an event behind all work of the context; `false` when the driver does not
    /// support that after all.
    fn poll(&self, slot: &Slot, record: Recorder, deadline: Deadline) -> Result<bool> {
        let borrowed = slot.primary.borrow(&self.symbols, OPERATION)?;
        let _scope = Scope::enter(&self.symbols, borrowed.context(), OPERATION, slot.device)?;
        let reused = if borrowed.is_kept() { lock(&slot.quiescer.idle).pop() } else { None };
        let event = match reused {
            Some(event) => event,
            None => self.create_event(slot.device)?,
        };
        // SAFETY: context and event are alive, and the event was made in this context.
        let code = unsafe { record(borrowed.context().raw(), event.0) };
        if code == NOT_SUPPORTED {
            self.polls.store(false, Ordering::Relaxed);
            self.destroy_event(event);
            return Ok(false);
        }
        let call = Call::new(OPERATION, "cuCtxRecordEvent").on(slot.device);
        let done = self
            .symbols
            .check(code, call)
            .and_then(|()| self.until_done(&event, slot.device, deadline));
        // An event that still waits for work, or that failed, is not used again.
        if done.is_ok() && borrowed.is_kept() {
            lock(&slot.quiescer.idle).push(event);
        } else {
            self.destroy_event(event);
        }
        done.map(|()| true)
    }

    fn until_done(&self, event: &Event, device: Device, deadline: Deadline) -> Result<()> {
        let mut backoff = None;
        loop {
            // SAFETY: the event is alive and was recorded.
            let code = unsafe { (self.symbols.event_query)(event.0) };
            if code != NOT_READY {
                return self.symbols.check(code, Call::new(OPERATION, "cuEventQuery").on(device));
            }
            if deadline.has_passed() {
                return Err(busy(device));
            }
            backoff.get_or_insert_with(Backoff::start).step(deadline);
        }
    }

    fn create_event(&self, device: Device) -> Result<Event> {
        let mut event = ptr::null_mut();
        let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: `event` is writable; the device's context is current.
        let code = unsafe { (self.symbols.event_create)(&raw mut event, flags) };
        self.symbols.check(code, Call::new(OPERATION, "cuEventCreate").on(device))?;
        Ok(Event(event))
    }

    /// Gives an event back. One that waits still is freed by the driver when it is done; a
    /// failure leaves nothing but the event behind.
    fn destroy_event(&self, event: Event) {
        // SAFETY: the event came from `cuEventCreate` and is consumed here.
        let _code = unsafe { (self.symbols.event_destroy)(event.0) };
    }
}

/// Synchronises the primary context, in a thread of ours that has none current.
fn synchronize(symbols: &Symbols, handle: CUdevice) -> (Code, &'static str) {
    // Without the mode the calls below say the same, but may break a capture.
    let _relaxed = CaptureScope::enter(symbols, OPERATION);
    let mut context = ptr::null_mut();
    // SAFETY: `context` is writable; the handle is the driver's.
    let code = unsafe { (symbols.primary_ctx_retain)(&raw mut context, handle) };
    if code != SUCCESS {
        return (code, "cuDevicePrimaryCtxRetain");
    }
    // SAFETY: the context is retained until the end of this function.
    let mut outcome = (unsafe { (symbols.ctx_set_current)(context) }, "cuCtxSetCurrent");
    if outcome.0 == SUCCESS {
        // SAFETY: the call has no conditions; the context that it means is current.
        outcome = (unsafe { (symbols.ctx_synchronize)() }, "cuCtxSynchronize");
        // SAFETY: null is for none, which this thread began with.
        let _code = unsafe { (symbols.ctx_set_current)(ptr::null_mut()) };
    }
    // SAFETY: retained once above.
    let _code = unsafe { (symbols.primary_ctx_release)(handle) };
    outcome
}
