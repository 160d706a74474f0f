//! The `Driver` trait over the machine: thin, so that what is tested is the trait's user.

use std::ptr::NonNull;
use std::time::Duration;

use allocator_core::{
    Access, Address, Capabilities, Deadline, Device, DeviceInfo, Driver, DriverInfo, Error,
    ErrorKind, Granularity, MemoryInfo, Operation, Range, RawStream, Result,
};

use super::errors::to_error;
use super::{Sim, SimPhysical, SimStream};
use crate::config::Fault;
use crate::machine::{CaptureStatus, Code, CreateFlags, Machine, Refusal};

const SHORTEST_POLL: Duration = Duration::from_micros(20);
const LONGEST_POLL: Duration = Duration::from_millis(2);

impl Sim {
    fn check_device(&self, operation: Operation, device: Device) -> Result<()> {
        if device.0 < self.machine.device_count() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::NotFound, operation, "no such device").with_device(device))
    }

    /// Refuses what came from another machine.
    fn check_owner(&self, operation: Operation, machine: u64) -> Result<()> {
        if machine == self.machine.id() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::InvalidArgument, operation, "it came from another machine"))
    }

    /// Counts a call on a stream, which may be made to fail, and refuses another machine's.
    fn call_on(&self, operation: Operation, stream: &SimStream) -> Result<()> {
        self.failures.call(operation)?;
        self.check_owner(operation, stream.machine)
    }
}

/// Turns a refusal into an error that names everything.
fn error(operation: Operation, device: Device) -> impl Fn(Refusal) -> Error {
    move |refusal| to_error(refusal, operation).with_device(device)
}

// SAFETY: the machine hands out ranges from windows that it alone has mapped, and each is free or
// reserved in its books; physical memory is an extent that is likewise free or taken, and nobody gives
// it back with a handle of another machine, which is refused; copies and
// fills touch the bytes they were given, and `wait` returns only when the stream has ended its
// work, or after a barrier behind which no work touches memory; `OutOfMemory` is given for the
// books' state now, `TooLarge` for what can never be.
unsafe impl Driver for Sim {
    type Physical = SimPhysical;
    type Stream = SimStream;

    fn info(&self) -> DriverInfo {
        DriverInfo { backend: "sim", version: env!("CARGO_PKG_VERSION").to_owned(), library: None }
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        self.failures.call(Operation::Devices)?;
        Ok((0..self.machine.device_count())
            .map(|device| DeviceInfo {
                device: Device(device),
                name: "simulated device".to_owned(),
                total_bytes: self.machine.total_bytes(),
                pci_address: None,
            })
            .collect())
    }

    fn memory(&self, device: Device) -> Result<MemoryInfo> {
        let operation = Operation::Memory;
        self.failures.call(operation).map_err(|error| error.with_device(device))?;
        self.check_device(operation, device)?;
        // One more user for the length of the call: a temporary context where there is none.
        self.machine.context_retain(device.0).map_err(error(operation, device))?;
        let answer = self.on(device, Machine::mem_info);
        self.machine.context_release(device.0).map_err(error(operation, device))?;
        let (free_bytes, total_bytes) = answer.map_err(error(operation, device))?;
        Ok(MemoryInfo { free_bytes, total_bytes })
    }

    fn granularity(&self, device: Device) -> Result<Granularity> {
        let operation = Operation::Granularity;
        self.failures.call(operation).map_err(|error| error.with_device(device))?;
        let bytes = self.machine.granularity(device.0).map_err(error(operation, device))?;
        Granularity::new(bytes)
    }

    fn capabilities(&self, device: Device) -> Result<Capabilities> {
        let operation = Operation::Capabilities;
        self.failures.call(operation).map_err(|error| error.with_device(device))?;
        self.check_device(operation, device)?;
        Ok(self.machine.config().reported_capabilities())
    }

    fn quiesce(&self, device: Device, deadline: Deadline) -> Result<()> {
        let operation = Operation::Quiesce;
        self.failures.call(operation).map_err(|error| error.with_device(device))?;
        self.check_device(operation, device)?;
        if !self.machine.has_context(device.0) {
            // Nothing of this process has ever run there.
            return Ok(());
        }
        self.on(device, |machine| {
            let event = machine.event_create()?;
            let answer =
                machine.context_record_event(event).and_then(|()| poll(machine, event, deadline));
            machine.event_destroy(event)?;
            answer
        })
        .map_err(error(operation, device))
    }

