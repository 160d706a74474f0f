//! The whole suite as a function, on a part of the devices: as beside others, and as with nobody else
//! there. On each driver, and where a stand-in acts out every fault at once.

use std::sync::Arc;

use allocator_core::Driver;
use allocator_testkit::Setup;
use allocator_testkit::suite::{self, Outcome, SuiteOptions};

/// How much of a simulated device the suite takes when it leaves others room: what is not held back.
const PART_BYTES: u64 = 120 << 20;

fn in_one_call<D: Driver>(setup: Option<Setup<D>>) {
    let Some(Setup { driver, unit_bytes, slack_bytes, exclusive: _turn }) = setup else { return };
    for alone in [false, true] {
        let options = SuiteOptions {
            limit_bytes: PART_BYTES,
            unit_bytes: Some(unit_bytes),
            alone,
            slack_bytes,
            ..SuiteOptions::default()
        };
        expect_all(&driver, &options);
    }
}

/// As a program runs it there: 1 GiB of each device.
fn on_part_of_a_device<D: Driver>(setup: Option<Setup<D>>) {
    let Some(Setup { driver, exclusive: _turn, .. }) = setup else { return };
    for alone in [false, true] {
        let options = SuiteOptions { alone, slack_bytes: 16 << 20, ..SuiteOptions::default() };
        expect_all(&driver, &options);
    }
}

/// Fails unless every case was run that the devices allow, and passed.
fn expect_all<D: Driver>(driver: &Arc<D>, options: &SuiteOptions) {
    let mut results = Vec::new();
    suite::run(Arc::clone(driver), options, &mut |result| results.push(result.clone()))
        .expect("a run");
    assert_eq!(results.len(), suite::cases().len());
    let one_device = driver.devices().expect("devices").len() == 1;
    let may_be_skipped = |name| one_device && name == "two_devices_keep_their_own_bytes";
    results.retain(|result| match result.outcome {
        Outcome::Passed => false,
        Outcome::Skipped => !may_be_skipped(result.case.name),
        Outcome::Failed => true,
    });
    assert_eq!(results, [], "{options:?}");
}

macro_rules! whole_suite {
    ($($module:ident: $on:ident;)*) => {$(
        #[test]
        fn $module() {
            $on(crate::$module::setup());
        }
    )*};
}

whole_suite! {
    sim_max_piece: in_one_call;
    cuda_double: in_one_call;
    hip_double_all_faults: in_one_call;
    cuda_device: on_part_of_a_device;
    hip_device: on_part_of_a_device;
}
