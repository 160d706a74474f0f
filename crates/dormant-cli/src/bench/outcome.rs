//! What was found, as `--json` prints it.

use serde::Serialize;
use serde_json::{Map, Value};

use super::bed::Layout;
use super::floors::Floors;
use super::machine::Machine;
use super::samples::{Samples, Summary};
use crate::failure::Failure;
use crate::identity::Build;

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

/// What came of a case.
#[derive(Debug)]
pub(crate) enum Found {
    Measured {
        layout: Layout,
        figures: Vec<Figure>,
    },
    /// Why it does not apply here.
    Skipped(String),
    Failed(Failure),
}

/// All that was found.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Outcome {
    pub(crate) ok: bool,
    pub(crate) build: Build,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) machine: Option<Machine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) settings: Option<Settings>,
    pub(crate) notes: Vec<String>,
    pub(crate) floors: Floors,
    /// One entry for each figure, and for each case that has none.
    pub(crate) cases: Vec<Entry>,
    pub(crate) met: usize,
    pub(crate) not_met: usize,
    /// Contents that came back wrong.
    pub(crate) problems: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Failure>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Settings {
    pub(crate) size_bytes: u64,
    pub(crate) block_bytes: u64,
    pub(crate) cycles: u32,
    pub(crate) devices: Vec<u32>,
    pub(crate) cases: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disk_directory: Option<String>,
}

/// A figure of a case, or a case that has none. Times are numbers of milliseconds, bytes are
/// integers; a name that says neither is a count or a ratio.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) figure: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) block_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) blocks: Option<u64>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) measured: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) floors: Map<String, Value>,
    /// `limit_ms` and `stretch_ms`, or the same in bytes.
    #[serde(flatten)]
    pub(crate) limits: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) verdict: Option<Verdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stretch_met: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) skipped: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Failure>,
}

impl Entry {
    /// One for each figure, or one for a case that has none. `judged`: with verdicts.
    pub(crate) fn all_of(name: &'static str, found: &Found, judged: bool) -> Vec<Self> {
        match found {
            Found::Measured { layout, figures } => figures
                .iter()
                .map(|figure| Self::of(figure, judged))
                .map(|entry| Self {
                    name,
                    size_bytes: Some(layout.bytes * layout.devices.len() as u64),
                    block_bytes: Some(layout.block_bytes),
                    blocks: Some(layout.blocks()),
                    ..entry
                })
                .collect(),
            Found::Skipped(why) => {
                vec![Self { name, skipped: Some(why.clone()), ..Self::default() }]
            }
            Found::Failed(failure) => {
                vec![Self { name, error: Some(failure.clone()), ..Self::default() }]
            }
        }
    }

    fn of(figure: &Figure, judged: bool) -> Self {
        let unit = figure.unit;
        let Summary { median, min, max } = figure.summary;
        let measured =
            [("median", Some(median)), ("min", Some(min)), ("max", Some(max)), ("p99", figure.p99)];
        let limits = [("limit", figure.limit), ("stretch", figure.stretch)];
        Self {
            figure: Some(figure.what.clone()),
            measured: unit.map(measured),
            floors: unit.map(figure.floors.iter().map(|(name, value)| (*name, Some(*value)))),
            limits: unit.map(limits),
            ratio: figure.ratio(),
            verdict: figure.verdict().filter(|_| judged),
            stretch_met: figure.meets_stretch().filter(|_| judged),
            ..Self::default()
        }
    }
}

impl Unit {
    /// Those that there are, with the unit in their names.
    fn map<'a>(
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
pub(crate) fn whole(bytes: f64) -> u64 {
    bytes.round() as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dormant::{Device, Policy};

    use super::*;

    fn samples(milliseconds: &[u64]) -> Samples {
        let mut samples = Samples::default();
        milliseconds.iter().for_each(|ms| samples.push(Duration::from_millis(*ms)));
        samples
    }

    #[test]
    fn a_target_is_met_up_to_its_limit() {
        let figure = Figure::times("pause", &samples(&[90, 100, 250])).limit(100.0);
        assert_eq!(figure.verdict(), Some(Verdict::Met));
        assert_eq!(figure.meets_stretch(), None);
        assert_eq!(figure.clone().stretch(100.0).meets_stretch(), Some(true));
        assert_eq!(figure.clone().stretch(99.0).meets_stretch(), Some(false));
        assert_eq!(figure.clone().limit(99.0).verdict(), Some(Verdict::NotMet));
        let figure = Figure::slowest("allocate", &samples(&[90, 100, 250])).limit(100.0);
        assert_eq!(figure.verdict(), Some(Verdict::NotMet));
        assert_eq!(Figure::times("prepare", &samples(&[1])).verdict(), None);
    }

    #[test]
    fn json_has_units_in_its_names_and_bytes_as_integers() {
        let layout = Layout {
            devices: vec![Device(0), Device(1)],
            bytes: 128,
            block_bytes: 64,
            policy: Policy::Host,
            directory: None,
        };
        let mut peak = Samples::default();
        peak.push_value(300.0);
        let figures = vec![
            Figure::times("pause", &samples(&[100])).floor("copy", 80.0).limit(200.0),
            Figure::bytes("peak", &peak).limit(400.0),
        ];
        let found = Found::Measured { layout, figures };
        let entries = Entry::all_of("retain", &found, true);
        let json = serde_json::to_value(&entries).unwrap();
        assert_eq!(
            json[0],
            serde_json::json!({
                "name": "retain", "figure": "pause", "size_bytes": 256, "block_bytes": 64,
                "blocks": 4, "measured": {"median_ms": 100.0, "min_ms": 100.0, "max_ms": 100.0},
                "floors": {"copy_ms": 80.0}, "limit_ms": 200.0, "ratio": 0.5, "verdict": "met",
            })
        );
        assert_eq!(json[1]["measured"]["median_bytes"], 300);
        assert_eq!(json[1]["limit_bytes"], 400);
        let unjudged = serde_json::to_value(Entry::all_of("retain", &found, false)).unwrap();
        assert!(unjudged[0].get("verdict").is_none());
        let skipped = Entry::all_of("disk", &Found::Skipped("no room".to_owned()), true);
        let json = serde_json::to_value(skipped).unwrap();
        assert_eq!(json, serde_json::json!([{"name": "disk", "skipped": "no room"}]));
    }
}
