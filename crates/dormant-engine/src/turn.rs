//! One transition at a time; a second one waits its turn up to its deadline.

use std::sync::{Condvar, Mutex, PoisonError};

use allocator_core::{Deadline, Error, ErrorKind, Operation, Result};

#[derive(Debug, Default)]
pub(crate) struct Turn {
    taken: Mutex<bool>,
    given_back: Condvar,
}

/// Holds the turn until it is dropped.
#[derive(Debug)]
pub(crate) struct Holding<'a>(&'a Turn);

impl Turn {
    /// Waits for the turn.
    ///
    /// # Errors
    /// `Busy` at the deadline.
    pub(crate) fn take(&self, deadline: Deadline) -> Result<Holding<'_>> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *taken {
            taken = match deadline.remaining() {
                None => self.given_back.wait(taken).unwrap_or_else(PoisonError::into_inner),
                Some(left) if left.is_zero() => {
                    return Err(Error::new(
                        ErrorKind::Busy,
                        Operation::Engine,
                        "another pause, resume or copy was still going on at the deadline",
                    ));
                }
                Some(left) => {
                    self.given_back
                        .wait_timeout(taken, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
        *taken = true;
        Ok(Holding(self))
    }
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.given_back.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_second_transition_waits_up_to_its_deadline_and_then_is_busy() {
        let turn = Turn::default();
        let first = turn.take(Deadline::NEVER).unwrap();
        let error = turn.take(Deadline::after(Duration::from_millis(20))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| turn.take(Deadline::NEVER).map(drop));
            std::thread::sleep(Duration::from_millis(20));
            drop(first);
            second.join().unwrap().unwrap();
        });
        drop(turn.take(Deadline::after(Duration::ZERO)).unwrap());
    }
}
