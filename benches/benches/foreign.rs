//! The question in front of every free of memory that is not ours, with 100,000 blocks of ours:
//!
//! - `foreign/below`: addresses below all of ours (target: less than 100 ns)
//! - `foreign/between`: addresses inside the range of ours, at no block's start (target: as above)
//! - `foreign/ours`: addresses of ours, for comparison

use std::cell::LazyCell;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use allocator_testkit::null::Null;
use criterion::{Criterion, criterion_group, criterion_main};
use dormant_engine::{Address, Allocation, Config, Device, Engine};

const BLOCKS: usize = 100_000;
/// A power of two, so that taking the next address costs next to nothing.
const ASKED: usize = 1 << 12;

/// Where to ask, by an address of ours.
type Place = fn(Address) -> Address;

fn engine() -> (Engine<Null>, Vec<Address>) {
    let engine = Engine::new(Arc::new(Null::default()), Config::default());
    let allocation = Allocation::new(1, Device(0)).tag("w");
    let ours: Vec<_> = (0..BLOCKS).map(|_| engine.allocate(&allocation).expect("room")).collect();
    // Not in order, as a program's frees are not.
    let asked = (0..ASKED).map(|index| ours[index * 7919 % BLOCKS]).collect();
    (engine, asked)
}

fn foreign(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("foreign");
    group.sample_size(50).warm_up_time(Duration::from_secs(1));
    group.measurement_time(Duration::from_secs(2));
    // Built at its first use, so that a filter costs nothing.
    let built = LazyCell::new(engine);
    let cases: [(&str, Place); 3] = [
        ("below", |ours| Address(ours.0 >> 30)),
        ("between", |ours| ours.offset(256)),
        ("ours", |ours| ours),
    ];
    for (name, place) in cases {
        group.bench_function(name, |bencher| {
            let (engine, asked) = &*built;
            let asked: Vec<_> = asked.iter().map(|ours| place(*ours)).collect();
            let mut next = 0;
            bencher.iter(|| {
                next = (next + 1) % ASKED;
                engine.owns(black_box(asked[next]))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, foreign);
criterion_main!(benches);
