//! The one machine of this library.

use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use allocator_core::{Error, ErrorKind, Operation};
use dormant_sim::{Fault, Machine, SimConfig};

use crate::abi::Code;
use crate::calls;
use crate::errors::{INVALID_VALUE, NOT_INITIALIZED, OUT_OF_MEMORY, Refused};

/// What the variables say, as `double_configure` was given them; the environment otherwise.
static CONFIGURED: Mutex<Option<HashMap<String, String>>> = Mutex::new(None);
static MACHINE: OnceLock<Result<Machine, Code>> = OnceLock::new();
/// The process that has made it; none is zero.
static MAKER: AtomicU32 = AtomicU32::new(0);

const REPORT: &str = "DORMANT_DOUBLE_REPORT";

/// What a variable is set to, for this library. Nothing in a forked child, where the lock may be held
/// for ever, and no driver works.
#[must_use]
pub fn variable(name: &str) -> Option<String> {
    if is_forked_child() {
        return None;
    }
    let configured = CONFIGURED.lock().unwrap_or_else(PoisonError::into_inner);
    match configured.as_ref() {
        Some(values) => values.get(name).cloned(),
        None => std::env::var(name).ok(),
    }
    .filter(|value| !value.trim().is_empty())
}

/// Takes `NAME=value;NAME=value` in place of the environment. Has to come before any other call.
///
/// # Errors
/// `INVALID_VALUE` when the machine is there already, or the text is not of this kind.
pub fn configure(text: &str) -> Result<(), Refused> {
    let mut values = HashMap::new();
    for pair in text.split(';').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or(Refused(INVALID_VALUE))?;
        values.insert(name.trim().to_owned(), value.trim().to_owned());
    }
    if MACHINE.get().is_some() {
        return Err(Refused(INVALID_VALUE));
    }
    *CONFIGURED.lock().unwrap_or_else(PoisonError::into_inner) = Some(values);
    Ok(())
}

/// The machine, made at the first call.
///
/// # Errors
/// A configuration that cannot be read, said on stderr once, or a system that refuses;
/// `NOT_INITIALIZED` in a child that was forked from the machine's process.
pub fn machine() -> Result<&'static Machine, Refused> {
    machine_with(&[])
}

/// The same; at the first call these faults are acted out as well.
///
/// # Errors
/// As [`machine`].
pub fn machine_with(faults: &[Fault]) -> Result<&'static Machine, Refused> {
    if is_forked_child() {
        return Err(Refused(NOT_INITIALIZED));
    }
    MACHINE.get_or_init(|| make(faults)).as_ref().map_err(|&code| Refused(code))
}

/// Whether the machine belongs to this process's parent: no driver works in such a child.
#[must_use]
pub fn is_forked_child() -> bool {
    let maker = MAKER.load(Ordering::SeqCst);
    maker != 0 && maker != std::process::id()
}

/// The machine, if it has been made.
#[must_use]
pub fn existing() -> Option<&'static Machine> {
    MACHINE.get()?.as_ref().ok()
}

fn make(faults: &[Fault]) -> Result<Machine, Code> {
    MAKER.store(std::process::id(), Ordering::SeqCst);
    if variable(REPORT).is_some() {
        // SAFETY: the handler touches statics without destructors, and stays loaded: nobody
        // unloads a driver. That it may not be registered is no reason to fail.
        let _ = unsafe { libc::atexit(write_report) };
    }
    let config = SimConfig::from_lookup(|name| Ok(variable(name))).and_then(|config| {
        let config = faults.iter().fold(config, |config, &fault| config.fault(fault));
        Machine::new(config).map_err(|refusal| {
            Error::new(ErrorKind::InvalidArgument, Operation::Open, refusal.to_string())
        })
    });
    config.map_err(|error| {
        // A stand-in is configured by hand, and a code alone would not say what is wrong.
        let _ = writeln!(std::io::stderr(), "stand-in driver: {error}");
        if error.kind() == ErrorKind::OutOfMemory { OUT_OF_MEMORY } else { INVALID_VALUE }
    })
}

extern "C" fn write_report() {
    if is_forked_child() {
        return;
    }
    let Some(path) = variable(REPORT) else { return };
    let mut text = calls::report();
    if let Some(machine) = existing() {
        text += &format!(
            "contexts {}\ncontexts_made {}\n",
            machine.contexts(),
            machine.contexts_made()
        );
    }
    // Best effort: nobody is left to be told.
    let _ = std::fs::write(path, text);
}
