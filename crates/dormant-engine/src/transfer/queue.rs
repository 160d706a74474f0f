//! The jobs of one device, for its workers to take from.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use allocator_core::Device;
use dormant_host::{Batch, STAGING_BYTES};

use super::jobs::{Job, Load};

/// The most jobs that are queued on a device and waited for together: enough to hide the waiting
/// behind small copies.
const MOST_JOBS: usize = 64;

#[derive(Debug)]
struct Waiting<J> {
    jobs: VecDeque<J>,
    /// More may come.
    open: bool,
}

/// Jobs of one device and one kind of load, in order.
#[derive(Debug)]
pub(super) struct Queue<J> {
    pub(super) device: Device,
    pub(super) load: Load,
    /// The most bytes that a worker has queued on the device in one half of its lane.
    window_bytes: u64,
    waiting: Mutex<Waiting<J>>,
    changed: Condvar,
}

impl<J: Job> Queue<J> {
    pub(super) fn new(device: Device, load: Load, window_bytes: u64) -> Self {
        let waiting = Mutex::new(Waiting { jobs: VecDeque::new(), open: true });
        Self { device, load, window_bytes, waiting, changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<J>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, jobs: impl Iterator<Item = J>) {
        self.lock().jobs.extend(jobs);
        self.changed.notify_all();
    }

    /// Nothing more will come.
    pub(super) fn close(&self) {
        self.lock().open = false;
        self.changed.notify_all();
    }

    pub(super) fn left(&self) -> usize {
        self.lock().jobs.len()
    }

    /// Wakes those who wait for a job, to look at what stops them.
    pub(super) fn stir(&self) {
        let _waiting = self.lock();
        self.changed.notify_all();
    }

    /// The next jobs, as many as go together; waits for one. None when there will be no more, or
    /// when the work has been stopped.
    pub(super) fn next(&self, stop: &AtomicBool) -> Batch<J> {
        let mut batch = Batch::new();
        let mut waiting = self.lock();
        loop {
            if stop.load(Ordering::Relaxed) {
                return batch;
            }
            let (mut bytes, mut staged) = (0, 0);
            while let Some(job) = waiting.jobs.front() {
                bytes += job.bytes();
                staged += job.staged_bytes();
                let fits = bytes <= self.window_bytes && staged <= STAGING_BYTES;
                if !batch.is_empty() && (!fits || batch.len() == MOST_JOBS) {
                    break;
                }
                batch.extend(waiting.jobs.pop_front());
            }
            if !batch.is_empty() || !waiting.open {
                return batch;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    struct Fake(u64, usize);

    impl Job for Fake {
        fn device(&self) -> Device {
            Device(0)
        }
        fn bytes(&self) -> u64 {
            self.0
        }
        fn staged_bytes(&self) -> usize {
            self.1
        }
        fn load(&self) -> Load {
            Load::Cpu
        }
    }

    #[test]
    fn small_jobs_go_together_and_large_ones_alone() {
        let queue = Queue::new(Device(0), Load::Cpu, 4 << 20);
        let stop = AtomicBool::new(false);
        queue.push((0..100).map(|_| Fake(100, 4096)));
        queue.push([Fake(5 << 20, 0), Fake(1, 0), Fake(3 << 20, 0)].into_iter());
        queue.push([Fake(1, STAGING_BYTES), Fake(1, 4096)].into_iter());
        queue.close();
        let mut lengths = Vec::new();
        loop {
            let batch = queue.next(&stop);
            if batch.is_empty() {
                break;
            }
            lengths.push(batch.len());
        }
        assert_eq!(lengths, [64, 36, 1, 3, 1]);
    }

    #[test]
    fn a_stopped_queue_gives_nothing_and_wakes_who_waits() {
        let queue = Queue::<Fake>::new(Device(0), Load::Cpu, 1);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.next(&stop));
            std::thread::sleep(std::time::Duration::from_millis(20));
            stop.store(true, Ordering::Relaxed);
            queue.stir();
            assert!(waiting.join().unwrap().is_empty());
        });
        queue.push([Fake(1, 1)].into_iter());
        assert!(queue.next(&stop).is_empty());
        assert_eq!(queue.left(), 1);
    }
}
