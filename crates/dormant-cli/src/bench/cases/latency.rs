//! What another thread waits for while blocks are paused and resumed: allocations and frees under
//! another tag, and the question whether an address is ours.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use dormant::{Address, Allocation, Backend, Device, Engine, HostMode, Policy};

use super::Bench;
use crate::bench::bed::{Bed, config};
use crate::bench::case::Case;
use crate::bench::figure::Figure;
use crate::bench::outcome::Found;
use crate::bench::samples::Samples;
use crate::failure::Failure;

/// What the other thread allocates.
const PROBE_BYTES: u64 = 4 << 20;

/// Between two of its rounds.
const PERIOD: Duration = Duration::from_millis(1);

/// How long it is watched without any pause.
const IDLE: Duration = Duration::from_secs(2);
const SIMULATED_IDLE: Duration = Duration::from_millis(200);

/// How much longer anything may take than in the idle case, in milliseconds.
const MORE_MS: f64 = 2.0;

/// An address that no block starts at.
const FOREIGN: Address = Address(0x1000);

#[derive(Debug, Default)]
struct Waits {
    allocate: Samples,
    free: Samples,
    owns: Samples,
}

pub(super) fn latency(bench: &mut Bench) -> Result<Found, Failure> {
    let layout = bench.layout(Case::Latency);
    let device = bench.device();
    let watched = if bench.backend == Backend::Sim { SIMULATED_IDLE } else { IDLE };
    let mut figures = Vec::new();
    for mode in [HostMode::Reclaim, HostMode::Retain] {
        bench.progress.say(format!("latency, {mode}:"));
        let mut bed = Bed::new(&bench.driver, config(mode), &layout)?;
        let idle = waits_during(bed.engine(), device, || {
            sleep(watched);
            Ok(())
        })?;
        // A first cycle that nobody watches.
        bed.cycles(&bed.selection(), 0, &bench.progress)?;
        let busy = waits_during(bed.engine(), device, || {
            for cycle in 1..=bench.cycles {
                bench.progress.counted(cycle, bench.cycles);
                bed.pause(bed.selection())?;
                bed.resume(bed.selection())?;
            }
            Ok(())
        })?;
        bench.check(Case::Latency, &mut bed)?;
        bed.free()?;
        for (what, idle, busy) in [
            ("allocate", idle.allocate, busy.allocate),
            ("free", idle.free, busy.free),
            ("owns", idle.owns, busy.owns),
        ] {
            let figure = Figure::slowest(format!("{mode}, {what}, p99"), &busy);
            figures.push(figure.floor("idle", idle.p99()).limit(idle.p99() + MORE_MS));
        }
    }
    Ok(Found::Measured { layout, figures })
}

/// What another thread waits for while `work` is done.
fn waits_during(
    engine: &Engine,
    device: Device,
    work: impl FnOnce() -> Result<(), Failure>,
) -> Result<Waits, Failure> {
    let done = AtomicBool::new(false);
    scope(|scope| {
        let other = scope.spawn(|| {
            let mut waits = Waits::default();
            // Its first round is not timed.
            round(engine, device, &mut Waits::default())?;
            while !done.load(Ordering::Relaxed) {
                round(engine, device, &mut waits)?;
                sleep(PERIOD);
            }
            Ok(waits)
        });
        let worked = work();
        done.store(true, Ordering::Relaxed);
        let waits = other.join().unwrap_or_else(|panic| resume_unwind(panic));
        worked.and(waits)
    })
}

fn round(engine: &Engine, device: Device, waits: &mut Waits) -> Result<(), Failure> {
    let wanted = Allocation::new(PROBE_BYTES, device).tag("bench_other").policy(Policy::Discard);
    let begun = Instant::now();
    let address = engine.allocate(&wanted)?;
    waits.allocate.push(begun.elapsed());
    let begun = Instant::now();
    engine.free(address)?;
    waits.free.push(begun.elapsed());
    let begun = Instant::now();
    std::hint::black_box(engine.owns(FOREIGN));
    waits.owns.push(begun.elapsed());
    Ok(())
}
