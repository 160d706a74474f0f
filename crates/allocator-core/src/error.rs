//! One error type for every driver call, with a kind that callers can match on.

use std::borrow::Cow;
use std::fmt;

use crate::device::{Address, Device};

/// What went wrong, in the terms a caller can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The device has not enough free memory now. The same call may work later.
    OutOfMemory,
    /// The request can never be met: it is larger than the device, or than an address can hold.
    TooLarge,
    /// The driver, the device or the library does not offer this.
    NotSupported,
    /// An argument is wrong; the same call will never work.
    InvalidArgument,
    /// No memory of ours is at that address, or no such device.
    NotFound,
    /// The block exists, but not in the state that the call needs (paused, for instance).
    WrongState,
    /// Somebody else is at it: work in flight, a transition, a stream capture. Nothing changed.
    Busy,
    /// The device is gone for this process.
    DeviceLost,
    /// An earlier piece of work on the device failed, and the driver says so only now.
    EarlierWorkFailed,
    /// The driver did not hand the same address range back; the block has lost its address.
    AddressLost,
    /// The driver left the block in an unknown state; it takes part in nothing any more.
    Poisoned,
    /// The host has not enough memory, or the budget for backups does not allow it.
    HostMemory,
    /// A file or directory could not be made, written or read.
    Io,
    /// Saved contents are not what they were when they were saved.
    ChecksumMismatch,
    /// No driver library, or one that is a stub, or one that lacks a needed symbol.
    NoDriver,
    /// The calling process is a forked child; the memory belongs to its parent.
    Forked,
    /// The driver answered with something this project has no name for.
    Unknown,
}

