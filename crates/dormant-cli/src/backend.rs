//! Which backend a command takes, and why.

use dormant::{Backend, Driver, ErrorKind};

use crate::failure::Failure;

/// The variable by which a backend is asked for.
const VARIABLE: &str = "DORMANT_BACKEND";

/// An open driver.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) driver: Driver,
    /// Why it is this one, where nobody asked for it and it is not a GPU.
    pub(crate) why: Option<String>,
}

/// The driver of `backend`; of `None`, the one that the environment names, else the first GPU
/// driver that opens, else the simulated device.
///
/// # Errors
/// The error of the driver that was asked for, or of those that were tried.
pub(crate) fn open(backend: Option<Backend>) -> Result<Opened, Failure> {
    let named = std::env::var_os(VARIABLE).is_some_and(|name| !name.is_empty());
    if backend.is_some() || named {
        return Ok(Opened { driver: dormant::open(backend)?, why: None });
    }
    let mut reasons = Vec::new();
    for gpu in Backend::compiled_in().filter(|backend| *backend != Backend::Sim) {
        match dormant::open(Some(gpu)) {
            Ok(driver) => return Ok(Opened { driver, why: None }),
            Err(error) => reasons.push((gpu, error)),
        }
    }
    if !Backend::Sim.is_compiled_in()
        && let Some((_, error)) = reasons.pop()
    {
        return Err(error.into());
    }
    let driver = dormant::open(Some(Backend::Sim))?;
    Ok(Opened { driver, why: Some(explain(&reasons)) })
}

fn explain(reasons: &[(Backend, dormant::core::Error)]) -> String {
    if reasons.is_empty() {
        return "this build has no GPU backend; using the simulated device".to_owned();
    }
    let reasons: Vec<_> = reasons
        .iter()
        .map(|(backend, error)| match error.kind() {
            ErrorKind::NoDriver => format!("{}: {}", backend.name(), error.text()),
            _ => format!("{}: {error}", backend.name()),
        })
        .collect();
    format!("no GPU driver ({}); using the simulated device", reasons.join("; "))
}
