//! What tests can do: fail calls, count them, be the program that uses the device.

use std::time::Duration;

use allocator_core::{Address, Device, ErrorKind, Operation, RawStream, Result};

use super::Sim;
use super::errors::to_error;
use crate::machine::{Answer, CaptureMode, Graph, Lane, Machine};

/// Failing and counting driver calls.
impl Sim {
    /// Makes the `n`-th call of an operation from now (1 is the next) fail once, with nothing
    /// changed. Several can be armed at once. What a call promises to do even when it fails is
    /// done: a stream is closed, a wait waits, a vacated range that lost its address is given back.
    pub fn fail_nth(&self, operation: Operation, n: u64, kind: ErrorKind) {
        self.failures.arm(operation, n, false, kind);
    }

    /// Makes every call of an operation fail, until [`clear_failures`](Self::clear_failures).
    pub fn fail_from(&self, operation: Operation, kind: ErrorKind) {
        self.failures.arm(operation, 1, true, kind);
    }

    /// Forgets all failures that are armed.
    pub fn clear_failures(&self) {
        self.failures.clear();
    }

    /// How many failures are armed; one that has gone off is not.
    #[must_use]
    pub fn armed_failures(&self) -> usize {
        self.failures.armed()
    }

    /// How often an operation was called, failed calls included.
    #[must_use]
    pub fn calls(&self, operation: Operation) -> u64 {
        self.failures.count(operation)
    }

    /// Begins a new log of calls, or ends logging.
    pub fn record_calls(&self, on: bool) {
        self.failures.record(on);
    }

    /// The calls since [`record_calls`](Self::record_calls), in order.
    #[must_use]
    pub fn call_log(&self) -> Vec<Operation> {
        self.failures.log()
    }
}

/// The state of the machine.
impl Sim {
    /// How many devices have a context now.
    #[must_use]
    pub fn contexts(&self) -> usize {
        self.machine.contexts()
    }

    /// How many contexts were ever made, temporary ones included.
    #[must_use]
    pub fn contexts_made(&self) -> u64 {
        self.machine.contexts_made()
    }

    /// Host bytes that are registered now.
    #[must_use]
    pub fn registered_bytes(&self) -> u64 {
        self.machine.registered_bytes()
    }

    /// Registrations of host memory there are now.
    #[must_use]
    pub fn registrations(&self) -> usize {
        self.machine.registrations()
    }

    /// The calling thread's current device.
    #[must_use]
    pub fn current_device(&self) -> Option<Device> {
        self.machine.current().map(Device)
    }

    /// Makes a device the calling thread's current one, as the program would.
    ///
    /// # Errors
    /// `NotFound` for a device that is not there.
    pub fn set_current_device(&self, device: Option<Device>) -> Result<()> {
        self.machine
            .set_current(device.map(|device| device.0))
            .map_err(|refusal| to_error(refusal, Operation::Engine))
    }

    /// The device falls off the bus: quiesce, copies and memory say `DeviceLost`; unmap, release
    /// and unreserve still succeed.
    ///
    /// # Errors
    /// `NotFound` for a device that is not there.
    pub fn lose_device(&self, device: Device) -> Result<()> {
        self.machine
            .lose_device(device.0)
            .map_err(|refusal| to_error(refusal, Operation::Engine).with_device(device))
    }
}

/// The program that uses the device.
impl Sim {
    /// Opens a stream of the program's; a blocking one is ordered with the legacy stream.
    ///
    /// # Errors
    /// `NotFound`, and sticky errors.
    pub fn open_user_stream(&self, device: Device, blocking: bool) -> Result<RawStream> {
        let stream = self.program(device, |machine| machine.stream_create(blocking))?;
        usize::try_from(stream).map(RawStream).map_err(|_| {
            crate::config::invalid("a stream's handle does not fit an address of this machine")
        })
    }

    /// Closes a stream of the program's; its work is still done.
    ///
    /// # Errors
    /// `InvalidArgument` when there is no such stream.
    pub fn close_user_stream(&self, stream: RawStream) -> Result<()> {
        self.machine
            .stream_destroy(stream.0 as u64)
            .map_err(|refusal| to_error(refusal, Operation::Engine))
    }

