//! An engine error: the driver's error, and all that is known around it.

use std::fmt;

use allocator_core::{Address, Device, ErrorKind, Operation};

use crate::registry::Facts;
use crate::report::Report;
use crate::tag::Tag;

/// A result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Bytes that a tag holds on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The tag.
    pub tag: Tag,
    /// The device.
    pub device: Device,
    /// Physical bytes in use.
    pub active_bytes: u64,
}

/// A block that a transition could not bring where it was to go.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The block's address.
    pub address: Address,
    /// Its tag.
    pub tag: Tag,
    /// Its device.
    pub device: Device,
    /// Its logical size in bytes.
    pub bytes: u64,
    /// Whether it is poisoned now; else it is in the state that it had before.
    pub poisoned: bool,
    /// The driver's error.
    pub error: allocator_core::Error,
}

pub(crate) fn failure_of(
    address: Address,
    facts: &Facts,
    poisoned: bool,
    error: allocator_core::Error,
) -> Failure {
    Failure {
        address,
        tag: facts.tag.clone(),
        device: facts.device,
        bytes: facts.bytes,
        poisoned,
        error,
    }
}

/// Why a call of the engine failed. One pointer wide.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(Box<Detail>);

#[derive(Clone, Debug)]
struct Detail {
    action: String,
    cause: allocator_core::Error,
    wanted_bytes: Option<u64>,
    free_bytes: Option<u64>,
    holders: Vec<Holder>,
    failures: Vec<Failure>,
    report: Option<Report>,
}

impl Error {
    /// What failed, as in "pause of `weights`", and why.
    #[must_use]
    pub fn new(action: impl Into<String>, cause: allocator_core::Error) -> Self {
        Self(Box::new(Detail {
            action: action.into(),
            cause,
            wanted_bytes: None,
            free_bytes: None,
            holders: Vec::new(),
            failures: Vec::new(),
            report: None,
        }))
    }

    pub(crate) fn with_memory(
        mut self,
        wanted_bytes: u64,
        free_bytes: Option<u64>,
        holders: Vec<Holder>,
    ) -> Self {
        self.0.wanted_bytes = Some(wanted_bytes);
        self.0.free_bytes = free_bytes;
        self.0.holders = holders;
        self
    }

    pub(crate) fn with_failures(mut self, failures: Vec<Failure>) -> Self {
        self.0.failures = failures;
        self
    }

    pub(crate) fn with_report(mut self, report: Report) -> Self {
        self.0.report = Some(report);
        self
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.cause.kind()
    }

    /// The driver's error, or the engine's own in the same form.
    #[must_use]
    pub fn cause(&self) -> &allocator_core::Error {
        &self.0.cause
    }

    /// How many bytes the whole call wanted, where that is the matter.
    #[must_use]
    pub fn wanted_bytes(&self) -> Option<u64> {
        self.0.wanted_bytes
    }

    /// The device's free reading at the failure, where that is the matter.
    #[must_use]
    pub fn free_bytes(&self) -> Option<u64> {
        self.0.free_bytes
    }

    /// Which tags of this process hold memory on the device, the largest first.
    #[must_use]
    pub fn holders(&self) -> &[Holder] {
        &self.0.holders
    }

    /// The blocks whose driver call failed.
    #[must_use]
    pub fn failures(&self) -> &[Failure] {
        &self.0.failures
    }

    /// What was done all the same: present when a pause had committed before a block failed.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        self.0.report.as_ref()
    }
}

impl From<allocator_core::Error> for Error {
    /// A driver's error from outside the engine's own calls.
    fn from(cause: allocator_core::Error) -> Self {
        let action = match cause.operation() {
            Operation::Open => "opening the driver",
            Operation::Engine => "dormant",
            _ => "a driver call",
        };
        Self::new(action, cause)
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.action, self.cause)?;
        if let Some(wanted) = self.wanted_bytes {
            write!(f, "; wanted {wanted} bytes in all")?;
        }
        if let Some(free) = self.free_bytes {
            write!(f, ", {free} bytes are free")?;
        }
        for (index, holder) in self.holders.iter().take(4).enumerate() {
            let lead = if index == 0 { "; this process holds" } else { "," };
            write!(f, "{lead} {} bytes as `{}`", holder.active_bytes, holder.tag)?;
        }
        for failure in self.failures.iter().take(4) {
            let now = if failure.poisoned { "poisoned" } else { "as it was" };
            write!(f, "; block {} of `{}` is {now}", failure.address, failure.tag)?;
        }
        if self.failures.len() > 4 {
            write!(f, "; and {} more blocks", self.failures.len() - 4)?;
        }
        Ok(())
    }
}