    unsafe fn is_capturing(&self, device: Device, stream: RawStream) -> Result<bool> {
        let operation = Operation::IsCapturing;
        self.failures.call(operation).map_err(|error| error.with_device(device))?;
        self.on(device, |machine| machine.capture_status(stream.0 as u64))
            .map(|status| status != CaptureStatus::None)
            .map_err(error(operation, device))
    }

    fn enable_peer(&self, from: Device, to: Device) -> Result<()> {
        let operation = Operation::EnablePeer;
        self.failures.call(operation).map_err(|error| error.with_device(from))?;
        match self.on_held(from, |machine| machine.enable_peer(to.0)) {
            Err(refusal) if refusal.code == Code::PeerAlreadyEnabled => Ok(()),
            answer => answer.map_err(error(operation, from)),
        }
    }

    fn reserve(&self, device: Device, bytes: u64) -> Result<Range> {
        let operation = Operation::Reserve;
        self.failures.call(operation).map_err(|e| e.with_device(device).with_bytes(bytes))?;
        let address = self
            .on_held(device, |machine| machine.reserve(bytes, 0, 0))
            .map_err(|refusal| error(operation, device)(refusal).with_bytes(bytes))?;
        Ok(Range::from_driver(device, Address(address), bytes))
    }

    fn create(&self, device: Device, bytes: u64) -> Result<SimPhysical> {
        let operation = Operation::Create;
        self.failures.call(operation).map_err(|e| e.with_device(device).with_bytes(bytes))?;
        let rdma = self.machine.config().reported_capabilities().contains(Capabilities::RDMA);
        let flags = if rdma { CreateFlags::new().rdma() } else { CreateFlags::new() };
        let answer = self.on_held(device, |machine| machine.create(bytes, device.0, flags));
        let handle = answer.map_err(|refusal| {
            let error = error(operation, device)(refusal).with_bytes(bytes);
            if refusal.code == Code::OutOfMemory && bytes > self.machine.total_bytes() {
                return error.with_kind(ErrorKind::TooLarge).with_note(format_args!(
                    "the device has {} bytes",
                    self.machine.total_bytes()
                ));
            }
            error
        })?;
        Ok(SimPhysical { machine: self.machine.id(), handle, device, bytes })
    }

    unsafe fn map(&self, range: &Range, offset: u64, physical: &SimPhysical) -> Result<()> {
        let (operation, device) = (Operation::Map, physical.device);
        let (address, bytes) = (range.address().offset(offset), physical.bytes);
        let name = |e: Error| e.with_device(device).with_address(address).with_bytes(bytes);
        self.failures.call(operation).map_err(name)?;
        self.check_owner(operation, physical.machine).map_err(name)?;
        self.on(device, |machine| machine.map(address.0, bytes, 0, physical.handle))
            .map_err(|refusal| name(to_error(refusal, operation)))
    }

    unsafe fn set_access(
        &self,
        range: &Range,
        offset: u64,
        bytes: u64,
        devices: &[Device],
    ) -> Result<()> {
        let (operation, address) = (Operation::SetAccess, range.address().offset(offset));
        let device = range.device();
        let name = |e: Error| e.with_device(device).with_address(address).with_bytes(bytes);
        self.failures.call(operation).map_err(name)?;
        let all = Access::READ | Access::WRITE;
        let granted = devices.iter().map(|device| (device.0, all));
        // Exactly these: the others lose what they had. No device at all is the machine's to refuse.
        let revoked = (0..self.machine.device_count())
            .filter(|other| !devices.is_empty() && !devices.contains(&Device(*other)))
            .map(|other| (other, Access::empty()));
        let access: Vec<_> = granted.chain(revoked).collect();
        self.on(device, |machine| {
            machine.set_access(address.0, bytes, &access)?;
            if machine.config().has(Fault::HostAccessNeeded) {
                machine.set_host_access(address.0, bytes, all)?;
            }
            Ok(())
        })
        .map_err(|refusal| name(to_error(refusal, operation)))
    }

