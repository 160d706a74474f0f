//! Pause: snapshot, quiesce, save everything, then detach all.

use std::time::{Duration, Instant};

use allocator_core::{ActiveBlock, Deadline, Device, Driver, Stuck};

use crate::engine::{Engine, RestingBlock};
use crate::error::{Error, Failure, Result, failure_of};
use crate::free::UNTOLD_TIMEOUT;
use crate::policy::{Checksum, HostMode, Policy};
use crate::registry::{Resting, Snapshot, Taken};
use crate::report::{DeviceReport, Phases, Report, Tally};
use crate::stash::Stash;
use crate::sync::lock;
use crate::tag::Selection;
use crate::transfer::each_device;

/// How to pause.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PauseOptions {
    /// How long to wait for another transition and for work in flight together. `None`: as
    /// [`Config::transition_timeout`](crate::Config::transition_timeout) says.
    pub timeout: Option<Duration>,
    /// Overrides the policy of the blocks that this call pauses.
    pub policy: Option<Policy>,
    /// Overrides how the host memory of backups that this call makes is held.
    pub host_mode: Option<HostMode>,
    /// Overrides whether the contents that this call saves are checked.
    pub checksum: Option<Checksum>,
}

impl PauseOptions {
    /// Waits this long at most.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Overrides the policy of the blocks that this call pauses.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Overrides how the host memory of backups that this call makes is held.
    #[must_use]
    pub fn host_mode(mut self, mode: HostMode) -> Self {
        self.host_mode = Some(mode);
        self
    }

    /// Overrides whether the contents that this call saves are checked.
    #[must_use]
    pub fn checksum(mut self, checksum: Checksum) -> Self {
        self.checksum = Some(checksum);
        self
    }
}

/// The blocks of one device on their way.
pub(crate) struct Group<D: Driver> {
    pub(crate) device: Device,
    vacate: bool,
    /// In pairs with `stashes`.
    pub(crate) awake: Vec<Taken<ActiveBlock<D>>>,
    pub(crate) stashes: Vec<Stash>,
    pub(crate) done: Vec<Taken<RestingBlock<D>>>,
    failures: Vec<Failure>,
    tally: Tally,
}

impl<D: Driver> Engine<D> {
    /// Gives the physical memory of every active block of a selection back to its device. The
    /// addresses stay. When it returns `Ok`, the memory is the device's.
    ///
    /// Waits for work in flight on these devices, saves what is to be saved, and only then takes
    /// the first block's memory away. Up to there a failure leaves everything as it was. After
    /// it the pause goes on past failures and names the blocks concerned, with the report of what
    /// was done.
    ///
    /// # Errors
    /// `Busy`: another transition or work in flight at the deadline, or, at once, a known capture;
    /// `EarlierWorkFailed`, `DeviceLost`; `HostMemory`: no room for the backups; `Io`: a full
    /// disk, or a directory that cannot be used; a copy's error;
    /// after the commit the first failed block's error, with [`Error::failures`] and
    /// [`Error::report`].
    pub fn pause(&self, selection: impl Into<Selection>, options: &PauseOptions) -> Result<Report> {
        let selection = selection.into();
        let action = format!("pause of {selection}");
        self.admit(&action)?;
        let begun = Instant::now();
        let deadline = Deadline::after(options.timeout.unwrap_or(self.config.transition_timeout));
        let fail = |cause| Error::new(action.clone(), cause);
        let _turn = self.turn.take(deadline).map_err(fail)?;
        let mut phases = Phases { turn: begun.elapsed(), ..Phases::default() };
        self.free_deferred(deadline.or_sooner(Deadline::after(UNTOLD_TIMEOUT)));
        self.reaper.drain(deadline);
        let Snapshot { taken, already, poisoned } = lock(&self.registry).take_active(&selection);
        let mut tally = Tally::default();
        already.iter().for_each(|facts| tally.of(facts).already.add(facts.physical_bytes));
        poisoned.iter().for_each(|(_, facts)| tally.of(facts).poisoned.add(facts.physical_bytes));

        let mut groups = match self.group(taken) {
            Ok(groups) => groups,
            Err((taken, cause)) => {
                self.put_back_active(taken);
                return Err(fail(cause));
            }
        };
        let mark = self.mark();
        let prepared = self.save_all(&mut groups, options, deadline, &mut phases);
        let saved = match prepared {
            Ok(saved) => saved,
            Err(cause) => {
                self.put_back_active(groups.into_iter().flat_map(|group| group.awake));
                self.back_to(&mark);
                return Err(fail(cause));
            }
        };
        let before: Vec<_> = groups.iter().map(|group| self.free_reading(group.device)).collect();
        let step = Instant::now();
        if let Err(failure) = detach_first(&mut groups) {
            self.put_back_active(groups.into_iter().flat_map(|group| group.awake));
            self.back_to(&mark);
            let cause = failure.error.clone();
            return Err(fail(cause).with_failures(vec![failure]));
        }
        each_device(&mut groups, |group| detach_rest(group));
        phases.map = step.elapsed();

        let mut failures = Vec::new();
        let mut devices = Vec::new();
        for (mut group, free_before) in groups.into_iter().zip(before) {
            devices.push(self.look_again(&mut group, free_before));
            self.put_back(std::mem::take(&mut group.done));
            failures.append(&mut group.failures);
            tally.merge(group.tally);
        }
        self.host.register_in_background(self.config.workers_for(1));
        let notices = self.notices.first_time(self.met(&saved));
        phases.total = begun.elapsed();
        let report = Report {
            tags: tally.into_tags(),
            devices,
            phases,
            workers: saved.copied.workers,
            host_mode: saved.held.mode(),
            host_mode_reason: saved.held.why(),
            staging_registered: !saved.copied.unregistered,
            notices,
        };
        match failures.first() {
            None => Ok(report),
            Some(first) => {
                Err(fail(first.error.clone()).with_failures(failures).with_report(report))
            }
        }
    }

