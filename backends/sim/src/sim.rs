//! The machine as a driver, and what tests can do to it.

mod control;
mod driver;
mod errors;
mod failures;

use std::sync::Mutex;

use allocator_core::{Device, Operation, Result};

use self::errors::to_error;
use self::failures::Failures;
use crate::config::SimConfig;
use crate::machine::{Answer, CaptureMode, Machine};

/// A simulated driver.
///
/// Dropping it ends its machine: every address in it is dead then, leaked blocks included.
#[derive(Debug)]
pub struct Sim {
    machine: Machine,
    failures: Failures,
    /// Devices whose primary context this driver holds.
    held: Mutex<Vec<u32>>,
}

/// Physical memory of a simulated device.
#[derive(Debug)]
pub struct SimPhysical {
    /// The machine that it came from, as for a stream: others have handles of the same numbers.
    machine: u64,
    handle: u64,
    device: Device,
    bytes: u64,
}

/// A queue of copies of our own on a simulated device.
#[derive(Debug)]
pub struct SimStream {
    machine: u64,
    handle: u64,
    device: Device,
}

impl SimStream {
    /// The machine's handle of it.
    #[must_use]
    pub fn handle(&self) -> u64 {
        self.handle
    }

    /// The device that it is on.
    #[must_use]
    pub fn device(&self) -> Device {
        self.device
    }
}

impl SimPhysical {
    /// The machine's handle of it.
    #[must_use]
    pub fn handle(&self) -> u64 {
        self.handle
    }
}

impl Sim {
    /// Builds a machine and a driver for it.
    ///
    /// # Errors
    /// `InvalidArgument` for a configuration that cannot be; `Io` when the system refuses.
    pub fn new(config: SimConfig) -> Result<Self> {
        config.validate()?;
        let machine = Machine::new(config).map_err(|refusal| to_error(refusal, Operation::Open))?;
        Ok(Self { machine, failures: Failures::default(), held: Mutex::default() })
    }

    /// The machine below. Its calls count for nothing here, and no injected failure hits them.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Runs machine calls with the device current and the thread in relaxed capture mode; both
    /// are afterwards as they were.
    fn on<T>(&self, device: Device, run: impl FnOnce(&Machine) -> Answer<T>) -> Answer<T> {
        let _restore = Restore {
            machine: &self.machine,
            device: self.machine.current(),
            mode: self.machine.exchange_capture_mode(CaptureMode::Relaxed),
        };
        self.machine.set_current(Some(device.0))?;
        run(&self.machine)
    }

    /// The same on a device that this driver then holds a context of.
    fn on_held<T>(&self, device: Device, run: impl FnOnce(&Machine) -> Answer<T>) -> Answer<T> {
        self.hold(device)?;
        self.on(device, run)
    }

    fn hold(&self, device: Device) -> Answer {
        let mut held = failures::lock(&self.held);
        if !held.contains(&device.0) {
            self.machine.context_retain(device.0)?;
            held.push(device.0);
        }
        Ok(())
    }
}

struct Restore<'a> {
    machine: &'a Machine,
    device: Option<u32>,
    mode: CaptureMode,
}

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        // The device was current before, so it is there.
        let _ = self.machine.set_current(self.device);
        let _ = self.machine.exchange_capture_mode(self.mode);
    }
}