    /// Queues a simulated kernel: the device is busy for a time, then the body runs, on the
    /// stream's thread. [`RawStream`] zero is the device's legacy stream.
    ///
    /// # Errors
    /// `InvalidArgument` for a stream that is not there or on another device; sticky errors.
    pub fn launch(
        &self,
        device: Device,
        stream: RawStream,
        busy: Duration,
        body: impl Fn(&Lane<'_>) + Send + Sync + 'static,
    ) -> Result<()> {
        self.program(device, |machine| machine.launch(stream.0 as u64, busy, body))
    }

    /// Queues a simulated kernel that is busy for a time and then sets memory to a byte.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    pub fn launch_fill(
        &self,
        device: Device,
        stream: RawStream,
        busy: Duration,
        at: Address,
        byte: u8,
        bytes: u64,
    ) -> Result<()> {
        self.launch(device, stream, busy, move |lane| {
            // A bad access has made the error sticky, which is how a kernel says it.
            let _ = lane.fill(at.0, byte, bytes);
        })
    }

    /// Waits for a stream of the program's.
    ///
    /// # Errors
    /// The error of its work; sticky errors.
    pub fn synchronize(&self, device: Device, stream: RawStream) -> Result<()> {
        self.program(device, |machine| machine.stream_synchronize(stream.0 as u64))
    }

    /// Reads device memory as the program would: with the owner current, at once. Ordered with
    /// the legacy stream and the blocking ones only.
    ///
    /// # Errors
    /// `InvalidArgument` where nothing is mapped or readable; sticky errors.
    pub fn peek(&self, at: Address, bytes: usize) -> Result<Vec<u8>> {
        let mut contents = vec![0; bytes];
        self.on_owner(at, |machine| machine.copy_to_host(&mut contents, at.0))?;
        Ok(contents)
    }

    /// Writes device memory as the program would; see [`peek`](Self::peek).
    ///
    /// # Errors
    /// As [`peek`](Self::peek).
    pub fn poke(&self, at: Address, contents: &[u8]) -> Result<()> {
        self.on_owner(at, |machine| machine.copy_to_device(at.0, contents))
    }

    /// Begins to capture a stream in global mode, as torch does.
    ///
    /// # Errors
    /// `InvalidArgument` for the legacy stream, or one that is being captured.
    pub fn begin_capture(&self, stream: RawStream) -> Result<()> {
        self.begin_capture_in(stream, CaptureMode::Global)
    }

    /// Begins to capture a stream.
    ///
    /// # Errors
    /// As [`begin_capture`](Self::begin_capture).
    pub fn begin_capture_in(&self, stream: RawStream, mode: CaptureMode) -> Result<()> {
        let device = self.device_of(stream)?;
        self.program(device, |machine| machine.begin_capture(stream.0 as u64, mode))
    }

    /// Ends a capture, in the thread that began it.
    ///
    /// # Errors
    /// `Busy` with the code of a broken capture when something has broken it.
    pub fn end_capture(&self, stream: RawStream) -> Result<Graph> {
        let device = self.device_of(stream)?;
        self.program(device, |machine| machine.end_capture(stream.0 as u64))
    }

    /// Queues what was captured.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    ///
    /// # Safety
    /// The host bytes of captured copies are valid now, and until the stream was waited for.
    pub unsafe fn launch_graph(&self, stream: RawStream, graph: &Graph) -> Result<()> {
        let device = self.device_of(stream)?;
        self.program(device, |machine| {
            // SAFETY: the caller's promise.
            unsafe { machine.launch_graph(stream.0 as u64, graph) }
        })
    }

    fn device_of(&self, stream: RawStream) -> Result<Device> {
        self.machine
            .stream_device(stream.0 as u64)
            .map(Device)
            .map_err(|refusal| to_error(refusal, Operation::Engine))
    }

    fn on_owner<T>(&self, at: Address, run: impl FnOnce(&Machine) -> Answer<T>) -> Result<T> {
        let owner = self
            .machine
            .pointer_device(at.0)
            .map_err(|refusal| to_error(refusal, Operation::Engine).with_address(at))?;
        self.program(Device(owner), run).map_err(|error| error.with_address(at))
    }

    fn program<T>(&self, device: Device, run: impl FnOnce(&Machine) -> Answer<T>) -> Result<T> {
        self.on_held(device, run)
            .map_err(|refusal| to_error(refusal, Operation::Engine).with_device(device))
    }
}
