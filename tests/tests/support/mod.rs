//! A small simulated machine, an engine over it, and blocks whose contents are known.

#![allow(dead_code, reason = "each test binary uses its part of this")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use allocator_core::Operation;
use allocator_testkit::{expect_bytes, pattern};
use dormant_engine::{
    Address, Allocation, BlockState, Config, Device, Engine, HostMode, PauseOptions, Policy,
    Report, Result, ResumeOptions, Selection, Stats, TagStats,
};
use dormant_sim::machine::Counts;
use dormant_sim::{Sim, SimConfig};

pub(crate) const GRANULE: u64 = 64 << 10;
pub(crate) const CAPACITY: u64 = 16 << 20;
pub(crate) const ZERO: Device = Device(0);
pub(crate) const ONE: Device = Device(1);

/// Every driver call that an engine makes.
pub(crate) const OPERATIONS: [Operation; 23] = [
    Operation::Devices,
    Operation::Memory,
    Operation::Granularity,
    Operation::Capabilities,
    Operation::Quiesce,
    Operation::IsCapturing,
    Operation::EnablePeer,
    Operation::Reserve,
    Operation::Create,
    Operation::Map,
    Operation::SetAccess,
    Operation::Unmap,
    Operation::Release,
    Operation::Vacate,
    Operation::Unreserve,
    Operation::OpenStream,
    Operation::CloseStream,
    Operation::Read,
    Operation::Write,
    Operation::Fill,
    Operation::Wait,
    Operation::RegisterHost,
    Operation::UnregisterHost,
];

/// Two small devices whose fresh memory is full of something.
pub(crate) fn small() -> SimConfig {
    SimConfig::new().devices(2).capacity_bytes(CAPACITY).granularity(GRANULE).scribble(Some(0xA5))
}

/// One worker a device, staging that stays open, and nothing that is kept or registered for the next
/// pause, so that two runs make the same calls.
pub(crate) fn steady() -> Config {
    let mut config = Config::default();
    config.workers = Some(1);
    config.host_mode = HostMode::Reclaim;
    config.disk_keep_bytes = Some(0);
    config.idle_timeout = Duration::from_secs(600);
    config
}

pub(crate) fn engine_over(config: SimConfig) -> (Arc<Sim>, Engine<Sim>) {
    let sim = Arc::new(Sim::new(config).expect("a simulated machine"));
    let engine = Engine::new(Arc::clone(&sim), steady());
    (sim, engine)
}

/// As [`engine_over`], with contents of the policy `disk` in this directory.
pub(crate) fn engine_with_disk(config: SimConfig, directory: &Path) -> (Arc<Sim>, Engine<Sim>) {
    let sim = Arc::new(Sim::new(config).expect("a simulated machine"));
    let mut settings = steady();
    settings.disk_directory = Some(directory.to_owned());
    let engine = Engine::new(Arc::clone(&sim), settings);
    (sim, engine)
}

/// Allocates and writes the pattern of `seed`.
pub(crate) fn filled(
    engine: &Engine<Sim>,
    allocation: &Allocation,
    bytes: u64,
    seed: u8,
) -> Address {
    let address = engine.allocate(allocation).expect("allocation");
    engine.write(address, &pattern(bytes, seed)).expect("write");
    address
}

pub(crate) fn read(engine: &Engine<Sim>, address: Address, bytes: u64) -> Vec<u8> {
    let mut into = vec![0x5A; usize::try_from(bytes).expect("a size that fits")];
    engine.read(address, &mut into).expect("read");
    into
}

#[track_caller]
pub(crate) fn expect_pattern(engine: &Engine<Sim>, address: Address, bytes: u64, seed: u8) {
    expect_bytes(&read(engine, address, bytes), &pattern(bytes, seed));
}

pub(crate) fn state(engine: &Engine<Sim>, address: Address) -> Option<BlockState> {
    engine.find(address).map(|info| info.state)
}

pub(crate) fn pause(engine: &Engine<Sim>, selection: impl Into<Selection>) -> Report {
    engine.pause(selection, &PauseOptions::default()).expect("pause")
}

pub(crate) fn resume(engine: &Engine<Sim>, selection: impl Into<Selection>) -> Report {
    engine.resume(selection, &ResumeOptions::default()).expect("resume")
}

