//! One stream: a queue of work and the thread that does it, in order.

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use super::answer::{Answer, Code, Refusal};
use super::capture::Capture;
use super::core::{Core, lock};
use super::host::QueuedCopy;
use super::work::Work;

/// How long a thread sleeps at most before it looks whether the machine has ended.
const LOOK_UP: Duration = Duration::from_secs(1);

/// A point in a queue: everything submitted before it.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) queue: Arc<Queue>,
    pub(crate) ticket: u64,
}

impl Mark {
    pub(crate) fn has_passed(&self) -> bool {
        self.queue.state().done >= self.ticket
    }
}

#[derive(Debug)]
struct Job {
    work: Work,
    after: Vec<Mark>,
    copy: Option<QueuedCopy>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    jobs: VecDeque<Job>,
    submitted: u64,
    done: u64,
    closed: bool,
    thread: Option<JoinHandle<()>>,
    /// The first error that is not sticky, until somebody asks.
    error: Option<Refusal>,
    pub(crate) capture: Option<Capture>,
}

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) handle: u64,
    pub(crate) device: u32,
    /// Whether it is ordered with the legacy stream of its device.
    pub(crate) blocking: bool,
    state: Mutex<State>,
    came: Condvar,
    went: Condvar,
}

impl Queue {
    pub(crate) fn new(handle: u64, device: u32, blocking: bool) -> Arc<Self> {
        Arc::new(Self {
            handle,
            device,
            blocking,
            state: Mutex::default(),
            came: Condvar::new(),
            went: Condvar::new(),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The end of the queue as it is now.
    pub(crate) fn mark(self: &Arc<Self>) -> Mark {
        Mark { queue: Arc::clone(self), ticket: self.state().submitted }
    }

    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state();
        state.done >= state.submitted
    }

    /// Puts work at the end; the thread starts with the first.
    pub(crate) fn push(
        self: &Arc<Self>,
        core: &Arc<Core>,
        work: Work,
        after: Vec<Mark>,
        copy: Option<QueuedCopy>,
    ) -> Answer {
        let mut state = self.state();
        if state.thread.is_none() {
            let (queue, core) = (Arc::clone(self), Arc::clone(core));
            let thread = thread::Builder::new()
                .name("sim-stream".into())
                .spawn(move || queue.run(&core))
                .map_err(|_| {
                    Code::OperatingSystem.because("the host has no thread for the stream")
                })?;
            state.thread = Some(thread);
        }
        state.jobs.push_back(Job { work, after, copy });
        state.submitted += 1;
        self.came.notify_one();
        Ok(())
    }

    /// Waits until a point has been passed, or the machine has ended.
    pub(crate) fn wait(&self, ticket: u64, core: &Core) {
        let mut state = self.state();
        while state.done < ticket && !core.halt.is_halted() && core.alive(self.device).is_ok() {
            state =
                self.went.wait_timeout(state, LOOK_UP).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Wakes whoever waits, since a device has failed or the machine ended.
    pub(crate) fn stir(&self) {
        let _state = self.state();
        self.came.notify_all();
        self.went.notify_all();
    }

    pub(crate) fn take_error(&self) -> Answer {
        self.state().error.take().map_or(Ok(()), Err)
    }

    /// The thread ends once all work is done.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.came.notify_all();
    }

    /// Waits for the thread, unless it is the calling one.
    pub(crate) fn join(&self) {
        let thread = self.state().thread.take();
        if let Some(thread) = thread.filter(|thread| not_me(thread.thread().id())) {
            // A kernel's body that panicked has nothing more to say.
            let _ = thread.join();
        }
    }

    fn run(&self, core: &Core) {
        while let Some(Job { work, after, copy }) = self.next(core) {
            let _done = Done { queue: self };
            for mark in after {
                mark.queue.wait(mark.ticket, core);
            }
            if core.halt.is_halted() || core.alive(self.device).is_err() {
                continue;
            }
            let result = panic::catch_unwind(AssertUnwindSafe(|| {
                // SAFETY: whoever queued a copy promised that its host bytes stay valid and
                // unused by others until the stream has been waited for.
                unsafe { core.perform(self.device, &work) }
            }));
            self.keep(result.unwrap_or_else(|_| {
                Err(Code::LaunchFailed.because("the body of a simulated kernel panicked"))
            }));
            drop(copy);
        }
    }

    fn keep(&self, result: Answer) {
        if let Err(refusal) = result
            && !matches!(refusal.code, Code::IllegalAddress | Code::DeviceLost)
        {
            self.state().error.get_or_insert(refusal);
        }
    }

    fn next(&self, core: &Core) -> Option<Job> {
        let mut state = self.state();
        loop {
            if core.halt.is_halted() {
                return None;
            }
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state =
                self.came.wait_timeout(state, LOOK_UP).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Counts a job as done, also when a kernel's body panics.
struct Done<'a> {
    queue: &'a Queue,
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.queue.state().done += 1;
        self.queue.went.notify_all();
    }
}

fn not_me(thread: ThreadId) -> bool {
    thread::current().id() != thread
}
