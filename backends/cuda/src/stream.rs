//! Streams, copies and registered host memory. All of these need the owner's context current, and
//! some would break a capture elsewhere in the process; one scope takes care of both.

use std::ptr::{self, NonNull};

use allocator_core::call::{Call, judge_host};
use allocator_core::{Address, Device, ErrorKind, Operation, RawStream, Result};
use cudarc::driver::sys::{CU_MEMHOSTREGISTER_PORTABLE, CUstream, CUstream_flags};

use crate::Cuda;
use crate::context::{CaptureScope, Context, ContextScope, Scope};
use crate::result::OPERATING_SYSTEM;

/// A queue for copies on one device. Dropping it calls no driver; it ends in
/// [`Driver::close_stream`](allocator_core::Driver::close_stream).
#[derive(Debug)]
#[must_use = "a dropped stream stays with the driver"]
pub struct Stream {
    raw: CUstream,
    context: Context,
    device: Device,
}

// SAFETY: a stream handle is a name for an object of the driver, which may be used from any
// thread.
unsafe impl Send for Stream {}
// SAFETY: the driver queues work from several threads at once in some order.
unsafe impl Sync for Stream {}

impl Stream {
    /// The device that the stream runs on.
    #[must_use]
    pub fn device(&self) -> Device {
        self.device
    }
}

/// `CU_STREAM_LEGACY`, the other name of stream zero.
const LEGACY: usize = 1;

