//! One driver call and its error, for backends whose driver answers with numbers.

use std::ops::RangeInclusive;

use crate::device::{Address, Device};
use crate::error::{Error, ErrorKind, Operation, Result};

/// One driver call and what it is about, for its error.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    operation: Operation,
    name: &'static str,
    device: Option<Device>,
    address: Option<Address>,
    bytes: Option<u64>,
}

impl Call {
    /// A call of the driver's function `name`, as a part of `operation`.
    #[must_use]
    pub const fn new(operation: Operation, name: &'static str) -> Self {
        Self { operation, name, device: None, address: None, bytes: None }
    }

    /// It concerns a device.
    #[must_use]
    pub const fn on(mut self, device: Device) -> Self {
        self.device = Some(device);
        self
    }

    /// It concerns an address.
    #[must_use]
    pub const fn at(mut self, address: Address) -> Self {
        self.address = Some(address);
        self
    }

    /// It concerns this many bytes.
    #[must_use]
    pub const fn of(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// An error that is ours and not the driver's.
    #[must_use]
    pub fn refuse(self, kind: ErrorKind, text: impl Into<String>) -> Error {
        let mut error = Error::new(kind, self.operation, text.into());
        if let Some(device) = self.device {
            error = error.with_device(device);
        }
        if let Some(address) = self.address {
            error = error.with_address(address);
        }
        if let Some(bytes) = self.bytes {
            error = error.with_bytes(bytes);
        }
        error
    }

    /// A size as the driver takes it.
    ///
    /// # Errors
    /// `TooLarge` where it does not fit an address.
    pub fn size(self, bytes: u64) -> Result<usize> {
        usize::try_from(bytes)
            .map_err(|_| self.refuse(ErrorKind::TooLarge, "the size does not fit an address"))
    }
}

/// A driver's result codes and what they mean.
#[derive(Clone, Debug)]
pub struct Codes {
    /// First code, last code, what they mean, in order. What is not listed is `Unknown`.
    pub meanings: &'static [(u32, u32, ErrorKind)],
    /// Those that are about a stream capture.
    pub capture: RangeInclusive<u32>,
}

impl Codes {
    /// What a code means for the caller.
    #[must_use]
    pub fn kind(&self, code: u32) -> ErrorKind {
        self.meanings
            .iter()
            .find(|(first, last, _)| (*first..=*last).contains(&code))
            .map_or(ErrorKind::Unknown, |(_, _, kind)| *kind)
    }

    /// What the driver's text leaves out.
    #[must_use]
    pub fn note(&self, code: u32) -> Option<&'static str> {
        if self.capture.contains(&code) {
            return Some("a stream capture is in progress in this context");
        }
        (self.kind(code) == ErrorKind::EarlierWorkFailed)
            .then_some("work queued earlier failed, and the device stays unusable for this process")
    }

    /// The error for a call that was answered with `code`, with the driver's own name and text
    /// for it.
    #[must_use]
    pub fn error(&self, call: Call, code: u32, name: Option<&str>, text: Option<&str>) -> Error {
        let text = match (name, text) {
            (Some(name), Some(text)) => format!("{}: {name} ({text})", call.name),
            (Some(one), None) | (None, Some(one)) => format!("{}: {one}", call.name),
            (None, None) => format!("{}: a code that the driver has no name for", call.name),
        };
        let error = call.refuse(self.kind(code), text).with_code(code.into());
        match self.note(code) {
            Some(note) => error.with_note(note),
            None => error,
        }
    }
}

/// Out of memory for more than a device has in all will be so for ever.
#[must_use]
pub fn judge(error: Error, bytes: u64, total_bytes: u64) -> Error {
    if error.kind() == ErrorKind::OutOfMemory && bytes > total_bytes {
        error
            .with_kind(ErrorKind::TooLarge)
            .with_note(format_args!("the device has {total_bytes} bytes in all"))
    } else {
        error
    }
}

/// When registering host memory, it is the host's memory that runs out, or that the system (the
/// driver's code for it) does not lock.
#[must_use]
pub fn judge_host(error: Error, operating_system: u32) -> Error {
    let of_the_system = error.code() == Some(operating_system.into());
    if error.kind() == ErrorKind::OutOfMemory || of_the_system {
        error.with_kind(ErrorKind::HostMemory)
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODES: Codes = Codes {
        meanings: &[
            (2, 2, ErrorKind::OutOfMemory),
            (700, 702, ErrorKind::EarlierWorkFailed),
            (900, 908, ErrorKind::Busy),
        ],
        capture: 900..=908,
    };

    #[test]
    fn a_code_has_the_kind_of_its_range_and_unknown_outside_all() {
        assert_eq!(CODES.kind(2), ErrorKind::OutOfMemory);
        assert_eq!(CODES.kind(701), ErrorKind::EarlierWorkFailed);
        assert_eq!(CODES.kind(703), ErrorKind::Unknown);
    }

    #[test]
    fn an_error_carries_the_call_the_drivers_words_and_the_code() {
        let call = Call::new(Operation::Create, "cuMemCreate").on(Device(3)).of(64);
        let error = CODES.error(call, 2, Some("NO_MEMORY"), Some("out of memory"));
        assert_eq!(
            error.to_string(),
            "out of memory in create of 64 bytes on device 3: cuMemCreate: \
             NO_MEMORY (out of memory) (driver code 2)"
        );
        assert!(CODES.error(call, 4711, None, None).text().contains("no name"));
        assert_eq!(CODES.error(call, 4711, None, Some("so")).text(), "cuMemCreate: so");
        assert!(CODES.error(call, 905, None, None).text().contains("capture"));
        assert!(CODES.error(call, 700, None, None).text().contains("queued earlier"));
    }

    #[test]
    fn out_of_memory_for_more_than_there_is_is_too_large() {
        let error = || Error::new(ErrorKind::OutOfMemory, Operation::Create, "");
        assert_eq!(judge(error(), 10, 10).kind(), ErrorKind::OutOfMemory);
        assert_eq!(judge(error(), 11, 10).kind(), ErrorKind::TooLarge);
        let other = error().with_kind(ErrorKind::Unknown);
        assert_eq!(judge(other, 11, 10).kind(), ErrorKind::Unknown);
    }
}