    unsafe fn unmap(&self, range: &Range, offset: u64, bytes: u64) -> Result<()> {
        let (operation, address) = (Operation::Unmap, range.address().offset(offset));
        let device = range.device();
        let name = |e: Error| e.with_device(device).with_address(address).with_bytes(bytes);
        self.failures.call(operation).map_err(name)?;
        self.on(device, |machine| machine.unmap(address.0, bytes))
            .map_err(|refusal| name(to_error(refusal, operation)))
    }

    fn release(&self, physical: SimPhysical) -> Result<()> {
        let SimPhysical { machine, handle, device, bytes } = physical;
        let operation = Operation::Release;
        let name = |e: Error| e.with_device(device).with_bytes(bytes);
        self.failures.call(operation).map_err(name)?;
        self.check_owner(operation, machine).map_err(name)?;
        self.on(device, |machine| machine.release(handle))
            .map_err(|refusal| name(to_error(refusal, operation)))
    }

    unsafe fn vacate(&self, range: &mut Range) -> Result<()> {
        let (operation, device) = (Operation::Vacate, range.device());
        let (address, bytes) = (range.address(), range.bytes());
        let name = |e: Error| e.with_device(device).with_address(address).with_bytes(bytes);
        if let Err(injected) = self.failures.call(operation) {
            if injected.kind() == ErrorKind::AddressLost {
                // The kind says that the range is no longer reserved; so be it.
                self.on(device, |machine| machine.address_free(address.0, bytes))
                    .map_err(|refusal| name(to_error(refusal, operation)))?;
            }
            return Err(name(injected));
        }
        if !self.machine.config().keeps_until_unreserved() {
            return Ok(());
        }
        self.on(device, |machine| {
            machine.address_free(address.0, bytes)?;
            let again = machine.reserve(bytes, 0, address.0);
            if again.is_ok_and(|again| again == address.0) {
                return Ok(None);
            }
            if let Ok(other) = again {
                machine.address_free(other, bytes)?;
            }
            Ok(Some(again))
        })
        .map_err(|refusal| name(to_error(refusal, operation)))
        .and_then(|lost| match lost {
            None => Ok(()),
            Some(Ok(other)) => Err(name(Error::new(
                ErrorKind::AddressLost,
                operation,
                format!("the driver gave {other:#x} instead"),
            ))),
            Some(Err(refusal)) => {
                Err(name(to_error(refusal, operation)).with_kind(ErrorKind::AddressLost))
            }
        })
    }

    unsafe fn unreserve(&self, range: Range) -> Result<()> {
        let (operation, device) = (Operation::Unreserve, range.device());
        let (address, bytes) = (range.address(), range.bytes());
        let name = |e: Error| e.with_device(device).with_address(address).with_bytes(bytes);
        self.failures.call(operation).map_err(name)?;
        self.on(device, |machine| machine.address_free(address.0, bytes))
            .map_err(|refusal| name(to_error(refusal, operation)))?;
        let _ = range.into_driver();
        Ok(())
    }

    fn open_stream(&self, device: Device) -> Result<SimStream> {
        let operation = Operation::OpenStream;
        self.failures.call(operation).map_err(|error| error.with_device(device))?;
        self.on_held(device, |machine| machine.stream_create(false))
            .map(|handle| SimStream { machine: self.machine.id(), handle, device })
            .map_err(error(operation, device))
    }

    fn close_stream(&self, stream: SimStream) -> Result<()> {
        let SimStream { machine, handle, device } = stream;
        let operation = Operation::CloseStream;
        // The queue is gone also when the call fails.
        let injected = self.failures.call(operation).map_err(|error| error.with_device(device));
        self.check_owner(operation, machine).map_err(|error| error.with_device(device))?;
        let closed = self.on(device, |machine| machine.stream_destroy(handle));
        injected.and(closed.map_err(error(operation, device)))
    }

