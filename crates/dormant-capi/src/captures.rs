//! Stream captures, and access between devices: what the program said before the engine was opened
//! counts as well.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dormant::{CaptureGuard, Device, Driver, Engine};

use crate::edge::{self, engine, entry, forward};
use crate::memory::refuse_in_a_child;
use crate::status::Failed;
use crate::types::DormantStatus;

/// What names a capture: a stream of a runtime, or a number of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Capture {
    Stream(usize),
    Number(u64),
}

/// `None` until there is an engine to tell.
type Known = Option<CaptureGuard<'static, Driver>>;

#[derive(Default)]
struct Said {
    captures: Vec<(Capture, Known)>,
    /// Devices whose memory another may use: (peer, owner).
    peers: Vec<(Device, Device)>,
}

static SAID: Mutex<Option<Said>> = Mutex::new(None);
static NUMBERS: AtomicU64 = AtomicU64::new(0);

fn said() -> MutexGuard<'static, Option<Said>> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells a new engine what was said before, and then publishes it: in between nothing can be said
/// that it misses. The lock is never held while the engine is told: that may wait for work in flight.
pub(crate) fn tell_and_publish(engine: &Arc<Engine>, publish: impl Fn()) {
    // The process-wide engine is never dropped.
    let told: &'static Engine = Box::leak(Box::new(Arc::clone(engine)));
    loop {
        let (peers, untold) = {
            let mut said = said();
            let said = said.get_or_insert_default();
            let untold = said.captures.iter().any(|(_, known)| known.is_none());
            if said.peers.is_empty() && !untold {
                return publish();
            }
            (std::mem::take(&mut said.peers), untold)
        };
        for (peer, owner) in peers {
            // Devices that are no peers to the driver API get no access; the runtime has answered.
            let _ = told.enable_peer_access(peer, owner);
        }
        if untold {
            let guard = told.begin_capture();
            let mut said = said();
            let captures = &mut said.get_or_insert_default().captures;
            if let Some((_, known)) = captures.iter_mut().find(|(_, known)| known.is_none()) {
                *known = Some(guard);
            }
        }
    }
}

/// A capture begins.
pub(crate) fn begin(capture: Capture) {
    let engine = {
        let mut said = said();
        match edge::opened() {
            Some(engine) => engine,
            None => return said.get_or_insert_default().captures.push((capture, None)),
        }
    };
    let known = Some(engine.begin_capture());
    said().get_or_insert_default().captures.push((capture, known));
}

/// A capture ends. Returns whether it was known.
pub(crate) fn end(capture: Capture) -> bool {
    let ended = {
        let mut said = said();
        let captures = &mut said.get_or_insert_default().captures;
        let place = captures.iter().rposition(|(known, _)| *known == capture);
        place.map(|place| captures.swap_remove(place))
    };
    // Dropped here, with the lock given back: frees that were put off are done now.
    ended.is_some()
}

/// Whether a known capture is going on.
pub(crate) fn is_any() -> bool {
    said().as_ref().is_some_and(|said| !said.captures.is_empty())
}

/// The program lets one device at another's memory.
pub(crate) fn enable_peer(peer: Device, owner: Device) -> Result<(), Failed> {
    let engine = {
        let mut said = said();
        match edge::opened() {
            Some(engine) => engine,
            None => {
                said.get_or_insert_default().peers.push((peer, owner));
                return Ok(());
            }
        }
    };
    Ok(engine.enable_peer_access(peer, owner)?)
}

/// The program takes that back.
pub(crate) fn disable_peer(peer: Device, owner: Device) -> Result<(), Failed> {
    said().get_or_insert_default().peers.retain(|pair| *pair != (peer, owner));
    match edge::opened() {
        Some(engine) => Ok(engine.disable_peer_access(peer, owner)?),
        None => Ok(()),
    }
}

/// Says that a stream capture begins: until `dormant_capture_end` pauses are refused as busy, and
/// frees of active blocks are put off. With our hooks preloaded that happens by itself.
///
/// # Safety
/// `capture` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_capture_begin(capture: *mut u64) -> DormantStatus {
    forward!(dormant_capture_begin(capture));
    entry(|| {
        refuse_in_a_child()?;
        edge::refuse_at_the_end()?;
        // SAFETY: the caller's promise.
        let place = unsafe { edge::place(capture, "capture") }?;
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed) + 1;
        begin(Capture::Number(number));
        *place = number;
        Ok(())
    })
}

/// Says that a capture has ended. `NotFound` for one that is not going on.
#[unsafe(no_mangle)]
pub extern "C" fn dormant_capture_end(capture: u64) -> DormantStatus {
    forward!(dormant_capture_end(capture));
    entry(|| {
        refuse_in_a_child()?;
        if end(Capture::Number(capture)) {
            return Ok(());
        }
        let text = format!("no capture with the number {capture} is going on");
        Err(Failed::new(DormantStatus::NotFound, text))
    })
}

/// Lets kernels of `peer` use every block on `owner`, those to come as well. With our hooks
/// preloaded `cudaDeviceEnablePeerAccess` does that.
#[unsafe(no_mangle)]
pub extern "C" fn dormant_enable_peer_access(peer: u32, owner: u32) -> DormantStatus {
    forward!(dormant_enable_peer_access(peer, owner));
    entry(|| Ok(engine()?.enable_peer_access(Device(peer), Device(owner))?))
}

/// Takes back what `dormant_enable_peer_access` gave.
#[unsafe(no_mangle)]
pub extern "C" fn dormant_disable_peer_access(peer: u32, owner: u32) -> DormantStatus {
    forward!(dormant_disable_peer_access(peer, owner));
    entry(|| Ok(engine()?.disable_peer_access(Device(peer), Device(owner))?))
}
