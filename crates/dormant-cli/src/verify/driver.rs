//! The driver: waiting for it, and what it is.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use dormant::core::Driver as _;
use dormant::{Backend, Driver, ErrorKind};
use libloading::os::unix::Library;

use crate::output::complain;
use crate::verify::record::{DeviceFacts, DriverFacts};

/// How often an absent driver is looked for.
const PAUSE: Duration = Duration::from_secs(1);

/// What was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) backend: Backend,
    pub(crate) driver: DriverFacts,
    pub(crate) devices: Vec<DeviceFacts>,
}

/// The driver and these devices. In a container that has only just started they may not be there yet:
/// then they are waited for.
///
/// # Errors
/// They did not come, or never will.
pub(crate) fn wait(
    backend: Option<Backend>,
    ordinals: &[u32],
    wait: Duration,
) -> Result<Found, String> {
    let until = Instant::now() + wait;
    let mut said = false;
    loop {
        let error = match look(backend, ordinals) {
            Ok(found) => return Ok(found),
            Err(error) => error,
        };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || !may_come(error.kind()) {
            return Err(error.to_string());
        }
        if !said {
            complain(format_args!("waiting up to {} s for the driver: {error}", wait.as_secs()));
            said = true;
        }
        thread::sleep(PAUSE.min(left));
    }
}

/// Whether another try may end differently.
fn may_come(kind: ErrorKind) -> bool {
    !matches!(kind, ErrorKind::NotSupported | ErrorKind::InvalidArgument)
}

fn look(backend: Option<Backend>, ordinals: &[u32]) -> dormant::core::Result<Found> {
    let driver: Driver = dormant::open(backend)?;
    let info = driver.info();
    let all = driver.devices()?;
    let devices = ordinals.iter().map(|ordinal| {
        let device = all.iter().find(|info| info.device.0 == *ordinal).ok_or_else(|| {
            let text = format!("there is no device {ordinal}; the driver shows {}", all.len());
            dormant::core::Error::new(ErrorKind::NotFound, dormant::Operation::Devices, text)
        })?;
        Ok(DeviceFacts {
            ordinal: *ordinal,
            name: device.name.clone(),
            total_bytes: device.total_bytes,
            pci_address: device.pci_address.clone(),
        })
    });
    let devices = devices.collect::<dormant::core::Result<_>>()?;
    let backend = info.backend.parse()?;
    let stand_in = backend == Backend::Sim || info.library.as_deref().is_some_and(is_stand_in);
    let driver = DriverFacts { version: info.version, library: info.library, stand_in };
    Ok(Found { backend, driver, devices })
}

/// Whether a driver's library is one of our stand-ins, which act over the simulated device: those have
/// functions that no vendor's library has. One that cannot be asked is none of hardware for certain.
fn is_stand_in(library: &str) -> bool {
    // SAFETY: it is loaded already, so no initialiser runs.
    let loaded =
        unsafe { Library::open(Some(Path::new(library)), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    // SAFETY: only whether it is there is asked.
    loaded.map_or(true, |library| unsafe { library.get::<*const ()>(b"double_configure") }.is_ok())
}
