//! What happens to the contents of a block while it sleeps.

use std::fmt;
use std::str::FromStr;

use allocator_core::{ErrorKind, Operation};

/// What a pause does with the contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Policy {
    /// Undefined after a resume. The cheapest.
    #[default]
    Discard,
    /// Zero at first use and after every resume, by an explicit fill. Nothing is promised about
    /// the released memory itself.
    Zero,
    /// Copied to host memory at pause and back at resume.
    Host,
    /// Written to a file at pause and read back at resume. The file has no name and is gone with
    /// the process. Its directory: [`Allocation::directory`](crate::Allocation::directory), else
    /// [`Config::disk_directory`](crate::Config::disk_directory).
    Disk,
}

impl Policy {
    const ALL: [Self; 4] = [Self::Discard, Self::Zero, Self::Host, Self::Disk];

    /// Its name: `discard`, `zero`, `host`, `disk`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Discard => "discard",
            Self::Zero => "zero",
            Self::Host => "host",
            Self::Disk => "disk",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = allocator_core::Error;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|policy| policy.name() == name).ok_or_else(|| {
            allocator_core::Error::new(
                ErrorKind::InvalidArgument,
                Operation::Engine,
                format!("no policy is called `{name}`; there are discard, zero, host and disk"),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_read_back_from_its_name_and_others_are_refused() {
        for policy in Policy::ALL {
            assert_eq!(policy.name().parse::<Policy>().unwrap(), policy);
        }
        assert_eq!("disc".parse::<Policy>().unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}
