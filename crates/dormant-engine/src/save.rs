//! What a pause does before its commit: room for the contents, quiesce, copy.

use std::time::Instant;

use allocator_core::{ActiveBlock, Deadline, Driver, ErrorKind, Operation};
use dormant_host::{Piece, carve, whole_pages};

use crate::disk::{Space, Wanted};
use crate::engine::Engine;
use crate::pause::Group;
use crate::policy::Policy;
use crate::registry::Taken;
use crate::report::Phases;
use crate::stash::{Charge, HostCopy, Stash};
use crate::transfer::{self, Copied, each_device, save_jobs, write_jobs};

impl<D: Driver> Engine<D> {
    /// Everything before the commit: take host memory and disk space, quiesce, copy. On failure
    /// the groups hold all their blocks and nothing else.
    pub(crate) fn save_all(
        &self,
        groups: &mut [Group<D>],
        policy: Option<Policy>,
        deadline: Deadline,
        phases: &mut Phases,
    ) -> allocator_core::Result<Copied> {
        if groups.is_empty() {
            return Ok(Copied::default());
        }
        let step = Instant::now();
        let sizes: Vec<_> =
            with_policy(groups, policy, Policy::Host).map(|taken| taken.facts.bytes).collect();
        let (mut pieces, mut charge) = self.take_host_memory(&sizes)?;
        let space = self.take_disk_space(with_policy(groups, policy, Policy::Disk))?;
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
        let mut jobs = Vec::new();
        for (taken, piece) in with_policy(groups, policy, Policy::Host).zip(&mut pieces) {
            jobs.extend(save_jobs(&taken.block, 0, piece));
        }
        for (taken, copy) in with_policy(groups, policy, Policy::Disk).zip(&space.copies) {
            jobs.extend(write_jobs(&taken.block, copy.parts()));
        }
        let nothing = jobs.is_empty();
        let copied = transfer::save(&self.lanes, &self.config, jobs);
        if !nothing {
            self.reaper.staging_was_used();
        }
        let copied = copied?;
        space.sync()?;
        phases.copy = step.elapsed();

        // There is a piece or an extent for each block that wants one.
        let mut pieces = pieces.into_iter();
        let mut copies = space.copies.into_iter();
        for group in groups {
            group.stashes.reserve(group.awake.len());
            group.done.reserve(group.awake.len());
            for taken in &group.awake {
                let bytes = taken.facts.bytes;
                let stash = match policy.unwrap_or(taken.facts.policy) {
                    Policy::Discard => None,
                    Policy::Zero => Some(Stash::Zeroed),
                    Policy::Host => pieces.next().map(|piece| {
                        let charge = charge.split(charged_bytes(bytes));
                        Stash::Host(HostCopy::new(piece, bytes, charge).into())
                    }),
                    Policy::Disk => copies.next().map(|copy| Stash::Disk(copy.into())),
                };
                group.stashes.push(stash.unwrap_or(Stash::Discarded));
            }
        }
        Ok(copied)
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

    /// Charges and maps host memory for backups of these sizes, before anything is touched.
    pub(crate) fn take_host_memory(
        &self,
        sizes: &[u64],
    ) -> allocator_core::Result<(Vec<Piece>, Charge)> {
        let refused = |bytes, text: String| {
            allocator_core::Error::new(ErrorKind::HostMemory, Operation::Engine, text)
                .with_bytes(bytes)
        };
        let mut pages = sizes.iter().map(|bytes| charged_bytes(*bytes));
        let bytes = pages.try_fold(0_u64, u64::checked_add);
        let bytes = bytes.ok_or_else(|| refused(u64::MAX, "the backups overflow".to_owned()))?;
        let limit = self.config.host_limit_bytes;
        let charge = self.ledger.charge(bytes, limit).map_err(|charged| {
            let limit = limit.unwrap_or(u64::MAX);
            refused(
                bytes,
                format!("backups may take {limit} bytes together, and take {charged} already"),
            )
        })?;
        let sizes = sizes.iter().map(|bytes| usize::try_from(*bytes).unwrap_or(usize::MAX));
        Ok((carve(sizes)?, charge))
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

/// What a backup of this size takes of host memory: whole pages.
fn charged_bytes(bytes: u64) -> u64 {
    usize::try_from(bytes).map_or(u64::MAX, |bytes| whole_pages(bytes) as u64)
}

fn capturing() -> allocator_core::Error {
    allocator_core::Error::new(
        ErrorKind::Busy,
        Operation::Engine,
        "a stream capture is going on, which waiting for the device would break",
    )
}
