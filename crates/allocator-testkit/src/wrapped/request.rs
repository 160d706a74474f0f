//! What a hook is told of a call, and the numbered streams that make it possible.

use std::sync::atomic::{AtomicU64, Ordering};

use allocator_core::{Address, Device, Operation, Range};

use super::physical::Physical;

/// One call on its way to the wrapped driver. What the operation has no use for is empty.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Which method.
    pub operation: Operation,
    /// The device of the call, of its range or of its stream.
    pub device: Option<Device>,
    /// The device address: of the range for calls on a whole range, of the piece for `map`,
    /// `set_access` and `unmap`. For `reserve` it is there once the driver has answered.
    pub address: Option<Address>,
    /// The bytes in question, at `address` where there is one.
    pub bytes: Option<u64>,
    /// First address and bytes of the range, for calls that name one.
    pub range: Option<(Address, u64)>,
    /// The number of the physical handle.
    pub handle: Option<u64>,
    /// The number of the stream.
    pub stream: Option<u64>,
    /// The host address, as a number.
    pub host: Option<usize>,
    /// Who gets access; for `enable_peer`, whose memory.
    pub devices: &'a [Device],
}

impl Request<'_> {
    pub(super) fn new(operation: Operation) -> Self {
        Self {
            operation,
            device: None,
            address: None,
            bytes: None,
            range: None,
            handle: None,
            stream: None,
            host: None,
            devices: &[],
        }
    }

    pub(super) fn on(operation: Operation, device: Device) -> Self {
        Self { device: Some(device), ..Self::new(operation) }
    }

    pub(super) fn within(operation: Operation, range: &Range, offset: u64, bytes: u64) -> Self {
        Self {
            address: Some(range.address().offset(offset)),
            bytes: Some(bytes),
            range: Some((range.address(), range.bytes())),
            ..Self::on(operation, range.device())
        }
    }

    pub(super) fn of<P>(operation: Operation, physical: &Physical<P>) -> Self {
        Self {
            handle: Some(physical.id),
            bytes: Some(physical.bytes),
            ..Self::on(operation, physical.device)
        }
    }

    pub(super) fn in_stream<S>(operation: Operation, stream: &Stream<S>) -> Self {
        Self { stream: Some(stream.id), ..Self::on(operation, stream.device) }
    }

    pub(super) fn copy<S>(
        operation: Operation,
        stream: &Stream<S>,
        at: Address,
        bytes: u64,
    ) -> Self {
        Self { address: Some(at), bytes: Some(bytes), ..Self::in_stream(operation, stream) }
    }
}

/// A stream of the wrapped driver, with a number that is never used again.
#[derive(Debug)]
pub struct Stream<S> {
    pub(super) id: u64,
    pub(super) device: Device,
    pub(super) inner: S,
}

/// One count for all wrappers, so that a handle of another driver is seen to be one.
pub(super) fn next_id() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}