impl Cuda {
    /// The scope for work on a stream of ours.
    #[inline]
    fn on(&self, stream: &Stream, operation: Operation) -> Result<Scope<'_>> {
        Scope::enter(&self.symbols, stream.context, operation, stream.device)
    }

    /// The scope for what is done to a stream of ours in any case: the driver knows its context.
    fn on_if_possible(&self, stream: &Stream, operation: Operation) -> Scope<'_> {
        Scope::if_possible(&self.symbols, stream.context, operation, stream.device)
    }

    pub(crate) fn create_stream(&self, device: Device) -> Result<Stream> {
        let operation = Operation::OpenStream;
        let context = self.slot(device, operation)?.primary.keep(&self.symbols, operation)?;
        let _scope = Scope::enter(&self.symbols, context, operation, device)?;
        let mut raw = ptr::null_mut();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: `raw` is writable; the device's context is current.
        let code = unsafe { (self.symbols.stream_create)(&raw mut raw, flags) };
        self.symbols.check(code, Call::new(operation, "cuStreamCreate").on(device))?;
        Ok(Stream { raw, context, device })
    }

    pub(crate) fn destroy_stream(&self, stream: Stream) -> Result<()> {
        let operation = Operation::CloseStream;
        let _scope = self.on_if_possible(&stream, operation);
        // SAFETY: the stream came from `cuStreamCreate` and is consumed here.
        let code = unsafe { (self.symbols.stream_destroy)(stream.raw) };
        self.symbols.check(code, Call::new(operation, "cuStreamDestroy").on(stream.device))
    }

    /// # Safety
    /// That of [`Driver::read`](allocator_core::Driver::read).
    pub(crate) unsafe fn copy_to_host(
        &self,
        stream: &Stream,
        from: Address,
        to: NonNull<u8>,
        bytes: u64,
    ) -> Result<()> {
        let operation = Operation::Read;
        let call = Call::new(operation, "cuMemcpyDtoHAsync").on(stream.device).at(from).of(bytes);
        let size = call.size(bytes)?;
        let _scope = self.on(stream, operation)?;
        let copy = self.symbols.memcpy_dtoh_async;
        // SAFETY: both sides are valid for `size` bytes until the stream has been waited for (the
        // caller's promise); the stream is alive and its context current.
        let code = unsafe { copy(to.as_ptr().cast(), from.0, size, stream.raw) };
        self.symbols.check(code, call)
    }

    /// # Safety
    /// That of [`Driver::write`](allocator_core::Driver::write).
    pub(crate) unsafe fn copy_to_device(
        &self,
        stream: &Stream,
        to: Address,
        from: NonNull<u8>,
        bytes: u64,
    ) -> Result<()> {
        let operation = Operation::Write;
        let call = Call::new(operation, "cuMemcpyHtoDAsync").on(stream.device).at(to).of(bytes);
        let size = call.size(bytes)?;
        let _scope = self.on(stream, operation)?;
        let copy = self.symbols.memcpy_htod_async;
        // SAFETY: as in `copy_to_host`.
        let code = unsafe { copy(to.0, from.as_ptr().cast_const().cast(), size, stream.raw) };
        self.symbols.check(code, call)
    }

    /// # Safety
    /// That of [`Driver::fill`](allocator_core::Driver::fill).
    pub(crate) unsafe fn set_bytes(
        &self,
        stream: &Stream,
        at: Address,
        byte: u8,
        bytes: u64,
    ) -> Result<()> {
        let operation = Operation::Fill;
        let call = Call::new(operation, "cuMemsetD8Async").on(stream.device).at(at).of(bytes);
        let size = call.size(bytes)?;
        let _scope = self.on(stream, operation)?;
        // SAFETY: the bytes stay mapped and writable until the stream has been waited for (the
        // caller's promise); the stream is alive and its context current.
        let code = unsafe { (self.symbols.memset_d8_async)(at.0, byte, size, stream.raw) };
        self.symbols.check(code, call)
    }

    pub(crate) fn synchronize(&self, stream: &Stream) -> Result<()> {
        let operation = Operation::Wait;
        // After an error that is not sticky all work has ended, which only the wait itself knows.
        let _scope = self.on_if_possible(stream, operation);
        // SAFETY: the stream is alive, since only `destroy_stream` ends it and consumes it.
        let code = unsafe { (self.symbols.stream_synchronize)(stream.raw) };
        self.symbols.check(code, Call::new(operation, "cuStreamSynchronize").on(stream.device))
    }

    /// # Safety
    /// That of [`Driver::is_capturing`](allocator_core::Driver::is_capturing).
    pub(crate) unsafe fn captures(&self, device: Device, stream: RawStream) -> Result<bool> {
        let operation = Operation::IsCapturing;
        let slot = self.slot(device, operation)?;
        if stream.0 <= LEGACY {
            return Ok(false);
        }
        let call = Call::new(operation, "cuStreamIsCapturing").on(device);
        // The per-thread stream is a number that means another stream in each context. Without a
        // context of ours the caller's own is the one that is meant.
        let _context = match slot.primary.kept() {
            Some(context) => Some(ContextScope::enter(&self.symbols, context, operation, device)?),
            None => None,
        };
        let _relaxed = CaptureScope::enter(&self.symbols, operation)?;
        let raw: CUstream = ptr::with_exposed_provenance_mut(stream.0);
        let mut status = 0;
        // SAFETY: the stream is alive (the caller's promise); `status` is writable.
        let code = unsafe { (self.symbols.stream_is_capturing)(raw, &raw mut status) };
        self.symbols.check(code, call)?;
        // An invalidated capture is one that has still to be ended.
        Ok(status != 0)
    }

    /// # Safety
    /// That of [`Driver::register_host`](allocator_core::Driver::register_host).
    pub(crate) unsafe fn register(&self, at: NonNull<u8>, bytes: u64) -> Result<()> {
        let operation = Operation::RegisterHost;
        let call = Call::new(operation, "cuMemHostRegister").of(bytes);
        let size = call.size(bytes)?;
        let Some((device, context)) = self.any_context() else {
            return Err(call.refuse(
                ErrorKind::WrongState,
                "host memory is registered with a context, and none is held yet: \
                 reserve, create or open a stream on a device first",
            ));
        };
        let _scope = Scope::enter(&self.symbols, context, operation, device)?;
        let register = self.symbols.mem_host_register;
        // SAFETY: the bytes are mapped and stay so while they are registered (the caller's
        // promise). Portable: for all contexts, whichever is current now.
        let code = unsafe { register(at.as_ptr().cast(), size, CU_MEMHOSTREGISTER_PORTABLE) };
        self.symbols.check(code, call).map_err(|error| judge_host(error, OPERATING_SYSTEM))
    }

    /// # Safety
    /// That of [`Driver::unregister_host`](allocator_core::Driver::unregister_host).
    pub(crate) unsafe fn unregister(&self, at: NonNull<u8>) -> Result<()> {
        let operation = Operation::UnregisterHost;
        let _scope = self
            .any_context()
            .map(|(device, context)| Scope::if_possible(&self.symbols, context, operation, device));
        // SAFETY: `at` is the start of a registration of ours (the caller's promise).
        let code = unsafe { (self.symbols.mem_host_unregister)(at.as_ptr().cast()) };
        self.symbols.check(code, Call::new(operation, "cuMemHostUnregister"))
    }

    /// Any context that is ours, and its device.
    fn any_context(&self) -> Option<(Device, Context)> {
        self.slots.iter().find_map(|slot| Some((slot.device, slot.primary.kept()?)))
    }
}
