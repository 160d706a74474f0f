//! A driver around a driver: forwards every call, with a hook before and after it.

use std::fmt::Debug;
use std::ptr::NonNull;
use std::sync::Arc;

use allocator_core::any::foreign;
use allocator_core::{
    Address, Capabilities, Deadline, Device, DeviceInfo, Driver, DriverInfo, Error, Granularity,
    MemoryInfo, Operation, Range, RawStream, Result,
};

use physical::Handles;
pub use physical::Physical;
use request::next_id;
pub use request::{Request, Stream};

mod physical;
mod request;

/// What a wrapper does beside forwarding.
pub trait Hook: Debug + Send + Sync + 'static {
    /// Before the call. An error is the answer, and the call is not made.
    ///
    /// # Errors
    /// Whatever the caller is to see.
    fn before(&self, request: &Request<'_>) -> Result<()>;

    /// After a call that was made, with the driver's error if it failed. An error of its own is
    /// the answer to a `reserve` that had worked, and to nothing else.
    ///
    /// # Errors
    /// Whatever the caller is to see.
    fn after(&self, request: &Request<'_>, error: Option<&Error>) -> Result<()>;

    /// Which of the driver's devices the caller sees, and how. All as they are, unless a hook says
    /// otherwise.
    fn devices(&self, found: Vec<DeviceInfo>) -> Vec<DeviceInfo> {
        found
    }

    /// Which reading of a device's memory the caller sees. The driver's own, unless a hook says
    /// otherwise.
    fn memory(&self, device: Device, read: MemoryInfo) -> MemoryInfo {
        let _ = device;
        read
    }
}

/// A driver with a hook around every call but [`Driver::info`].
#[derive(Debug)]
pub struct Wrapped<D: Driver, H: Hook> {
    inner: Arc<D>,
    pub(crate) hook: H,
    pub(crate) handles: Handles<D::Physical>,
}

impl<D: Driver, H: Hook> Wrapped<D, H> {
    /// A driver around `inner`, with `hook` around every call.
    pub fn with_hook(inner: impl Into<Arc<D>>, hook: H) -> Self {
        Self { inner: inner.into(), hook, handles: Handles::default() }
    }

    /// The driver inside.
    #[must_use]
    pub fn inner(&self) -> &Arc<D> {
        &self.inner
    }

    fn call<T>(&self, request: Request<'_>, inner: impl FnOnce(&D) -> Result<T>) -> Result<T> {
        self.hook.before(&request)?;
        let answer = inner(&self.inner);
        let _ = self.hook.after(&request, answer.as_ref().err());
        answer
    }
}

// SAFETY: every promise is the inner driver's; a call is forwarded with the very same arguments,
// or not made at all, which its caller sees as an error.
unsafe impl<D: Driver, H: Hook> Driver for Wrapped<D, H> {
    type Physical = Physical<D::Physical>;
    type Stream = Stream<D::Stream>;

    fn info(&self) -> DriverInfo {
        self.inner.info()
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        let found = self.call(Request::new(Operation::Devices), |inner| inner.devices())?;
        Ok(self.hook.devices(found))
    }

    fn memory(&self, device: Device) -> Result<MemoryInfo> {
        let request = Request::on(Operation::Memory, device);
        let read = self.call(request, |inner| inner.memory(device))?;
        Ok(self.hook.memory(device, read))
    }

    fn granularity(&self, device: Device) -> Result<Granularity> {
        self.call(Request::on(Operation::Granularity, device), |inner| inner.granularity(device))
    }

    fn capabilities(&self, device: Device) -> Result<Capabilities> {
        self.call(Request::on(Operation::Capabilities, device), |inner| inner.capabilities(device))
    }

    fn quiesce(&self, device: Device, deadline: Deadline) -> Result<()> {
        let request = Request::on(Operation::Quiesce, device);
        self.call(request, |inner| inner.quiesce(device, deadline))
    }

    unsafe fn is_capturing(&self, device: Device, stream: RawStream) -> Result<bool> {
        let request = Request::on(Operation::IsCapturing, device);
        // SAFETY: the caller's promises are those that the inner driver asks for.
        self.call(request, |inner| unsafe { inner.is_capturing(device, stream) })
    }

    fn enable_peer(&self, from: Device, to: Device) -> Result<()> {
        let request = Request { devices: &[to], ..Request::on(Operation::EnablePeer, from) };
        self.call(request, |inner| inner.enable_peer(from, to))
    }

    fn reserve(&self, device: Device, bytes: u64) -> Result<Range> {
        let mut request = Request::on(Operation::Reserve, device);
        request.bytes = Some(bytes);
        self.hook.before(&request)?;
        let answer = self.inner.reserve(device, bytes);
        if let Ok(range) = &answer {
            request.address = Some(range.address());
            request.range = Some((range.address(), range.bytes()));
        }
        match (self.hook.after(&request, answer.as_ref().err()), answer) {
            (Err(error), Ok(range)) => {
                // Not to be given back: it is in doubt whose it is.
                let _ = range.into_driver();
                Err(error)
            }
            (_, answer) => answer,
        }
    }

    fn create(&self, device: Device, bytes: u64) -> Result<Self::Physical> {
        let id = next_id();
        let mut request = Request::on(Operation::Create, device);
        (request.bytes, request.handle) = (Some(bytes), Some(id));
        let inner = self.call(request, |inner| inner.create(device, bytes))?;
        Ok(self.handles.put(id, device, bytes, inner))
    }

    unsafe fn map(&self, range: &Range, offset: u64, physical: &Self::Physical) -> Result<()> {
        let mut request = Request::within(Operation::Map, range, offset, physical.bytes);
        request.handle = Some(physical.id);
        self.call(request, |inner| {
            let handle = self.handles.get(physical).ok_or_else(|| foreign(Operation::Map))?;
            // SAFETY: the caller's promises are those that the inner driver asks for.
            unsafe { inner.map(range, offset, &handle) }
        })
    }

    unsafe fn set_access(
        &self,
        range: &Range,
        offset: u64,
        bytes: u64,
        devices: &[Device],
    ) -> Result<()> {
        let request = Request::within(Operation::SetAccess, range, offset, bytes);
        let request = Request { devices, ..request };
        // SAFETY: the caller's promises are those that the inner driver asks for.
        self.call(request, |inner| unsafe { inner.set_access(range, offset, bytes, devices) })
    }

    unsafe fn unmap(&self, range: &Range, offset: u64, bytes: u64) -> Result<()> {
        let request = Request::within(Operation::Unmap, range, offset, bytes);
        // SAFETY: the caller's promises are those that the inner driver asks for.
        self.call(request, |inner| unsafe { inner.unmap(range, offset, bytes) })
    }

    fn release(&self, physical: Self::Physical) -> Result<()> {
        let request = Request::of(Operation::Release, &physical);
        self.call(request, |inner| {
            let handle = self.handles.take(&physical);
            inner.release(handle.ok_or_else(|| foreign(Operation::Release))?)
        })
    }

    unsafe fn vacate(&self, range: &mut Range) -> Result<()> {
        let request = Request::within(Operation::Vacate, range, 0, range.bytes());
        // SAFETY: the caller's promises are those that the inner driver asks for.
        self.call(request, |inner| unsafe { inner.vacate(range) })
    }

    unsafe fn unreserve(&self, range: Range) -> Result<()> {
        let request = Request::within(Operation::Unreserve, &range, 0, range.bytes());
        // SAFETY: the caller's promises are those that the inner driver asks for.
        self.call(request, |inner| unsafe { inner.unreserve(range) })
    }

    fn open_stream(&self, device: Device) -> Result<Self::Stream> {
        let id = next_id();
        let request = Request { stream: Some(id), ..Request::on(Operation::OpenStream, device) };
        let inner = self.call(request, |inner| inner.open_stream(device))?;
        Ok(Stream { id, device, inner })
    }

    fn close_stream(&self, stream: Self::Stream) -> Result<()> {
        let request = Request::in_stream(Operation::CloseStream, &stream);
        self.call(request, |inner| inner.close_stream(stream.inner))
    }

    unsafe fn read(
        &self,
        stream: &Self::Stream,
        from: Address,
        to: NonNull<u8>,
        bytes: u64,
    ) -> Result<()> {
        let mut request = Request::copy(Operation::Read, stream, from, bytes);
        request.host = Some(to.addr().get());
        // SAFETY: the caller's promises are those that the inner driver asks for.
        self.call(request, |inner| unsafe { inner.read(&stream.inner, from, to, bytes) })
    }

    unsafe fn write(
        &self,
        stream: &Self::Stream,
        to: Address,
        from: NonNull<u8>,
        bytes: u64,
    ) -> Result<()> {
        let mut request = Request::copy(Operation::Write, stream, to, bytes);
        request.host = Some(from.addr().get());
        // SAFETY: the caller's promises are those that the inner driver asks for.
        self.call(request, |inner| unsafe { inner.write(&stream.inner, to, from, bytes) })
    }

    unsafe fn fill(&self, stream: &Self::Stream, at: Address, byte: u8, bytes: u64) -> Result<()> {
        let request = Request::copy(Operation::Fill, stream, at, bytes);
        // SAFETY: the caller's promises are those that the inner driver asks for.
        self.call(request, |inner| unsafe { inner.fill(&stream.inner, at, byte, bytes) })
    }

    fn wait(&self, stream: &Self::Stream) -> Result<()> {
        let request = Request::in_stream(Operation::Wait, stream);
        self.call(request, |inner| inner.wait(&stream.inner))
    }

    unsafe fn register_host(&self, at: NonNull<u8>, bytes: u64) -> Result<()> {
        let mut request = Request::new(Operation::RegisterHost);
        (request.host, request.bytes) = (Some(at.addr().get()), Some(bytes));
        // SAFETY: the caller's promises are those that the inner driver asks for.
        self.call(request, |inner| unsafe { inner.register_host(at, bytes) })
    }

    unsafe fn unregister_host(&self, at: NonNull<u8>) -> Result<()> {
        let mut request = Request::new(Operation::UnregisterHost);
        request.host = Some(at.addr().get());
        // SAFETY: the caller's promises are those that the inner driver asks for.
        self.call(request, |inner| unsafe { inner.unregister_host(at) })
    }
}
