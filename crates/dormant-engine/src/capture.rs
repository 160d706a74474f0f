//! Stream captures that we know of.
//!
//! A quiesce breaks every capture in its context (seen on CUDA, from any thread and in any mode),
//! so none happens while a capture is known to be going on: a pause is refused, a free of an
//! active block is put off. A capture that nobody told us of cannot be seen in general.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Captures {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    captures: usize,
    quiesces: usize,
}

impl Captures {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a capture; waits for a quiesce that is going on.
    pub(crate) fn begin(&self) {
        let mut state = self.lock();
        while state.quiesces > 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.captures += 1;
    }

    /// Ends a capture. Says whether it was the last.
    pub(crate) fn end(&self) -> bool {
        let mut state = self.lock();
        state.captures = state.captures.saturating_sub(1);
        state.captures == 0
    }

    pub(crate) fn any(&self) -> bool {
        self.lock().captures > 0
    }

    /// Runs a quiesce with captures kept out, or does not run it when one is going on.
    pub(crate) fn quiesce<T>(&self, run: impl FnOnce() -> T) -> Option<T> {
        {
            let mut state = self.lock();
            if state.captures > 0 {
                return None;
            }
            state.quiesces += 1;
        }
        let result = run();
        self.lock().quiesces -= 1;
        self.changed.notify_all();
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_quiesce_runs_during_a_capture_and_the_last_end_is_told() {
        let captures = Captures::default();
        captures.begin();
        captures.begin();
        assert_eq!(captures.quiesce(|| ()), None);
        assert!(!captures.end());
        assert!(captures.end());
        assert_eq!(captures.quiesce(|| 7), Some(7));
        assert!(!captures.any());
    }

    #[test]
    fn a_capture_that_begins_during_a_quiesce_waits_for_it() {
        let captures = Captures::default();
        let ended = Mutex::new(false);
        std::thread::scope(|scope| {
            captures.quiesce(|| {
                scope.spawn(|| {
                    captures.begin();
                    assert!(*ended.lock().unwrap());
                });
                std::thread::sleep(std::time::Duration::from_millis(20));
                *ended.lock().unwrap() = true;
            });
        });
    }
}
