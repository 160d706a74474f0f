//! A driver that writes down what it is asked.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allocator_core::{Address, Device, Driver, Error, Operation, Result};

use crate::wrapped::{Hook, Request, Wrapped};

/// A driver whose calls are kept in a log, in the order in which they were answered. Calls that
/// touch nothing (`info`) are not in it.
pub type Recording<D> = Wrapped<D, Log>;

/// One call that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which method.
    pub operation: Operation,
    /// The device of the call, of its range or of its stream.
    pub device: Option<Device>,
    /// The device address, where the call concerns one.
    pub address: Option<Address>,
    /// The bytes in question.
    pub bytes: Option<u64>,
    /// Whether the driver answered with `Ok`.
    pub ok: bool,
}

/// The calls of a [`Recording`].
#[derive(Debug, Default)]
pub struct Log {
    calls: Mutex<Vec<Call>>,
}

impl Log {
    fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hook for Log {
    fn before(&self, _: &Request<'_>) -> Result<()> {
        Ok(())
    }

    fn after(&self, request: &Request<'_>, error: Option<&Error>) -> Result<()> {
        self.calls().push(Call {
            operation: request.operation,
            device: request.device,
            address: request.address,
            bytes: request.bytes,
            ok: error.is_none(),
        });
        Ok(())
    }
}

impl<D: Driver> Wrapped<D, Log> {
    /// Records the calls to `inner`.
    pub fn new(inner: impl Into<Arc<D>>) -> Self {
        Self::with_hook(inner, Log::default())
    }

    /// The calls so far.
    #[must_use]
    pub fn log(&self) -> Vec<Call> {
        self.hook.calls().clone()
    }

    /// The names of the calls so far that are one of `wanted`, in order.
    #[must_use]
    pub fn operations(&self, wanted: &[Operation]) -> Vec<Operation> {
        let calls = self.hook.calls();
        calls.iter().map(|call| call.operation).filter(|call| wanted.contains(call)).collect()
    }

    /// Forgets the calls so far.
    pub fn clear(&self) {
        self.hook.calls().clear();
    }
}
