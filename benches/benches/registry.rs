//! Our own bookkeeping, over a driver that does nothing, with 100,000 blocks:
//!
//! - `registry/all`: pause and resume of all of them (target: less than 50 ms)
//! - `registry/small_tag`: pause and resume of 100 blocks among them (target: less than 50 ms)
//! - `registry/already_paused`: pause of all when all sleep
//! - `registry/stats`: everything counted up

use std::cell::LazyCell;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use allocator_testkit::null::Null;
use criterion::{Criterion, criterion_group, criterion_main};
use dormant_engine::{Allocation, Config, Device, Engine, PauseOptions, ResumeOptions, Selection};

const BLOCKS: usize = 100_000;
const SMALL: usize = 100;

fn engine() -> Engine<Null> {
    let engine = Engine::new(Arc::new(Null::default()), Config::default());
    for index in 0..BLOCKS {
        let tag = if index % (BLOCKS / SMALL) == 0 { "small" } else { "large" };
        engine.allocate(&Allocation::new(1, Device(0)).tag(tag)).expect("room");
    }
    engine
}

fn pause(engine: &Engine<Null>, selection: impl Into<Selection>) {
    black_box(engine.pause(selection, &PauseOptions::default()).expect("pause"));
}

fn resume(engine: &Engine<Null>, selection: impl Into<Selection>) {
    black_box(engine.resume(selection, &ResumeOptions::default()).expect("resume"));
}

fn registry(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("registry");
    group.sample_size(20).warm_up_time(Duration::from_secs(1));
    group.measurement_time(Duration::from_secs(4));
    // Built at its first use, so that a filter costs nothing.
    let engine = LazyCell::new(engine);
    group.bench_function("all", |bencher| {
        bencher.iter(|| {
            pause(&engine, Selection::All);
            resume(&engine, Selection::All);
        });
    });
    group.bench_function("small_tag", |bencher| {
        bencher.iter(|| {
            pause(&engine, "small");
            resume(&engine, "small");
        });
    });
    group.bench_function("already_paused", |bencher| {
        pause(&engine, Selection::All);
        bencher.iter(|| pause(&engine, Selection::All));
        resume(&engine, Selection::All);
    });
    group.bench_function("stats", |bencher| bencher.iter(|| black_box(engine.stats())));
    group.finish();
}

criterion_group!(benches, registry);
criterion_main!(benches);
