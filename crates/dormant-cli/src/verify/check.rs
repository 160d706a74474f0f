//! `dormant verify --check`: whether a record proves what it is taken for.

use std::fs;
use std::path::Path;

use dormant::Backend;

use crate::identity::Identity;
use crate::verify::args::VerifyArgs;
use crate::verify::record::{Outcome, RECORD, Record, SCHEMA};
use crate::verify::verdict;

/// Why the record does not prove it; nothing, if it does.
///
/// # Errors
/// The file cannot be read, or is no record.
pub(crate) fn objections(record: &Path, args: &VerifyArgs) -> Result<Vec<String>, String> {
    let text =
        fs::read_to_string(record).map_err(|error| format!("{}: {error}", record.display()))?;
    let of_file = |why: String| format!("{}: {why}", record.display());
    let record = parse(&text).map_err(of_file)?;
    let mut why = Vec::new();
    let identity = record.library.as_ref().and_then(|library| library.identity.as_ref());
    match (identity, &args.commit) {
        (None, _) => why.push("this run loaded no library that says what it is".to_owned()),
        (Some(identity), Some(commit)) => {
            why.extend(verdict::not_of_commit(identity, commit, "this run tested a build"));
        }
        (Some(_), None) => {}
    }
    if !record.passed {
        why.push("this run did not pass".to_owned());
        why.extend(record.failures.iter().map(|failure| format!("  {failure}")));
    }
    let cases = &record.suite.cases;
    let failed = cases.iter().any(|case| case.outcome == Outcome::Failed)
        || record.guarantees.iter().any(|each| each.held == Some(false));
    if record.passed && (failed || !record.failures.is_empty()) {
        why.push("the record says that all passed, and names what failed".to_owned());
    }
    if !cases.iter().any(|case| case.outcome == Outcome::Passed) {
        why.push("no case was run".to_owned());
    }
    // Which cases a guarantee takes is known of this build alone.
    if identity.is_some_and(|identity| identity.same_build(&Identity::default()))
        && record.guarantees != verdict::held(cases)
    {
        why.push("the record's guarantees do not follow from its cases".to_owned());
    }
    if record.backend.is_none() || record.devices.is_empty() {
        why.push("this run was on no device".to_owned());
    }
    for name in &args.expect {
        let mut said = record.guarantees.iter().filter(|each| each.guarantee == *name).peekable();
        let given = identity.is_some_and(|identity| identity.guarantees.contains(name));
        if !given || said.peek().is_none() || said.any(|each| each.held != Some(true)) {
            why.push(format!("this run does not show that the guarantee {name} holds"));
        }
    }
    let stand_in = record.driver.as_ref().is_none_or(|driver| driver.stand_in)
        || record.backend.as_deref() == Some(Backend::Sim.name());
    if stand_in && !args.allow_stand_in {
        why.push("this run was on no GPU, but on a simulated device".to_owned());
    }
    Ok(why)
}

fn parse(text: &str) -> Result<Record, String> {
    let record: Record =
        serde_json::from_str(text).map_err(|error| format!("no record: {error}"))?;
    if record.record != RECORD || record.schema != SCHEMA {
        let Record { record, schema, .. } = record;
        return Err(format!("a record `{record}` of schema {schema}, not `{RECORD}` of {SCHEMA}"));
    }
    let files = [&record.library, &record.program].into_iter().flatten();
    files.filter_map(|file| file.identity.as_ref()).try_for_each(Identity::hold)?;
    Ok(record)
}
