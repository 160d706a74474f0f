//! Copies between blocks and host memory or files, by several workers on each device.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use allocator_core::{Device, Driver, Error, ErrorKind, Mapped, Operation, Result};
use dormant_host::{CHUNK_BYTES, ExtentPart, Lane, RestoreJob, SaveJob, Source, Target};

use crate::config::{Config, MAX_WORKERS};
use crate::sync::{Mutex, lock};

/// Open lanes that nobody is using.
#[derive(Debug)]
pub(crate) struct Lanes<D: Driver> {
    driver: Arc<D>,
    idle: Mutex<Vec<(Lane<D>, Instant)>>,
}

impl<D: Driver> Lanes<D> {
    pub(crate) fn new(driver: Arc<D>) -> Self {
        Self { driver, idle: Mutex::new(Vec::new()) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.idle).is_empty()
    }

    fn take(&self, device: Device) -> Result<Lane<D>> {
        let mut idle = lock(&self.idle);
        let place = idle.iter().rposition(|(lane, _)| lane.device() == device);
        let found = place.map(|place| idle.remove(place).0);
        drop(idle);
        found.map_or_else(|| Lane::open(&self.driver, device), Ok)
    }

    /// Takes a lane back; one that met an error is closed, as is one more than a transition uses.
    fn give(&self, lane: Lane<D>, whole: bool) {
        let device = lane.device();
        {
            let mut idle = lock(&self.idle);
            let kept = idle.iter().filter(|(lane, _)| lane.device() == device).count();
            if whole && kept < MAX_WORKERS {
                idle.push((lane, Instant::now()));
                return;
            }
        }
        let _ = lane.close();
    }

    /// Closes the lanes that have been idle for at least `age`.
    pub(crate) fn trim(&self, age: Duration) {
        let mut old = Vec::new();
        {
            let mut idle = lock(&self.idle);
            let mut index = 0;
            while let Some((_, since)) = idle.get(index) {
                if since.elapsed() >= age {
                    old.push(idle.remove(index).0);
                } else {
                    index += 1;
                }
            }
        }
        for lane in old {
            let _ = lane.close();
        }
    }

    /// Runs `work` with a lane.
    pub(crate) fn with<T>(
        &self,
        device: Device,
        work: impl FnOnce(&mut Lane<D>) -> Result<T>,
    ) -> Result<T> {
        let mut lane = self.take(device)?;
        let result = work(&mut lane);
        self.give(lane, result.is_ok());
        result
    }
}

/// What a run of copies did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Copied {
    pub(crate) workers: usize,
    /// Whether a lane had to do without registered staging.
    pub(crate) unregistered: bool,
}

/// Cuts a copy from a block into jobs of one chunk.
pub(crate) fn save_jobs<'a, B: Mapped>(
    block: &'a B,
    offset: u64,
    into: &'a mut [u8],
) -> impl Iterator<Item = SaveJob<'a, B>> {
    into.chunks_mut(CHUNK_BYTES).enumerate().map(move |(index, into)| SaveJob {
        block,
        offset: offset + (index * CHUNK_BYTES) as u64,
        into: into.into(),
    })
}

/// Cuts a copy to a block into jobs of one chunk.
pub(crate) fn restore_jobs<'a, B: Mapped>(
    block: &'a B,
    offset: u64,
    from: &'a [u8],
) -> impl Iterator<Item = RestoreJob<'a, B>> {
    from.chunks(CHUNK_BYTES).enumerate().map(move |(index, from)| RestoreJob {
        block,
        offset: offset + (index * CHUNK_BYTES) as u64,
        from: from.into(),
    })
}

/// The jobs that save a block in these parts of a file.
pub(crate) fn write_jobs<'a, B: Mapped>(
    block: &'a B,
    parts: impl Iterator<Item = ExtentPart<'a>>,
) -> impl Iterator<Item = SaveJob<'a, B>> {
    parts.map(move |part| SaveJob { block, offset: part.offset(), into: Target::Disk(part) })
}

/// The jobs that restore a block from these parts of a file.
pub(crate) fn read_jobs<'a, B: Mapped>(
    block: &'a B,
    parts: impl Iterator<Item = ExtentPart<'a>>,
) -> impl Iterator<Item = RestoreJob<'a, B>> {
    parts.map(move |part| RestoreJob { block, offset: part.offset(), from: Source::Disk(part) })
}

/// Copies from blocks; everything has ended when this returns, also with an error.
pub(crate) fn save<D: Driver, B: Mapped<Driver = D>>(
    lanes: &Lanes<D>,
    config: &Config,
    jobs: Vec<SaveJob<'_, B>>,
) -> Result<Copied> {
    let disk = jobs.iter().any(|job| matches!(job.into, Target::Disk(_)));
    let work = |lane: &mut Lane<D>, queue: &Queue<'_, _>| lane.save(|| queue.next());
    run(lanes, config, jobs, disk, |job| job.block.device(), work)
}

