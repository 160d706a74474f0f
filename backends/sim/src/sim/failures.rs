//! Failing calls on purpose, and counting them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use allocator_core::{Error, ErrorKind, Operation, Result};

#[derive(Debug)]
struct Armed {
    operation: Operation,
    /// The count of calls at which it goes off; `always` from then on.
    at: u64,
    always: bool,
    kind: ErrorKind,
}

#[derive(Debug, Default)]
struct Books {
    counts: BTreeMap<Operation, u64>,
    armed: Vec<Armed>,
    log: Option<Vec<Operation>>,
}

#[derive(Debug, Default)]
pub(crate) struct Failures {
    books: Mutex<Books>,
}

impl Failures {
    /// Counts a call, and says whether it fails.
    pub(crate) fn call(&self, operation: Operation) -> Result<()> {
        let mut books = lock(&self.books);
        let count = books.counts.entry(operation).or_default();
        *count += 1;
        let count = *count;
        if let Some(log) = &mut books.log {
            log.push(operation);
        }
        let hit = books.armed.iter().position(|armed| {
            armed.operation == operation
                && if armed.always { count >= armed.at } else { count == armed.at }
        });
        let Some(hit) = hit else { return Ok(()) };
        let Some(armed) = books.armed.get(hit) else { return Ok(()) };
        let error = Error::new(armed.kind, operation, "a failure that was injected");
        if !armed.always {
            books.armed.remove(hit);
        }
        Err(error)
    }

    pub(crate) fn arm(&self, operation: Operation, n: u64, always: bool, kind: ErrorKind) {
        let mut books = lock(&self.books);
        let so_far = books.counts.get(&operation).copied().unwrap_or_default();
        let at = so_far.saturating_add(n.max(1));
        books.armed.push(Armed { operation, at, always, kind });
    }

    pub(crate) fn clear(&self) {
        lock(&self.books).armed.clear();
    }

    pub(crate) fn armed(&self) -> usize {
        lock(&self.books).armed.len()
    }

    pub(crate) fn count(&self, operation: Operation) -> u64 {
        lock(&self.books).counts.get(&operation).copied().unwrap_or_default()
    }

    pub(crate) fn record(&self, on: bool) {
        lock(&self.books).log = on.then(Vec::new);
    }

    pub(crate) fn log(&self) -> Vec<Operation> {
        lock(&self.books).log.clone().unwrap_or_default()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(failures: &Failures, operation: Operation, calls: usize) -> Vec<Option<ErrorKind>> {
        (0..calls).map(|_| failures.call(operation).err().map(|error| error.kind())).collect()
    }

    #[test]
    fn the_nth_call_from_now_fails_once() {
        let failures = Failures::default();
        failures.call(Operation::Map).unwrap();
        failures.arm(Operation::Map, 2, false, ErrorKind::Unknown);
        failures.arm(Operation::Map, 3, false, ErrorKind::Busy);
        failures.arm(Operation::Unmap, 1, false, ErrorKind::Io);
        assert_eq!(
            kinds(&failures, Operation::Map, 4),
            [None, Some(ErrorKind::Unknown), Some(ErrorKind::Busy), None]
        );
        assert_eq!(failures.armed(), 1);
        assert_eq!(failures.count(Operation::Map), 5);
    }

    #[test]
    fn every_call_fails_until_the_failures_are_cleared() {
        let failures = Failures::default();
        failures.arm(Operation::Create, 1, true, ErrorKind::OutOfMemory);
        assert_eq!(kinds(&failures, Operation::Create, 3), [Some(ErrorKind::OutOfMemory); 3]);
        failures.clear();
        assert_eq!(kinds(&failures, Operation::Create, 2), [None; 2]);
    }

    #[test]
    fn the_log_has_the_calls_in_order_while_it_is_on() {
        let failures = Failures::default();
        failures.call(Operation::Create).unwrap();
        failures.record(true);
        failures.call(Operation::Map).unwrap();
        failures.call(Operation::Unmap).unwrap();
        assert_eq!(failures.log(), [Operation::Map, Operation::Unmap]);
    }
}
