//! What a pause does before its commit: room for the contents, quiesce, copy.

use std::sync::Arc;
use std::time::Instant;

use allocator_core::{ActiveBlock, Deadline, Driver, ErrorKind, Operation};
use dormant_host::ExtentFile;

use crate::disk::{DiskCopy, Lengths, Space, Wanted, sync};
use crate::engine::Engine;
use crate::host::{self, Held, Room, Want};
use crate::notice::Notice;
use crate::pause::{Group, PauseOptions};
use crate::policy::{Checksum, Policy};
use crate::registry::{Facts, Taken};
use crate::report::Phases;
use crate::stash::{HostCopy, Stash};
use crate::transfer::{self, Copied, Direction, Way, each_device, save_jobs, sums_of, write_jobs};

/// What was saved, and how.
#[derive(Clone, Debug, Default)]
pub(crate) struct Saved {
    pub(crate) copied: Copied,
    pub(crate) held: Held,
    /// Files that contents are in.
    files: Vec<Arc<ExtentFile>>,
}

/// What was kept before a pause.
#[derive(Debug)]
pub(crate) struct Mark {
    host: u64,
    disk: Lengths,
}

/// Where one block's contents go, and the places of their checksums.
struct Place<T> {
    to: T,
    sums: Vec<u64>,
}

impl<D: Driver> Engine<D> {
    /// What is kept of host memory and disk space, to come back to.
    pub(crate) fn mark(&self) -> Mark {
        Mark { host: self.host.mark(), disk: self.disks.mark() }
    }

    /// Nothing was committed, and what was saved is gone again: so is what was taken for it.
    pub(crate) fn back_to(&self, mark: &Mark) {
        self.host.back_to(mark.host);
        self.disks.back_to(&mark.disk);
    }

    /// Everything before the commit: take host memory and disk space, quiesce, copy. On failure
    /// the groups hold all their blocks and nothing else, and whoever calls goes
    /// [back](Self::back_to) to what was kept before.
    pub(crate) fn save_all(
        &self,
        groups: &mut [Group<D>],
        options: &PauseOptions,
        deadline: Deadline,
        phases: &mut Phases,
    ) -> allocator_core::Result<Saved> {
        if groups.is_empty() {
            return Ok(Saved::default());
        }
        let step = Instant::now();
        let on_host = with_policy(groups, options.policy, Policy::Host);
        let wants: Vec<_> = on_host.map(|taken| self.want(&taken.facts, options)).collect();
        let host::Taken { rooms, held, pending } = self.host.take(&self.config, &wants)?;
        let Space { copies, files } =
            self.take_disk_space(with_policy(groups, options.policy, Policy::Disk))?;
        phases.create = step.elapsed();

        let step = Instant::now();
        let quiesced = self.captures.quiesce(|| {
            each_device(groups, |group| self.driver.quiesce(group.device, deadline))
                .into_iter()
                .collect::<allocator_core::Result<Vec<()>>>()
        });
        quiesced.ok_or_else(capturing)??;
        phases.quiesce = step.elapsed();

        let step = Instant::now();
        let sums = |taken: &Taken<ActiveBlock<D>>| self.sums(&taken.facts, options);
        let mut rooms: Vec<_> = with_policy(groups, options.policy, Policy::Host)
            .zip(rooms)
            .map(|(taken, to)| Place { to, sums: sums(taken) })
            .collect();
        let mut extents: Vec<_> = with_policy(groups, options.policy, Policy::Disk)
            .zip(copies)
            .map(|(taken, to)| Place { to, sums: sums(taken) })
            .collect();
        let mut jobs = Vec::new();
        let on_host = with_policy(groups, options.policy, Policy::Host);
        for (taken, Place { to, sums }) in on_host.zip(&mut rooms) {
            let way = Way::of(Direction::Save, to.piece.is_registered(), !sums.is_empty());
            jobs.extend(save_jobs(&taken.block, 0, &mut to.piece, way, sums));
        }
        let on_disk = with_policy(groups, options.policy, Policy::Disk);
        for (taken, Place { to, sums }) in on_disk.zip(&mut extents) {
            let way = Way::of_disk(!sums.is_empty());
            jobs.extend(write_jobs(&taken.block, to.parts(way.job_bytes()), sums));
        }
        let nothing = jobs.is_empty();
        let copied =
            transfer::save(&self.lanes, &self.config, jobs, self.host.watch(&self.config, held));
        if !nothing {
            self.reaper.staging_was_used();
        }
        let copied = copied?;
        sync(&files)?;
        pending.touched();
        phases.copy = step.elapsed();
        stash_all(groups, options.policy, rooms, extents);
        Ok(Saved { copied, held, files })
    }