impl ErrorKind {
    /// A short plain name, for messages: `out of memory`.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::OutOfMemory => "out of memory",
            Self::TooLarge => "too large",
            Self::NotSupported => "not supported",
            Self::InvalidArgument => "invalid argument",
            Self::NotFound => "not found",
            Self::WrongState => "wrong state",
            Self::Busy => "busy",
            Self::DeviceLost => "device lost",
            Self::EarlierWorkFailed => "earlier work failed",
            Self::AddressLost => "address lost",
            Self::Poisoned => "poisoned",
            Self::HostMemory => "not enough host memory",
            Self::Io => "input/output error",
            Self::ChecksumMismatch => "saved contents have changed",
            Self::NoDriver => "no driver",
            Self::Forked => "forked child",
            Self::Unknown => "unknown driver error",
        }
    }

    /// A stable name for programs: `out_of_memory`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OutOfMemory => "out_of_memory",
            Self::TooLarge => "too_large",
            Self::NotSupported => "not_supported",
            Self::InvalidArgument => "invalid_argument",
            Self::NotFound => "not_found",
            Self::WrongState => "wrong_state",
            Self::Busy => "busy",
            Self::DeviceLost => "device_lost",
            Self::EarlierWorkFailed => "earlier_work_failed",
            Self::AddressLost => "address_lost",
            Self::Poisoned => "poisoned",
            Self::HostMemory => "host_memory",
            Self::Io => "io",
            Self::ChecksumMismatch => "checksum_mismatch",
            Self::NoDriver => "no_driver",
            Self::Forked => "forked",
            Self::Unknown => "unknown",
        }
    }

    /// Whether the driver may serve this device again at all: false for a lost device and for
    /// an error of earlier work, which CUDA keeps for the life of the process.
    #[must_use]
    pub const fn is_sticky(self) -> bool {
        matches!(self, Self::DeviceLost | Self::EarlierWorkFailed)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The driver calls, named as in [`Driver`](crate::Driver); used in errors, counters and the
/// injection of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant is the Driver method of the same name")]
pub enum Operation {
    Open,
    Devices,
    Memory,
    Granularity,
    Capabilities,
    Quiesce,
    IsCapturing,
    EnablePeer,
    Reserve,
    Create,
    Map,
    SetAccess,
    Unmap,
    Release,
    Vacate,
    Unreserve,
    OpenStream,
    CloseStream,
    Read,
    Write,
    Fill,
    Wait,
    RegisterHost,
    UnregisterHost,
    /// Not a driver call: something the engine or the host side did.
    Engine,
}

impl Operation {
    /// The method's name: `set_access`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Devices => "devices",
            Self::Memory => "memory",
            Self::Granularity => "granularity",
            Self::Capabilities => "capabilities",
            Self::Quiesce => "quiesce",
            Self::IsCapturing => "is_capturing",
            Self::EnablePeer => "enable_peer",
            Self::Reserve => "reserve",
            Self::Create => "create",
            Self::Map => "map",
            Self::SetAccess => "set_access",
            Self::Unmap => "unmap",
            Self::Release => "release",
            Self::Vacate => "vacate",
            Self::Unreserve => "unreserve",
            Self::OpenStream => "open_stream",
            Self::CloseStream => "close_stream",
            Self::Read => "read",
            Self::Write => "write",
            Self::Fill => "fill",
            Self::Wait => "wait",
            Self::RegisterHost => "register_host",
            Self::UnregisterHost => "unregister_host",
            Self::Engine => "engine",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed driver call: what was tried, where, with how many bytes, and the driver's own words.
///
/// One pointer wide, so that results stay small. Built with the `with_*` methods.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(Box<Detail>);

#[derive(Clone, Debug)]
struct Detail {
    kind: ErrorKind,
    operation: Operation,
    device: Option<Device>,
    address: Option<Address>,
    bytes: Option<u64>,
    code: Option<i64>,
    text: Cow<'static, str>,
}

impl Error {
    /// An error of `kind` in `operation`, with a plain sentence or the driver's text.
    #[must_use]
    pub fn new(kind: ErrorKind, operation: Operation, text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        Self(Box::new(Detail {
            kind,
            operation,
            device: None,
            address: None,
            bytes: None,
            code: None,
            text,
        }))
    }

    /// Adds the device.
    #[must_use]
    pub fn with_device(mut self, device: Device) -> Self {
        self.0.device = Some(device);
        self
    }

    /// Adds the device address.
    #[must_use]
    pub fn with_address(mut self, address: Address) -> Self {
        self.0.address = Some(address);
        self
    }

    /// Adds the size of the request in bytes.
    #[must_use]
    pub fn with_bytes(mut self, bytes: u64) -> Self {
        self.0.bytes = Some(bytes);
        self
    }

    /// Adds the driver's own code.
    #[must_use]
    pub fn with_code(mut self, code: i64) -> Self {
        self.0.code = Some(code);
        self
    }

    /// The same error under another kind, where the caller knows better what it means.
    #[must_use]
    pub fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// Adds a sentence after the text.
    #[must_use]
    pub fn with_note(mut self, note: impl fmt::Display) -> Self {
        self.0.text = format!("{}; {note}", self.0.text).into();
        self
    }

    /// Adds that undoing what came before failed as well, if it did.
    #[must_use]
    pub fn with_undo(self, undone: Result<()>) -> Self {
        match undone {
            Ok(()) => self,
            Err(second) => self.with_note(format_args!("undoing it failed too: {second}")),
        }
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The call that failed.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.0.operation
    }

    /// The device, where the call concerns one.
    #[must_use]
    pub fn device(&self) -> Option<Device> {
        self.0.device
    }

    /// The device address, where the call concerns one.
    #[must_use]
    pub fn address(&self) -> Option<Address> {
        self.0.address
    }

    /// The size of the request in bytes, where it has one.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        self.0.bytes
    }

    /// The driver's own code, where a driver answered.
    #[must_use]
    pub fn code(&self) -> Option<i64> {
        self.0.code
    }

    /// The driver's own text, or a plain sentence.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if self.operation != Operation::Engine {
            write!(f, " in {}", self.operation)?;
        }
        if let Some(bytes) = self.bytes {
            write!(f, " of {bytes} bytes")?;
        }
        if let Some(address) = self.address {
            write!(f, " at {address}")?;
        }
        if let Some(device) = self.device {
            write!(f, " on device {device}")?;
        }
        if !self.text.is_empty() {
            write!(f, ": {}", self.text)?;
        }
        if let Some(code) = self.code {
            write!(f, " (driver code {code})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_call_size_address_device_text_and_code() {
        let error =
            Error::new(ErrorKind::OutOfMemory, Operation::Create, "CUDA_ERROR_OUT_OF_MEMORY")
                .with_bytes(1 << 30)
                .with_address(Address(0x1000))
                .with_device(Device(3))
                .with_code(2);
        assert_eq!(
            error.to_string(),
            "out of memory in create of 1073741824 bytes at 0x1000 on device 3: \
             CUDA_ERROR_OUT_OF_MEMORY (driver code 2)"
        );
    }

    #[test]
    fn an_error_is_one_pointer_wide() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }
}
