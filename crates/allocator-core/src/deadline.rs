//! A point in time after which a call gives up.

use std::time::{Duration, Instant};

/// When to give up waiting. `Copy`, so that one deadline goes through all steps of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// Waits as long as it takes.
    pub const NEVER: Self = Self(None);

    /// Gives up `timeout` from now. A timeout too long for the clock means never.
    #[must_use]
    pub fn after(timeout: Duration) -> Self {
        Self(Instant::now().checked_add(timeout))
    }

    /// Time left: `None` when the deadline is never, zero when it has passed.
    #[must_use]
    pub fn remaining(self) -> Option<Duration> {
        self.0.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// The one of the two that comes first.
    #[must_use]
    pub fn or_sooner(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(this), Some(that)) => Self(Some(this.min(that))),
            (this, that) => Self(this.or(that)),
        }
    }

    /// Whether the deadline has passed.
    #[must_use]
    pub fn has_passed(self) -> bool {
        self.0.is_some_and(|at| Instant::now() >= at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_of_zero_has_passed_and_never_does_not() {
        assert!(Deadline::after(Duration::ZERO).has_passed());
        assert!(!Deadline::NEVER.has_passed());
        assert_eq!(Deadline::NEVER.remaining(), None);
        assert!(!Deadline::after(Duration::MAX).has_passed());
        let passed = Deadline::after(Duration::ZERO);
        assert_eq!(passed.or_sooner(Deadline::NEVER), passed);
        assert_eq!(Deadline::NEVER.or_sooner(passed), passed);
        assert_eq!(passed.or_sooner(Deadline::after(Duration::from_secs(9))), passed);
    }
}
