//! The engine itself: what its parts share.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use allocator_core::{
    ActiveBlock, Capabilities, Deadline, Device, DeviceInfo, Driver, ErrorKind, MemoryInfo,
    Operation, PausedBlock, Remnant,
};
use dormant_host::process;

use crate::capture::Captures;
use crate::config::Config;
use crate::disk::Disks;
use crate::error::{Error, Holder, Result};
use crate::free::UNTOLD_TIMEOUT;
use crate::host::HostMemory;
use crate::notice::Notices;
use crate::peers::Peers;
use crate::pieces::Pieces;
use crate::reaper::Reaper;
use crate::registry::{Registry, Resting, Taken};
use crate::stash::Stash;
use crate::sync::{Mutex, lock};
use crate::transfer::Lanes;
use crate::turn::Turn;

pub(crate) type Blocks<D> = Registry<ActiveBlock<D>, PausedBlock<D, Stash>, Remnant<Stash>>;
pub(crate) type RestingBlock<D> = Resting<ActiveBlock<D>, PausedBlock<D, Stash>, Remnant<Stash>>;

/// Pausable memory over one driver. Shared between threads behind an `Arc` or a `static`.
///
/// Dropping an engine frees no block (each is a counted leak); the process-wide one is never
/// dropped.
#[derive(Debug)]
pub struct Engine<D: Driver> {
    pub(crate) driver: Arc<D>,
    pub(crate) config: Config,
    pub(crate) registry: Mutex<Blocks<D>>,
    pub(crate) turn: Turn,
    pub(crate) captures: Captures,
    pub(crate) peers: Peers,
    pub(crate) pieces: Pieces,
    /// Devices of which a pause has found that they keep memory with the range, whatever their
    /// driver says.
    pub(crate) keepers: Mutex<BTreeSet<Device>>,
    pub(crate) host: Arc<HostMemory<D>>,
    pub(crate) notices: Notices,
    pub(crate) disks: Disks,
    pub(crate) lanes: Arc<Lanes<D>>,
    pub(crate) reaper: Reaper<D>,
    /// Active blocks freed during a capture.
    pub(crate) deferred: Mutex<Vec<Taken<ActiveBlock<D>>>>,
    /// Frees that failed where no caller could be told.
    pub(crate) failed_frees: AtomicU64,
    /// The last block's id.
    pub(crate) last_id: AtomicU64,
}

impl<D: Driver> Engine<D> {
    /// An engine over `driver`. Makes no driver call.
    pub fn new(driver: Arc<D>, config: Config) -> Self {
        process::watch();
        let lanes = Arc::new(Lanes::new(Arc::clone(&driver)));
        let disks = Disks::new(config.disk_keep_bytes.unwrap_or(u64::MAX));
        let host = Arc::new(HostMemory::new(Arc::clone(&driver)));
        let reaper = Reaper::new(Arc::clone(&lanes), Arc::clone(&host), config.idle_timeout);
        Self {
            driver,
            config,
            registry: Mutex::default(),
            turn: Turn::default(),
            captures: Captures::default(),
            peers: Peers::default(),
            pieces: Pieces::default(),
            keepers: Mutex::default(),
            host,
            notices: Notices::default(),
            disks,
            lanes,
            reaper,
            deferred: Mutex::default(),
            failed_frees: AtomicU64::new(0),
            last_id: AtomicU64::new(0),
        }
    }

    /// The driver.
    #[must_use]
    pub fn driver(&self) -> &Arc<D> {
        &self.driver
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The devices, in the driver's order.
    ///
    /// # Errors
    /// `Forked` in a forked child, or the driver's error.
    pub fn devices(&self) -> Result<Vec<DeviceInfo>> {
        self.admit("listing devices")?;
        self.driver.devices().map_err(|cause| Error::new("listing devices", cause))
    }

    /// Free and total bytes of a device, as the driver reads them now; other processes move them.
    ///
    /// # Errors
    /// `Forked` in a forked child, or the driver's error.
    pub fn memory(&self, device: Device) -> Result<MemoryInfo> {
        self.admit("reading memory")?;
        self.driver.memory(device).map_err(|cause| Error::new("reading memory", cause))
    }

    /// Refuses the calls of a forked child. Comes before any lock, which the parent may have held
    /// at the fork.
    pub(crate) fn admit(&self, action: &str) -> Result<()> {
        if process::is_forked_child() {
            return Err(Error::new(
                action,
                allocator_core::Error::new(
                    ErrorKind::Forked,
                    Operation::Engine,
                    "this process is a forked child; the memory belongs to its parent",
                ),
            ));
        }
        Ok(())
    }

    /// Tells the engine that a stream capture begins; it ends when the guard is dropped. Until
    /// then pauses are refused with `Busy`, and frees of active blocks are put off. Waits for pauses
    /// and frees that are just waiting for work in flight, and no longer than they do; so do not
    /// call it where that work waits for you. Allocations and resumes go on.
    #[must_use = "the capture ends when the guard is dropped"]
    pub fn begin_capture(&self) -> CaptureGuard<'_, D> {
        // In a forked child there is nothing to capture, and a lock or a quiesce of the parent's
        // would stay for ever.
        if !process::is_forked_child() {
            self.captures.begin();
        }
        CaptureGuard { engine: self }
    }

