//! What must hold, and what did not.

use crate::size::Bytes;

/// How far a GPU's free reading may be from what we expect: other processes move it, and so do the
/// driver's own small allocations. The simulated device is alone.
const GPU_SLACK_BYTES: u64 = 64 << 20;

/// Collects what did not hold.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    slack_bytes: u64,
    problems: Vec<String>,
}

impl Checks {
    pub(crate) fn new(simulated: bool) -> Self {
        let slack_bytes = if simulated { 0 } else { GPU_SLACK_BYTES };
        Self { slack_bytes, problems: Vec::new() }
    }

    pub(crate) fn into_problems(self) -> Vec<String> {
        self.problems
    }

    pub(crate) fn problem(&mut self, text: impl Into<String>) {
        self.problems.push(text.into());
    }

    /// Our own count is exact.
    pub(crate) fn count(&mut self, what: &str, found: u64, expected: u64) {
        if found != expected {
            self.problem(format!("{what}: {found} bytes, not {expected}"));
        }
    }

    /// The device's free reading must have risen by `bytes`, within the slack.
    pub(crate) fn rose(&mut self, what: &str, before: u64, after: u64, bytes: u64) {
        if after.saturating_add(self.slack_bytes) < before.saturating_add(bytes) {
            self.problem(format!(
                "{what}: the device's free bytes went from {before} to {after}, which is not {} \
                 more ({bytes} bytes)",
                Bytes(bytes)
            ));
        }
    }

    /// The device's free reading must be back where it was, within the slack.
    pub(crate) fn back(&mut self, what: &str, start: u64, end: u64) {
        if start.abs_diff(end) > self.slack_bytes {
            self.problem(format!(
                "{what}: the device has {end} bytes free, and had {start} at the start"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_simulated_device_is_held_to_the_byte() {
        let mut checks = Checks::new(true);
        checks.rose("pause", 100, 200, 100);
        checks.back("end", 100, 100);
        checks.count("freed", 5, 5);
        assert!(checks.problems.is_empty());
        checks.rose("pause", 100, 199, 100);
        checks.back("end", 100, 101);
        checks.count("freed", 4, 5);
        assert_eq!(checks.problems.len(), 3, "{:?}", checks.problems);
        assert!(checks.problems[2].contains("4 bytes, not 5"));
    }

    #[test]
    fn a_gpus_reading_has_a_slack_of_64_mib_and_our_own_count_has_none() {
        let mut checks = Checks::new(false);
        checks.rose("pause", 0, 36 * MIB, 100 * MIB);
        checks.back("end", 100 * MIB, 164 * MIB);
        checks.back("end", 164 * MIB, 100 * MIB);
        assert!(checks.problems.is_empty());
        checks.rose("pause", 0, 36 * MIB - 1, 100 * MIB);
        checks.back("end", 100 * MIB, 164 * MIB + 1);
        checks.count("freed", 4, 5);
        assert_eq!(checks.problems.len(), 3);
    }
}
