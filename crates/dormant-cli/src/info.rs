//! `dormant info`: the backends, their drivers and devices, and what this build is.

use dormant::core::Driver as _;
use dormant::{Backend, DeviceInfo, Driver};
use serde::Serialize;

use crate::cli::InfoArgs;
use crate::failure::Failure;
use crate::identity::Identity;
use crate::output::Output;
use crate::size::Bytes;
use crate::table::{Lean, Table};

#[derive(Debug, Serialize)]
struct Info {
    build: Identity,
    backends: Vec<BackendInfo>,
}

/// A backend that is compiled in.
#[derive(Debug, Serialize)]
struct BackendInfo {
    backend: &'static str,
    /// Whether its driver opened and could list its devices.
    available: bool,
    #[serde(flatten)]
    found: Option<Found>,
    error: Option<Failure>,
}

#[derive(Debug, Serialize)]
struct Found {
    version: String,
    library: Option<String>,
    devices: Vec<DeviceState>,
}

/// A device. What could not be asked is absent, and `errors` says why.
#[derive(Debug, Serialize)]
struct DeviceState {
    ordinal: u32,
    name: String,
    total_bytes: u64,
    pci_address: Option<String>,
    free_bytes: Option<u64>,
    granularity_bytes: Option<u64>,
    capabilities: Option<Vec<String>>,
    errors: Vec<Failure>,
}

/// Shows it all. A driver that is missing is no failure.
pub(crate) fn run(args: &InfoArgs, output: &mut Output) -> bool {
    let info =
        Info { build: Identity::default(), backends: Backend::compiled_in().map(ask).collect() };
    if args.json {
        output.json(&info);
    } else {
        output.line(dormant::build_info());
        info.backends.iter().for_each(|backend| show(backend, output));
    }
    true
}

fn ask(backend: Backend) -> BackendInfo {
    let found = dormant::open(Some(backend)).and_then(|driver| {
        let devices = driver.devices()?;
        let info = driver.info();
        let devices = devices.into_iter().map(|device| ask_device(&driver, device)).collect();
        Ok(Found { version: info.version, library: info.library, devices })
    });
    let (found, error) = match found {
        Ok(found) => (Some(found), None),
        Err(error) => (None, Some(error.into())),
    };
    BackendInfo { backend: backend.name(), available: found.is_some(), found, error }
}

fn ask_device(driver: &Driver, info: DeviceInfo) -> DeviceState {
    let DeviceInfo { device, name, total_bytes, pci_address } = info;
    let mut errors = Vec::new();
    DeviceState {
        free_bytes: answer(driver.memory(device), &mut errors).map(|memory| memory.free_bytes),
        granularity_bytes: answer(driver.granularity(device), &mut errors)
            .map(|granularity| granularity.bytes()),
        capabilities: answer(driver.capabilities(device), &mut errors).map(|capabilities| {
            capabilities.to_string().split_whitespace().map(str::to_owned).collect()
        }),
        ordinal: device.0,
        name,
        total_bytes,
        pci_address,
        errors,
    }
}

fn answer<T>(answer: dormant::core::Result<T>, errors: &mut Vec<Failure>) -> Option<T> {
    answer.map_err(|error| errors.push(error.into())).ok()
}

fn show(info: &BackendInfo, output: &mut Output) {
    let name = info.backend;
    if let Some(error) = &info.error {
        output.line(format_args!("\n{name}: not available"));
        output.paragraph(&format!("  {error}"), "  ");
    }
    let Some(found) = &info.found else { return };
    let from = found.library.as_ref().map(|library| format!(", {library}")).unwrap_or_default();
    output.line(format_args!("\n{name}: driver {}{from}", found.version));
    let mut table = Table::new([
        ("device", Lean::Right),
        ("name", Lean::Left),
        ("total", Lean::Right),
        ("free", Lean::Right),
        ("granularity", Lean::Right),
        ("capabilities", Lean::Left),
    ]);
    for device in &found.devices {
        let bytes = |bytes: Option<u64>| {
            bytes.map_or_else(|| "unknown".to_owned(), |bytes| Bytes(bytes).to_string())
        };
        table.row([
            device.ordinal.to_string(),
            device.name.clone(),
            bytes(Some(device.total_bytes)),
            bytes(device.free_bytes),
            bytes(device.granularity_bytes),
            device.capabilities.as_ref().map_or_else(|| "unknown".to_owned(), |all| all.join(" ")),
        ]);
    }
    output.line(format_args!("\n{table}"));
    for device in &found.devices {
        for error in &device.errors {
            output.line(format_args!("  device {}: {error}", device.ordinal));
        }
    }
}
