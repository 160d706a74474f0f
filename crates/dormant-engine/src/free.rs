//! Freeing, in any state.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use allocator_core::{ActiveBlock, Address, Deadline, Device, Driver, ErrorKind, Operation, Stuck};

use crate::engine::{Engine, RestingBlock};
use crate::error::{Error, Result};
use crate::registry::{Freed, Resting, Taken};
use crate::sync::lock;

/// How long a free waits for the device where its caller is gone: the thread at hand has other
/// things to do, and the free is tried again.
pub(crate) const UNTOLD_TIMEOUT: Duration = Duration::from_millis(200);

/// A free that failed, and the block if it is whole.
struct NotFreed<D: Driver> {
    error: allocator_core::Error,
    resting: Option<RestingBlock<D>>,
}

/// Whether a device has come to rest.
enum Quiet {
    Idle,
    /// A capture is going on, which a look would break.
    Capturing,
    NotYet(allocator_core::Error),
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
    /// rest in time (the block is as it was; a pause that ran meanwhile may have left it out);
    /// `Forked` in a forked child; else the driver's error: the block is then as it was, or, where
    /// that is not known, gone from the registry and counted as leaked.
    pub fn free(&self, address: Address) -> Result<()> {
        self.free_if(address, None)
    }

    /// Frees the block at `address` if it is the one with this [`BlockInfo::id`]; otherwise as
    /// [`free`](Self::free).
    ///
    /// [`BlockInfo::id`]: crate::BlockInfo::id
    ///
    /// # Errors
    /// As for [`free`](Self::free).
    pub fn free_block(&self, address: Address, id: u64) -> Result<()> {
        self.free_if(address, Some(id))
    }

    /// Frees a block for an owner that goes and cannot be told: as [`free_block`], but a device
    /// that does not come to rest soon puts the free off instead of leaving the block to nobody.
    /// Failures are counted in [`Stats`](crate::Stats).
    ///
    /// [`free_block`]: Self::free_block
    pub fn free_eventually(&self, address: Address, id: u64) {
        if self.admit("free").is_err() {
            return;
        }
        let freed = lock(&self.registry).free(address, Some(id));
        if let Freed::Gone(block, facts) = freed {
            let deadline = Deadline::after(UNTOLD_TIMEOUT);
            self.dispose_untold(Taken { address, facts, block }, deadline);
        }
    }

    fn free_if(&self, address: Address, id: Option<u64>) -> Result<()> {
        self.admit("free")?;
        let freed = lock(&self.registry).free(address, id);
        let (block, facts) = match freed {
            Freed::Doomed => return Ok(()),
            Freed::Gone(block, facts) => (block, facts),
            Freed::NotFound => {
                let text = "no block starts there";
                let cause =
                    allocator_core::Error::new(ErrorKind::NotFound, Operation::Engine, text);
                return Err(Error::new("free", cause.with_address(address)));
            }
        };
        let deadline = Deadline::after(self.config.free_timeout);
        let taken = Taken { address, facts: Arc::clone(&facts), block };
        self.dispose(taken, deadline).map_err(|left| {
            if let Some(Resting::Active(block)) = left.resting {
                lock(&self.registry).insert(address, Arc::clone(&facts), block);
                // Access that was given meanwhile has missed it.
                let _ = self.grant_one(address);
            }
            Error::new(format!("free of a block of `{}`", facts.tag), left.error)
        })
    }

    /// Frees a block whose caller is gone; a failure is counted.
    pub(crate) fn dispose_untold(&self, taken: Taken<RestingBlock<D>>, deadline: Deadline) {
        let (address, facts) = (taken.address, Arc::clone(&taken.facts));
        let Err(left) = self.dispose(taken, deadline) else { return };
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
        taken: Taken<RestingBlock<D>>,
        deadline: Deadline,
    ) -> Result<(), NotFreed<D>> {
        let Taken { address, facts, block } = taken;
        match block {
            Resting::Active(block) => self.free_active(Taken { address, facts, block }, deadline),
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
        taken: Taken<ActiveBlock<D>>,
        deadline: Deadline,
    ) -> Result<(), NotFreed<D>> {
        let device = taken.facts.device;
        // What was put off on this device need not wait any longer than this block.
        let along = self.take_deferred(device);
        match self.quiet(device, deadline) {
            Quiet::Idle => {
                self.free_idle(along);
                free_now(taken.block)
            }
            Quiet::Capturing => {
                lock(&self.deferred).extend(along.into_iter().chain([taken]));
                // The capture may have ended before the block was put down.
                self.free_deferred(Deadline::after(UNTOLD_TIMEOUT));
                Ok(())
            }
            Quiet::NotYet(error) => {
                lock(&self.deferred).extend(along);
                Err(NotFreed { error, resting: Some(Resting::Active(taken.block)) })
            }
        }
    }

    /// Waits for a device, unless that would break a capture. After a sticky error nothing runs
    /// on it, and the driver still unmaps.
    fn quiet(&self, device: Device, deadline: Deadline) -> Quiet {
        match self.captures.quiesce(|| self.driver.quiesce(device, deadline)) {
            None => Quiet::Capturing,
            Some(Err(error)) if !error.kind().is_sticky() => Quiet::NotYet(error),
            Some(Ok(()) | Err(_)) => Quiet::Idle,
        }
    }

    fn take_deferred(&self, device: Device) -> Vec<Taken<ActiveBlock<D>>> {
        let mut deferred = lock(&self.deferred);
        let (taken, left) = std::mem::take(&mut *deferred)
            .into_iter()
            .partition(|taken| taken.facts.device == device);
        *deferred = left;
        taken
    }

    /// Frees blocks of a device that is at rest, whose callers are gone.
    fn free_idle(&self, blocks: Vec<Taken<ActiveBlock<D>>>) {
        for taken in blocks {
            if free_now::<D>(taken.block).is_err() {
                self.failed_frees.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Frees what was put off, unless a capture is going on. What a device is still busy with at
    /// the deadline stays put off. Returns how many were tried.
    pub(crate) fn free_deferred(&self, deadline: Deadline) -> usize {
        let mut tried = 0;
        let mut devices: Vec<_> =
            lock(&self.deferred).iter().map(|taken| taken.facts.device).collect();
        devices.sort_unstable();
        devices.dedup();
        for device in devices {
            let waiting = self.take_deferred(device);
            tried += waiting.len();
            match self.quiet(device, deadline) {
                Quiet::Idle => self.free_idle(waiting),
                Quiet::Capturing | Quiet::NotYet(_) => lock(&self.deferred).extend(waiting),
            }
        }
        tried
    }
}

fn free_now<D: Driver>(block: ActiveBlock<D>) -> Result<(), NotFreed<D>> {
    block.free().map_err(|stuck| match *stuck {
        Stuck::Unchanged { block, error, .. } => {
            NotFreed { error, resting: Some(Resting::Active(block)) }
        }
        Stuck::Poisoned { remnant, error } => {
            NotFreed { error, resting: Some(Resting::Poisoned(remnant)) }
        }
    })
}
