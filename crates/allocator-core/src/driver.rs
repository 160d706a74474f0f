//! What a backend must do. One driver call per method (or the few that make one step all or
//! nothing); no policy, no retries, no printing.

use std::fmt::Debug;
use std::ptr::NonNull;

use crate::deadline::Deadline;
use crate::device::{Address, Device, DeviceInfo, DriverInfo, MemoryInfo, RawStream};
use crate::error::Result;
use crate::flags::Capabilities;
use crate::range::Range;
use crate::size::Granularity;

/// A GPU driver, as far as pausable memory needs it.
///
/// Contracts that hold for every method:
///
/// - It may be called from any thread. The calling thread's current context, current device and
///   stream-capture mode are afterwards what they were before.
/// - It fails with an [`Error`](crate::Error) that names call, device and bytes; it never panics,
///   exits or prints, and never tries again by itself.
/// - A failed call has changed nothing, unless its documentation says otherwise.
/// - Methods that may run in a thread whose stream is being captured do not break the capture,
///   except [`quiesce`](Self::quiesce), which always does (CUDA invalidates a capture on any
///   synchronisation of its context).
///
/// # Safety
/// An implementer promises that
/// - [`reserve`](Self::reserve) hands out ranges that overlap no other reservation or allocation
///   of this process, until they are given to [`unreserve`](Self::unreserve);
/// - [`create`](Self::create) hands out memory that is nobody else's until it is given to
///   [`release`](Self::release);
/// - [`read`](Self::read), [`write`](Self::write) and [`fill`](Self::fill) touch exactly the bytes
///   they were given, and none after [`wait`](Self::wait) on their stream has returned `Ok`;
/// - error kinds are honest: `OutOfMemory` only when the same call may work later.
pub unsafe trait Driver: Debug + Send + Sync + 'static {
    /// A handle of physical memory. It must be neither `Clone` nor `Copy`: that is what makes a
    /// second release a compile error. Dropping it calls no driver.
    type Physical: Debug + Send + Sync;

    /// An ordered queue of copies on one device, of our own. Dropping it calls no driver.
    type Stream: Debug + Send;

    /// What this driver is and where it was found.
    fn info(&self) -> DriverInfo;

    /// The devices, in the driver's order. Makes no context.
    ///
    /// # Errors
    /// `NoDriver` or the driver's own error.
    fn devices(&self) -> Result<Vec<DeviceInfo>>;

    /// Free and total bytes of a device now. Makes a context for the length of the call where
    /// none of ours is on the device.
    ///
    /// # Errors
    /// `NotFound` for a device that is not there; the driver's own error, sticky ones included.
    fn memory(&self, device: Device) -> Result<MemoryInfo>;

    /// The unit of [`create`](Self::create) and [`reserve`](Self::reserve), asked with the very
    /// properties that `create` uses.
    ///
    /// # Errors
    /// `NotFound`, `NotSupported` or the driver's own error.
    fn granularity(&self, device: Device) -> Result<Granularity>;

    /// What the device offers, and its quirks. Cheap after the first call.
    ///
    /// # Errors
    /// `NotFound` or the driver's own error.
    fn capabilities(&self, device: Device) -> Result<Capabilities>;

    /// Waits until no work that is in flight on the device now, on any stream of this process's
    /// primary context, non-blocking ones included, can touch memory any more. Breaks a stream
    /// capture that is going on in the context.
    ///
    /// # Errors
    /// `Busy` at the deadline, with nothing changed; `EarlierWorkFailed` when earlier work failed,
    /// `DeviceLost` when the device is gone.
    fn quiesce(&self, device: Device, deadline: Deadline) -> Result<()>;

    /// Whether the caller's stream on the device is being captured. Breaks no capture, save that
    /// the legacy stream (zero) cannot be asked during one and answers false.
    ///
    /// # Errors
    /// The driver's own error.
    ///
    /// # Safety
    /// `stream` is a live stream of this device, or zero.
    unsafe fn is_capturing(&self, device: Device, stream: RawStream) -> Result<bool>;

    /// Lets kernels of `from` reach memory of `to` for which [`set_access`](Self::set_access)
    /// names `from`, where the driver needs that said. A second time is no error.
    ///
    /// # Errors
    /// `NotSupported` when the two are not peers.
    fn enable_peer(&self, from: Device, to: Device) -> Result<()>;

    /// Reserves a range of addresses of `bytes`, in whole granules. No memory is used.
    ///
    /// # Errors
    /// `InvalidArgument` for a size not in granules; `OutOfMemory` when addresses have run out.
    fn reserve(&self, device: Device, bytes: u64) -> Result<Range>;

    /// Takes `bytes` of physical memory, in whole granules; the device's free bytes fall at once.
    ///
    /// # Errors
    /// `InvalidArgument` for a size not in granules, `OutOfMemory`.
    fn create(&self, device: Device, bytes: u64) -> Result<Self::Physical>;

    /// Maps all of `physical` at `offset` bytes into the range. No device may use it before
    /// [`set_access`](Self::set_access).
    ///
    /// # Errors
    /// The driver's own error.
    ///
    /// # Safety
    /// `offset` plus the bytes that `physical` was created with lie within `range` and hold no
    /// mapping; `physical` is mapped nowhere else, and came from this driver.
    unsafe fn map(&self, range: &Range, offset: u64, physical: &Self::Physical) -> Result<()>;

    /// Lets exactly these devices read and write one mapped piece. May be called again.
    ///
    /// # Errors
    /// The driver's own error; some devices may have access already when it fails.
    ///
    /// # Safety
    /// `offset` and `bytes` are those of one piece mapped in `range`; `devices` is not empty.
    unsafe fn set_access(
        &self,
        range: &Range,
        offset: u64,
        bytes: u64,
        devices: &[Device],
    ) -> Result<()>;

    /// Takes one mapping away. Does not wait for work that uses it.
    ///
    /// # Errors
    /// The driver's own error; the mapping then stands as it was.
    ///
    /// # Safety
    /// `offset` and `bytes` are those of one piece mapped in `range`, and no work in flight
    /// touches it (a kernel that does is a sticky illegal access).
    unsafe fn unmap(&self, range: &Range, offset: u64, bytes: u64) -> Result<()>;

    /// Gives physical memory back. By value: it cannot be done twice. The handle is gone
    /// afterwards also when the call fails. It must not be mapped any more, else the memory comes
    /// back only with its last mapping (seen on CUDA; ROCm keeps the range busy).
    ///
    /// # Errors
    /// The driver's own error; whether the memory came back is then not known.
    fn release(&self, physical: Self::Physical) -> Result<()>;

    /// Gives the range back and reserves the very same one again, where physical memory would
    /// otherwise stay with it ([`Capabilities::KEEPS_UNTIL_UNRESERVED`]). Part of a pause, never of
    /// a free. A driver without that quirk does nothing.
    ///
    /// # Errors
    /// `AddressLost` when the driver did not hand out the same addresses again: the range is
    /// then no longer reserved.
    ///
    /// # Safety
    /// Nothing is mapped in the range, and what was has been released.
    unsafe fn vacate(&self, range: &mut Range) -> Result<()>;

    /// Gives the addresses back. By value: it cannot be done twice.
    ///
    /// # Errors
    /// The driver's own error; the addresses then stay reserved for the life of the process.
    ///
    /// # Safety
    /// Nothing is mapped in the range, and nothing of the program uses its addresses any more.
    unsafe fn unreserve(&self, range: Range) -> Result<()>;

    /// Opens a queue for copies on the device. Work in it is not ordered with the null stream.
    ///
    /// # Errors
    /// The driver's own error.
    fn open_stream(&self, device: Device) -> Result<Self::Stream>;

    /// Closes a queue; waits for nothing.
    ///
    /// # Errors
    /// The driver's own error; the queue is gone all the same.
    fn close_stream(&self, stream: Self::Stream) -> Result<()>;

    /// Queues a copy from device memory to the host.
    ///
    /// # Errors
    /// The driver's own error, if it is known at once; an error found later comes out of
    /// [`wait`](Self::wait).
    ///
    /// # Safety
    /// `from` and `bytes` lie within mapped pieces that the stream's device may read, and `to`
    /// within one host allocation (one *registered piece*, if any of it is registered: a copy
    /// across the border of two is refused). Both stay so, and nothing else touches the host
    /// bytes, until `wait` returns or the stream is closed after a sticky error.
    unsafe fn read(
        &self,
        stream: &Self::Stream,
        from: Address,
        to: NonNull<u8>,
        bytes: u64,
    ) -> Result<()>;

    /// Queues a copy from the host to device memory.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    ///
    /// # Safety
    /// As [`read`](Self::read), with the sides exchanged; nothing writes the host bytes meanwhile.
    unsafe fn write(
        &self,
        stream: &Self::Stream,
        to: Address,
        from: NonNull<u8>,
        bytes: u64,
    ) -> Result<()>;

    /// Queues setting `bytes` of device memory to `byte`.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    ///
    /// # Safety
    /// `at` and `bytes` lie within mapped pieces that the stream's device may write, and stay
    /// mapped until [`wait`](Self::wait) returns.
    unsafe fn fill(&self, stream: &Self::Stream, at: Address, byte: u8, bytes: u64) -> Result<()>;

    /// Waits until everything queued in the stream is done.
    ///
    /// # Errors
    /// The first error of the queued work. After a sticky one ([`ErrorKind::is_sticky`]) the
    /// device touches no memory any more; after any other, all queued work has ended.
    ///
    /// [`ErrorKind::is_sticky`]: crate::ErrorKind::is_sticky
    fn wait(&self, stream: &Self::Stream) -> Result<()>;

    /// Registers host memory, so that copies run at the speed of the link and need no bounce
    /// buffer in the driver.
    ///
    /// # Errors
    /// `HostMemory` when the system refuses (a limit on locked memory), or the driver's own error.
    ///
    /// # Safety
    /// The bytes are mapped, not registered yet, and stay mapped until they are unregistered.
    unsafe fn register_host(&self, at: NonNull<u8>, bytes: u64) -> Result<()>;

    /// Takes a registration back. Waits for copies queued on it (seen on CUDA).
    ///
    /// # Errors
    /// The driver's own error (always after a sticky one; the memory can be unmapped all the same).
    ///
    /// # Safety
    /// `at` is the start of a registration, and no copy of ours is queued on it.
    unsafe fn unregister_host(&self, at: NonNull<u8>) -> Result<()>;
}
