//! Cycles of pause and resume on one device: `reclaim`, `retain`, `discard`.

use dormant::HostMode;

use super::Bench;
use crate::bench::bed::{Bed, Cycles, Layout, config};
use crate::bench::case::Case;
use crate::bench::figure::Figure;
use crate::bench::floors::Ways;
use crate::bench::outcome::Found;
use crate::failure::Failure;

/// What our own work may add to the driver's calls.
pub(super) const CALLS: f64 = 1.15;

pub(super) fn reclaim(bench: &mut Bench) -> Result<Found, Failure> {
    let layout = bench.layout(Case::Reclaim);
    let (copy, calls) = (bench.copy_floor(&layout)?, bench.calls_floor(&layout)?);
    let cycles = measure(bench, Case::Reclaim, HostMode::Reclaim, &layout)?;
    let [pause, resume] = figures(&cycles, copy, calls);
    let figures = vec![
        pause
            .limit(1.7 * copy.down + CALLS * calls.down)
            .stretch(1.5 * copy.down + CALLS * calls.down),
        resume.limit(1.1 * copy.up + CALLS * calls.up),
    ];
    Ok(Found::Measured { layout, figures })
}

pub(super) fn retain(bench: &mut Bench) -> Result<Found, Failure> {
    let layout = bench.layout(Case::Retain);
    let (copy, calls) = (bench.copy_floor(&layout)?, bench.calls_floor(&layout)?);
    let cycles = measure(bench, Case::Retain, HostMode::Retain, &layout)?;
    let [pause, resume] = figures(&cycles, copy, calls);
    let figures = vec![
        pause.limit(1.05 * copy.down + CALLS * calls.down),
        resume.limit(1.05 * copy.up + CALLS * calls.up),
    ];
    Ok(Found::Measured { layout, figures })
}

pub(super) fn discard(bench: &mut Bench) -> Result<Found, Failure> {
    let layout = Layout { bytes: bench.sizes.discard_bytes, ..bench.layout(Case::Discard) };
    let calls = bench.calls_floor(&layout)?;
    let cycles = measure(bench, Case::Discard, HostMode::Reclaim, &layout)?;
    let figures = vec![
        Figure::times("pause", &cycles.pause).floor("calls", calls.down).limit(CALLS * calls.down),
        Figure::times("resume", &cycles.resume).floor("calls", calls.up).limit(CALLS * calls.up),
    ];
    Ok(Found::Measured { layout, figures })
}

/// Some cycles over an engine of their own, and the contents compared after the last.
pub(super) fn measure(
    bench: &mut Bench,
    case: Case,
    mode: HostMode,
    layout: &Layout,
) -> Result<Cycles, Failure> {
    let mut bed = Bed::new(&bench.driver, config(mode), layout)?;
    let cycles = bed.cycles(&bed.selection(), bench.cycles, &bench.progress)?;
    bench.check(case, &mut bed)?;
    bed.free()?;
    Ok(cycles)
}

fn figures(cycles: &Cycles, copy: Ways, calls: Ways) -> [Figure; 2] {
    [
        Figure::times("pause", &cycles.pause).floor("copy", copy.down).floor("calls", calls.down),
        Figure::times("resume", &cycles.resume).floor("copy", copy.up).floor("calls", calls.up),
    ]
}
