//! Stream capture, and which calls break one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Machine;
use super::answer::{Answer, Code, Refusal};
use super::core::Core;
use super::here;
use super::queue::Queue;
use super::streams::Streams;
use super::work::Work;

/// How far a capture, or a thread, guards against calls that may break one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CaptureMode {
    /// A capture: unsafe calls of any thread break it. A thread: its unsafe calls break captures.
    #[default]
    Global,
    /// Only between calls and captures of the same thread.
    ThreadLocal,
    /// Not at all.
    Relaxed,
}

/// What became of a stream's capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CaptureStatus {
    /// The stream is not being captured.
    None,
    /// It is, and all is well.
    Active,
    /// It is, and the capture is broken.
    Invalidated,
}

/// Work that was captured, to be launched as often as wanted.
#[derive(Clone, Debug)]
pub struct Graph {
    device: u32,
    work: Vec<Work>,
}

impl Graph {
    /// How many pieces of work it is made of.
    #[must_use]
    pub fn len(&self) -> usize {
        self.work.len()
    }

    /// Whether nothing was captured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.work.is_empty()
    }
}

#[derive(Debug)]
pub(crate) struct Capture {
    mode: CaptureMode,
    thread: u64,
    work: Vec<Work>,
    valid: bool,
}

impl Capture {
    pub(crate) fn push(&mut self, work: Work) -> Answer {
        if !self.valid {
            return Err(BROKEN);
        }
        self.work.push(work);
        Ok(())
    }
}

const BROKEN: Refusal = Code::CaptureInvalidated.because("the capture of this stream is broken");
const UNSUPPORTED: Refusal =
    Code::StreamCaptureUnsupported.because("not during a stream capture, which is now broken");

impl Core {
    /// At the beginning of calls that CUDA calls unsafe during a capture.
    pub(crate) fn refuse_unsafe(&self) -> Answer {
        if self.capturing.load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        let (mode, me) = (here::capture_mode(self.id), here::thread());
        self.break_captures(&self.streams(), |_, capture| match mode {
            CaptureMode::Relaxed => false,
            CaptureMode::Global => {
                capture.mode == CaptureMode::Global
                    || (capture.mode == CaptureMode::ThreadLocal && capture.thread == me)
            }
            CaptureMode::ThreadLocal => {
                capture.mode != CaptureMode::Relaxed && capture.thread == me
            }
        })
    }

    /// At the beginning of calls that concern all streams of a context: they break every capture
    /// in it, whoever calls.
    pub(crate) fn refuse_context_wide(&self, device: u32) -> Answer {
        if self.capturing.load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        self.break_captures(&self.streams(), |queue, _| queue.device == device)
    }

    /// Waiting for, or asking, a stream that is being captured.
    pub(crate) fn refuse_captured(&self, queue: &Arc<Queue>) -> Answer {
        match queue.state().capture.as_mut() {
            Some(capture) => {
                capture.valid = false;
                Err(UNSUPPORTED)
            }
            None => Ok(()),
        }
    }

    /// Work in the legacy stream would wait for blocking streams, captured ones too.
    pub(crate) fn refuse_implicit(&self, streams: &Streams, device: u32) -> Answer {
        if self.capturing.load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        self.break_captures(streams, |queue, _| queue.device == device && queue.blocking).map_err(
            |_| {
                Code::StreamCaptureImplicit
                    .because("the legacy stream would wait for a captured one, which is now broken")
            },
        )
    }

    fn break_captures(
        &self,
        streams: &Streams,
        mut concerns: impl FnMut(&Queue, &Capture) -> bool,
    ) -> Answer {
        let mut answer = Ok(());
        for queue in streams.all() {
            if let Some(capture) = queue.state().capture.as_mut()
                && concerns(queue, capture)
            {
                capture.valid = false;
                answer = Err(UNSUPPORTED);
            }
        }
        answer
    }
}

impl Machine {
    /// Sets the calling thread's capture mode and gives back the one before.
    #[must_use = "the mode before is to be set again"]
    pub fn exchange_capture_mode(&self, mode: CaptureMode) -> CaptureMode {
        here::exchange_capture_mode(self.core.id, mode)
    }

    /// Begins to capture a stream: its work is recorded and not done.
    ///
    /// # Errors
    /// `StreamCaptureUnsupported` for the legacy stream, `InvalidValue` when it is being captured.
    pub fn begin_capture(&self, stream: u64, mode: CaptureMode) -> Answer {
        let queue = self.stream(stream)?;
        if stream == 0 {
            return Err(Code::StreamCaptureUnsupported.because("the legacy stream"));
        }
        let mut state = queue.state();
        if state.capture.is_some() {
            return Err(Code::InvalidValue.because("the stream is being captured"));
        }
        state.capture =
            Some(Capture { mode, thread: here::thread(), work: Vec::new(), valid: true });
        self.core.capturing.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// Ends a capture.
    ///
    /// # Errors
    /// `CaptureInvalidated` for a broken one, which ends all the same; `CaptureWrongThread`.
    pub fn end_capture(&self, stream: u64) -> Answer<Graph> {
        let queue = self.stream(stream)?;
        let mut state = queue.state();
        let capture =
            state.capture.take().ok_or(Code::InvalidValue.because("no capture to end"))?;
        if capture.mode != CaptureMode::Relaxed && capture.thread != here::thread() {
            state.capture = Some(capture);
            return Err(Code::CaptureWrongThread.because("begun by another thread"));
        }
        self.core.capturing.fetch_sub(1, Ordering::SeqCst);
        if !capture.valid {
            return Err(BROKEN);
        }
        Ok(Graph { device: queue.device, work: capture.work })
    }

    /// Whether a stream is being captured. The legacy stream sees nothing.
    ///
    /// # Errors
    /// `InvalidHandle`.
    pub fn capture_status(&self, stream: u64) -> Answer<CaptureStatus> {
        if stream == 0 {
            return Ok(CaptureStatus::None);
        }
        let queue = self.any_stream(stream)?;
        let state = queue.state();
        Ok(match &state.capture {
            None => CaptureStatus::None,
            Some(capture) if capture.valid => CaptureStatus::Active,
            Some(_) => CaptureStatus::Invalidated,
        })
    }

    /// Queues what was captured.
    ///
    /// # Errors
    /// As for the single pieces of work. Host memory and device memory are checked again.
    ///
    /// # Safety
    /// The host bytes of captured copies are valid now, and until the stream was waited for.
    pub unsafe fn launch_graph(&self, stream: u64, graph: &Graph) -> Answer {
        let queue = self.stream(stream)?;
        self.core.alive(queue.device)?;
        if queue.device != graph.device {
            return Err(Code::InvalidValue.because("the graph is for another device"));
        }
        for work in &graph.work {
            self.core.submit(&queue, work.clone(), None, Vec::new())?;
        }
        Ok(())
    }
}
