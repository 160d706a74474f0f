//! Copies between blocks and host memory or files, by several workers on each device.
//!
//! Each device has a queue of jobs for each kind of [`Load`], since a disk must not hold up the
//! link, nor a CPU what needs none. Workers take from one queue, several small jobs at a time; all
//! devices are at work at once.

mod crew;
mod devices;
mod jobs;
mod lanes;
mod queue;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use allocator_core::{Driver, Error, ErrorKind, Mapped, Operation, Result};
use dormant_host::{Batch, Lane, RestoreJob, SaveJob};

use self::crew::Crew;
use self::jobs::Job;
use self::queue::Queue;
use crate::config::Config;
use crate::notice::Notice;

pub(crate) use self::crew::Loads;
pub(crate) use self::devices::each_device;
pub(crate) use self::jobs::{
    Direction, Load, Way, read_jobs, restore_jobs, save_jobs, sums_of, write_jobs, zero_job,
};
pub(crate) use self::lanes::Lanes;

/// What a run of copies did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Copied {
    pub(crate) workers: usize,
    /// Whether a lane had to do without registered staging.
    pub(crate) unregistered: bool,
}

impl Copied {
    pub(crate) fn notices(self) -> impl Iterator<Item = Notice> {
        self.unregistered.then_some(Notice::RegistrationRefused).into_iter()
    }
}

/// How often [`save`] asks whether it may go on.
const WATCH: Duration = Duration::from_millis(5);

/// Copies from blocks; everything has ended when this returns, also with an error. Every 5 ms `watch`
/// is asked whether to go on, if there is one.
pub(crate) fn save<D: Driver, B: Mapped<Driver = D> + Sync>(
    lanes: &Lanes<D>,
    config: &Config,
    jobs: Vec<SaveJob<'_, B>>,
    watch: Option<impl Fn() -> Result<()>>,
) -> Result<Copied> {
    let mut loads = Loads::new();
    for job in &jobs {
        *loads.entry((job.device(), job.load())).or_default() += 1;
    }
    let work = |lane: &mut Lane<D>, next: &mut dyn FnMut() -> Batch<_>| lane.save(next);
    let crew = config.crew(&loads, Direction::Save);
    let mut seen = Ok(());
    let copied = run(lanes, &crew, &loads, work, |feeds, working| {
        feeds.push(jobs.into_iter());
        feeds.close();
        let Some(watch) = watch else { return };
        while seen.is_ok() && working.recv_timeout(WATCH) == Err(RecvTimeoutError::Timeout) {
            seen = watch();
        }
        if seen.is_err() {
            feeds.give_up();
        }
    });
    seen.and(copied)
}

/// Copies to blocks; everything has ended when this returns, also with an error.
pub(crate) fn restore<D: Driver, B: Mapped<Driver = D> + Sync>(
    lanes: &Lanes<D>,
    config: &Config,
    jobs: Vec<RestoreJob<'_, B>>,
) -> Result<Copied> {
    let mut loads = Loads::new();
    for job in &jobs {
        *loads.entry((job.device(), job.load())).or_default() += 1;
    }
    restore_while(lanes, config, &loads, |feeds| feeds.push(jobs.into_iter()))
}

/// Copies to blocks while `produce` still brings jobs: of these loads, and about as many.
pub(crate) fn restore_while<'a, D: Driver, B: Mapped<Driver = D> + Sync + 'a>(
    lanes: &Lanes<D>,
    config: &Config,
    loads: &Loads,
    produce: impl FnOnce(&Feeds<'_, RestoreJob<'a, B>>),
) -> Result<Copied> {
    let work = |lane: &mut Lane<D>, next: &mut dyn FnMut() -> Batch<_>| lane.restore(next);
    run(lanes, &config.crew(loads, Direction::Restore), loads, work, |feeds, _| produce(feeds))
}

/// Where jobs go.
#[derive(Debug)]
pub(crate) struct Feeds<'q, J> {
    queues: &'q BTreeMap<(allocator_core::Device, Load), Queue<J>>,
    stop: &'q AtomicBool,
}

#[expect(private_bounds, reason = "jobs are made in this module alone")]
impl<J: Job> Feeds<'_, J> {
    /// Brings jobs.
    pub(crate) fn push(&self, jobs: impl Iterator<Item = J>) {
        for job in jobs {
            // Every load was announced.
            if let Some(queue) = self.queues.get(&(job.device(), job.load())) {
                queue.push(std::iter::once(job));
            }
        }
    }

    /// Nothing more will be brought.
    pub(crate) fn close(&self) {
        self.queues.values().for_each(Queue::close);
    }

    /// Nothing more is to be copied, nor what has been brought and not begun.
    pub(crate) fn give_up(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.queues.values().for_each(Queue::stir);
    }

    /// Whether a worker has failed, so that there is no use in bringing more.
    pub(crate) fn are_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// How one worker ended.
