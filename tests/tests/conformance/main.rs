//! The conformance suite over every backend: the simulated device and its faults, each backend on
//! the stand-in for its driver, and on a real device where there is one. The same cases by the same
//! names in each module; `parity` holds this file to it.
//!
//! `DORMANT_REQUIRE_DEVICE=cuda` (or `hip`) turns the skip where there is no such device into a failure.
//!
//! Three faults are in no module here, since a backend can do no more than report them: an address
//! that is lost, host memory that cannot be registered, a bogus legacy handle. `rocm_faults` has
//! them, and what becomes of a program that has no answer to the others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allocator_core::{Driver, Error};
use allocator_testkit::{Setup, exclusive};
use dormant_sim::{Sim, SimConfig};
use dormant_tests::doubles::{Double, Loaded};

mod parity;

/// Two small devices. Like the real one, they read some bytes as free that they give to nobody, and
/// their fresh memory holds anything.
const MACHINE: &str =
    "DORMANT_SIM_DEVICES=2;DORMANT_SIM_CAPACITY=128MiB;DORMANT_SIM_HELD_BACK=8MiB";

/// What an ordinary block is on them.
const UNIT_BYTES: u64 = 6 << 20;

/// What an ordinary block is where larger pieces are refused. Cases that create physical memory by
/// themselves take one such piece; the engine's blocks are many times larger.
const LARGEST_PIECE: u64 = 2 << 20;

/// The variables of a machine with faults, or without.
fn machine(more: &str) -> String {
    let (before, faults) = more.split_once("DORMANT_SIM_FAULTS=").unwrap_or((more, ""));
    format!("{MACHINE};{before};DORMANT_SIM_FAULTS=stale_bytes,{faults}")
}

/// A driver on a simulated device.
fn setup_of<D: Driver>(
    driver: Arc<D>,
    unit_bytes: u64,
    exclusive: Option<MutexGuard<'static, ()>>,
) -> Option<Setup<D>> {
    Some(Setup { driver, unit_bytes, slack_bytes: 0, exclusive })
}

fn sim(configuration: &str, unit_bytes: u64) -> Option<Setup<Sim>> {
    let text = machine(configuration);
    let values: Vec<_> = text.split(';').filter_map(|pair| pair.split_once('=')).collect();
    let config = SimConfig::from_lookup(|name| {
        let value = values.iter().find(|(key, _)| *key == name);
        Ok(value.map(|(_, value)| (*value).to_owned()))
    });
    let driver = Sim::new(config.expect("a configuration")).expect("a simulated device");
    setup_of(Arc::new(driver), unit_bytes, None)
}

/// One module of the simulated device. Each case has a device of its own.
macro_rules! on_sim {
    ($($module:ident: $faults:literal, $unit:expr;)*) => {$(
        mod $module {
            fn setup() -> Option<allocator_testkit::Setup<dormant_sim::Sim>> {
                crate::sim($faults, $unit)
            }

            allocator_testkit::conformance_suite!(setup);
        }
    )*};
}

on_sim! {
    sim: "", crate::UNIT_BYTES;
    sim_keep_until_unreserved: "DORMANT_SIM_FAULTS=keep_until_unreserved", crate::UNIT_BYTES;
    sim_no_joined_unmap: "DORMANT_SIM_FAULTS=no_joined_unmap", crate::UNIT_BYTES;
    sim_no_joined_access: "DORMANT_SIM_FAULTS=no_joined_access", crate::UNIT_BYTES;
    sim_early_release_keeps_range:
        "DORMANT_SIM_FAULTS=early_release_keeps_range", crate::UNIT_BYTES;
    sim_host_access_needed: "DORMANT_SIM_FAULTS=host_access_needed", crate::UNIT_BYTES;
    sim_max_piece:
        "DORMANT_SIM_GRANULARITY=512KiB;DORMANT_SIM_FAULTS=max_piece=2MiB", crate::LARGEST_PIECE;
}

/// A stand-in's copy and the driver on it. The cases of a module share it, and take turns.
struct OnDouble<D> {
    driver: Arc<D>,
    turn: Mutex<()>,
    _library: Loaded,
}

impl<D: Driver> OnDouble<D> {
    fn new(
        double: Double,
        configuration: &str,
        open: impl FnOnce(&std::path::Path) -> allocator_core::Result<D>,
    ) -> Self {
        let library = Loaded::new(double, &machine(configuration));
        let driver = Arc::new(open(library.path()).expect("a driver on the stand-in"));
        Self { driver, turn: Mutex::default(), _library: library }
    }

