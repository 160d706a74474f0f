//! Frees of 1,000 active blocks, each of which waits for its device first:
//!
//! - `frees/null/1000`: over a driver that does nothing
//! - `frees/sim/1000`: over the simulated device, idle

use std::sync::Arc;
use std::time::Duration;

use allocator_core::{Address, Driver};
use allocator_testkit::null::Null;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use dormant_engine::{Allocation, Config, Device, Engine};
use dormant_sim::{Sim, SimConfig};

const COUNT: u64 = 1000;

fn thousand<D: Driver>(engine: &Engine<D>) -> Vec<Address> {
    let allocation = Allocation::new(1, Device(0)).tag("w");
    (0..COUNT).map(|_| engine.allocate(&allocation).expect("room")).collect()
}

fn free_all<D: Driver>(engine: &Engine<D>, addresses: Vec<Address>) {
    for address in addresses {
        engine.free(address).expect("free");
    }
}

fn frees(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("frees");
    group.sample_size(10).warm_up_time(Duration::from_secs(1));
    group.measurement_time(Duration::from_secs(3)).throughput(Throughput::Elements(COUNT));
    group.bench_function("null/1000", |bencher| {
        let engine = Engine::new(Arc::new(Null::default()), Config::default());
        bencher.iter_batched(
            || thousand(&engine),
            |addresses| free_all(&engine, addresses),
            BatchSize::PerIteration,
        );
    });
    group.bench_function("sim/1000", |bencher| {
        let config = SimConfig::new().devices(1).granularity(4096).capacity_bytes(COUNT * 4096);
        let sim = Sim::new(config).expect("a simulated device");
        let engine = Engine::new(Arc::new(sim), Config::default());
        bencher.iter_batched(
            || thousand(&engine),
            |addresses| free_all(&engine, addresses),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, frees);
criterion_main!(benches);
