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
    /// Captures that wait to begin. No new quiesce starts before them, or they might wait for ever.
    waiting: usize,
    quiesces: usize,
}

impl Captures {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a capture; waits for the quiesces that are going on.
    pub(crate) fn begin(&self) {
        let mut state = self.lock();
        state.waiting += 1;
        while state.quiesces > 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
        state.captures += 1;
    }

    /// Ends a capture. Says whether it was the last.
    pub(crate) fn end(&self) -> bool {
        let mut state = self.lock();
        state.captures = state.captures.saturating_sub(1);
        state.captures == 0
    }

    #[cfg(test)]
    fn any(&self) -> bool {
        let state = self.lock();
        state.captures + state.waiting > 0
    }

    /// Runs a quiesce with captures kept out, or does not run it when one is going on or about to
    /// begin.
    pub(crate) fn quiesce<T>(&self, run: impl FnOnce() -> T) -> Option<T> {
        {
            let mut state = self.lock();
            if state.captures + state.waiting > 0 {
                return None;
            }
            state.quiesces += 1;
        }
        let _ended = Ended(self);
        Some(run())
    }
}

/// Counts a quiesce down, also when it panics.
struct Ended<'a>(&'a Captures);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.lock().quiesces -= 1;
        self.0.changed.notify_all();
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
    fn a_capture_that_waits_is_not_overtaken_by_new_quiesces() {
        let captures = Captures::default();
        std::thread::scope(|scope| {
            captures.quiesce(|| {
                scope.spawn(|| captures.begin());
                while !captures.any() {
                    std::thread::yield_now();
                }
                assert_eq!(captures.quiesce(|| ()), None);
            });
        });
        assert!(captures.end());
    }

    #[test]
    fn a_quiesce_that_panics_keeps_no_capture_out() {
        let captures = Captures::default();
        let quiesce = || captures.quiesce(|| std::panic::resume_unwind(Box::new("driver")));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(quiesce)).unwrap_err();
        captures.begin();
        assert!(captures.end());
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