    /// Reads what the pause gave back. Where it gave back nothing although the driver said that it
    /// would, the driver may keep memory with the range after all: vacate then, and remember the
    /// device if that was it. On CUDA a vacate does nothing; on HIP its one risk is that somebody
    /// else in the process reserves the address in between, which loses it and keeps the backup.
    fn look_again(&self, group: &mut Group<D>, free_before: Option<u64>) -> DeviceReport {
        let device = group.device;
        let read = |group: &Group<D>| DeviceReport {
            device,
            moved_bytes: group.tally.moved_bytes(device),
            free_before,
            free_after: self.free_reading(device),
        };
        let report = read(group);
        if !report.freed_nothing() || group.vacate {
            return report;
        }
        for Taken { address, facts, block } in std::mem::take(&mut group.done) {
            let block = match block {
                Resting::Paused(block) => match block.vacate() {
                    Ok(block) => Resting::Paused(block),
                    Err((remnant, error)) => {
                        group.tally.of(&facts).poisoned.add(facts.physical_bytes);
                        group.failures.push(failure_of(address, &facts, true, error));
                        Resting::Poisoned(remnant)
                    }
                },
                other => other,
            };
            group.done.push(Taken { address, facts, block });
        }
        let report = read(group);
        if !report.freed_nothing() {
            lock(&self.keepers).insert(device);
        }
        report
    }

    fn put_back_active(&self, taken: impl IntoIterator<Item = Taken<ActiveBlock<D>>>) {
        self.put_back(taken.into_iter().map(|taken| taken.map(Resting::Active)));
    }

    /// Sorts blocks by device, and asks what each device's pause must do.
    #[expect(clippy::type_complexity, reason = "the blocks come back with the error")]
    fn group(
        &self,
        taken: Vec<Taken<ActiveBlock<D>>>,
    ) -> Result<Vec<Group<D>>, (Vec<Taken<ActiveBlock<D>>>, allocator_core::Error)> {
        let mut groups: Vec<Group<D>> = Vec::new();
        for taken in taken {
            let device = taken.facts.device;
            match groups.iter_mut().find(|group| group.device == device) {
                Some(group) => group.awake.push(taken),
                None => groups.push(Group {
                    device,
                    vacate: false,
                    awake: vec![taken],
                    stashes: Vec::new(),
                    done: Vec::new(),
                    failures: Vec::new(),
                    tally: Tally::default(),
                }),
            }
        }
        groups.sort_by_key(|group| group.device);
        for index in 0..groups.len() {
            match self.must_vacate(groups[index].device) {
                Ok(vacate) => groups[index].vacate = vacate,
                Err(error) => {
                    return Err((
                        groups.into_iter().flat_map(|group| group.awake).collect(),
                        error,
                    ));
                }
            }
        }
        Ok(groups)
    }
}

/// Detaches one block: the commit. A refusal leaves the whole pause undone.
fn detach_first<D: Driver>(groups: &mut [Group<D>]) -> Result<(), Failure> {
    let Some(group) = groups.first_mut() else { return Ok(()) };
    // From the end, so that both lists stay pairs.
    let (Some(taken), Some(stash)) = (group.awake.pop(), group.stashes.pop()) else {
        return Ok(());
    };
    match detach(group, taken, stash) {
        None => Ok(()),
        Some((taken, failure)) => {
            group.awake.push(taken);
            Err(failure)
        }
    }
}

/// Detaches all others; blocks that stay awake are named.
fn detach_rest<D: Driver>(group: &mut Group<D>) {
    let pairs = std::mem::take(&mut group.awake).into_iter();
    for (taken, stash) in pairs.zip(std::mem::take(&mut group.stashes)) {
        if let Some((taken, failure)) = detach(group, taken, stash) {
            group.failures.push(failure);
            group.done.push(taken.map(Resting::Active));
        }
    }
}

/// Detaches a block into `group.done`, or hands it back when the driver refused.
fn detach<D: Driver>(
    group: &mut Group<D>,
    taken: Taken<ActiveBlock<D>>,
    stash: Stash,
) -> Option<(Taken<ActiveBlock<D>>, Failure)> {
    let Taken { address, facts, block } = taken;
    let saved = stash.saved_bytes();
    match block.detach(Some(stash), group.vacate) {
        Ok(block) => {
            let report = group.tally.of(&facts);
            report.moved.add(facts.physical_bytes);
            if saved > 0 {
                report.copied.add(saved);
            }
            group.done.push(Taken { address, facts, block: Resting::Paused(block) });
            None
        }
        Err(stuck) => match *stuck {
            Stuck::Unchanged { block, error, .. } => {
                let failure = failure_of(address, &facts, false, error);
                Some((Taken { address, facts, block }, failure))
            }
            Stuck::Poisoned { remnant, error } => {
                group.failures.push(failure_of(address, &facts, true, error));
                group.tally.of(&facts).poisoned.add(facts.physical_bytes);
                group.done.push(Taken { address, facts, block: Resting::Poisoned(remnant) });
                None
            }
        },
    }
}
