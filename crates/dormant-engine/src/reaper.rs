//! The background thread that lets go of things: backups after a resume (unmapping 16 GiB takes
//! tens of milliseconds, giving a file's space back may take longer), and staging that has been idle.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use allocator_core::{Deadline, Driver};
use dormant_host::process;

use crate::host::HostMemory;
use crate::stash::Stash;
use crate::sync::{Mutex, lock};
use crate::transfer::Lanes;

enum Task {
    Drop(Vec<Stash>),
    /// Answers when everything before it is done.
    Drain(SyncSender<()>),
    /// Staging was used; look after it.
    Used,
}

#[derive(Debug)]
pub(crate) struct Reaper<D: Driver> {
    lanes: Arc<Lanes<D>>,
    host: Arc<HostMemory<D>>,
    idle_timeout: Duration,
    sender: Mutex<Option<Sender<Task>>>,
}

impl<D: Driver> Reaper<D> {
    pub(crate) fn new(
        lanes: Arc<Lanes<D>>,
        host: Arc<HostMemory<D>>,
        idle_timeout: Duration,
    ) -> Self {
        Self { lanes, host, idle_timeout, sender: Mutex::new(None) }
    }

    /// Drops these in the background; here, if no thread can be had.
    pub(crate) fn bury(&self, stashes: Vec<Stash>) {
        if !stashes.is_empty() {
            self.send(Task::Drop(stashes));
        }
    }

    /// Staging was given back; it will be closed when it has been idle for long.
    pub(crate) fn staging_was_used(&self) {
        self.send(Task::Used);
    }

    /// Waits until everything handed over so far is gone, up to the deadline.
    pub(crate) fn drain(&self, deadline: Deadline) {
        let Some(sender) = lock(&self.sender).clone() else { return };
        let (done, wait) = sync_channel(1);
        if sender.send(Task::Drain(done)).is_ok() {
            let left = deadline.remaining().unwrap_or(Duration::from_secs(60));
            let _ = wait.recv_timeout(left);
        }
    }

    fn send(&self, task: Task) {
        let mut sender = lock(&self.sender);
        let mut task = task;
        if let Some(running) = &*sender {
            match running.send(task) {
                Ok(()) => return,
                Err(back) => task = back.0,
            }
        }
        let (new, receiver) = channel();
        let (lanes, host) = (Arc::clone(&self.lanes), Arc::clone(&self.host));
        let idle_timeout = self.idle_timeout;
        let spawned = std::thread::Builder::new()
            .name("dormant-reaper".to_owned())
            .spawn(move || serve(&receiver, &lanes, &host, idle_timeout));
        if spawned.is_ok() {
            // The receiver lives until the thread ends, which is after the sender is gone.
            let _ = new.send(task);
            *sender = Some(new);
        }
        // What nobody took goes here, when nothing is locked.
        drop(sender);
    }
}

fn serve<D: Driver>(
    tasks: &Receiver<Task>,
    lanes: &Lanes<D>,
    host: &HostMemory<D>,
    idle_timeout: Duration,
) {
    loop {
        let next = if lanes.is_empty() {
            tasks.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            tasks.recv_timeout(idle_timeout)
        };
        match next {
            Ok(Task::Drop(stashes)) => {
                drop(stashes);
                host.publish();
            }
            Ok(Task::Drain(done)) => {
                let _ = done.send(());
            }
            Ok(Task::Used) => {}
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                // The engine is gone; a process on its way out leaves its drivers alone.
                if !process::is_exiting() {
                    lanes.trim(Duration::ZERO);
                }
                return;
            }
        }
        // Also when others are in use: each lane goes when it has been idle for long.
        if !process::is_exiting() {
            lanes.trim(idle_timeout);
        }
    }
}
