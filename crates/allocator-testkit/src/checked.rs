//! A driver that holds its caller, and the driver inside, to the contract.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allocator_core::{Driver, Error, ErrorKind, Result};

use crate::wrapped::{Hook, Request, Wrapped};
use books::Books;

mod books;

/// A driver that checks the rules of [`Driver`] at run time. A call that breaks one is not made;
/// it is answered with `InvalidArgument` and a text that names the rule, and counted.
///
/// It knows of what went through it and of nothing else: kernels of the program, streams that are
/// not its own and host memory that was unmapped are beyond it. What `release` and `unreserve`
/// took by value is gone, and stays with the driver inside.
pub type Checked<D> = Wrapped<D, Rules>;

/// The books of a [`Checked`] driver.
#[derive(Debug, Default)]
pub struct Rules {
    books: Mutex<Books>,
    violations: AtomicU64,
}

impl Rules {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn violation(&self, request: &Request<'_>, rule: &'static str) -> Error {
        self.violations.fetch_add(1, Ordering::Relaxed);
        let text = format!("a broken rule: {rule}");
        let mut error = Error::new(ErrorKind::InvalidArgument, request.operation, text);
        if let Some(device) = request.device {
            error = error.with_device(device);
        }
        if let Some(address) = request.address {
            error = error.with_address(address);
        }
        error
    }
}

impl Hook for Rules {
    fn before(&self, request: &Request<'_>) -> Result<()> {
        let mut books = self.books();
        books.check(request).map_err(|rule| self.violation(request, rule))?;
        books.begin(request);
        Ok(())
    }

    fn after(&self, request: &Request<'_>, error: Option<&Error>) -> Result<()> {
        self.books().end(request, error).map_err(|rule| self.violation(request, rule))
    }
}

impl<D: Driver> Wrapped<D, Rules> {
    /// Checks every call to `inner`.
    pub fn new(inner: impl Into<Arc<D>>) -> Self {
        Self::with_hook(inner, Rules::default())
    }

    /// How many calls have broken a rule.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.hook.violations.load(Ordering::Relaxed)
    }
}
