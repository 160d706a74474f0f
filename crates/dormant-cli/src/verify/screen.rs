//! A record for people.

use crate::output::Output;
use crate::size::Bytes;
use crate::verify::record::{Outcome, Record};

/// What is about to be verified.
pub(crate) fn beginning(record: &Record, output: &mut Output) {
    if let Some(library) = &record.library {
        output.line(format_args!("library: {}", library.path.display()));
        if let Some(identity) = &library.identity {
            output.line(format_args!("         {}", identity.build()));
        }
    }
    if let Some(driver) = &record.driver {
        let backend = record.backend.as_deref().unwrap_or_default();
        let from = driver.library.as_ref().map(|library| format!(", {library}"));
        let from = from.unwrap_or_default();
        let stand_in = if driver.stand_in { ", no GPU: simulated" } else { "" };
        output.line(format_args!("driver:  {backend} {}{from}{stand_in}", driver.version));
    }
    for device in &record.devices {
        let (ordinal, name, total) = (device.ordinal, &device.name, Bytes(device.total_bytes));
        output.line(format_args!("device:  {ordinal}, {name}, {total}"));
    }
}

/// What came out: what is wrong first.
pub(crate) fn verdict(record: &Record, output: &mut Output) {
    for failure in &record.failures {
        output.line(format_args!("FAILED   {}", failure.replace('\n', "\n         ")));
    }
    if !record.suite.cases.is_empty() {
        cases(record, output);
        guarantees(record, output);
    }
    output.line(if record.passed { "verified" } else { "not verified" });
}

fn cases(record: &Record, output: &mut Output) {
    let of = |outcome| record.suite.cases.iter().filter(move |case| case.outcome == outcome);
    let (passed, failed) = (of(Outcome::Passed).count(), of(Outcome::Failed).count());
    let seconds = record.seconds;
    output.line(format_args!("cases:   {passed} passed, {failed} failed; {seconds:.1} s in all"));
    for case in of(Outcome::Skipped) {
        let why = case.reason.as_deref().unwrap_or("no reason is known");
        output.line(format_args!("         {} was not run: {why}", case.case));
    }
}

fn guarantees(record: &Record, output: &mut Output) {
    let named = |held: Option<bool>| {
        let names = record.guarantees.iter().filter(|each| each.held == held);
        names.map(|each| each.guarantee.as_str()).collect::<Vec<_>>()
    };
    output.line(format_args!("guarantees: {} held", named(Some(true)).len()));
    for (held, words) in [(Some(false), "did not hold"), (None, "not tried")] {
        let names = named(held);
        if !names.is_empty() {
            output.line(format_args!("         {words}: {}", names.join(" ")));
        }
    }
}
