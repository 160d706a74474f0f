//! Host memory that a driver knows, so that copies run at the speed of the link.

use std::fmt::Debug;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use allocator_core::{Driver, Result};

use crate::process;

/// One registration with some driver.
#[derive(Debug)]
struct Registration<D: Driver> {
    driver: Arc<D>,
    start: NonNull<u8>,
}

// SAFETY: the address is only handed to the driver, which may be called from any thread.
unsafe impl<D: Driver> Send for Registration<D> {}

impl<D: Driver> Drop for Registration<D> {
    fn drop(&mut self) {
        if process::is_forked_child() || process::is_exiting() {
            return;
        }
        // SAFETY: it was registered once, by `Registrar::register`, whose caller keeps the bytes
        // mapped until now; nothing of ours copies to or from them any more, and a copy that somebody
        // else has queued is waited for by the driver. A refusal leaves pages pinned, which nobody
        // can help.
        let _ = unsafe { self.driver.unregister_host(self.start) };
    }
}

/// Whether a stretch of host memory is registered. Dropping it takes the registration back.
#[derive(Debug, Default)]
pub(crate) struct Registrar {
    held: Mutex<Option<Box<dyn Debug + Send>>>,
    done: AtomicBool,
}

impl Registrar {
    pub(crate) fn is_registered(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Registers the bytes; a second time does nothing.
    ///
    /// # Errors
    /// The driver's, when it or the system refuses.
    ///
    /// # Safety
    /// The bytes are mapped, registered by nobody else, always the same, and stay mapped until
    /// this is dropped.
    pub(crate) unsafe fn register<D: Driver>(
        &self,
        driver: &Arc<D>,
        start: NonNull<u8>,
        bytes: usize,
    ) -> Result<()> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_some() {
            return Ok(());
        }
        // SAFETY: the caller's promise; it is registered once, and unregistered when this is dropped.
        unsafe { driver.register_host(start, bytes as u64) }?;
        *held = Some(Box::new(Registration { driver: Arc::clone(driver), start }));
        self.done.store(true, Ordering::Release);
        Ok(())
    }

    /// Takes the registration back, if there is one.
    pub(crate) fn unregister(&mut self) {
        drop(self.held.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        self.done.store(false, Ordering::Release);
    }
}