    /// Gives back what is kept for the next pause: host memory that is retained and has no backup in
    /// it, disk space that no contents are in, and the streams and staging buffers that no copy is
    /// using now. Returns how many bytes of retained host memory went.
    pub fn trim(&self) -> u64 {
        if self.admit("trim").is_err() {
            return 0;
        }
        // Backups of blocks that have just been resumed are on their way out.
        self.reaper.drain(Deadline::after(UNTOLD_TIMEOUT));
        self.lanes.trim(Duration::ZERO);
        self.disks.trim();
        self.host.trim()
    }

    /// Whether this device's driver keeps physical memory with the range, so that pausing must
    /// vacate the range too.
    pub(crate) fn must_vacate(&self, device: Device) -> allocator_core::Result<bool> {
        let capabilities = self.driver.capabilities(device)?;
        Ok(capabilities.contains(Capabilities::KEEPS_UNTIL_UNRESERVED)
            || lock(&self.keepers).contains(&device))
    }

    /// The device's free reading, where it can be had.
    pub(crate) fn free_reading(&self, device: Device) -> Option<u64> {
        self.driver.memory(device).ok().map(|memory| memory.free_bytes)
    }

    /// Adds to an out-of-memory error what is known about the device's memory.
    pub(crate) fn explain(
        &self,
        action: String,
        cause: allocator_core::Error,
        device: Device,
        wanted_bytes: u64,
    ) -> Error {
        if !matches!(cause.kind(), ErrorKind::OutOfMemory | ErrorKind::TooLarge) {
            return Error::new(action, cause);
        }
        let memory = self.driver.memory(device).ok();
        let too_large = memory.is_some_and(|memory| wanted_bytes > memory.total_bytes);
        let cause = if too_large { cause.with_kind(ErrorKind::TooLarge) } else { cause };
        let free_bytes = memory.map(|memory| memory.free_bytes);
        Error::new(action, cause).with_memory(wanted_bytes, free_bytes, self.holders(device))
    }

    /// Who holds memory on a device, the largest first.
    pub(crate) fn holders(&self, device: Device) -> Vec<Holder> {
        let mut holders: Vec<_> = self
            .stats()
            .tags
            .into_iter()
            .filter(|tag| tag.device == device && tag.active.bytes > 0)
            .map(|tag| Holder { tag: tag.tag, device, active_bytes: tag.active.bytes })
            .collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.active_bytes));
        holders
    }

    /// Brings blocks back to the registry; those freed meanwhile are freed now.
    pub(crate) fn put_back(&self, blocks: impl IntoIterator<Item = Taken<RestingBlock<D>>>) {
        let mut doomed = Vec::new();
        {
            let mut registry = lock(&self.registry);
            for Taken { address, facts, block } in blocks {
                if let Some(block) = registry.put_back(address, &facts, block) {
                    doomed.push(Taken { address, facts, block });
                }
            }
        }
        let deadline = Deadline::after(UNTOLD_TIMEOUT);
        for taken in doomed {
            self.dispose_untold(taken, deadline);
        }
    }
}

/// A stream capture that the engine knows of.
#[derive(Debug)]
#[must_use = "the capture ends when the guard is dropped"]
pub struct CaptureGuard<'a, D: Driver> {
    engine: &'a Engine<D>,
}

impl<D: Driver> Drop for CaptureGuard<'_, D> {
    fn drop(&mut self) {
        if process::is_forked_child() {
            return;
        }
        if self.engine.captures.end() && !process::is_exiting() {
            self.engine.free_deferred(Deadline::after(UNTOLD_TIMEOUT));
        }
    }
}
