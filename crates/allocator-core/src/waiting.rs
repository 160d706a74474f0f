//! Waiting for a driver with a deadline: by looking again and again, or in a helper thread.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::deadline::Deadline;
use crate::device::Device;
use crate::error::{Error, ErrorKind, Operation, Result};

/// Locks, also after a panic of another holder: for what is whole between statements.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error of a quiesce whose deadline has passed.
#[must_use]
pub fn busy(device: Device) -> Error {
    let text = "work in flight on the device did not end before the deadline; nothing was changed";
    Error::new(ErrorKind::Busy, Operation::Quiesce, text).with_device(device)
}

/// How long to wait between two looks: not at all, then a turn of the scheduler, then longer
/// and longer.
#[derive(Debug)]
pub struct Backoff {
    since: Instant,
    sleep: Duration,
}

impl Backoff {
    const SPIN: Duration = Duration::from_micros(20);
    const YIELD: Duration = Duration::from_micros(100);
    const FIRST_SLEEP: Duration = Duration::from_micros(20);
    const LONGEST_SLEEP: Duration = Duration::from_micros(200);

    /// Begins now.
    #[must_use]
    pub fn start() -> Self {
        Self { since: Instant::now(), sleep: Self::FIRST_SLEEP }
    }

    /// Waits once, not beyond the deadline.
    pub fn step(&mut self, deadline: Deadline) {
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

/// Synchronisations of one device by a helper thread, in rounds: for a driver that can wait for
/// a device, but not be called off. A caller needs a round that began after it came: one that
/// is under way need not cover the newest work.
#[derive(Debug, Default)]
pub struct Rounds {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug)]
struct State {
    wanted: u64,
    begun: u64,
    ended: u64,
    /// Whether a helper lives.
    helped: bool,
    /// What the last round came to.
    last: Result<()>,
}

impl Default for State {
    fn default() -> Self {
        Self { wanted: 0, begun: 0, ended: 0, helped: false, last: Ok(()) }
    }
}

impl Rounds {
    /// Waits until a round of `synchronize` that began after this call has ended. The helper goes
    /// on after the deadline, and serves whoever comes next. All callers pass the same function.
    ///
    /// # Errors
    /// `Busy` at the deadline; `HostMemory` when there is no thread to be had; else what
    /// `synchronize` came to.
    pub fn join(
        self: &Arc<Self>,
        device: Device,
        deadline: Deadline,
        synchronize: impl Fn() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let mut state = lock(&self.state);
        let mine = state.begun + 1;
        state.wanted = state.wanted.max(mine);
        if !state.helped {
            let rounds = Arc::clone(self);
            std::thread::Builder::new()
                .name("dormant-quiesce".to_owned())
                .spawn(move || rounds.help(&synchronize))
                .map_err(|error| {
                    let text = format!("no thread to wait in: {error}");
                    Error::new(ErrorKind::HostMemory, Operation::Quiesce, text).with_device(device)
                })?;
            state.helped = true;
        }
        while state.ended < mine {
            state = match deadline.remaining() {
                None => self.ended.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) if left.is_zero() => return Err(busy(device)),
                Some(left) => {
                    self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        state.last.clone()
    }

    /// The helper's life: rounds for as long as somebody wants one.
    fn help(&self, synchronize: &dyn Fn() -> Result<()>) {
        let mut state = lock(&self.state);
        while state.begun < state.wanted {
            state.begun += 1;
            drop(state);
            let outcome = synchronize();
            state = lock(&self.state);
            state.ended = state.begun;
            state.last = outcome;
            self.ended.notify_all();
        }
        state.helped = false;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const DEVICE: Device = Device(7);

    #[test]
    fn a_round_that_is_under_way_is_not_enough_and_a_deadline_is_kept() {
        let rounds = Arc::new(Rounds::default());
        let done = Arc::new(AtomicU64::new(0));
        let join = |deadline| {
            let done = Arc::clone(&done);
            rounds.join(DEVICE, deadline, move || {
                std::thread::sleep(Duration::from_millis(50));
                done.fetch_add(1, Ordering::SeqCst);
                Ok(())
            })
        };
        let error = join(Deadline::after(Duration::from_millis(5))).unwrap_err();
        assert_eq!((error.kind(), error.device()), (ErrorKind::Busy, Some(DEVICE)));
        join(Deadline::NEVER).unwrap();
        assert_eq!(done.load(Ordering::SeqCst), 2, "the first round had begun before");
    }

    #[test]
    fn what_a_round_comes_to_is_told() {
        let rounds = Arc::new(Rounds::default());
        let failed = || Err(Error::new(ErrorKind::DeviceLost, Operation::Quiesce, "gone"));
        let error = rounds.join(DEVICE, Deadline::NEVER, failed).unwrap_err();
        assert_eq!((error.kind(), error.text()), (ErrorKind::DeviceLost, "gone"));
    }

    #[test]
    fn a_step_does_not_sleep_beyond_the_deadline() {
        let mut backoff = Backoff { since: Instant::now(), sleep: Duration::from_secs(3600) };
        backoff.since -= Backoff::YIELD;
        let began = Instant::now();
        backoff.step(Deadline::after(Duration::from_millis(1)));
        assert!(began.elapsed() < Duration::from_secs(60));
    }
}