/// Copies to blocks; everything has ended when this returns, also with an error.
pub(crate) fn restore<D: Driver, B: Mapped<Driver = D>>(
    lanes: &Lanes<D>,
    config: &Config,
    jobs: Vec<RestoreJob<'_, B>>,
) -> Result<Copied> {
    let disk = jobs.iter().any(|job| matches!(job.from, Source::Disk(_)));
    let work = |lane: &mut Lane<D>, queue: &Queue<'_, _>| lane.restore(|| queue.next());
    run(lanes, config, jobs, disk, |job| job.block.device(), work)
}

/// The jobs of one device, for its workers to take from.
struct Queue<'a, J> {
    device: Device,
    jobs: Mutex<std::vec::IntoIter<J>>,
    stop: &'a AtomicBool,
}

impl<J> Queue<'_, J> {
    fn next(&self) -> Option<J> {
        if self.stop.load(Ordering::Relaxed) { None } else { lock(&self.jobs).next() }
    }

    fn left(&self) -> usize {
        lock(&self.jobs).len()
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

fn run<D: Driver, J: Send>(
    lanes: &Lanes<D>,
    config: &Config,
    jobs: Vec<J>,
    disk: bool,
    device_of: impl Fn(&J) -> Device,
    work: impl Fn(&mut Lane<D>, &Queue<'_, J>) -> Result<u64> + Sync,
) -> Result<Copied> {
    let mut by_device = BTreeMap::<Device, Vec<J>>::new();
    for job in jobs {
        by_device.entry(device_of(&job)).or_default().push(job);
    }
    let crew = config.crew(by_device.len(), disk);
    let stop = AtomicBool::new(false);
    let queues: Vec<_> = by_device
        .into_iter()
        .map(|(device, jobs)| Queue { device, jobs: Mutex::new(jobs.into_iter()), stop: &stop })
        .collect();
    let worker = |queue: &Queue<'_, J>| {
        let mut lane = match lanes.take(queue.device) {
            Ok(lane) => lane,
            Err(error) => return Ended::NoLane(error),
        };
        let result = work(&mut lane, queue);
        let registered = lane.is_registered();
        lanes.give(lane, result.is_ok());
        match result {
            Ok(_) => Ended::Done { registered },
            Err(error) => {
                stop.store(true, Ordering::Relaxed);
                Ended::Failed(error)
            }
        }
    };
    let mut copied = Copied::default();
    let mut ended = Vec::new();
    for queues in queues.chunks(crew.devices) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        std::thread::scope(|scope| {
            let mut running = Vec::new();
            for queue in queues {
                let worker = &worker;
                for _ in 0..crew.workers.min(queue.left()) {
                    let spawned = std::thread::Builder::new()
                        .name("dormant-copy".to_owned())
                        .spawn_scoped(scope, move || worker(queue));
                    running.extend(spawned.ok());
                }
            }
            for thread in running {
                ended.push(thread.join().unwrap_or_else(|_| Ended::Failed(worker_panicked())));
            }
        });
    }
    let mut no_lane = None;
    for end in ended {
        match end {
            Ended::Done { registered } => {
                copied.workers += 1;
                copied.unregistered |= !registered;
            }
            Ended::NoLane(error) => no_lane = Some(error),
            Ended::Failed(error) => return Err(error),
        }
    }
    // What no worker took (no thread, no lane) is done here, or the reason is the answer.
    for queue in &queues {
        if queue.left() > 0 {
            match worker(queue) {
                Ended::Done { registered } => {
                    copied.workers += 1;
                    copied.unregistered |= !registered;
                }
                Ended::NoLane(error) => return Err(no_lane.unwrap_or(error)),
                Ended::Failed(error) => return Err(error),
            }
        }
    }
    Ok(copied)
}

fn worker_panicked() -> Error {
    Error::new(ErrorKind::Unknown, Operation::Engine, "a copying thread panicked")
}

/// Runs `work` on each group, groups at the same time where there are several: one a device.
pub(crate) fn each_device<G: Send, T: Send>(
    groups: &mut [G],
    work: impl Fn(&mut G) -> T + Sync,
) -> Vec<T> {
    let Some((first, others)) = groups.split_first_mut() else { return Vec::new() };
    std::thread::scope(|scope| {
        let mut here = Vec::new();
        let mut running = Vec::new();
        for group in others {
            let work = &work;
            // A shared cell lets the group come back if no thread can be had.
            let cell = Arc::new(Mutex::new(Some(group)));
            let theirs = Arc::clone(&cell);
            let spawned = std::thread::Builder::new()
                .name("dormant-device".to_owned())
                .spawn_scoped(scope, move || lock(&theirs).take().map(work));
            match spawned {
                Ok(thread) => running.push(thread),
                Err(_) => here.push(cell),
            }
        }
        let mut results = vec![work(first)];
        for cell in here {
            results.extend(lock(&cell).take().map(&work));
        }
        for thread in running {
            match thread.join() {
                Ok(result) => results.extend(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    })
}
