//! What was found, as `--json` prints it.

use serde::Serialize;
use serde_json::{Map, Value};

use super::bed::Layout;
use super::figure::{Figure, Verdict};
use super::floors::Floors;
use super::machine::Machine;
use super::samples::Summary;
use crate::failure::Failure;
use crate::identity::Identity;

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
    pub(crate) build: Identity,
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

impl Outcome {
    /// The last word: a target that is not met is no failure.
    pub(crate) fn close(&mut self, error: Option<Failure>) {
        self.error = error;
        let failed = self.error.is_some() || self.cases.iter().any(|entry| entry.error.is_some());
        self.ok = !failed && self.problems.is_empty();
        let count = |wanted| self.cases.iter().filter(|e| e.verdict == Some(wanted)).count();
        (self.met, self.not_met) = (count(Verdict::Met), count(Verdict::NotMet));
    }
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

#[cfg(test)]
mod tests {
    use dormant::{Device, Policy};

    use super::*;
    use crate::bench::samples::Samples;

    #[test]
    fn a_target_that_is_not_met_is_no_failure_and_wrong_contents_are() {
        let layout = Layout {
            devices: vec![Device(0)],
            bytes: 64,
            block_bytes: 64,
            policy: Policy::Host,
            directory: None,
        };
        let figures = vec![
            Figure::times("pause", &Samples::of_ms(&[3])).limit(2.0),
            Figure::times("resume", &Samples::of_ms(&[3])).limit(3.0),
        ];
        let found = Found::Measured { layout, figures };
        let cases = || Entry::all_of("retain", &found, true);
        let mut outcome = Outcome { cases: cases(), ..Outcome::default() };
        outcome.close(None);
        assert_eq!((outcome.ok, outcome.met, outcome.not_met), (true, 1, 1));

        let problems = vec!["retain: block 1: byte 5 is 0x00, not 0x01".to_owned()];
        let mut outcome = Outcome { cases: cases(), problems, ..Outcome::default() };
        outcome.close(None);
        assert!(!outcome.ok);

        let kind = dormant::ErrorKind::HostMemory;
        let failure = Failure { kind, message: "no room".to_owned() };
        let cases = Entry::all_of("retain", &Found::Failed(failure.clone()), true);
        let mut outcome = Outcome { cases, ..Outcome::default() };
        outcome.close(None);
        assert!(!outcome.ok);
        outcome = Outcome::default();
        outcome.close(Some(failure));
        assert!(!outcome.ok);
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
            Figure::times("pause", &Samples::of_ms(&[100])).floor("copy", 80.0).limit(200.0),
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
