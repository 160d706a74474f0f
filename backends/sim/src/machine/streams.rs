//! All streams and events of the machine, and the order between them.

use std::collections::HashMap;
use std::sync::Arc;

use super::answer::{Answer, Code};
use super::core::Core;
use super::host::QueuedCopy;
use super::queue::{Mark, Queue};
use super::work::Work;

/// What an event stands for: points in streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct Event {
    pub(crate) marks: Vec<Mark>,
    /// Recorded in a stream that was being captured.
    pub(crate) captured: bool,
}

#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) by_handle: HashMap<u64, Arc<Queue>>,
    pub(crate) events: HashMap<u64, Event>,
    /// The legacy stream of each device.
    legacy: Vec<Arc<Queue>>,
    /// Closed, with work left.
    closed: Vec<Arc<Queue>>,
    last: u64,
}

impl Streams {
    pub(crate) fn new(devices: u32) -> Self {
        Self {
            by_handle: HashMap::new(),
            events: HashMap::new(),
            legacy: (0..devices).map(|device| Queue::new(0, device, true)).collect(),
            closed: Vec::new(),
            last: 0x7000,
        }
    }

    pub(crate) fn fresh(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(crate) fn open(&mut self, device: u32, blocking: bool) -> u64 {
        let handle = self.fresh();
        self.by_handle.insert(handle, Queue::new(handle, device, blocking));
        handle
    }

    pub(crate) fn close(&mut self, handle: u64) -> Answer<Arc<Queue>> {
        let queue = self
            .by_handle
            .remove(&handle)
            .ok_or(Code::InvalidHandle.because("no such stream, or closed before"))?;
        queue.close();
        self.closed.retain(|queue| !queue.is_idle());
        if !queue.is_idle() {
            self.closed.push(Arc::clone(&queue));
        }
        Ok(queue)
    }

    /// A stream; zero is the legacy one of the device.
    pub(crate) fn get(&self, handle: u64, current: u32) -> Answer<Arc<Queue>> {
        let found = if handle == 0 {
            usize::try_from(current).ok().and_then(|index| self.legacy.get(index))
        } else {
            self.by_handle.get(&handle)
        };
        found.cloned().ok_or(Code::InvalidHandle.because("no such stream, or closed before"))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Queue>> {
        self.legacy.iter().chain(self.by_handle.values()).chain(&self.closed)
    }

    /// The ends of all streams of a device that have work.
    pub(crate) fn marks(&self, device: u32) -> Vec<Mark> {
        self.all()
            .filter(|queue| queue.device == device && !queue.is_idle())
            .map(|queue| queue.mark())
            .collect()
    }

    /// What work in this stream waits for: the legacy stream and the blocking ones wait for each
    /// other.
    pub(crate) fn before(&self, queue: &Arc<Queue>) -> Vec<Mark> {
        if !queue.blocking {
            return Vec::new();
        }
        self.all()
            .filter(|other| {
                other.device == queue.device
                    && other.blocking
                    && (other.handle == 0) != (queue.handle == 0)
                    && !other.is_idle()
            })
            .map(|other| other.mark())
            .collect()
    }
}

impl Core {
    /// Queues work, or adds it to the capture of its stream.
    pub(crate) fn submit(
        self: &Arc<Self>,
        queue: &Arc<Queue>,
        work: Work,
        host: Option<(u64, u64)>,
        mut after: Vec<Mark>,
    ) -> Answer {
        let streams = self.streams();
        if let Some(capture) = queue.state().capture.as_mut() {
            return capture.push(work);
        }
        if queue.handle == 0 {
            self.refuse_implicit(&streams, queue.device)?;
        }
        let copy: Option<QueuedCopy> = match host {
            Some((at, bytes)) => self.registrations.queue(at, bytes)?,
            None => None,
        };
        after.extend(streams.before(queue));
        queue.push(self, work, after, copy)
    }

    /// Everybody who waits looks up.
    pub(crate) fn stir(&self) {
        for queue in self.streams().all() {
            queue.stir();
        }
    }
}
