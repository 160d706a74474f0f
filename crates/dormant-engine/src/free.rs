//! Freeing, in any state.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use allocator_core::{ActiveBlock, Address, Deadline, Device, Driver, ErrorKind, Operation, Stuck};

use crate::engine::{Engine, RestingBlock};
use crate::error::{Error, Result};
use crate::registry::{Facts, Freed, Resting, Taken};
use crate::sync::lock;

/// How long a free waits for the device where its caller is gone: the thread at hand has other
/// things to do, and the free is tried again.
const UNTOLD_TIMEOUT: Duration = Duration::from_millis(200);

/// A free that failed, and the block if it is whole.
struct NotFreed<D: Driver> {
    error: allocator_core::Error,
    resting: Option<RestingBlock<D>>,
}

impl<D: Driver> Engine<D> {
    /// Frees the block that starts at `address`, whatever its state, from any thread.
    ///
    /// Never waits for a transition: a block that one is working on is freed when that ends, also
    /// when it fails. An active block's device is quiesced first, since unmapping does not wait
    /// for work; during a capture that the engine knows of the free is put off until its end. A
    /// paused block is freed without waiting. Work of the device that failed earlier, or a lost
    /// device, does not keep memory from being freed.
    ///
    /// # Errors
    /// `NotFound` where no block starts (a second free); `Busy` when the device did not come to
    /// rest in time (the block is as it was); `Forked` in a forked child; else the driver's error:
    /// the block is then as it was, or, where that is not known, gone from the registry and
    /// counted as leaked.
    pub fn free(&self, address: Address) -> Result<()> {
        self.admit("free")?;
        let freed = lock(&self.registry).free(address);
        let (resting, facts) = match freed {
            Freed::Doomed => return Ok(()),
            Freed::Gone(resting, facts) => (resting, facts),
            Freed::NotFound => {
                let cause = allocator_core::Error::new(
                    ErrorKind::NotFound,
                    Operation::Engine,
                    "no block starts there",
                );
                return Err(Error::new("free", cause.with_address(address)));
            }
        };
        self.free_deferred();
        let deadline = Deadline::after(self.config.free_timeout);
        self.dispose(resting, &facts, deadline).map_err(|left| {
            if let Some(Resting::Active(block)) = left.resting {
                lock(&self.registry).insert(address, Arc::clone(&facts), block);
            }
            Error::new(format!("free of a block of `{}`", facts.tag), left.error)
        })
    }

    /// Frees a block whose caller is gone; a failure is counted.
    pub(crate) fn dispose_untold(
        &self,
        address: Address,
        resting: RestingBlock<D>,
        facts: Arc<Facts>,
    ) {
        let deadline = Deadline::after(UNTOLD_TIMEOUT);
        let Err(left) = self.dispose(resting, &facts, deadline) else { return };
        match left.resting {
            // The device is busy: it is tried again at the next call that can.
            Some(Resting::Active(block)) if left.error.kind() == ErrorKind::Busy => {
                lock(&self.deferred).push(Taken { address, facts, block });
            }
            other => {
                self.failed_frees.fetch_add(1, Ordering::Relaxed);
                drop(other);
            }
        }
    }

    /// Frees a block that is out of the registry.
    fn dispose(
        &self,
        resting: RestingBlock<D>,
        facts: &Arc<Facts>,
        deadline: Deadline,
    ) -> Result<(), NotFreed<D>> {
        match resting {
            Resting::Active(block) => self.free_active(block, facts, deadline),
            Resting::Paused(mut block) => {
                self.reaper.bury(block.take_stash().into_iter().collect());
                block.free().map_err(|error| NotFreed { error, resting: None })
            }
            Resting::Poisoned(remnant) => {
                drop(remnant); // Counted as a leak; nobody knows what the driver still holds.
                Ok(())
            }
        }
    }

    fn free_active(
        &self,
        block: ActiveBlock<D>,
        facts: &Arc<Facts>,
        deadline: Deadline,
    ) -> Result<(), NotFreed<D>> {
        match self.captures.quiesce(|| self.quiesce(block.device(), deadline)) {
            None => {
                let address = block.address();
                let facts = Arc::clone(facts);
                lock(&self.deferred).push(Taken { address, facts, block });
                return Ok(());
            }
            Some(Err(error)) if !error.kind().is_sticky() => {
                return Err(NotFreed { error, resting: Some(Resting::Active(block)) });
            }
            // After a sticky error nothing runs on the device; the driver still unmaps.
            Some(Ok(()) | Err(_)) => {}
        }
        block.free().map_err(|stuck| match *stuck {
            Stuck::Unchanged { block, error, .. } => {
                NotFreed { error, resting: Some(Resting::Active(block)) }
            }
            Stuck::Poisoned { remnant, error } => {
                NotFreed { error, resting: Some(Resting::Poisoned(remnant)) }
            }
        })
    }

    pub(crate) fn quiesce(&self, device: Device, deadline: Deadline) -> allocator_core::Result<()> {
        self.driver.quiesce(device, deadline)
    }

    /// Frees what was put off, unless a capture is still going on. What the device is still busy
    /// with stays put off.
    /// Returns how many were tried.
    pub(crate) fn free_deferred(&self) -> usize {
        if self.captures.any() {
            return 0;
        }
        let waiting = std::mem::take(&mut *lock(&self.deferred));
        let count = waiting.len();
        for taken in waiting {
            self.dispose_untold(taken.address, Resting::Active(taken.block), taken.facts);
        }
        count
    }
}
