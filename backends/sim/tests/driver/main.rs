//! The simulated driver as the layers above see it: through the `Driver` trait and its control
//! surface.

mod blocks;
mod control;
mod faults;
mod host;
mod owners;
mod streams;
mod threads;

use std::process::{Command, Output};
use std::sync::Arc;

use allocator_core::{ActiveBlock, Backing, Block, Device, Driver, ErrorKind, PausedBlock, Result};
use dormant_sim::{Sim, SimConfig};

const MIB: u64 = 1 << 20;
const GRANULE: u64 = 64 << 10;
const CAPACITY: u64 = 64 * MIB;
const ZERO: Device = Device(0);
const ONE: Device = Device(1);

type Stash = Vec<u8>;

fn config() -> SimConfig {
    SimConfig::new().devices(2).capacity_bytes(CAPACITY).granularity(GRANULE)
}

fn sim() -> Arc<Sim> {
    sim_with(config())
}

fn sim_with(config: SimConfig) -> Arc<Sim> {
    Arc::new(Sim::new(config).expect("the machine can be built"))
}

fn paused(sim: &Arc<Sim>, bytes: u64) -> PausedBlock<Sim, Stash> {
    let granularity = sim.granularity(ZERO).expect("the device is there");
    Block::reserve(sim, ZERO, bytes, granularity).expect("there are addresses")
}

fn wake(sim: &Arc<Sim>, block: PausedBlock<Sim, Stash>) -> (ActiveBlock<Sim>, Option<Stash>) {
    let backing =
        Backing::create(sim, ZERO, block.physical_bytes(), u64::MAX).expect("there is memory");
    block.attach(backing, [ZERO]).expect("it can be mapped").settle()
}

fn active(sim: &Arc<Sim>, bytes: u64) -> ActiveBlock<Sim> {
    let block = paused(sim, bytes);
    wake(sim, block).0
}

fn free(sim: &Sim, device: Device) -> u64 {
    sim.memory(device).expect("memory can be asked").free_bytes
}

const CHILD: &str = "DORMANT_SIM_TEST_CHILD";

/// Whether this process is a child that runs one test.
fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs one test of this program again in a child process, in which it takes its other branch.
fn in_child(test: &str, variables: &[(&str, &str)]) -> Output {
    Command::new(std::env::current_exe().expect("the test is a program"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .envs(variables.iter().copied())
        .output()
        .expect("a child can be started")
}

#[track_caller]
fn fails<T>(answer: Result<T>, kind: ErrorKind) -> String {
    let error = answer.err().expect("it fails");
    assert_eq!(error.kind(), kind, "{error}");
    error.to_string()
}

/// Device memory at an address, as the CPU sees it.
fn cpu(at: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(usize::try_from(at).expect("an address fits"))
}
