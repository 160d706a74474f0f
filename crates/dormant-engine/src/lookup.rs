//! What there is: one block, or all of them counted up.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use allocator_core::{Address, Device, Driver, leaked_handles, leaked_ranges};

use crate::engine::Engine;
use crate::policy::Policy;
use crate::registry::{BlockState, Facts, Resting};
use crate::report::Amount;
use crate::stash::Stash;
use crate::sync::lock;
use crate::tag::Tag;

/// One block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// One of a kind within its engine, also where an address is handed out again.
    pub id: u64,
    /// Where it starts.
    pub address: Address,
    /// The size that was asked for, in bytes.
    pub bytes: u64,
    /// The size on the device, in bytes.
    pub physical_bytes: u64,
    /// Its tag.
    pub tag: Tag,
    /// Its policy.
    pub policy: Policy,
    /// Its owner device.
    pub device: Device,
    /// What it is doing.
    pub state: BlockState,
}

impl BlockInfo {
    pub(crate) fn of(address: Address, facts: &Facts, state: BlockState) -> Self {
        Self {
            id: facts.id,
            address,
            bytes: facts.bytes,
            physical_bytes: facts.physical_bytes,
            tag: facts.tag.clone(),
            policy: facts.policy,
            device: facts.device,
            state,
        }
    }
}

/// What one tag has on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagStats {
    /// The tag.
    pub tag: Tag,
    /// The device.
    pub device: Device,
    /// Blocks in use, and their physical bytes.
    pub active: Amount,
    /// Blocks that sleep, and the physical bytes that they will want.
    pub paused: Amount,
    /// Blocks that a transition is at, physical bytes.
    pub moving: Amount,
    /// Blocks that the driver left in an unknown state, physical bytes.
    pub poisoned: Amount,
    /// Logical bytes saved in host memory or on disk for blocks that sleep.
    pub saved: Amount,
}

/// Everything, counted up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// One entry for each tag on each device.
    pub tags: Vec<TagStats>,
    /// Host memory charged for backups, in bytes of whole pages; falls when they have gone back.
    pub host_backup_bytes: u64,
    /// Host memory that is retained between pauses, in bytes, whether a backup is in it or not.
    pub host_retained_bytes: u64,
    /// Disk space that backups take, in bytes of whole sectors of 4096; falls when they have gone
    /// back.
    pub disk_backup_bytes: u64,
    /// Disk space that the files of backups take, in bytes, with what they keep for the next pause.
    pub disk_file_bytes: u64,
    /// Active blocks whose free waits for a capture to end, or for the device.
    pub deferred_frees: u64,
    /// Frees that failed where nobody could be told.
    pub failed_frees: u64,
    /// Address ranges of this process dropped without being given back.
    pub leaked_ranges: u64,
    /// Physical handles of this process dropped without being released.
    pub leaked_handles: u64,
}

impl<D: Driver> Engine<D> {
    /// The block that `address` lies in, at its start or inside; `None` for memory that is not
    /// ours.
    #[must_use]
    pub fn find(&self, address: Address) -> Option<BlockInfo> {
        if self.admit("find").is_err() {
            return None;
        }
        let registry = lock(&self.registry);
        registry.find(address).map(|(start, facts, state)| BlockInfo::of(start, facts, state))
    }

    /// Every block, in the order of addresses.
    #[must_use]
    pub fn blocks(&self) -> Vec<BlockInfo> {
        if self.admit("blocks").is_err() {
            return Vec::new();
        }
        let registry = lock(&self.registry);
        registry.iter().map(|(start, facts, state, _)| BlockInfo::of(start, facts, state)).collect()
    }

    /// Whether a block of ours starts at `address`: the quick question in front of a foreign free.
    #[must_use]
    pub fn owns(&self, address: Address) -> bool {
        self.admit("owns").is_ok() && lock(&self.registry).starts_at(address)
    }

    /// Everything, counted up by tag and device. Calls no driver.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            leaked_ranges: leaked_ranges(),
            leaked_handles: leaked_handles(),
            ..Stats::default()
        };
        if self.admit("stats").is_err() {
            return stats;
        }
        let mut tags = BTreeMap::new();
        let registry = lock(&self.registry);
        for (_, facts, state, resting) in registry.iter() {
            let entry =
                tags.entry((facts.device, facts.tag.clone())).or_insert_with(|| empty(facts));
            let place = match state {
                BlockState::Active => &mut entry.active,
                BlockState::Paused => &mut entry.paused,
                BlockState::Moving => &mut entry.moving,
                BlockState::Poisoned => &mut entry.poisoned,
            };
            place.add(facts.physical_bytes);
            let stash = match resting {
                Some(Resting::Paused(block)) => block.stash(),
                Some(Resting::Poisoned(remnant)) => remnant.stash(),
                Some(Resting::Active(_)) | None => None,
            };
            add_saved(&mut entry.saved, stash);
        }
        for (_, facts, remnant) in registry.displaced() {
            let entry =
                tags.entry((facts.device, facts.tag.clone())).or_insert_with(|| empty(facts));
            entry.poisoned.add(facts.physical_bytes);
            add_saved(&mut entry.saved, remnant.stash());
        }
        drop(registry);
        stats.tags = tags.into_values().collect();
        stats.host_backup_bytes = self.host.backup_bytes();
        stats.host_retained_bytes = self.host.retained_bytes();
        stats.disk_backup_bytes = self.disks.charged_bytes();
        stats.disk_file_bytes = self.disks.file_bytes();
        stats.deferred_frees = lock(&self.deferred).len() as u64;
        stats.failed_frees = self.failed_frees.load(Ordering::Relaxed);
        stats
    }
}

fn add_saved(saved: &mut Amount, stash: Option<&Stash>) {
    match stash.map(Stash::saved_bytes) {
        None | Some(0) => {}
        Some(bytes) => saved.add(bytes),
    }
}

fn empty(facts: &Facts) -> TagStats {
    TagStats {
        tag: facts.tag.clone(),
        device: facts.device,
        active: Amount::default(),
        paused: Amount::default(),
        moving: Amount::default(),
        poisoned: Amount::default(),
        saved: Amount::default(),
    }
}
