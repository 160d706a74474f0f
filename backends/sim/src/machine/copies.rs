//! Copies, fills, kernels, and registered host memory.

use std::sync::Arc;
use std::time::Duration;

use super::Machine;
use super::answer::{Answer, Code};
use super::work::{Lane, Work};
use crate::config::Fault;

impl Machine {
    /// Copies device memory to the host, and waits for it.
    ///
    /// # Errors
    /// `InvalidValue` for memory that is not mapped or not accessible to the current device;
    /// sticky errors; `StreamCaptureUnsupported`, which breaks the capture.
    pub fn copy_to_host(&self, to: &mut [u8], from: u64) -> Answer {
        let (at, bytes) = (to.as_mut_ptr().expose_provenance() as u64, to.len() as u64);
        // SAFETY: the bytes of `to`, which is borrowed mutably until the copy has ended.
        unsafe { self.now(&Work::ToHost { from, to: at, bytes }) }
    }

    /// Copies host memory to the device, and waits for it.
    ///
    /// # Errors
    /// As [`copy_to_host`](Self::copy_to_host).
    pub fn copy_to_device(&self, to: u64, from: &[u8]) -> Answer {
        let (at, bytes) = (from.as_ptr().expose_provenance() as u64, from.len() as u64);
        // SAFETY: the bytes of `from`, which is borrowed until the copy has ended.
        unsafe { self.now(&Work::ToDevice { to, from: at, bytes }) }
    }

    /// Copies within device memory, and waits for it.
    ///
    /// # Errors
    /// As [`copy_to_host`](Self::copy_to_host).
    pub fn copy_within(&self, to: u64, from: u64, bytes: u64) -> Answer {
        // SAFETY: this copy has no host bytes.
        unsafe { self.now(&Work::Within { to, from, bytes }) }
    }

    /// Sets device memory to a byte, and waits for it.
    ///
    /// # Errors
    /// As [`copy_to_host`](Self::copy_to_host).
    pub fn fill(&self, at: u64, byte: u8, bytes: u64) -> Answer {
        // SAFETY: a fill has no host bytes.
        unsafe { self.now(&Work::Fill { at, byte, bytes }) }
    }

    /// Work of the legacy stream, which waits for the blocking ones, in the calling thread.
    ///
    /// # Safety
    /// The host bytes of a copy are valid, and nobody else uses them meanwhile.
    unsafe fn now(&self, work: &Work) -> Answer {
        self.core.enter();
        let device = self.context()?;
        self.core.alive(device)?;
        self.core.refuse_unsafe()?;
        self.core.check_work(device, work)?;
        let marks = {
            let streams = self.core.streams();
            self.core.refuse_implicit(&streams, device)?;
            let legacy = streams.get(0, device)?;
            let mut marks = streams.before(&legacy);
            marks.push(legacy.mark());
            marks
        };
        for mark in marks {
            mark.queue.wait(mark.ticket, &self.core);
        }
        // SAFETY: the caller's promise.
        let result = unsafe { self.core.perform(device, work) };
        result.and_then(|()| self.settled(device))
    }

    /// Queues a copy of device memory to the host.
    ///
    /// # Errors
    /// As [`copy_to_host`](Self::copy_to_host); `InvalidValue` also when the host bytes cross the
    /// border of a registration.
    ///
    /// # Safety
    /// The host bytes are valid, and nobody else uses them, until the stream was waited for.
    pub unsafe fn copy_to_host_async(
        &self,
        to: *mut u8,
        from: u64,
        bytes: u64,
        stream: u64,
    ) -> Answer {
        let to = to.expose_provenance() as u64;
        self.later(stream, Work::ToHost { from, to, bytes }, Some((to, bytes)))
    }

    /// Queues a copy of host memory to the device.
    ///
    /// # Errors
    /// As [`copy_to_host_async`](Self::copy_to_host_async).
    ///
    /// # Safety
    /// The host bytes are valid and initialised, and nobody writes them, until the stream was
    /// waited for.
    pub unsafe fn copy_to_device_async(
        &self,
        to: u64,
        from: *const u8,
        bytes: u64,
        stream: u64,
    ) -> Answer {
        let from = from.expose_provenance() as u64;
        self.later(stream, Work::ToDevice { to, from, bytes }, Some((from, bytes)))
    }

    /// Queues a copy within device memory.
    ///
    /// # Errors
    /// As [`copy_to_host`](Self::copy_to_host).
    pub fn copy_within_async(&self, to: u64, from: u64, bytes: u64, stream: u64) -> Answer {
        self.later(stream, Work::Within { to, from, bytes }, None)
    }

    /// Queues setting device memory to a byte.
    ///
    /// # Errors
    /// As [`copy_to_host`](Self::copy_to_host).
    pub fn fill_async(&self, at: u64, byte: u8, bytes: u64, stream: u64) -> Answer {
        self.later(stream, Work::Fill { at, byte, bytes }, None)
    }

    /// Queues a kernel: the device is busy for a time, then the body runs. Which memory it will
    /// touch nobody asks before.
    ///
    /// # Errors
    /// Sticky errors; `OperatingSystem` when the host has no thread for the stream.
    pub fn launch(
        &self,
        stream: u64,
        busy: Duration,
        body: impl Fn(&Lane<'_>) + Send + Sync + 'static,
    ) -> Answer {
        self.later(stream, Work::Kernel { busy, body: Arc::new(body) }, None)
    }

    fn later(&self, stream: u64, work: Work, host: Option<(u64, u64)>) -> Answer {
        self.core.enter();
        let queue = self.stream(stream)?;
        self.core.alive(queue.device)?;
        self.core.check_work(queue.device, &work)?;
        self.core.submit(&queue, work, host, Vec::new())
    }

    /// Registers host memory (`cuMemHostRegister`).
    ///
    /// # Errors
    /// `HostAlreadyRegistered`, `OperatingSystem` when that is acted out, `InvalidValue` for no
    /// bytes, `StreamCaptureUnsupported`, sticky errors.
    ///
    /// # Safety
    /// The bytes are mapped, and stay so until they are unregistered.
    pub unsafe fn host_register(&self, at: *mut u8, bytes: u64) -> Answer {
        self.core.enter();
        self.core.alive(self.context()?)?;
        self.core.refuse_unsafe()?;
        if self.core.config.has(Fault::RefuseHostRegistration) {
            return Err(Code::OperatingSystem
                .because("host memory cannot be registered (a fault that is acted out)"));
        }
        self.core.registrations.register(at.expose_provenance() as u64, bytes)
    }

    /// Takes a registration back, and waits for copies queued on it (`cuMemHostUnregister`).
    ///
    /// # Errors
    /// `HostNotRegistered`, `StreamCaptureUnsupported`, sticky errors.
    ///
    /// # Safety
    /// No copy is captured on the bytes that will yet be launched.
    pub unsafe fn host_unregister(&self, at: *mut u8) -> Answer {
        self.core.enter();
        self.core.alive(self.context()?)?;
        self.core.refuse_unsafe()?;
        self.core.registrations.unregister(at.addr() as u64)
    }

    /// Host bytes that are registered now.
    #[must_use]
    pub fn registered_bytes(&self) -> u64 {
        self.core.registrations.bytes()
    }

    /// Registrations of host memory there are now.
    #[must_use]
    pub fn registrations(&self) -> usize {
        self.core.registrations.count()
    }
}
