//! The conformance suite on the simulated device.

use std::sync::Arc;

use allocator_testkit::{Setup, conformance_suite};
use dormant_sim::{Sim, SimConfig};

fn setup() -> Option<Setup<Sim>> {
    // Like the real device, it reads some bytes as free that it gives to nobody, and its fresh
    // memory holds anything.
    let config = SimConfig::new()
        .devices(2)
        .capacity_bytes(256 << 20)
        .held_back_bytes(8 << 20)
        .scribble(Some(0xD5));
    let driver = Arc::new(Sim::new(config).expect("a simulated device"));
    Some(Setup { driver, unit_bytes: 6 << 20, slack_bytes: 0, exclusive: None })
}

conformance_suite!(setup);
