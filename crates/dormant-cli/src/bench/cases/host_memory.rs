//! How much host memory a pause takes at most, and how soon it is back after the resume.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use dormant::HostMode;

use super::Bench;
use crate::bench::bed::{Bed, config};
use crate::bench::case::Case;
use crate::bench::figure::Figure;
use crate::bench::machine::{anonymous_bytes, settle};
use crate::bench::outcome::Found;
use crate::bench::samples::Samples;
use crate::failure::Failure;

/// What a pause may take beside the backups, in bytes.
const BESIDE_BYTES: f64 = 536_870_912.0;

/// How soon the memory must be back, in milliseconds.
const BACK_MS: f64 = 1000.0;

/// No longer than this is waited for it.
const MOST_WAIT: Duration = Duration::from_secs(10);

/// Between two readings while a pause is at work, and after a resume.
const PERIOD: Duration = Duration::from_millis(10);
const CLOSE_PERIOD: Duration = Duration::from_millis(1);

/// What the reading may be off by: threads count in steps, and keep a little for themselves.
const NOISE_BYTES: u64 = 32 << 20;

pub(super) fn host_memory(bench: &mut Bench) -> Result<Found, Failure> {
    if anonymous_bytes().is_none() {
        return Ok(Found::Skipped(
            "the system does not say how much memory a process has".to_owned(),
        ));
    }
    let layout = bench.layout(Case::HostMemory);
    let mut bed = Bed::new(&bench.driver, config(HostMode::Reclaim), &layout)?;
    let (mut peak, mut back) = (Samples::default(), Samples::default());
    for cycle in 0..=bench.cycles {
        bench.progress.counted(cycle, bench.cycles);
        // Everything of the cycle before has gone, and staging with it.
        bed.settle();
        let _bytes = bed.engine().trim();
        settle();
        let base = anonymous_bytes().unwrap_or(0);
        let most = highest_during(|| bed.pause(bed.selection()))?;
        bed.resume(bed.selection())?;
        let resumed = Instant::now();
        let _bytes = bed.engine().trim();
        while anonymous_bytes().is_some_and(|now| now > base + NOISE_BYTES)
            && resumed.elapsed() < MOST_WAIT
        {
            sleep(CLOSE_PERIOD);
        }
        if cycle > 0 {
            peak.push_value(as_value(most.saturating_sub(base)));
            back.push(resumed.elapsed());
        }
    }
    bench.check(Case::HostMemory, &mut bed)?;
    bed.free()?;
    let backup = as_value(layout.bytes);
    let figures = vec![
        Figure::bytes("peak over base", &peak).floor("backup", backup).limit(backup + BESIDE_BYTES),
        Figure::times("back after resume", &back).limit(BACK_MS),
    ];
    Ok(Found::Measured { layout, figures })
}

/// The highest reading of this process's memory while `work` is done.
fn highest_during<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<u64, Failure> {
    let done = AtomicBool::new(false);
    scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut highest = 0;
            while !done.load(Ordering::Relaxed) {
                highest = highest.max(anonymous_bytes().unwrap_or(0));
                sleep(PERIOD);
            }
            highest.max(anonymous_bytes().unwrap_or(0))
        });
        let worked = work();
        done.store(true, Ordering::Relaxed);
        let highest = sampler.join().unwrap_or_else(|panic| resume_unwind(panic));
        worked.map(|_| highest)
    })
}

/// Bytes of memory are few enough to be counted exactly.
#[expect(clippy::cast_precision_loss, reason = "below 2^53")]
fn as_value(bytes: u64) -> f64 {
    bytes as f64
}
