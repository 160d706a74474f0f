//! Opening and closing streams, and waiting: for a stream, for an event.

use super::Machine;
use super::answer::{Answer, Code};
use super::streams::Event;
use super::work::Work;

impl Machine {
    /// Opens a stream on the current device (`cuStreamCreate`). A blocking one is ordered with the
    /// legacy stream.
    ///
    /// # Errors
    /// `InvalidContext`, sticky errors.
    pub fn stream_create(&self, blocking: bool) -> Answer<u64> {
        self.core.enter();
        let device = self.context()?;
        self.core.alive(device)?;
        Ok(self.core.streams().open(device, blocking))
    }

    /// Closes a stream; what is queued in it is still done (`cuStreamDestroy`).
    ///
    /// # Errors
    /// `InvalidHandle`.
    pub fn stream_destroy(&self, stream: u64) -> Answer {
        self.core.enter();
        let queue = self.core.streams().close(stream)?;
        if queue.state().capture.take().is_some() {
            self.core.capturing.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
        }
        Ok(())
    }

    /// The device that a stream, not the legacy one, is on.
    ///
    /// # Errors
    /// `InvalidHandle`.
    pub fn stream_device(&self, stream: u64) -> Answer<u32> {
        if stream == 0 {
            return Err(Code::InvalidHandle.because("every device has a legacy stream"));
        }
        self.core.streams().get(stream, 0).map(|queue| queue.device)
    }

    /// Waits until a stream has done all that is queued (`cuStreamSynchronize`).
    ///
    /// # Errors
    /// The first error of its work; sticky errors; `StreamCaptureUnsupported`, which breaks the
    /// capture.
    pub fn stream_synchronize(&self, stream: u64) -> Answer {
        self.core.enter();
        let queue = self.any_stream(stream)?;
        self.core.refuse_captured(&queue)?;
        self.core.refuse_unsafe()?;
        let mark = queue.mark();
        queue.wait(mark.ticket, &self.core);
        self.settled(queue.device)?;
        queue.take_error()
    }

    /// Whether a stream has done all that is queued (`cuStreamQuery`).
    ///
    /// # Errors
    /// `NotReady`, and as [`stream_synchronize`](Self::stream_synchronize).
    pub fn stream_query(&self, stream: u64) -> Answer {
        self.core.enter();
        let queue = self.any_stream(stream)?;
        self.core.refuse_captured(&queue)?;
        self.core.refuse_unsafe()?;
        self.settled(queue.device)?;
        if queue.is_idle() { queue.take_error() } else { Err(NOT_READY) }
    }

    /// Lets what comes next in a stream wait for an event (`cuStreamWaitEvent`).
    ///
    /// # Errors
    /// `InvalidHandle`, sticky errors.
    pub fn stream_wait_event(&self, stream: u64, event: u64) -> Answer {
        self.core.enter();
        let queue = self.stream(stream)?;
        self.core.alive(queue.device)?;
        let marks = self.event(event)?.marks;
        self.core.submit(&queue, Work::Nothing, None, marks)
    }

    /// Makes an event (`cuEventCreate`). Before it is recorded it counts as passed.
    ///
    /// # Errors
    /// `InvalidContext`, sticky errors.
    pub fn event_create(&self) -> Answer<u64> {
        self.core.enter();
        self.core.alive(self.context()?)?;
        let mut streams = self.core.streams();
        let event = streams.fresh();
        streams.events.insert(event, Event::default());
        Ok(event)
    }

    /// Ends an event (`cuEventDestroy`).
    ///
    /// # Errors
    /// `InvalidHandle`.
    pub fn event_destroy(&self, event: u64) -> Answer {
        self.core.enter();
        let removed = self.core.streams().events.remove(&event);
        removed.map(|_| ()).ok_or(NO_EVENT)
    }

    /// Lets an event stand for the end of a stream as it is now (`cuEventRecord`).
    ///
    /// # Errors
    /// `InvalidHandle`, sticky errors.
    pub fn event_record(&self, event: u64, stream: u64) -> Answer {
        self.core.enter();
        let queue = self.stream(stream)?;
        self.core.alive(queue.device)?;
        let captured = queue.state().capture.is_some();
        let marks = if captured { Vec::new() } else { vec![queue.mark()] };
        self.put_event(event, Event { marks, captured })
    }

    /// Lets an event stand for the ends of all streams of a device, non-blocking ones included
    /// (`cuCtxRecordEvent`).
    ///
    /// # Errors
    /// `StreamCaptureUnsupported` during any capture in the context, which is then broken;
    /// `InvalidHandle`, sticky errors.
    pub fn context_record_event(&self, event: u64) -> Answer {
        self.core.enter();
        let device = self.context()?;
        self.core.alive(device)?;
        self.core.refuse_context_wide(device)?;
        let marks = self.core.streams().marks(device);
        self.put_event(event, Event { marks, captured: false })
    }

    /// Whether an event has passed (`cuEventQuery`).
    ///
    /// # Errors
    /// `NotReady`; sticky errors; `CapturedEvent`; `StreamCaptureUnsupported`, which breaks the
    /// capture.
    pub fn event_query(&self, event: u64) -> Answer {
        self.core.enter();
        self.core.refuse_unsafe()?;
        let event = self.waitable(event)?;
        self.settled_event(&event)?;
        if event.marks.iter().all(super::queue::Mark::has_passed) { Ok(()) } else { Err(NOT_READY) }
    }

    /// Waits until an event has passed (`cuEventSynchronize`).
    ///
    /// # Errors
    /// As [`event_query`](Self::event_query), save `NotReady`.
    pub fn event_synchronize(&self, event: u64) -> Answer {
        self.core.enter();
        self.core.refuse_unsafe()?;
        let event = self.waitable(event)?;
        for mark in &event.marks {
            mark.queue.wait(mark.ticket, &self.core);
        }
        self.settled_event(&event)
    }

    fn settled_event(&self, event: &Event) -> Answer {
        let mut devices: Vec<_> = event.marks.iter().map(|mark| mark.queue.device).collect();
        devices.dedup();
        if devices.is_empty() {
            devices.extend(self.current());
        }
        devices.into_iter().try_for_each(|device| self.settled(device))
    }

    fn event(&self, event: u64) -> Answer<Event> {
        self.core.streams().events.get(&event).cloned().ok_or(NO_EVENT)
    }

    fn waitable(&self, event: u64) -> Answer<Event> {
        let event = self.event(event)?;
        if event.captured {
            return Err(Code::CapturedEvent.because("the event was recorded in a capture"));
        }
        Ok(event)
    }

    fn put_event(&self, event: u64, value: Event) -> Answer {
        let mut streams = self.core.streams();
        let slot = streams.events.get_mut(&event).ok_or(NO_EVENT)?;
        *slot = value;
        Ok(())
    }
}

const NO_EVENT: super::answer::Refusal = Code::InvalidHandle.because("no such event");
const NOT_READY: super::answer::Refusal = Code::NotReady.because("work has not ended yet");
