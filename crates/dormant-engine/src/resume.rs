//! Resume: create all, map all, restore, settle; any failure undoes what this call did.

use std::sync::Arc;
use std::time::{Duration, Instant};

use allocator_core::{
    AttachedBlock, Backing, Deadline, Device, Driver, ErrorKind, PausedBlock, Remnant, Stuck,
};

use crate::engine::{Engine, RestingBlock};
use crate::error::{Error, Failure, Result, failure_of};
use crate::free::UNTOLD_TIMEOUT;
use crate::host::Held;
use crate::registry::{Resting, Snapshot, Taken};
use crate::report::{DeviceReport, Phases, Report, Tally};
use crate::stash::Stash;
use crate::sync::lock;
use crate::tag::Selection;

/// How to resume.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ResumeOptions {
    /// How long to wait for another transition. `None`: as
    /// [`Config::transition_timeout`](crate::Config::transition_timeout) says.
    pub timeout: Option<Duration>,
    /// When memory is short, how long to try again before `OutOfMemory` is the answer. Other
    /// transitions get their turn between the tries. Zero by default.
    pub wait_for_memory: Duration,
}

impl ResumeOptions {
    /// Waits this long at most for another transition.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Tries again this long when memory is short.
    #[must_use]
    pub fn wait_for_memory(mut self, wait: Duration) -> Self {
        self.wait_for_memory = wait;
        self
    }
}

/// The longest pause between two tries for memory.
const LONGEST_BACK_OFF: Duration = Duration::from_millis(500);

/// The blocks of one device on their way.
pub(crate) struct Group<D: Driver> {
    pub(crate) device: Device,
    pub(crate) vacate: bool,
    wanted_bytes: u64,
    pub(crate) asleep: Vec<Taken<PausedBlock<D, Stash>>>,
    /// Physical memory for the blocks in `asleep`, in the same order, and for one `refused`.
    pub(crate) backings: Vec<Backing<D>>,
    pub(crate) mapped: Vec<Taken<AttachedBlock<D, Stash>>>,
    /// The block whose mapping failed: something may have been mapped in its range for a moment.
    pub(crate) refused: Option<Taken<PausedBlock<D, Stash>>>,
    pub(crate) poisoned: Vec<Taken<Remnant<Stash>>>,
    pub(crate) failures: Vec<Failure>,
}

impl<D: Driver> Engine<D> {
    /// Puts physical memory under every paused block of a selection and makes the contents what
    /// each block's policy says: as before, zero, or undefined. All or nothing: a failure
    /// releases what this call created, keeps every backup, and can be tried again.
    ///
    /// Breaks no stream capture.
    ///
    /// # Errors
    /// `OutOfMemory` or `TooLarge`, with what was wanted in all, what is free and who holds it;
    /// `Io` when a file could not be read; `Busy` when another transition was not over at the
    /// deadline; else the driver's error.
    pub fn resume(
        &self,
        selection: impl Into<Selection>,
        options: &ResumeOptions,
    ) -> Result<Report> {
        let selection = selection.into();
        let action = format!("resume of {selection}");
        self.admit(&action)?;
        let until = Deadline::after(options.wait_for_memory);
        let mut back_off = Duration::from_millis(5);
        loop {
            let error = match self.resume_once(&selection, &action, options) {
                Ok(report) => return Ok(report),
                Err(error) => error,
            };
            if error.kind() != ErrorKind::OutOfMemory || until.has_passed() {
                return Err(error);
            }
            std::thread::sleep(back_off.min(until.remaining().unwrap_or(back_off)));
            back_off = (back_off * 2).min(LONGEST_BACK_OFF);
        }
    }

