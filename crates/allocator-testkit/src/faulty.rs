//! A driver that fails when it is told to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allocator_core::{Driver, Error, ErrorKind, Operation, Result};

use crate::wrapped::{Hook, Request, Wrapped};

/// A driver that fails chosen calls.
///
/// A call that is to fail is not made: the driver inside does not see it. What `release`,
/// `unreserve` and `close_stream` take by value is gone all the same, as the trait says: the
/// memory, the addresses or the stream then stay with the driver inside, and a range that goes
/// this way counts in [`leaked_ranges`](allocator_core::leaked_ranges).
pub type Faulty<D> = Wrapped<D, Faults>;

/// What a [`Faulty`] driver is to fail, and what it was asked.
#[derive(Debug, Default)]
pub struct Faults {
    plans: Mutex<BTreeMap<Operation, Plan>>,
}

#[derive(Debug, Default)]
struct Plan {
    calls: u64,
    /// By the number of the call.
    once: BTreeMap<u64, ErrorKind>,
    from_now: Option<ErrorKind>,
}

impl Faults {
    fn plans(&self) -> MutexGuard<'_, BTreeMap<Operation, Plan>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hook for Faults {
    fn before(&self, request: &Request<'_>) -> Result<()> {
        let mut plans = self.plans();
        let plan = plans.entry(request.operation).or_default();
        plan.calls += 1;
        let Some(kind) = plan.once.remove(&plan.calls).or(plan.from_now) else { return Ok(()) };
        let mut error = Error::new(kind, request.operation, "told to fail");
        if let Some(device) = request.device {
            error = error.with_device(device);
        }
        if let Some(address) = request.address {
            error = error.with_address(address);
        }
        if let Some(bytes) = request.bytes {
            error = error.with_bytes(bytes);
        }
        Err(error)
    }

    fn after(&self, _: &Request<'_>, _: Option<&Error>) -> Result<()> {
        Ok(())
    }
}

impl<D: Driver> Wrapped<D, Faults> {
    /// Fails nothing yet.
    pub fn new(inner: impl Into<Arc<D>>) -> Self {
        Self::with_hook(inner, Faults::default())
    }

    /// Fails the `nth` call of an operation from now on, once; one is the next. Several may be
    /// told. None is the zeroth.
    pub fn fail_nth(&self, operation: Operation, nth: u64, kind: ErrorKind) {
        let mut plans = self.hook.plans();
        let plan = plans.entry(operation).or_default();
        if nth > 0 {
            plan.once.insert(plan.calls.saturating_add(nth), kind);
        }
    }

    /// Fails every call of an operation from now on.
    pub fn fail_from(&self, operation: Operation, kind: ErrorKind) {
        self.hook.plans().entry(operation).or_default().from_now = Some(kind);
    }

    /// Fails nothing any more. The counts stay.
    pub fn clear(&self) {
        for plan in self.hook.plans().values_mut() {
            plan.once.clear();
            plan.from_now = None;
        }
    }

    /// How often an operation was asked for, failed calls included.
    #[must_use]
    pub fn calls(&self, operation: Operation) -> u64 {
        self.hook.plans().get(&operation).map_or(0, |plan| plan.calls)
    }
}