    fn setup(&'static self, unit_bytes: u64) -> Option<Setup<D>> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        setup_of(Arc::clone(&self.driver), unit_bytes, Some(turn))
    }
}

/// One module of a backend on the stand-in for its driver.
macro_rules! on_double {
    ($($module:ident: $double:ident, $backend:ty, $unit:expr, $configuration:expr;)*) => {$(
        mod $module {
            use std::sync::OnceLock;

            use allocator_testkit::{Setup, conformance_suite};
            use dormant_tests::doubles::Double;

            use crate::OnDouble;

            fn setup() -> Option<Setup<$backend>> {
                static DOUBLE: OnceLock<OnDouble<$backend>> = OnceLock::new();
                // SAFETY: a stand-in has no initialisers, and its functions are declared as the
                // driver's.
                let open = |path: &std::path::Path| unsafe { <$backend>::open_at(path) };
                let double = DOUBLE
                    .get_or_init(|| OnDouble::new(Double::$double, $configuration, open));
                double.setup($unit)
            }

            conformance_suite!(setup);
        }
    )*};
}

on_double! {
    cuda_double: Cuda, dormant_cuda::Cuda, crate::UNIT_BYTES, "";
    hip_double_70: Hip, dormant_hip::Hip, crate::UNIT_BYTES, "DORMANT_DOUBLE_HIP_VERSION=7.0";
    hip_double_72: Hip, dormant_hip::Hip, crate::UNIT_BYTES, "DORMANT_DOUBLE_HIP_VERSION=7.2";
    hip_double_72_patched: Hip, dormant_hip::Hip, crate::UNIT_BYTES,
        "DORMANT_DOUBLE_HIP_VERSION=7.2-patched";
    hip_double_no_joined_unmap: Hip, dormant_hip::Hip, crate::UNIT_BYTES,
        "DORMANT_SIM_FAULTS=no_joined_unmap";
    hip_double_no_joined_access: Hip, dormant_hip::Hip, crate::UNIT_BYTES,
        "DORMANT_SIM_FAULTS=no_joined_access";
    hip_double_early_release_keeps_range: Hip, dormant_hip::Hip, crate::UNIT_BYTES,
        "DORMANT_SIM_FAULTS=early_release_keeps_range";
    hip_double_max_piece: Hip, dormant_hip::Hip, crate::LARGEST_PIECE,
        "DORMANT_SIM_GRANULARITY=512KiB;DORMANT_SIM_FAULTS=max_piece=2MiB";
    hip_double_all_faults: Hip, dormant_hip::Hip, crate::LARGEST_PIECE,
        "DORMANT_DOUBLE_HIP_VERSION=7.2;DORMANT_SIM_GRANULARITY=512KiB;\
         DORMANT_SIM_FAULTS=max_piece=2MiB,no_joined_unmap,no_joined_access,\
         early_release_keeps_range,host_access_needed";
}

/// A real device, or a skip that is seen.
fn device<D: Driver>(found: &'static Result<Arc<D>, Error>, backend: &str) -> Option<Setup<D>> {
    let driver = match found {
        Ok(driver) => Arc::clone(driver),
        Err(error) => {
            let required = std::env::var("DORMANT_REQUIRE_DEVICE").unwrap_or_default();
            assert_ne!(required, backend, "a {backend} device is required: {error}");
            return None;
        }
    };
    // Contexts and streams of the driver itself move the reading by some MiB.
    Some(Setup {
        driver,
        unit_bytes: 128 << 20,
        slack_bytes: 64 << 20,
        exclusive: Some(exclusive()),
    })
}

macro_rules! on_device {
    ($($module:ident: $backend:ty, $name:literal;)*) => {$(
        mod $module {
            use std::sync::{Arc, OnceLock};

            use allocator_core::Error;
            use allocator_testkit::{Setup, conformance_suite};

            fn setup() -> Option<Setup<$backend>> {
                static DRIVER: OnceLock<Result<Arc<$backend>, Error>> = OnceLock::new();
                crate::device(DRIVER.get_or_init(|| <$backend>::open().map(Arc::new)), $name)
            }

            conformance_suite!(setup);
        }
    )*};
}

on_device! {
    cuda_device: dormant_cuda::Cuda, "cuda";
    hip_device: dormant_hip::Hip, "hip";
}
