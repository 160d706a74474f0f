//! What the simulated driver answers: a code as CUDA numbers them, and why.

use std::fmt;

/// Why a call was refused. The numbers are those of the CUDA driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// An argument is wrong, or the memory is not in the state that the call needs.
    InvalidValue = 1,
    /// The device, the addresses or the host has no room for this now.
    OutOfMemory = 2,
    /// The device is gone.
    DeviceLost = 46,
    /// No such device.
    InvalidDevice = 101,
    /// The calling thread has no current device, or no context is on it.
    InvalidContext = 201,
    /// The host's system refused.
    OperatingSystem = 304,
    /// No such stream or event.
    InvalidHandle = 400,
    /// Work has not ended yet. Not a failure.
    NotReady = 600,
    /// Work touched memory that was not mapped or not accessible. Sticky.
    IllegalAddress = 700,
    /// Peer access is enabled already.
    PeerAlreadyEnabled = 704,
    /// Host memory is registered already.
    HostAlreadyRegistered = 712,
    /// No registration of host memory starts there.
    HostNotRegistered = 713,
    /// A kernel failed by itself.
    LaunchFailed = 719,
    /// The process may not do this.
    NotPermitted = 800,
    /// The driver does not offer this.
    NotSupported = 801,
    /// The call is not allowed during a stream capture, and has broken it.
    StreamCaptureUnsupported = 900,
    /// The capture had been broken before.
    CaptureInvalidated = 901,
    /// Work in the legacy stream would have had to wait for a captured one.
    StreamCaptureImplicit = 906,
    /// The event was recorded in a stream that is being captured.
    CapturedEvent = 907,
    /// The capture was begun by another thread.
    CaptureWrongThread = 908,
}

impl Code {
    /// The name, as CUDA has it without the prefix.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidValue => "INVALID_VALUE",
            Self::OutOfMemory => "OUT_OF_MEMORY",
            Self::DeviceLost => "DEVICE_UNAVAILABLE",
            Self::InvalidDevice => "INVALID_DEVICE",
            Self::InvalidContext => "INVALID_CONTEXT",
            Self::OperatingSystem => "OPERATING_SYSTEM",
            Self::InvalidHandle => "INVALID_HANDLE",
            Self::NotReady => "NOT_READY",
            Self::IllegalAddress => "ILLEGAL_ADDRESS",
            Self::PeerAlreadyEnabled => "PEER_ACCESS_ALREADY_ENABLED",
            Self::HostAlreadyRegistered => "HOST_MEMORY_ALREADY_REGISTERED",
            Self::HostNotRegistered => "HOST_MEMORY_NOT_REGISTERED",
            Self::LaunchFailed => "LAUNCH_FAILED",
            Self::NotPermitted => "NOT_PERMITTED",
            Self::NotSupported => "NOT_SUPPORTED",
            Self::StreamCaptureUnsupported => "STREAM_CAPTURE_UNSUPPORTED",
            Self::CaptureInvalidated => "STREAM_CAPTURE_INVALIDATED",
            Self::StreamCaptureImplicit => "STREAM_CAPTURE_IMPLICIT",
            Self::CapturedEvent => "CAPTURED_EVENT",
            Self::CaptureWrongThread => "STREAM_CAPTURE_WRONG_THREAD",
        }
    }

    /// The number, as CUDA has it.
    #[must_use]
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// A refusal with this code.
    pub(crate) const fn because(self, why: &'static str) -> Refusal {
        Refusal { code: self, why }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A call that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {why}")]
pub struct Refusal {
    /// The code that the real driver gives, or would give were it as strict.
    pub code: Code,
    /// Why, in plain words; says so where the real driver is laxer, or crashes.
    pub why: &'static str,
}

/// What a call of the simulated driver gives back.
pub type Answer<T = ()> = Result<T, Refusal>;
