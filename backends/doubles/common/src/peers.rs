//! Access between devices. The machine gives it and does not take it back: what is taken back is
//! kept here, so that the answers are right.

use std::sync::{Mutex, MutexGuard, PoisonError};

use dormant_sim::Machine;

use crate::errors::{PEER_NOT_ENABLED, Refused};

const ALREADY_ENABLED: Refused = Refused(704);

/// Pairs of a device and the one whose memory it may use no longer.
static TAKEN_BACK: Mutex<Vec<(Option<u32>, u32)>> = Mutex::new(Vec::new());

fn taken_back() -> MutexGuard<'static, Vec<(Option<u32>, u32)>> {
    TAKEN_BACK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets the current device at another's memory.
///
/// # Errors
/// Those of the machine.
pub fn enable(machine: &Machine, to: u32) -> Result<(), Refused> {
    let mut taken_back = taken_back();
    let pair = (machine.current(), to);
    match taken_back.iter().position(|taken| *taken == pair) {
        Some(place) => {
            taken_back.swap_remove(place);
            Ok(())
        }
        None => Ok(machine.enable_peer(to)?),
    }
}

/// Takes back what [`enable`] gave.
///
/// # Errors
/// `PEER_NOT_ENABLED`; those of the machine.
pub fn disable(machine: &Machine, to: u32) -> Result<(), Refused> {
    let mut taken_back = taken_back();
    let pair = (machine.current(), to);
    if taken_back.contains(&pair) {
        return Err(Refused(PEER_NOT_ENABLED));
    }
    // The one way to ask the machine.
    let answer = machine.enable_peer(to).map_err(Refused::from);
    if matches!(answer, Ok(()) | Err(ALREADY_ENABLED)) {
        taken_back.push(pair);
    }
    match answer {
        Err(ALREADY_ENABLED) => Ok(()),
        Ok(()) => Err(Refused(PEER_NOT_ENABLED)),
        other => other,
    }
}
