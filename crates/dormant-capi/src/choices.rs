//! Choices that C makes by number.

use dormant::{Checksum, HostMode, Policy};

use crate::status::Failed;
use crate::types::{
    DORMANT_CHECKSUM_FULL, DORMANT_CHECKSUM_OFF, DORMANT_CHECKSUM_OWN, DORMANT_HOST_MODE_AUTO,
    DORMANT_HOST_MODE_OWN, DORMANT_HOST_MODE_RECLAIM, DORMANT_HOST_MODE_RETAIN,
    DORMANT_POLICY_DISCARD, DORMANT_POLICY_DISK, DORMANT_POLICY_HOST, DORMANT_POLICY_OWN,
    DORMANT_POLICY_ZERO,
};

const POLICIES: [(i32, Policy); 4] = [
    (DORMANT_POLICY_DISCARD, Policy::Discard),
    (DORMANT_POLICY_ZERO, Policy::Zero),
    (DORMANT_POLICY_HOST, Policy::Host),
    (DORMANT_POLICY_DISK, Policy::Disk),
];

const HOST_MODES: [(i32, HostMode); 3] = [
    (DORMANT_HOST_MODE_AUTO, HostMode::Auto),
    (DORMANT_HOST_MODE_RETAIN, HostMode::Retain),
    (DORMANT_HOST_MODE_RECLAIM, HostMode::Reclaim),
];

const CHECKSUMS: [(i32, Checksum); 2] =
    [(DORMANT_CHECKSUM_OFF, Checksum::Off), (DORMANT_CHECKSUM_FULL, Checksum::Full)];

fn of_number<T: Copy>(all: &[(i32, T)], number: i32, what: &str) -> Result<T, Failed> {
    let found = all.iter().find(|(of, _)| *of == number).map(|(_, choice)| *choice);
    found.ok_or_else(|| Failed::invalid(format!("no {what} has the number {number}")))
}

fn number_of<T: PartialEq>(all: &[(i32, T)], choice: Option<T>, none: i32) -> i32 {
    let found = choice.and_then(|choice| all.iter().find(|(_, of)| *of == choice));
    found.map_or(none, |(number, _)| *number)
}

/// A policy by its number.
pub(crate) fn policy(number: i32) -> Result<Policy, Failed> {
    of_number(&POLICIES, number, "policy")
}

/// A policy's number.
pub(crate) fn policy_number(policy: Policy) -> i32 {
    number_of(&POLICIES, Some(policy), DORMANT_POLICY_OWN)
}

/// A host mode by its number; `None` where that says none.
pub(crate) fn host_mode(number: i32) -> Result<Option<HostMode>, Failed> {
    if number == DORMANT_HOST_MODE_OWN {
        return Ok(None);
    }
    of_number(&HOST_MODES, number, "host mode").map(Some)
}

/// A host mode's number.
pub(crate) fn host_mode_number(mode: Option<HostMode>) -> i32 {
    number_of(&HOST_MODES, mode, DORMANT_HOST_MODE_OWN)
}

/// Whether contents are checked, by its number; `None` where that does not say.
pub(crate) fn checksum(number: i32) -> Result<Option<Checksum>, Failed> {
    if number == DORMANT_CHECKSUM_OWN {
        return Ok(None);
    }
    of_number(&CHECKSUMS, number, "checksum").map(Some)
}

/// The number that says whether contents are checked.
pub(crate) fn checksum_number(checksum: Option<Checksum>) -> i32 {
    number_of(&CHECKSUMS, checksum, DORMANT_CHECKSUM_OWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_has_a_number_of_its_own_and_others_are_refused() {
        for one in Policy::ALL {
            assert_eq!(policy(policy_number(*one)).unwrap(), *one);
        }
        for one in HostMode::ALL {
            assert_eq!(host_mode(host_mode_number(Some(*one))).unwrap(), Some(*one));
        }
        for one in Checksum::ALL {
            assert_eq!(checksum(checksum_number(Some(*one))).unwrap(), Some(*one));
        }
        assert_eq!(host_mode(host_mode_number(None)).unwrap(), None);
        assert_eq!(checksum(checksum_number(None)).unwrap(), None);
        for number in [-1, 99, i32::MIN] {
            assert!(policy(number).is_err());
            assert!(host_mode(number).is_err() && checksum(number).is_err());
        }
    }
}
