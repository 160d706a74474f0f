//! The whole suite once more with every call of the engine checked: a broken rule fails its case.

use std::sync::Arc;

use allocator_testkit::{Checked, Setup};
use dormant_sim::{Sim, SimConfig};

#[expect(clippy::unnecessary_wraps, reason = "a setup may have no device")]
fn setup() -> Option<Setup<Checked<Sim>>> {
    let sim = Sim::new(SimConfig::new().devices(2).capacity_bytes(128 << 20))
        .expect("a simulated machine");
    let driver = Arc::new(Checked::new(sim));
    Some(Setup { driver, unit_bytes: 6 << 20, slack_bytes: 0, exclusive: None })
}

allocator_testkit::conformance_suite!(setup);
