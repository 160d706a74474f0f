//! What was measured, cycle by cycle.

use std::time::Duration;

use serde::Serialize;

/// Readings of one thing: milliseconds, or bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

/// Some readings, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Samples {
    /// These times.
    #[cfg(test)]
    pub(crate) fn of_ms(milliseconds: &[u64]) -> Self {
        let mut samples = Self::default();
        milliseconds.iter().for_each(|ms| samples.push(Duration::from_millis(*ms)));
        samples
    }

    pub(crate) fn push(&mut self, time: Duration) {
        self.0.push(time.as_secs_f64() * 1e3);
    }

    pub(crate) fn push_value(&mut self, value: f64) {
        self.0.push(value);
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// The middle one; the mean of the middle two. Zero of nothing.
    pub(crate) fn median(&self) -> f64 {
        let sorted = self.sorted();
        let middle = sorted.len() / 2;
        match sorted.get(middle) {
            None => 0.0,
            Some(upper) if sorted.len() % 2 == 1 => *upper,
            Some(upper) => f64::midpoint(sorted[middle - 1], *upper),
        }
    }

    /// The least reading that 99 of 100 do not exceed. Zero of nothing.
    pub(crate) fn p99(&self) -> f64 {
        let sorted = self.sorted();
        let place = (sorted.len() * 99).div_ceil(100).saturating_sub(1);
        sorted.get(place).copied().unwrap_or(0.0)
    }

    pub(crate) fn summary(&self) -> Summary {
        let sorted = self.sorted();
        let end = |value: Option<&f64>| value.copied().unwrap_or(0.0);
        Summary { median: self.median(), min: end(sorted.first()), max: end(sorted.last()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: impl IntoIterator<Item = u32>) -> Samples {
        Samples(values.into_iter().map(f64::from).collect())
    }

    #[test]
    fn the_median_is_the_middle_reading_or_the_mean_of_the_middle_two() {
        assert_eq!(samples([9, 1, 5]).summary(), Summary { median: 5.0, min: 1.0, max: 9.0 });
        assert!((samples([4, 1, 2, 9]).median() - 3.0).abs() < 1e-9);
        assert_eq!(samples([]).summary(), Summary::default());
    }

    #[test]
    fn one_reading_of_a_hundred_is_above_the_99th_percentile() {
        assert!((samples(1..=100).p99() - 99.0).abs() < 1e-9);
        assert!((samples([1, 2, 3]).p99() - 3.0).abs() < 1e-9);
        assert!(samples([]).p99().abs() < 1e-9);
    }
}
