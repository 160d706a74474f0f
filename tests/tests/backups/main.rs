//! How backups are held: host memory that is kept or goes back, budgets, checksums, and what each
//! fall-back says.

use dormant_engine::{Allocation, Config, Engine, HostMode, Policy};
use dormant_sim::{Sim, SimConfig};

#[path = "../rules/child.rs"]
mod child;
#[path = "../support/mod.rs"]
mod support;

mod beside;
mod budgets;
mod checksums;
mod disk_space;
mod fallbacks;
mod memory;
mod modes;
mod prepared;
mod ranks;

const MIB: u64 = 1 << 20;

/// Two devices of 256 MiB.
fn device() -> SimConfig {
    SimConfig::new().devices(2).capacity_bytes(256 * MIB).granularity(64 << 10)
}

/// An engine that holds host memory like this.
fn engine(mode: HostMode, change: impl FnOnce(&mut Config)) -> Engine<Sim> {
    engine_on(device(), mode, change)
}

fn engine_on(device: SimConfig, mode: HostMode, change: impl FnOnce(&mut Config)) -> Engine<Sim> {
    let mut config = Config::default();
    config.host_mode = mode;
    change(&mut config);
    Engine::new(std::sync::Arc::new(Sim::new(device).expect("a simulated device")), config)
}

/// A block whose contents are kept on the host.
fn host(tag: &str, bytes: u64) -> Allocation {
    Allocation::new(bytes, support::ZERO).tag(tag).policy(Policy::Host)
}
