//! Reading and writing blocks from the host, and the backups of those that sleep.

use std::sync::Arc;

use allocator_core::{ActiveBlock, Address, Deadline, Device, Driver, ErrorKind, Operation};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::host::{self, Want};
use crate::lookup::BlockInfo;
use crate::policy::HostMode;
use crate::registry::{BlockState, Resting, Taken};
use crate::stash::{Backup, HostCopy, Stash};
use crate::sync::lock;
use crate::transfer::{self, Direction, Way, restore_jobs, save_jobs};

impl<D: Driver> Engine<D> {
    /// Copies from device memory into host memory, by as many workers as a pause has. `address`
    /// may lie inside a block. Not ordered with the caller's streams: synchronise them first.
    /// Waits for a transition that is going on.
    ///
    /// # Errors
    /// `NotFound` outside every block, `InvalidArgument` past the block's end, `WrongState` when
    /// the block does not have its memory, `Busy`, or the copy's error.
    pub fn read(&self, address: Address, into: &mut [u8]) -> Result<()> {
        let bytes = into.len() as u64;
        self.with_active("read", address, bytes, |block, offset| {
            let jobs =
                save_jobs(block, offset, into, Way::staged(Direction::Save), &mut []).collect();
            transfer::save(&self.lanes, &self.config, jobs, None::<fn() -> _>).map(drop)
        })
    }

    /// Copies host memory into device memory; otherwise as [`read`](Self::read).
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn write(&self, address: Address, from: &[u8]) -> Result<()> {
        self.with_active("write", address, from.len() as u64, |block, offset| {
            let jobs =
                restore_jobs(block, offset, from, Way::staged(Direction::Restore), &[]).collect();
            transfer::restore(&self.lanes, &self.config, jobs).map(drop)
        })
    }