    unsafe fn read(
        &self,
        stream: &SimStream,
        from: Address,
        to: NonNull<u8>,
        bytes: u64,
    ) -> Result<()> {
        let (operation, device) = (Operation::Read, stream.device);
        let name = |e: Error| e.with_device(device).with_address(from).with_bytes(bytes);
        self.call_on(operation, stream).map_err(name)?;
        self.on(device, |machine| {
            // SAFETY: the host bytes stay valid and ours until `wait` (the caller's promise).
            unsafe { machine.copy_to_host_async(to.as_ptr(), from.0, bytes, stream.handle) }
        })
        .map_err(|refusal| name(to_error(refusal, operation)))
    }

    unsafe fn write(
        &self,
        stream: &SimStream,
        to: Address,
        from: NonNull<u8>,
        bytes: u64,
    ) -> Result<()> {
        let (operation, device) = (Operation::Write, stream.device);
        let name = |e: Error| e.with_device(device).with_address(to).with_bytes(bytes);
        self.call_on(operation, stream).map_err(name)?;
        self.on(device, |machine| {
            // SAFETY: the host bytes stay valid and unchanged until `wait` (the caller's promise).
            unsafe { machine.copy_to_device_async(to.0, from.as_ptr(), bytes, stream.handle) }
        })
        .map_err(|refusal| name(to_error(refusal, operation)))
    }

    unsafe fn fill(&self, stream: &SimStream, at: Address, byte: u8, bytes: u64) -> Result<()> {
        let (operation, device) = (Operation::Fill, stream.device);
        let name = |e: Error| e.with_device(device).with_address(at).with_bytes(bytes);
        self.call_on(operation, stream).map_err(name)?;
        self.on(device, |machine| machine.fill_async(at.0, byte, bytes, stream.handle))
            .map_err(|refusal| name(to_error(refusal, operation)))
    }

    fn wait(&self, stream: &SimStream) -> Result<()> {
        let (operation, device) = (Operation::Wait, stream.device);
        let injected = self.failures.call(operation).map_err(|error| error.with_device(device));
        self.check_owner(operation, stream.machine).map_err(|error| error.with_device(device))?;
        // Also when it is to fail: after any error, the queued work has ended.
        let answer = self.on(device, |machine| machine.stream_synchronize(stream.handle));
        injected.and(answer.map_err(error(operation, device)))
    }

    unsafe fn register_host(&self, at: NonNull<u8>, bytes: u64) -> Result<()> {
        let operation = Operation::RegisterHost;
        self.failures.call(operation).map_err(|error| error.with_bytes(bytes))?;
        let device = self.any_device(operation)?;
        self.on_held(device, |machine| {
            // SAFETY: the bytes stay mapped until they are unregistered (the caller's promise).
            unsafe { machine.host_register(at.as_ptr(), bytes) }
        })
        .map_err(|refusal| to_error(refusal, operation).with_bytes(bytes))
    }

    unsafe fn unregister_host(&self, at: NonNull<u8>) -> Result<()> {
        let operation = Operation::UnregisterHost;
        self.failures.call(operation)?;
        let device = self.any_device(operation)?;
        self.on_held(device, |machine| {
            // SAFETY: no copy of ours is queued on it, captured or not (the caller's promise).
            unsafe { machine.host_unregister(at.as_ptr()) }
        })
        .map_err(|refusal| to_error(refusal, operation))
    }
}

impl Sim {
    /// Host memory belongs to no device: one whose context there is already, the current one
    /// first, else the first device.
    fn any_device(&self, operation: Operation) -> Result<Device> {
        let current = self.machine.current().filter(|&device| self.machine.has_context(device));
        let device = current
            .or_else(|| (0..self.machine.device_count()).find(|&d| self.machine.has_context(d)))
            .unwrap_or(0);
        self.check_device(operation, Device(device))?;
        Ok(Device(device))
    }
}

/// Asks for an event, less and less often.
fn poll(machine: &Machine, event: u64, deadline: Deadline) -> Result<(), Refusal> {
    let mut pause = SHORTEST_POLL;
    loop {
        let answer = machine.event_query(event);
        let waiting = answer.is_err_and(|refusal| refusal.code == Code::NotReady);
        if !waiting || deadline.has_passed() {
            return answer;
        }
        std::thread::sleep(deadline.remaining().map_or(pause, |left| pause.min(left)));
        pause = (pause * 2).min(LONGEST_POLL);
    }
}