enum Ended {
    Done {
        registered: bool,
    },
    /// No lane could be opened; the others may manage.
    NoLane(Error),
    Failed(Error),
}

fn run<D: Driver, J: Job>(
    lanes: &Lanes<D>,
    crew: &Crew,
    loads: &Loads,
    work: impl Fn(&mut Lane<D>, &mut dyn FnMut() -> Batch<J>) -> Result<u64> + Sync,
    produce: impl FnOnce(&Feeds<'_, J>, &Receiver<()>),
) -> Result<Copied> {
    let stop = AtomicBool::new(false);
    let queues: BTreeMap<_, _> = loads
        .keys()
        .map(|key| {
            let window = crew.others.get(key).map_or(0, |share| share.window_bytes);
            (*key, Queue::new(key.0, key.1, window))
        })
        .collect();
    let disks: Vec<_> = queues
        .iter()
        .filter(|((_, load), _)| *load == Load::Disk)
        .map(|(_, queue)| queue)
        .collect();
    // With fewer lanes than devices each is closed before the next one opens.
    let one_by_one = crew.disk < disks.len();
    let serve = |queue: &Queue<J>| {
        let mut lane = match lanes.take(queue.device) {
            Ok(lane) => lane,
            Err(error) => return Ended::NoLane(error),
        };
        let result = work(&mut lane, &mut || queue.next(&stop));
        let registered = lane.is_registered();
        let kept = !(one_by_one && queue.load == Load::Disk);
        lanes.give(lane, result.is_ok() && kept);
        match result {
            Ok(_) => Ended::Done { registered },
            Err(error) => {
                stop.store(true, Ordering::Relaxed);
                queues.values().for_each(Queue::stir);
                Ended::Failed(error)
            }
        }
    };
    // For each worker the queues that it serves, one after the other.
    let mut rosters: Vec<Vec<&Queue<J>>> = Vec::new();
    for worker in 0..crew.disk {
        rosters.push(if one_by_one {
            disks[worker..].iter().step_by(crew.disk).copied().collect()
        } else {
            vec![disks[worker % disks.len()]]
        });
    }
    for (key, share) in &crew.others {
        rosters.extend((0..share.workers).map(|_| vec![&queues[key]]));
    }
    let mut ended = Vec::new();
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        // Disconnected when the last worker has ended.
        let (at_work, working) = channel::<()>();
        for roster in rosters {
            let (serve, at_work) = (&serve, at_work.clone());
            let work = move || {
                if let [queue] = roster[..] {
                    lanes.bind_to(queue.device);
                }
                let ends = roster.into_iter().map(serve).collect::<Vec<_>>();
                drop(at_work);
                ends
            };
            let named = std::thread::Builder::new().name("dormant-copy".to_owned());
            let spawned = named.spawn_scoped(scope, work);
            running.extend(spawned.ok());
        }
        // Also when `produce`, which is the caller's, panics: nobody waits for more.
        drop(at_work);
        let closing = Closing(&queues);
        produce(&Feeds { queues: &queues, stop: &stop }, &working);
        drop(closing);
        for thread in running {
            match thread.join() {
                Ok(ends) => ended.push(ends),
                Err(_) => ended.push(vec![Ended::Failed(worker_panicked())]),
            }
        }
    });
    // What no worker took (no thread, no lane) is done here, or the reason is the answer.
    ended.push(queues.values().filter(|queue| queue.left() > 0).map(serve).collect());
    conclude(ended, queues.values().all(|queue| queue.left() == 0))
}

/// Adds up how the workers ended.
fn conclude(ended: Vec<Vec<Ended>>, all_done: bool) -> Result<Copied> {
    let mut copied = Copied::default();
    let mut no_lane = None;
    for ends in ended {
        let mut worked = false;
        for end in ends {
            match end {
                Ended::Done { registered } => {
                    worked = true;
                    copied.unregistered |= !registered;
                }
                Ended::NoLane(error) => no_lane = no_lane.or(Some(error)),
                Ended::Failed(error) => return Err(error),
            }
        }
        copied.workers += usize::from(worked);
    }
    match no_lane {
        Some(error) if !all_done => Err(error),
        _ => Ok(copied),
    }
}

/// Closes the queues when it is dropped.
struct Closing<'q, J: Job>(&'q BTreeMap<(allocator_core::Device, Load), Queue<J>>);

impl<J: Job> Drop for Closing<'_, J> {
    fn drop(&mut self) {
        self.0.values().for_each(Queue::close);
    }
}

fn worker_panicked() -> Error {
    Error::new(ErrorKind::Unknown, Operation::Engine, "a copying thread panicked")
}
