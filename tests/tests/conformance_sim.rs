//! The conformance suite on the simulated device.

use std::sync::Arc;

use allocator_testkit::{Setup, conformance_suite};
use dormant_sim::{Sim, SimConfig};

fn setup() -> Option<Setup<Sim>> {
    let config = SimConfig::new().devices(2).capacity_bytes(256 << 20);
    let driver = Arc::new(Sim::new(config).expect("a simulated device"));
    Some(Setup { driver, unit_bytes: 6 << 20, slack_bytes: 0 })
}

conformance_suite!(setup);
