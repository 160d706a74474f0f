//! One figure, and what it is held against.

use serde::Serialize;
use serde_json::{Map, Value};

use super::samples::{Samples, Summary};

/// What a figure is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unit {
    #[default]
    Milliseconds,
    Bytes,
}

/// One thing that was measured, what it is held against, and how much it may be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) unit: Unit,
    pub(crate) summary: Summary,
    /// Where not the median counts.
    pub(crate) p99: Option<f64>,
    pub(crate) floors: Vec<(&'static str, f64)>,
    pub(crate) limit: Option<f64>,
    pub(crate) stretch: Option<f64>,
}

impl Figure {
    /// A median of milliseconds.
    pub(crate) fn times(what: impl Into<String>, samples: &Samples) -> Self {
        Self { what: what.into(), summary: samples.summary(), ..Self::default() }
    }

    /// A 99th percentile of milliseconds.
    pub(crate) fn slowest(what: impl Into<String>, samples: &Samples) -> Self {
        Self { p99: Some(samples.p99()), ..Self::times(what, samples) }
    }

    /// A median of bytes.
    pub(crate) fn bytes(what: impl Into<String>, samples: &Samples) -> Self {
        Self { unit: Unit::Bytes, ..Self::times(what, samples) }
    }

    pub(crate) fn floor(mut self, name: &'static str, value: f64) -> Self {
        self.floors.push((name, value));
        self
    }

    pub(crate) fn limit(mut self, limit: f64) -> Self {
        self.limit = Some(limit);
        self
    }

    pub(crate) fn stretch(mut self, stretch: f64) -> Self {
        self.stretch = Some(stretch);
        self
    }

    /// What counts: the median, or the 99th percentile.
    pub(crate) fn value(&self) -> f64 {
        self.p99.unwrap_or(self.summary.median)
    }

    /// Its share of the limit; the target is met up to 1.
    pub(crate) fn ratio(&self) -> Option<f64> {
        self.limit.filter(|limit| *limit > 0.0).map(|limit| self.value() / limit)
    }

    pub(crate) fn verdict(&self) -> Option<Verdict> {
        self.ratio().map(|ratio| if ratio <= 1.0 { Verdict::Met } else { Verdict::NotMet })
    }

    pub(crate) fn meets_stretch(&self) -> Option<bool> {
        self.stretch.map(|stretch| self.value() <= stretch)
    }
}

/// Whether a target is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Met,
    NotMet,
}

impl Unit {
    /// Those that there are, with the unit in their names.
    pub(crate) fn map<'a>(
        self,
        values: impl IntoIterator<Item = (&'a str, Option<f64>)>,
    ) -> Map<String, Value> {
        let suffix = match self {
            Self::Milliseconds => "ms",
            Self::Bytes => "bytes",
        };
        values
            .into_iter()
            .filter_map(|(name, value)| Some((format!("{name}_{suffix}"), self.value(value?))))
            .collect()
    }

    fn value(self, value: f64) -> Value {
        match self {
            Self::Milliseconds => value.into(),
            Self::Bytes => whole(value).into(),
        }
    }
}

/// Bytes that were counted as a float.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast stops at zero and at the largest integer"
)]
fn whole(bytes: f64) -> u64 {
    bytes.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_up_to_its_limit() {
        let figure = Figure::times("pause", &Samples::of_ms(&[90, 100, 250])).limit(100.0);
        assert_eq!(figure.verdict(), Some(Verdict::Met));
        assert_eq!(figure.meets_stretch(), None);
        assert_eq!(figure.clone().stretch(100.0).meets_stretch(), Some(true));
        assert_eq!(figure.clone().stretch(99.0).meets_stretch(), Some(false));
        assert_eq!(figure.clone().limit(99.0).verdict(), Some(Verdict::NotMet));
        let figure = Figure::slowest("allocate", &Samples::of_ms(&[90, 100, 250])).limit(100.0);
        assert_eq!(figure.verdict(), Some(Verdict::NotMet));
        assert_eq!(Figure::times("prepare", &Samples::of_ms(&[1])).verdict(), None);
    }
}
