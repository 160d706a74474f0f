//! Streams, copies and registered host memory. The owner's device is current in all of these, and
//! some would break a capture elsewhere in the process; one scope takes care of both.

use std::ptr::NonNull;

use allocator_core::call::{Call, judge_host};
use allocator_core::{Address, Device, ErrorKind, Operation, RawStream, Result};

use crate::Hip;
use crate::context::Scope;
use crate::sys::error::OPERATING_SYSTEM;
use crate::sys::{CAPTURE_STATUS_NONE, REGISTER_PORTABLE, STREAM_NON_BLOCKING, StreamHandle};

/// A queue for copies on one device. Dropping it calls no driver; it ends in
/// [`Driver::close_stream`](allocator_core::Driver::close_stream).
#[derive(Debug)]
#[must_use = "a dropped stream stays with the driver"]
pub struct Stream {
    raw: StreamHandle,
    device: Device,
}

impl Stream {
    /// The device that the stream runs on.
    #[must_use]
    pub fn device(&self) -> Device {
        self.device
    }
}

/// `hipStreamLegacy`, the other name of stream zero.
const LEGACY: usize = 1;

impl Hip {
    /// The scope for work on a stream of ours.
    #[inline]
    fn on(&self, stream: &Stream, operation: Operation) -> Result<Scope<'_>> {
        Scope::enter(&self.symbols, stream.device, operation)
    }

    /// The scope for what is done to a stream of ours in any case: the runtime knows its device.
    fn on_if_possible(&self, stream: &Stream, operation: Operation) -> Scope<'_> {
        Scope::if_possible(&self.symbols, stream.device, operation)
    }

    pub(crate) fn create_stream(&self, device: Device) -> Result<Stream> {
        let operation = Operation::OpenStream;
        let slot = self.slot(device, operation)?;
        let _scope = Scope::enter(&self.symbols, device, operation)?;
        slot.use_it();
        let mut raw = 0;
        // SAFETY: `raw` is writable; the device is current.
        let code = unsafe { (self.symbols.stream_create)(&raw mut raw, STREAM_NON_BLOCKING) };
        self.symbols.check(code, Call::new(operation, "hipStreamCreateWithFlags").on(device))?;
        Ok(Stream { raw, device })
    }

    pub(crate) fn destroy_stream(&self, stream: Stream) -> Result<()> {
        let operation = Operation::CloseStream;
        let _scope = self.on_if_possible(&stream, operation);
        // SAFETY: the stream came from `hipStreamCreateWithFlags` and is consumed here.
        let code = unsafe { (self.symbols.stream_destroy)(stream.raw) };
        self.symbols.check(code, Call::new(operation, "hipStreamDestroy").on(stream.device))
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
        let call = Call::new(operation, "hipMemcpyDtoHAsync").on(stream.device).at(from).of(bytes);
        let size = call.size(bytes)?;
        let _scope = self.on(stream, operation)?;
        let copy = self.symbols.memcpy_dtoh_async;
        // SAFETY: both sides are valid for `size` bytes until the stream has been waited for (the
        // caller's promise); the stream is alive and its device current.
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
        let call = Call::new(operation, "hipMemcpyHtoDAsync").on(stream.device).at(to).of(bytes);
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
        let call = Call::new(operation, "hipMemsetD8Async").on(stream.device).at(at).of(bytes);
        let size = call.size(bytes)?;
        let _scope = self.on(stream, operation)?;
        // SAFETY: the bytes stay mapped and writable until the stream has been waited for (the
        // caller's promise); the stream is alive and its device current.
        let code = unsafe { (self.symbols.memset_d8_async)(at.0, byte, size, stream.raw) };
        self.symbols.check(code, call)
    }

    pub(crate) fn synchronize(&self, stream: &Stream) -> Result<()> {
        let operation = Operation::Wait;
        // After an error that is not sticky all work has ended, which only the wait itself knows.
        let _scope = self.on_if_possible(stream, operation);
        // SAFETY: the stream is alive, since only `destroy_stream` ends it and consumes it.
        let code = unsafe { (self.symbols.stream_synchronize)(stream.raw) };
        self.symbols.check(code, Call::new(operation, "hipStreamSynchronize").on(stream.device))
    }

    /// # Safety
    /// That of [`Driver::is_capturing`](allocator_core::Driver::is_capturing).
    pub(crate) unsafe fn captures(&self, device: Device, stream: RawStream) -> Result<bool> {
        let operation = Operation::IsCapturing;
        self.slot(device, operation)?;
        if stream.0 <= LEGACY {
            return Ok(false);
        }
        let call = Call::new(operation, "hipStreamIsCapturing").on(device);
        // The per-thread stream is a number that means another stream on each device.
        let _scope = Scope::enter(&self.symbols, device, operation)?;
        let mut status = CAPTURE_STATUS_NONE;
        // SAFETY: the stream is alive (the caller's promise); `status` is writable.
        let code = unsafe { (self.symbols.stream_is_capturing)(stream.0, &raw mut status) };
        self.symbols.check(code, call)?;
        // An invalidated capture is one that has still to be ended.
        Ok(status != CAPTURE_STATUS_NONE)
    }

    /// # Safety
    /// That of [`Driver::register_host`](allocator_core::Driver::register_host).
    pub(crate) unsafe fn register(&self, at: NonNull<u8>, bytes: u64) -> Result<()> {
        let operation = Operation::RegisterHost;
        let call = Call::new(operation, "hipHostRegister").of(bytes);
        let size = call.size(bytes)?;
        let Some(device) = self.any_device() else {
            return Err(call.refuse(
                ErrorKind::WrongState,
                "host memory is registered with a device, and none is used yet: \
                 reserve, create or open a stream on a device first",
            ));
        };
        let _scope = Scope::enter(&self.symbols, device, operation)?;
        let register = self.symbols.host_register;
        // SAFETY: the bytes are mapped and stay so while they are registered (the caller's
        // promise). Portable: for all devices, whichever is current now.
        let code = unsafe { register(at.as_ptr().cast(), size, REGISTER_PORTABLE) };
        self.symbols.check(code, call).map_err(|error| judge_host(error, OPERATING_SYSTEM))
    }

    /// # Safety
    /// That of [`Driver::unregister_host`](allocator_core::Driver::unregister_host).
    pub(crate) unsafe fn unregister(&self, at: NonNull<u8>) -> Result<()> {
        let operation = Operation::UnregisterHost;
        let _scope =
            self.any_device().map(|device| Scope::if_possible(&self.symbols, device, operation));
        // SAFETY: `at` is the start of a registration of ours (the caller's promise).
        let code = unsafe { (self.symbols.host_unregister)(at.as_ptr().cast()) };
        self.symbols.check(code, Call::new(operation, "hipHostUnregister"))
    }

    /// Any device that we use.
    fn any_device(&self) -> Option<Device> {
        self.slots.iter().find(|slot| slot.is_used()).map(|slot| slot.device)
    }
}
