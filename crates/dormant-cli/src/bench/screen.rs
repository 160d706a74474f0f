//! The table for people.

use serde_json::{Map, Value};

use super::figure::Verdict;
use super::outcome::{Entry, Outcome};
use crate::output::Output;
use crate::size::Bytes;
use crate::table::{Lean, Table};

pub(super) fn show(outcome: &Outcome, output: &mut Output) {
    output.line(dormant::build_info());
    if let Some(machine) = &outcome.machine {
        output.line(machine);
    }
    if let Some(settings) = &outcome.settings {
        output.line(format_args!(
            "{} in blocks of {}; cycles after a first one: {}",
            Bytes(settings.size_bytes),
            Bytes(settings.block_bytes),
            settings.cycles,
        ));
    }
    if !outcome.cases.is_empty() {
        output.line(format_args!("\n{}\n", table(&outcome.cases)));
        output.line("In milliseconds where no unit is given; the ratio is to the limit.");
    }
    for note in &outcome.notes {
        output.paragraph(&format!("Note: {note}."), "  ");
    }
    for entry in &outcome.cases {
        if let Some(why) = &entry.skipped {
            output.paragraph(&format!("Skipped: {}: {why}.", entry.name), "  ");
        }
    }
    for problem in &outcome.problems {
        output.paragraph(&format!("WRONG CONTENTS: {problem}"), "  ");
    }
    if outcome.met + outcome.not_met > 0 {
        output.line(format_args!("{} met, {} not met", outcome.met, outcome.not_met));
    }
}

fn table(cases: &[Entry]) -> Table {
    let mut table = Table::new([
        ("case", Lean::Left),
        ("figure", Lean::Left),
        ("measured", Lean::Right),
        ("from", Lean::Right),
        ("to", Lean::Right),
        ("floors", Lean::Left),
        ("limit", Lean::Right),
        ("ratio", Lean::Right),
        ("verdict", Lean::Left),
    ]);
    let mut last = "";
    for entry in cases {
        let name = if entry.name == last { "" } else { entry.name };
        last = entry.name;
        let measured = |what| find(&entry.measured, what).unwrap_or_default();
        let floors: Vec<_> = entry
            .floors
            .iter()
            .map(|(name, value)| format!("{} {}", plain(name), number(name, value)))
            .collect();
        table.row([
            name.to_owned(),
            entry.figure.clone().unwrap_or_default(),
            find(&entry.measured, "p99").unwrap_or_else(|| measured("median")),
            measured("min"),
            measured("max"),
            floors.join(", "),
            find(&entry.limits, "limit").unwrap_or_default(),
            entry.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
            verdict(entry).to_owned(),
        ]);
    }
    table
}

fn verdict(entry: &Entry) -> &'static str {
    match entry.verdict {
        _ if entry.skipped.is_some() => "skipped",
        _ if entry.error.is_some() => "FAILED",
        Some(Verdict::Met) if entry.stretch_met == Some(true) => "met, stretch too",
        Some(Verdict::Met) => "met",
        Some(Verdict::NotMet) => "NOT MET",
        None => "-",
    }
}

/// The value of this name, whatever its unit.
fn find(map: &Map<String, Value>, what: &str) -> Option<String> {
    let (name, value) = map.iter().find(|(name, _)| plain(name) == what)?;
    Some(number(name, value))
}

/// A name without its unit.
fn plain(name: &str) -> String {
    let name = name.strip_suffix("_ms").or_else(|| name.strip_suffix("_bytes")).unwrap_or(name);
    name.replace('_', " ")
}

/// With three digits at least.
fn number(name: &str, value: &Value) -> String {
    if name.ends_with("_bytes") {
        return value.as_u64().map(|bytes| Bytes(bytes).to_string()).unwrap_or_default();
    }
    match value.as_f64() {
        None => String::new(),
        Some(value) if value < 10.0 => format!("{value:.3}"),
        Some(value) if value < 1000.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_or_more_and_bytes_their_unit() {
        for (name, value, text) in [
            ("median_ms", Value::from(0.1234), "0.123"),
            ("median_ms", Value::from(56.78), "56.8"),
            ("median_ms", Value::from(12345.6), "12346"),
            ("backup_bytes", Value::from(1_u64 << 30), "1.00 GiB"),
        ] {
            assert_eq!(number(name, &value), text);
        }
        assert_eq!(plain("one_alone_ms"), "one alone");
    }
}
