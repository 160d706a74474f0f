//! One pause and one resume of 64 MiB, on the simulated device with a link as fast as memory:
//!
//! - `transition/host/2MiB`: 32 blocks, saved and restored
//! - `transition/host/64MiB`: one block, saved and restored
//! - `transition/discard/2MiB`: 32 blocks, contents dropped
//! - `transition/discard/64MiB`: one block, contents dropped

use std::cell::LazyCell;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dormant_engine::{
    Allocation, Config, Device, Engine, PauseOptions, Policy, ResumeOptions, Selection,
};
use dormant_sim::{Sim, SimConfig};

const MIB: u64 = 1 << 20;
const TOTAL: u64 = 64 * MIB;

fn engine(policy: Policy, block: u64) -> Engine<Sim> {
    let config = SimConfig::new().devices(1).capacity_bytes(2 * TOTAL);
    let sim = Sim::new(config).expect("a simulated device");
    let engine = Engine::new(Arc::new(sim), Config::default());
    for _ in 0..TOTAL / block {
        let allocation = Allocation::new(block, Device(0)).policy(policy);
        engine.allocate(&allocation).expect("room");
    }
    engine
}

fn transition(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("transition");
    group.sample_size(10).warm_up_time(Duration::from_secs(1));
    group.measurement_time(Duration::from_secs(3)).throughput(Throughput::Bytes(TOTAL));
    for policy in [Policy::Host, Policy::Discard] {
        for block in [2 * MIB, TOTAL] {
            // Built at its first use, so that a filter costs nothing.
            let engine = LazyCell::new(|| engine(policy, block));
            group.bench_function(format!("{policy}/{}MiB", block / MIB), |bencher| {
                bencher.iter(|| {
                    engine.pause(Selection::All, &PauseOptions::default()).expect("pause");
                    engine.resume(Selection::All, &ResumeOptions::default()).expect("resume");
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, transition);
criterion_main!(benches);