    fn with_active(
        &self,
        action: &str,
        address: Address,
        bytes: u64,
        work: impl FnOnce(&ActiveBlock<D>, u64) -> allocator_core::Result<()>,
    ) -> Result<()> {
        self.admit(action)?;
        let refused = |kind, text: &'static str| {
            let cause = allocator_core::Error::new(kind, Operation::Engine, text);
            Error::new(action, cause.with_address(address).with_bytes(bytes))
        };
        let deadline = Deadline::after(self.config.transition_timeout);
        // With the turn held no transition misses the block while it is out.
        let _turn = self.turn.take(deadline).map_err(|cause| Error::new(action, cause))?;
        let taken = {
            let mut registry = lock(&self.registry);
            let found = registry.find(address).map(|(start, facts, _)| (start, facts.bytes));
            let Some((start, length)) = found else {
                return Err(refused(ErrorKind::NotFound, "no block of ours is there"));
            };
            if (address.0 - start.0).checked_add(bytes).is_none_or(|end| end > length) {
                return Err(refused(ErrorKind::InvalidArgument, "that is past the block's end"));
            }
            registry.take_one_active(start)
        };
        let Taken { address: start, facts, block } = match taken {
            Ok(taken) => taken,
            Err(Some(BlockState::Poisoned)) => {
                return Err(refused(ErrorKind::Poisoned, "the block is poisoned"));
            }
            Err(Some(BlockState::Moving)) => {
                return Err(refused(ErrorKind::Busy, "another copy is at the block"));
            }
            Err(_) => return Err(refused(ErrorKind::WrongState, "the block is paused")),
        };
        let result = work(&block, address.0 - start.0);
        self.reaper.staging_was_used();
        self.put_back([Taken { address: start, facts, block: Resting::Active(block) }]);
        result.map_err(|cause| Error::new(action, cause))
    }

    /// The saved contents of a paused block, or of a poisoned one whose contents had been saved.
    /// They stay readable as long as the [`Backup`] lives; after a resume they are an old copy.
    /// What is on disk is read into host memory anew by each call, and counts against
    /// [`Config::host_limit_bytes`](crate::Config::host_limit_bytes).
    ///
    /// # Errors
    /// `NotFound` where no block starts; `WrongState` when the block is active, or sleeps without
    /// saved contents; `Busy` while a transition is at it; `Forked` in a forked child; for
    /// contents on disk also `Io`, and `HostMemory` over the limit.
    pub fn backup(&self, address: Address) -> Result<Backup> {
        self.admit("backup")?;
        let failed =
            |cause: allocator_core::Error| Error::new("backup", cause.with_address(address));
        let (stash, device) = self.stash_at(address).map_err(failed)?;
        self.lend(stash, device).map_err(failed)
    }

    /// Registers a backup's pages with the driver, so that copies of the caller's own from it to a device
    /// run at the link's full speed, for as long as the backup and the block's sleep last. A second
    /// time does nothing.
    ///
    /// # Errors
    /// The driver's, when it or the system refuses: the bytes are as readable as before, and copies
    /// slower. `Forked` in a forked child.
    pub fn register_backup(&self, backup: &Backup) -> Result<()> {
        self.admit("registering a backup")?;
        let registered = backup.copy.piece().register(&self.driver);
        registered.map_err(|cause| Error::new("registering a backup", cause))
    }

    /// What holds the saved contents of a block. The registry is let go of before anything is read.
    fn stash_at(&self, address: Address) -> allocator_core::Result<(Stash, Device)> {
        let refused =
            |kind, text: String| Err(allocator_core::Error::new(kind, Operation::Engine, text));
        let registry = lock(&self.registry);
        let found = registry.find(address).filter(|(start, ..)| *start == address);
        let Some((_, facts, _)) = found else {
            return refused(ErrorKind::NotFound, "no block starts there".to_owned());
        };
        let stash = match registry.resting(address) {
            None => return refused(ErrorKind::Busy, "a transition is at the block".to_owned()),
            Some(Resting::Active(_)) => {
                let text = format!("the block of `{}` is active", facts.tag);
                return refused(ErrorKind::WrongState, text);
            }
            Some(Resting::Paused(block)) => block.stash(),
            Some(Resting::Poisoned(remnant)) => remnant.stash(),
        };
        match stash {
            Some(stash) if stash.saved_bytes() > 0 => Ok((stash.clone(), facts.device)),
            other => {
                let policy = other.map_or("dropped", |stash| stash.policy().name());
                let text = format!("the block of `{}` has no saved contents: {policy}", facts.tag);
                refused(ErrorKind::WrongState, text)
            }
        }
    }

    /// Lends saved contents out; those on disk are read for it.
    fn lend(&self, stash: Stash, device: Device) -> allocator_core::Result<Backup> {
        let copy = match stash {
            Stash::Host(copy) => copy,
            Stash::Disk(copy) => {
                let want = Want { bytes: copy.extent_bytes(), mode: HostMode::Reclaim, home: None };
                let host::Taken { rooms, pending, .. } = self.host.take(&self.config, &[want])?;
                let mut room = rooms.into_iter().next().ok_or_else(no_contents)?;
                copy.read(&mut room.piece).map_err(|error| error.with_device(device))?;
                drop(pending);
                Arc::new(HostCopy::new(room, copy.bytes(), copy.sums().to_vec()))
            }
            Stash::Discarded | Stash::Zeroed => return Err(no_contents()),
        };
        Ok(Backup { copy, device })
    }

    /// The saved contents of blocks that are poisoned, with what they were: the only copies there
    /// are. Among them those whose address the driver has lost, which [`backup`](Self::backup)
    /// cannot reach once it belongs to another block. [`drop_backup`](Self::drop_backup) lets go
    /// of them. Contents on disk that cannot be read, or find no host memory, are left out.
    #[must_use]
    pub fn lost_backups(&self) -> Vec<(BlockInfo, Backup)> {
        if self.admit("lost backups").is_err() {
            return Vec::new();
        }
        let lost: Vec<_> = {
            let registry = lock(&self.registry);
            let placed = registry.iter().filter_map(|(address, facts, _, resting)| match resting {
                Some(Resting::Poisoned(remnant)) => Some((address, facts, remnant)),
                _ => None,
            });
            let displaced = registry
                .displaced()
                .iter()
                .map(|(address, facts, remnant)| (*address, facts, remnant));
            placed
                .chain(displaced)
                .filter_map(|(address, facts, remnant)| {
                    let stash = remnant.stash().filter(|stash| stash.saved_bytes() > 0)?;
                    Some((BlockInfo::of(address, facts, BlockState::Poisoned), stash.clone()))
                })
                .collect()
        };
        lost.into_iter()
            .filter_map(|(info, stash)| {
                let backup = self.lend(stash, info.device).ok()?;
                Some((info, backup))
            })
            .collect()
    }
}

fn no_contents() -> allocator_core::Error {
    let text = "there are no saved contents";
    allocator_core::Error::new(ErrorKind::WrongState, Operation::Engine, text)
}
