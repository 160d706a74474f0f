//! Waiting until a device has no work of this process in flight.
//!
//! Where the driver has `cuCtxRecordEvent`, an event behind all work of the context is polled:
//! no thread is held, and a deadline is kept. Elsewhere a helper thread synchronises the context,
//! which cannot be called off; the caller stops waiting for it at the deadline.

use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use allocator_core::{Deadline, Device, Error, ErrorKind, Operation, Result};
use cudarc::driver::sys::{CUcontext, CUdevice, CUevent, CUevent_flags};

use crate::Cuda;
use crate::context::{CaptureScope, Scope, lock};
use crate::device::Slot;
use crate::loader::Symbols;
use crate::result::{Call, Code, NOT_READY, NOT_SUPPORTED, SUCCESS};

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
        slot.quiescer.rounds.join(self.symbols, slot, deadline)
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

fn busy(device: Device) -> Error {
    let text = "work in flight on the device did not end before the deadline; nothing was changed";
    Call::new(OPERATION, "").on(device).refuse(ErrorKind::Busy, text)
}

/// How long to wait between two looks: not at all, then a turn of the scheduler, then longer
/// and longer.
#[derive(Debug)]
struct Backoff {
    since: Instant,
    sleep: Duration,
}

impl Backoff {
    const SPIN: Duration = Duration::from_micros(20);
    const YIELD: Duration = Duration::from_micros(100);
    const FIRST_SLEEP: Duration = Duration::from_micros(20);
    const LONGEST_SLEEP: Duration = Duration::from_micros(200);

    fn start() -> Self {
        Self { since: Instant::now(), sleep: Self::FIRST_SLEEP }
    }

    fn step(&mut self, deadline: Deadline) {
        let waited = self.since.elapsed();
        if waited < Self::SPIN {
            std::hint::spin_loop();
        } else if waited < Self::YIELD {
            std::thread::yield_now();
        } else {
            std::thread::sleep(
                deadline.remaining().map_or(self.sleep, |left| left.min(self.sleep)),
            );
            self.sleep = (self.sleep * 2).min(Self::LONGEST_SLEEP);
        }
    }
}

/// Synchronisations of one device by a helper thread, in rounds. A caller needs a round that
/// began after it came: one that is under way need not cover the newest work.
#[derive(Debug, Default)]
struct Rounds {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    wanted: u64,
    begun: u64,
    ended: u64,
    /// Whether a helper lives.
    helped: bool,
    /// What the last round came to, and the call that said so.
    last: (Code, &'static str),
}

impl Rounds {
    fn join(self: &Arc<Self>, symbols: Symbols, slot: &Slot, deadline: Deadline) -> Result<()> {
        let mut state = lock(&self.state);
        let mine = state.begun + 1;
        state.wanted = state.wanted.max(mine);
        if !state.helped {
            let rounds = Arc::clone(self);
            let handle = slot.handle;
            std::thread::Builder::new()
                .name("dormant-quiesce".to_owned())
                .spawn(move || rounds.help(&symbols, handle))
                .map_err(|error| {
                    let text = format!("no thread to wait in: {error}");
                    Call::new(OPERATION, "").on(slot.device).refuse(ErrorKind::HostMemory, text)
                })?;
            state.helped = true;
        }
        while state.ended < mine {
            state = match deadline.remaining() {
                None => self.ended.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) if left.is_zero() => return Err(busy(slot.device)),
                Some(left) => {
                    self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        let (code, name) = state.last;
        drop(state);
        symbols.check(code, Call::new(OPERATION, name).on(slot.device))
    }

    /// The helper's life: rounds for as long as somebody wants one.
    fn help(&self, symbols: &Symbols, handle: CUdevice) {
        let mut state = lock(&self.state);
        while state.begun < state.wanted {
            state.begun += 1;
            drop(state);
            let outcome = synchronize(symbols, handle);
            state = lock(&self.state);
            state.ended = state.begun;
            state.last = outcome;
            self.ended.notify_all();
        }
        state.helped = false;
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
