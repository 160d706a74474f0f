//! The machine's codes as the error kinds of the `Driver` trait.

use allocator_core::{Error, ErrorKind, Operation};

use crate::machine::{Code, Refusal};

pub(crate) fn to_error(refusal: Refusal, operation: Operation) -> Error {
    Error::new(kind(refusal.code, operation), operation, refusal.to_string())
        .with_code(refusal.code.number().into())
}

fn kind(code: Code, operation: Operation) -> ErrorKind {
    match code {
        Code::OutOfMemory => ErrorKind::OutOfMemory,
        Code::DeviceLost => ErrorKind::DeviceLost,
        Code::InvalidDevice => ErrorKind::NotFound,
        Code::OperatingSystem if operation == Operation::Open => ErrorKind::Io,
        // It locks no memory, or has none for the thread of a stream.
        Code::OperatingSystem => ErrorKind::HostMemory,
        Code::IllegalAddress => ErrorKind::EarlierWorkFailed,
        Code::NotSupported | Code::NotPermitted => ErrorKind::NotSupported,
        Code::NotReady
        | Code::StreamCaptureUnsupported
        | Code::StreamCaptureImplicit
        | Code::CaptureInvalidated => ErrorKind::Busy,
        // Not sticky here: later work runs.
        Code::LaunchFailed => ErrorKind::Unknown,
        Code::InvalidValue
        | Code::InvalidContext
        | Code::InvalidHandle
        | Code::PeerAlreadyEnabled
        | Code::HostAlreadyRegistered
        | Code::HostNotRegistered
        | Code::CapturedEvent
        | Code::CaptureWrongThread => ErrorKind::InvalidArgument,
    }
}