    /// What worked less well than it could in a pause.
    pub(crate) fn met(&self, saved: &Saved) -> impl Iterator<Item = Notice> {
        let mut met = Vec::new();
        if self.host.was_refused() {
            met.push(Notice::RegistrationRefused);
        }
        if saved.held.is_any() && !dormant_host::huge_pages_are_on() {
            met.push(Notice::HugePagesOff);
        }
        for file in &saved.files {
            if file.is_in_memory() {
                met.push(Notice::DiskInMemory);
            } else if !file.is_direct() {
                met.push(Notice::DiskBuffered);
            }
        }
        met.into_iter().chain(saved.copied.notices())
    }

    /// What a block's backup wants of host memory.
    pub(crate) fn want<'a>(&self, facts: &'a Facts, options: &PauseOptions) -> Want<'a> {
        let mode = options.host_mode.or(facts.host_mode).unwrap_or(self.config.host_mode);
        Want { bytes: facts.bytes, mode, home: Some(&facts.home) }
    }

    /// Places for the checksums of a block's chunks; none, if they are not wanted.
    fn sums(&self, facts: &Facts, options: &PauseOptions) -> Vec<u64> {
        match options.checksum.or(facts.checksum).unwrap_or(self.config.checksum) {
            Checksum::Full => vec![0; sums_of(facts.bytes)],
            Checksum::Off => Vec::new(),
        }
    }

    /// Takes room on disk for these blocks, before anything is touched: in the directory that a
    /// block names, else where the settings say.
    fn take_disk_space<'a>(
        &self,
        blocks: impl Iterator<Item = &'a Taken<ActiveBlock<D>>>,
    ) -> allocator_core::Result<Space> {
        let elsewhere = self.config.disk_directory.clone().unwrap_or_else(std::env::temp_dir);
        let wanted: Vec<_> = blocks
            .map(|Taken { facts, .. }| Wanted {
                device: facts.device,
                directory: facts.directory.as_deref().unwrap_or(&elsewhere),
                bytes: facts.bytes,
            })
            .collect();
        self.disks.take(&wanted)
    }
}

/// Gives each block its stash: there is a room or an extent for each that wants one.
fn stash_all<D: Driver>(
    groups: &mut [Group<D>],
    overriding: Option<Policy>,
    rooms: Vec<Place<Room>>,
    extents: Vec<Place<DiskCopy>>,
) {
    let mut rooms = rooms.into_iter();
    let mut extents = extents.into_iter();
    for group in groups {
        group.stashes.reserve(group.awake.len());
        group.done.reserve(group.awake.len());
        for taken in &group.awake {
            let bytes = taken.facts.bytes;
            let stash = match overriding.unwrap_or(taken.facts.policy) {
                Policy::Discard => None,
                Policy::Zero => Some(Stash::Zeroed),
                Policy::Host => rooms
                    .next()
                    .map(|Place { to, sums }| Stash::Host(HostCopy::new(to, bytes, sums).into())),
                Policy::Disk => {
                    extents.next().map(|Place { to, sums }| Stash::Disk(to.with_sums(sums).into()))
                }
            };
            group.stashes.push(stash.unwrap_or(Stash::Discarded));
        }
    }
}

/// The blocks that are paused with this policy, by the policy that overrides theirs, if any.
fn with_policy<D: Driver>(
    groups: &[Group<D>],
    overriding: Option<Policy>,
    wanted: Policy,
) -> impl Iterator<Item = &Taken<ActiveBlock<D>>> {
    let all = groups.iter().flat_map(|group| &group.awake);
    all.filter(move |taken| overriding.unwrap_or(taken.facts.policy) == wanted)
}

fn capturing() -> allocator_core::Error {
    allocator_core::Error::new(
        ErrorKind::Busy,
        Operation::Engine,
        "a stream capture is going on, which waiting for the device would break",
    )
}