/// The engine's stats without what is counted for the whole process, where other tests run as well.
pub(crate) fn counts(engine: &Engine<Sim>) -> Stats {
    Stats { leaked_ranges: 0, leaked_handles: 0, ..engine.stats() }
}

/// How many driver calls there were, of any kind.
pub(crate) fn all_calls(sim: &Sim) -> u64 {
    OPERATIONS.iter().map(|operation| sim.calls(*operation)).sum()
}

/// A device's free bytes by the machine's books, which no injected failure hides.
pub(crate) fn free_bytes(sim: &Sim, device: Device) -> u64 {
    sim.machine().free_bytes(device.0).expect("a device")
}

/// Waits until something is so; generous, since it only ends a test that fails.
#[track_caller]
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "in half a minute: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What a block is known to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    Pattern(u8),
    Zero,
    Undefined,
}

#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) address: Address,
    pub(crate) bytes: u64,
    pub(crate) physical_bytes: u64,
    pub(crate) policy: Policy,
    pub(crate) device: Device,
    pub(crate) contents: Contents,
}

/// Everything that a failed call must leave as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) states: Vec<(Address, Option<BlockState>)>,
    pub(crate) tags: Vec<TagStats>,
    pub(crate) host_backup_bytes: u64,
    pub(crate) host_retained_bytes: u64,
    pub(crate) disk_backup_bytes: u64,
    pub(crate) deferred_frees: u64,
    pub(crate) failed_frees: u64,
    pub(crate) free: Vec<u64>,
    pub(crate) counts: Counts,
}

/// An engine over a small machine, and the blocks in it.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) sim: Arc<Sim>,
    pub(crate) engine: Engine<Sim>,
    pub(crate) blocks: Vec<Known>,
    /// Of blocks that are added from now on.
    pub(crate) mode: HostMode,
    /// Of this world alone.
    pub(crate) directory: tempfile::TempDir,
}

