//! What a resume does up to its settling: create all, then map and restore.
//!
//! A block is restored as soon as it is mapped, while others are still being mapped.

use std::sync::OnceLock;
use std::time::Instant;

use allocator_core::{AttachedBlock, Device, Driver, PausedBlock, Stuck};
use dormant_host::RestoreJob;

use crate::engine::Engine;
use crate::error::failure_of;
use crate::registry::Taken;
use crate::report::Phases;
use crate::resume::Group;
use crate::stash::Stash;
use crate::transfer::{
    self, Copied, Direction, Feeds, Load, Loads, Way, each_device, read_jobs, restore_jobs,
    zero_job,
};

/// An error, and the device that it happened on.
type Here<T> = Result<T, (Device, allocator_core::Error)>;

/// A block that is mapped once its turn has come. Workers look at it from then on.
type Slot<D> = OnceLock<Taken<AttachedBlock<D, Stash>>>;

/// What is to be done for one block: decided once, since memory may be registered meanwhile.
#[derive(Clone, Copy, Debug)]
enum Errand {
    Nothing,
    Host(Way),
    Disk(Way),
    Zero,
}

/// One device's blocks on their way.
struct Waking<'a, D: Driver> {
    group: &'a mut Group<D>,
    errands: &'a [Errand],
    slots: &'a [Slot<D>],
}

impl<D: Driver> Engine<D> {
    /// Creates, maps and restores. The error names the device it happened on. Blocks that were mapped
    /// are then in their groups' `mapped`, others in `asleep`.
    pub(crate) fn wake_all(&self, groups: &mut [Group<D>], phases: &mut Phases) -> Here<Copied> {
        let Some(first) = groups.first().map(|group| group.device) else {
            return Ok(Copied::default());
        };
        let step = Instant::now();
        all(each_device(groups, |group| self.create_group(group)))?;
        phases.create = step.elapsed();

        let step = Instant::now();
        let mut loads = Loads::new();
        let errands: Vec<Vec<_>> = groups
            .iter()
            .map(|group| {
                group.asleep.iter().map(|taken| errand(&taken.block, &mut loads)).collect()
            })
            .collect();
        let slots: Vec<Vec<Slot<D>>> = groups
            .iter()
            .map(|group| group.asleep.iter().map(|_| OnceLock::new()).collect())
            .collect();
        let mut mapped = Ok(());
        let copied = transfer::restore_while(&self.lanes, &self.config, &loads, |feeds| {
            let parts = groups.iter_mut().zip(&errands).zip(&slots);
            let mut waking: Vec<_> =
                parts.map(|((group, errands), slots)| Waking { group, errands, slots }).collect();
            mapped = all(each_device(&mut waking, |waking| self.map_group(waking, feeds)));
            phases.map = step.elapsed();
        });
        if !loads.is_empty() {
            self.reaper.staging_was_used();
        }
        for (group, slots) in groups.iter_mut().zip(slots) {
            group.mapped.extend(slots.into_iter().filter_map(OnceLock::into_inner));
        }
        phases.copy = step.elapsed();
        // A copy that was given up because of the mapping is no error of its own.
        mapped?;
        copied.map_err(|error| (error.device().unwrap_or(first), error))
    }

    fn create_group(&self, group: &mut Group<D>) -> Here<()> {
        let device = group.device;
        let here = |error| (device, error);
        group.vacate = self.must_vacate(device).map_err(here)?;
        group.backings.reserve(group.asleep.len());
        for taken in &group.asleep {
            let bytes = taken.block.physical_bytes();
            group.backings.push(self.pieces.create(&self.driver, device, bytes).map_err(here)?);
        }
        Ok(())
    }

    fn map_group<'a>(
        &self,
        waking: &mut Waking<'a, D>,
        feeds: &Feeds<'_, RestoreJob<'a, AttachedBlock<D, Stash>>>,
    ) -> Here<()> {
        let Waking { group, errands, slots } = waking;
        let asleep = std::mem::take(&mut group.asleep);
        let allowed = self.peers.allowed(group.device);
        let mut pairs = asleep.into_iter().zip(std::mem::take(&mut group.backings));
        let mut places = slots.iter().zip(errands.iter());
        let mut result = Ok(());
        while !feeds.are_stopped()
            && let Some((Taken { address, facts, block }, backing)) = pairs.next()
        {
            let stuck = match block.attach(backing, allowed.on(&facts)) {
                Ok(block) => {
                    if let Some((slot, errand)) = places.next() {
                        let taken = slot.get_or_init(|| Taken { address, facts, block });
                        feed(feeds, taken, *errand);
                    }
                    continue;
                }
                Err(stuck) => stuck,
            };
            result = Err((group.device, stuck.error().clone()));
            match *stuck {
                Stuck::Unchanged { block, spare, .. } => {
                    group.refused = Some(Taken { address, facts, block });
                    group.backings.push(spare);
                }
                Stuck::Poisoned { remnant, error } => {
                    group.failures.push(failure_of(address, &facts, true, error));
                    group.poisoned.push(Taken { address, facts, block: remnant });
                }
            }
            feeds.give_up();
        }
        let (asleep, backings): (Vec<_>, Vec<_>) = pairs.unzip();
        group.asleep.extend(asleep);
        group.backings.extend(backings);
        result
    }
}

/// What waking a block takes, and its jobs in the count of them.
fn errand<D: Driver>(block: &PausedBlock<D, Stash>, loads: &mut Loads) -> Errand {
    let (errand, load, jobs) = match block.stash() {
        Some(Stash::Host(copy)) => {
            let summed = !copy.sums().is_empty();
            let way = Way::of(Direction::Restore, copy.piece().is_registered(), summed);
            let load = if way.direct && !summed { Load::Link } else { Load::Cpu };
            (Errand::Host(way), load, way.jobs(copy.bytes().len() as u64))
        }
        Some(Stash::Disk(copy)) => {
            let way = Way::of_disk(!copy.sums().is_empty());
            (Errand::Disk(way), Load::Disk, way.jobs(copy.bytes()))
        }
        Some(Stash::Zeroed) => (Errand::Zero, Load::Link, 1),
        Some(Stash::Discarded) | None => return Errand::Nothing,
    };
    *loads.entry((block.device(), load)).or_default() += jobs;
    errand
}

fn feed<'a, D: Driver>(
    feeds: &Feeds<'_, RestoreJob<'a, AttachedBlock<D, Stash>>>,
    taken: &'a Taken<AttachedBlock<D, Stash>>,
    errand: Errand,
) {
    let block = &taken.block;
    match (errand, block.stash()) {
        (Errand::Host(way), Some(Stash::Host(copy))) => {
            feeds.push(restore_jobs(block, 0, copy.bytes(), way, copy.sums()));
        }
        (Errand::Disk(way), Some(Stash::Disk(copy))) => {
            feeds.push(read_jobs(block, copy.parts(way.job_bytes()), copy.sums()));
        }
        (Errand::Zero, _) => feeds.push(std::iter::once(zero_job(block, taken.facts.bytes))),
        _ => {}
    }
}

fn all<E>(results: Vec<Result<(), E>>) -> Result<(), E> {
    results.into_iter().collect()
}
