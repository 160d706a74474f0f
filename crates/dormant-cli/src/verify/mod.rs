//! `dormant verify`: whether the library that is here is the one it should be, and does what it promises.

pub(crate) mod args;
mod check;
mod driver;
mod library;
mod record;
mod screen;
mod verdict;

use std::fs;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Instant, SystemTime};

use crate::identity::Identity;
use crate::inspect::note;
use crate::output::{Output, complain};
use crate::run::library::find;
use args::VerifyArgs;
use library::{Library, SuiteRun};
use record::{
    BuiltFile, Case, Expected, Host, Image, Overlay, RECORD, Record, SCHEMA, Suite, sha256,
};

/// Verifies, or checks a record.
pub(crate) fn run(args: &VerifyArgs, output: &mut Output) -> bool {
    match &args.check {
        Some(record) => checked(record, args, output),
        None => verified(args, output),
    }
}

fn checked(record: &Path, args: &VerifyArgs, output: &mut Output) -> bool {
    let commit = args.commit.as_deref().unwrap_or_default();
    match check::objections(record, args) {
        Ok(why) if why.is_empty() => {
            let simulated = if args.allow_stand_in { ", a simulated device allowed" } else { "" };
            output.line(format_args!("{} proves {commit}{simulated}", record.display()));
            true
        }
        Ok(why) => {
            complain(format_args!("{} does not prove {commit}:", record.display()));
            why.iter().for_each(|why| complain(format_args!("  {why}")));
            false
        }
        Err(error) => {
            complain(error);
            false
        }
    }
}

fn verified(args: &VerifyArgs, output: &mut Output) -> bool {
    let begun = Instant::now();
    let mut record = begin(args);
    if !replace_older(args, &record) {
        return false;
    }
    if let Err(why) = try_all(args, &mut record, output) {
        record.failures.push(why);
    }
    let Record { suite, guarantees, expected, failures, .. } = &mut record;
    *guarantees = verdict::held(&suite.cases);
    if failures.is_empty() {
        failures.extend(verdict::missing(&suite.cases));
    }
    failures.extend(verdict::broken(&suite.cases, guarantees, expected));
    record.passed = record.failures.is_empty();
    record.seconds = begun.elapsed().as_secs_f64();
    let written = args.json_to.as_ref().is_none_or(|path| write(path, &record));
    if args.json {
        output.json(&record);
    } else {
        screen::verdict(&record, output);
    }
    record.passed && written
}

/// Puts a record that shows nothing where an older one may lie: this run may be ended before it has
/// written its own. Whether that could be written.
fn replace_older(args: &VerifyArgs, record: &Record) -> bool {
    let Some(path) = &args.json_to else { return true };
    // What is no file keeps no record.
    if path.exists() && !path.is_file() {
        return true;
    }
    let failures = vec!["this run did not come to its end".to_owned()];
    write(path, &Record { failures, ..record.clone() })
}

/// The record before anything was tried.
fn begin(args: &VerifyArgs) -> Record {
    Record {
        record: RECORD.to_owned(),
        schema: SCHEMA,
        passed: false,
        begun: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        seconds: 0.0,
        library: None,
        program: None,
        backend: None,
        driver: None,
        devices: Vec::new(),
        image: None,
        overlay: None,
        host: Host::here(),
        suite: Suite { alone: args.alone, limit_bytes: args.limit.0, cases: Vec::new() },
        guarantees: Vec::new(),
        expected: Expected {
            commit: args.expect_commit.clone(),
            source: args.expect_source.clone(),
            guarantees: args.expect.clone(),
        },
        failures: Vec::new(),
    }
}

/// Everything in its order. What is found is in the record also when a later step fails.
///
/// # Errors
/// What keeps the suite from running to its end.
fn try_all(args: &VerifyArgs, record: &mut Record, output: &mut Output) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    record.program = Some(BuiltFile {
        sha256: sha256(&program)?,
        path: program,
        identity: Some(Identity::default()),
    });
    record.image = Image::here(args.image.as_deref())?;
    if let Some(wheel) = &args.wheel {
        let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
        record.overlay = Some(Overlay { wheel: name, sha256: sha256(wheel)? });
    }
    let path = find(args.library.as_deref())?;
    let path = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
    let hash = sha256(&path)?;
    let identity = note::read(&path);
    let file =
        BuiltFile { path: path.clone(), sha256: hash, identity: identity.as_ref().ok().cloned() };
    record.library = Some(file);
    let identity = identity?;
    if !identity.same_build(&Identity::default()) {
        return Err(format!(
            "{} is another build than this program, and is not loaded: it is of {}, this of {}",
            path.display(),
            identity.build(),
            Identity::default().build()
        ));
    }
    // A run of a build that nobody asked about proves nothing.
    record.failures.extend(verdict::unexpected(&identity, &record.expected));
    if !record.failures.is_empty() {
        return Ok(());
    }
    // SAFETY: it says that it is of this build.
    let library = unsafe { Library::load(&path) }?;
    if Some(sha256(&path)?) != record.library.as_ref().map(|file| file.sha256.clone()) {
        return Err(format!("{} was replaced while it was loaded", path.display()));
    }
    let loaded = library.path()?;
    if loaded != path || library.identity()? != identity {
        return Err(format!("{} was asked for, and {} answers", path.display(), loaded.display()));
    }
    let found = driver::wait(args.backend, &args.devices(), args.wait())?;
    record.backend = Some(found.backend.name().to_owned());
    record.driver = Some(found.driver);
    record.devices = found.devices;
    if !args.json {
        screen::beginning(record, output);
    }
    let run = SuiteRun {
        backend: found.backend,
        devices: args.devices(),
        limit_bytes: args.limit.0,
        alone: args.alone,
    };
    suite(library, run, args, &mut record.suite.cases)
}

/// Runs the suite on a thread of its own, so that a case that hangs is named, and ends the program.
///
/// # Errors
/// It did not end in time, or could not begin.
fn suite(
    library: Library,
    run: SuiteRun,
    args: &VerifyArgs,
    cases: &mut Vec<Case>,
) -> Result<(), String> {
    let (to, from) = mpsc::channel();
    let ended = to.clone();
    let running = thread::Builder::new().name("suite".to_owned()).spawn(move || {
        let done = library.verify(&run, &|case| {
            // The other side is gone only when the time is over.
            let _ = to.send(Ok(case));
        });
        let _ = ended.send(Err(done));
    });
    running.map_err(|error| format!("there is no thread for the suite: {error}"))?;
    let until = Instant::now() + args.timeout();
    loop {
        match from.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Ok(case)) => cases.push(case),
            Ok(Err(done)) => return done.map_err(|why| format!("the suite: {why}")),
            Err(RecvTimeoutError::Timeout) => {
                let after = cases.last().map_or("the beginning", |case| case.case.as_str());
                let seconds = args.timeout().as_secs();
                return Err(format!(
                    "the suite did not end in {seconds} s; it hangs after {after}"
                ));
            }
            Err(RecvTimeoutError::Disconnected) => return Err("the suite ended early".to_owned()),
        }
    }
}

fn write(path: &Path, record: &Record) -> bool {
    let text = serde_json::to_string_pretty(record).map_err(std::io::Error::from);
    match text.and_then(|text| fs::write(path, text + "\n")) {
        Ok(()) => true,
        Err(error) => {
            complain(format_args!("{}: {error}", path.display()));
            false
        }
    }
}
