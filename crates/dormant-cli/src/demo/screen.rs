//! What the demo shows: text for people, or one JSON object at the end.

use std::fmt;
use std::time::Duration;

use dormant::{DeviceInfo, DriverInfo, MemoryInfo, Stats, TagStats};

use super::outcome::Outcome;
use super::plan::Role;
use crate::output::Output;
use crate::size::Bytes;
use crate::table::{Lean, Table};

/// Where the demo shows how it goes.
#[derive(Debug)]
pub(crate) struct Screen<'a> {
    output: &'a mut Output,
    json: bool,
    steps: u32,
}

impl<'a> Screen<'a> {
    pub(crate) fn new(output: &'a mut Output, json: bool) -> Self {
        Self { output, json, steps: 0 }
    }

    fn say(&mut self, line: impl fmt::Display) {
        if !self.json {
            self.output.line(line);
        }
    }

    fn paragraph(&mut self, text: impl fmt::Display, indent: &str) {
        if !self.json {
            self.output.paragraph(&text.to_string(), indent);
        }
    }

    /// Which device it is, and why that one.
    pub(crate) fn opened(
        &mut self,
        driver: &DriverInfo,
        found: Option<&DeviceInfo>,
        why: Option<&str>,
    ) {
        if let Some(why) = why {
            self.paragraph(format_args!("Note: {why}."), "  ");
        }
        let DriverInfo { backend, version, .. } = driver;
        if let Some(DeviceInfo { device, name, .. }) = found {
            self.say(format_args!("Device {device}: {name}, backend {backend}, driver {version}"));
        }
    }

    /// A step that is done.
    pub(crate) fn step(&mut self, line: impl fmt::Display) {
        self.steps += 1;
        let number = self.steps;
        self.say("");
        self.paragraph(format_args!("{number}. {line}"), "   ");
    }

    /// Who holds what.
    pub(crate) fn table(&mut self, stats: &Stats, memory: MemoryInfo) {
        if self.json {
            return;
        }
        let mut table = Table::new([
            ("tag", Lean::Left),
            ("policy", Lean::Left),
            ("state", Lean::Left),
            ("active", Lean::Bytes),
            ("paused", Lean::Bytes),
            ("on host", Lean::Bytes),
        ]);
        let mut sums = [0; 3];
        for role in Role::ALL {
            let held = stats.tags.iter().find(|held| held.tag.as_str() == role.tag());
            let bytes = held
                .map_or([0; 3], |held| [held.active.bytes, held.paused.bytes, held.saved.bytes]);
            for (sum, bytes) in sums.iter_mut().zip(bytes) {
                *sum += bytes;
            }
            let [active, paused, saved] = bytes.map(shown);
            let state = held.map_or("freed", state);
            let policy = role.policy().to_string();
            table.row([role.tag().to_owned(), policy, state.to_owned(), active, paused, saved]);
        }
        let [active, paused, saved] = sums.map(shown);
        table.row(["total".to_owned(), String::new(), String::new(), active, paused, saved]);
        self.say(format_args!("\n{table}"));
        let MemoryInfo { free_bytes, total_bytes } = memory;
        let (free, all) = (Bytes(free_bytes), Bytes(total_bytes));
        self.say(format_args!("\n  Free on the device: {free} of {all}"));
    }

    /// The last word.
    pub(crate) fn verdict(&mut self, outcome: &Outcome) {
        if self.json {
            self.output.json(outcome);
        } else if outcome.ok {
            self.say("\nOK: every byte is as promised, and all memory is the device's again.");
        } else if outcome.error.is_none() {
            self.say("\nFAILED:");
        } else if self.steps > 0 {
            self.say("\nFAILED: the demo could not go on.");
        }
        for problem in &outcome.problems {
            self.say(format_args!("  - {problem}"));
        }
    }
}

fn shown(bytes: u64) -> String {
    if bytes == 0 { "-".to_owned() } else { Bytes(bytes).to_string() }
}

fn state(held: &TagStats) -> &'static str {
    match (held.active.blocks, held.paused.blocks, held.moving.blocks, held.poisoned.blocks) {
        (_, 0, 0, 0) => "active",
        (0, _, 0, 0) => "paused",
        (_, _, _, 0) => "mixed",
        _ => "poisoned",
    }
}

/// Bytes per second, where there is something to measure.
pub(crate) fn rate(bytes: u64, time: Duration) -> Option<String> {
    let nanoseconds = time.as_nanos();
    let per_second = u128::from(bytes) * 1_000_000_000 / Some(nanoseconds).filter(|n| *n > 0)?;
    let per_second = u64::try_from(per_second).ok().filter(|rate| *rate > 0)?;
    Some(format!("{}/s", Bytes(per_second)))
}