impl World {
    pub(crate) fn new(config: SimConfig) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let (sim, engine) = engine_with_disk(config, directory.path());
        Self { sim, engine, blocks: Vec::new(), mode: HostMode::Reclaim, directory }
    }

    /// Allocates a block of tag `w`, and writes nothing.
    pub(crate) fn allocate(&mut self, policy: Policy, device: Device) -> Result<Address> {
        let bytes = 3 * GRANULE - 5 - self.blocks.len() as u64;
        let allocation = Allocation::new(bytes, device).tag("w").policy(policy);
        let allocation = allocation.host_mode(self.mode);
        let address = self.engine.allocate(&allocation)?;
        let contents = if policy == Policy::Zero { Contents::Zero } else { Contents::Undefined };
        let physical_bytes = 3 * GRANULE;
        self.blocks.push(Known { address, bytes, physical_bytes, policy, device, contents });
        Ok(address)
    }

    /// Allocates a block and fills it with a pattern of its own.
    pub(crate) fn add(&mut self, policy: Policy, device: Device) -> Address {
        let address = self.allocate(policy, device).expect("allocation");
        let seed = u8::try_from(self.blocks.len()).expect("few blocks");
        let known = self.blocks.last_mut().expect("just added");
        self.engine.write(address, &pattern(known.bytes, seed)).expect("write");
        known.contents = Contents::Pattern(seed);
        address
    }

    pub(crate) fn pause(&self) -> Result<Report> {
        self.engine.pause(Selection::All, &PauseOptions::default())
    }

    pub(crate) fn resume(&self) -> Result<Report> {
        self.engine.resume(Selection::All, &ResumeOptions::default())
    }

    pub(crate) fn state(&self, block: &Known) -> Option<BlockState> {
        state(&self.engine, block.address)
    }

    pub(crate) fn free_bytes(&self) -> Vec<u64> {
        (0..self.sim.machine().device_count())
            .map(|device| free_bytes(&self.sim, Device(device)))
            .collect()
    }

    /// Looks at everything, and takes note of blocks that sleep: what their policy says has
    /// happened to their contents.
    pub(crate) fn look(&mut self) -> Look {
        // Backups go in the background; what stays is charged in whole pages.
        let page = dormant_host::page_bytes() as u64;
        let charged = |policy, unit: u64| -> u64 {
            let kept = self.blocks.iter().filter(|block| block.policy == policy);
            let saved = kept.filter(|block| self.engine.backup(block.address).is_ok());
            saved.map(|block| block.bytes.next_multiple_of(unit)).sum()
        };
        let charged = (charged(Policy::Host, page), charged(Policy::Disk, 4096));
        until("only what is saved is charged", || {
            let stats = self.engine.stats();
            (stats.host_backup_bytes, stats.disk_backup_bytes) == charged
        });
        let stats = self.engine.stats();
        let states: Vec<_> =
            self.blocks.iter().map(|block| (block.address, self.state(block))).collect();
        for (block, (_, state)) in self.blocks.iter_mut().zip(&states) {
            if *state == Some(BlockState::Paused) {
                match block.policy {
                    Policy::Zero => block.contents = Contents::Zero,
                    Policy::Host | Policy::Disk => {}
                    _ => block.contents = Contents::Undefined,
                }
            }
        }
        Look {
            states,
            tags: stats.tags,
            host_backup_bytes: stats.host_backup_bytes,
            host_retained_bytes: stats.host_retained_bytes,
            disk_backup_bytes: stats.disk_backup_bytes,
            deferred_frees: stats.deferred_frees,
            failed_frees: stats.failed_frees,
            free: self.free_bytes(),
            counts: self.sim.machine().counts(),
        }
    }

    /// Fails unless the backup of a sleeping or poisoned block of policy `host` or `disk` is right.
    #[track_caller]
    pub(crate) fn expect_backup(&self, block: &Known, at: &str) {
        let (Policy::Host | Policy::Disk, Contents::Pattern(seed)) = (block.policy, block.contents)
        else {
            return;
        };
        let backup = self.engine.backup(block.address);
        let backup = backup.unwrap_or_else(|error| panic!("{at}: {error}"));
        assert!(*backup == *pattern(block.bytes, seed), "{at}: another backup");
    }

    /// Fails unless an active block holds what it is known to hold.
    #[track_caller]
    pub(crate) fn expect_contents(&self, block: &Known, at: &str) {
        let have = read(&self.engine, block.address, block.bytes);
        match block.contents {
            Contents::Pattern(seed) => {
                assert!(have == pattern(block.bytes, seed), "{at}: other contents in {block:?}");
            }
            Contents::Zero => {
                assert!(have.iter().all(|byte| *byte == 0), "{at}: not zero, {block:?}");
            }
            Contents::Undefined => {
                let new = pattern(block.bytes, 0xCC);
                self.engine.write(block.address, &new).expect("undefined is writable");
                assert!(read(&self.engine, block.address, block.bytes) == new, "{at}: {block:?}");
            }
        }
    }

    /// Ends all failures, wakes everything, compares every block and frees it. `lost` bytes of a
    /// device stay away, where a failed call has cost them.
    #[track_caller]
    pub(crate) fn finish(mut self, lost: &[(Device, u64)], at: &str) {
        self.sim.clear_failures();
        let _ = self.look();
        let resumed = self.resume();
        resumed.unwrap_or_else(|error| panic!("{at}: a later resume: {error}"));
        for block in &self.blocks {
            match self.state(block) {
                Some(BlockState::Active) => self.expect_contents(block, at),
                Some(BlockState::Poisoned) => self.expect_backup(block, at),
                None => continue,
                Some(other) => panic!("{at}: {block:?} is {other:?}"),
            }
            self.engine.free(block.address).unwrap_or_else(|error| panic!("{at}: {error}"));
        }
        assert!(self.engine.stats().tags.is_empty(), "{at}: {:?}", self.engine.stats());
        let mut want = vec![CAPACITY; self.free_bytes().len()];
        for (device, bytes) in lost {
            want[usize::try_from(device.0).expect("few devices")] -= bytes;
        }
        assert_eq!(self.free_bytes(), want, "{at}: free bytes at the end");
        let look = self.look();
        assert_eq!(look.host_backup_bytes, 0, "{at}: host memory at the end");
        assert_eq!(look.disk_backup_bytes, 0, "{at}: disk space at the end");
        let names = std::fs::read_dir(self.directory.path()).expect("the directory").count();
        assert_eq!(names, 0, "{at}: files at the end");
    }
}