    fn resume_once(
        &self,
        selection: &Selection,
        action: &str,
        options: &ResumeOptions,
    ) -> Result<Report> {
        let begun = Instant::now();
        let deadline = Deadline::after(options.timeout.unwrap_or(self.config.transition_timeout));
        let turn = self.turn.take(deadline);
        let _turn = turn.map_err(|cause| Error::new(action, cause))?;
        let mut phases = Phases { turn: begun.elapsed(), ..Phases::default() };
        self.free_deferred(Deadline::after(UNTOLD_TIMEOUT));
        let Snapshot { taken, already, poisoned } = lock(&self.registry).take_paused(selection);
        let mut tally = Tally::default();
        already.iter().for_each(|facts| tally.of(facts).already.add(facts.physical_bytes));
        poisoned.iter().for_each(|(_, facts)| tally.of(facts).poisoned.add(facts.physical_bytes));

        let mut groups = group(taken);
        let held =
            Held::of_copies(groups.iter().flat_map(|group| &group.asleep).filter_map(|taken| {
                match taken.block.stash() {
                    Some(Stash::Host(copy)) => Some(copy.piece().is_kept()),
                    _ => None,
                }
            }));
        let before: Vec<_> = groups.iter().map(|group| self.free_reading(group.device)).collect();
        let copied = match self.wake_all(&mut groups, &mut phases) {
            Ok(copied) => copied,
            Err((device, cause)) => {
                let wanted = groups
                    .iter()
                    .find(|group| group.device == device)
                    .map_or(0, |group| group.wanted_bytes);
                let (cause, failures) = self.undo(groups, cause);
                return Err(self
                    .explain(action.to_owned(), cause, device, wanted)
                    .with_failures(failures));
            }
        };
        let mut devices = Vec::new();
        for (group, free_before) in groups.into_iter().zip(before) {
            let (device, moved_bytes) = (group.device, group.wanted_bytes);
            self.settle(group, &mut tally);
            let free_after = self.free_reading(device);
            devices.push(DeviceReport { device, moved_bytes, free_before, free_after });
        }
        phases.total = begun.elapsed();
        Ok(Report {
            tags: tally.into_tags(),
            devices,
            phases,
            workers: copied.workers,
            host_mode: held.mode(),
            host_mode_reason: "",
            staging_registered: !copied.unregistered,
            notices: self.notices.first_time(copied.notices()),
        })
    }

    /// Everything is right: the blocks are active, their backups go.
    fn settle(&self, group: Group<D>, tally: &mut Tally) {
        let mut stashes = Vec::new();
        self.put_back(group.mapped.into_iter().map(|taken| {
            let facts = Arc::clone(&taken.facts);
            taken.map(|block| {
                let (block, stash) = block.settle();
                let report = tally.of(&facts);
                report.moved.add(facts.physical_bytes);
                match &stash {
                    Some(Stash::Host(_) | Stash::Disk(_)) => report.copied.add(facts.bytes),
                    Some(Stash::Zeroed) => report.zeroed.add(facts.bytes),
                    Some(Stash::Discarded) | None => {}
                }
                stashes.extend(stash.filter(|stash| stash.saved_bytes() > 0));
                Resting::Active(block)
            })
        }));
        self.reaper.bury(stashes);
    }

    /// Puts everything to sleep again, and releases what was created.
    fn undo(
        &self,
        groups: Vec<Group<D>>,
        mut cause: allocator_core::Error,
    ) -> (allocator_core::Error, Vec<Failure>) {
        let mut failures = Vec::new();
        for mut group in groups {
            let mut resting: Vec<Taken<RestingBlock<D>>> = Vec::new();
            for Taken { address, facts, block } in group.mapped {
                let block = match block.detach(group.vacate).map_err(|stuck| *stuck) {
                    Ok(block) => Resting::Paused(block),
                    Err(stuck) => {
                        let (remnant, error) = match stuck {
                            Stuck::Unchanged { block, error, .. } => (block.abandon(), error),
                            Stuck::Poisoned { remnant, error } => (remnant, error),
                        };
                        group.failures.push(failure_of(address, &facts, true, error));
                        Resting::Poisoned(remnant)
                    }
                };
                resting.push(Taken { address, facts, block });
            }
            for backing in group.backings {
                cause = cause.with_undo(backing.release());
            }
            // With its memory released, what the driver keeps with the range can go too.
            if let Some(Taken { address, facts, block }) = group.refused {
                let vacated = if group.vacate { block.vacate() } else { Ok(block) };
                let block = vacated.map_or_else(
                    |(remnant, error)| {
                        group.failures.push(failure_of(address, &facts, true, error));
                        Resting::Poisoned(remnant)
                    },
                    Resting::Paused,
                );
                resting.push(Taken { address, facts, block });
            }
            resting.extend(group.asleep.into_iter().map(|taken| taken.map(Resting::Paused)));
            resting.extend(group.poisoned.into_iter().map(|taken| taken.map(Resting::Poisoned)));
            self.put_back(resting);
            failures.append(&mut group.failures);
        }
        (cause, failures)
    }
}

/// Sorts blocks by device; within a device they keep the caller's order.
fn group<D: Driver>(taken: Vec<Taken<PausedBlock<D, Stash>>>) -> Vec<Group<D>> {
    let mut groups: Vec<Group<D>> = Vec::new();
    for taken in taken {
        let (device, bytes) = (taken.facts.device, taken.facts.physical_bytes);
        match groups.iter_mut().find(|group| group.device == device) {
            Some(group) => {
                group.asleep.push(taken);
                group.wanted_bytes += bytes;
            }
            None => groups.push(Group {
                device,
                vacate: false,
                wanted_bytes: bytes,
                asleep: vec![taken],
                backings: Vec::new(),
                mapped: Vec::new(),
                refused: None,
                poisoned: Vec::new(),
                failures: Vec::new(),
            }),
        }
    }
    groups.sort_by_key(|group| group.device);
    groups
}
