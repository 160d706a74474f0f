//! The cases, by name.

use clap::ValueEnum;
use dormant::Policy;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Case {
    /// Backups in pageable memory, which goes back after the resume.
    Reclaim,
    /// Backups in registered memory that is kept; not the first pause.
    Retain,
    /// The first pause into memory that was made ready before.
    RetainPrepared,
    /// The first pause with nothing made ready.
    RetainFirst,
    /// Contents are not kept.
    Discard,
    /// Blocks of one granule.
    Small,
    /// Two devices in one call.
    TwoDevices,
    /// Backups on disk.
    Disk,
    /// How much host memory a pause takes at most, and when it is back.
    HostMemory,
    /// What other threads wait for during pauses and resumes.
    Latency,
    /// Eight processes at once.
    Ranks,
}

impl Case {
    pub(crate) const ALL: [Self; 11] = [
        Self::Reclaim,
        Self::Retain,
        Self::RetainPrepared,
        Self::RetainFirst,
        Self::Discard,
        Self::Small,
        Self::TwoDevices,
        Self::Disk,
        Self::HostMemory,
        Self::Latency,
        Self::Ranks,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Reclaim => "reclaim",
            Self::Retain => "retain",
            Self::RetainPrepared => "retain-prepared",
            Self::RetainFirst => "retain-first",
            Self::Discard => "discard",
            Self::Small => "small",
            Self::TwoDevices => "two-devices",
            Self::Disk => "disk",
            Self::HostMemory => "host-memory",
            Self::Latency => "latency",
            Self::Ranks => "ranks",
        }
    }

    pub(crate) const fn policy(self) -> Policy {
        match self {
            Self::Discard => Policy::Discard,
            Self::Disk => Policy::Disk,
            _ => Policy::Host,
        }
    }
}

/// The cases that were named (all, if none was) and have the policy (any, if none was named).
///
/// # Errors
/// A sentence, if there is none.
pub(crate) fn chosen(named: &[Case], policy: Option<Policy>) -> Result<Vec<Case>, String> {
    let chosen: Vec<_> = Case::ALL
        .into_iter()
        .filter(|case| named.is_empty() || named.contains(case))
        .filter(|case| policy.is_none_or(|policy| case.policy() == policy))
        .collect();
    if chosen.is_empty() {
        return Err("none of the cases of --case has the policy of --policy".to_owned());
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_go_by_their_names() {
        for case in Case::ALL {
            assert_eq!(Case::from_str(case.name(), false), Ok(case));
        }
        assert_eq!(Case::value_variants(), Case::ALL);
    }

    #[test]
    fn names_and_policy_both_limit_the_cases() {
        assert_eq!(chosen(&[], None).unwrap(), Case::ALL);
        assert_eq!(chosen(&[], Some(Policy::Disk)).unwrap(), [Case::Disk]);
        let two = [Case::Disk, Case::Retain];
        assert_eq!(chosen(&two, None).unwrap(), [Case::Retain, Case::Disk]);
        assert_eq!(chosen(&two, Some(Policy::Host)).unwrap(), [Case::Retain]);
        assert!(chosen(&two, Some(Policy::Discard)).is_err());
    }
}
