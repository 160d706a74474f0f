//! The first pause of an engine that retains: with memory made ready before, and without.

use std::time::Instant;

use dormant::{HostMode, PrepareOptions};

use super::Bench;
use super::cycles::CALLS;
use crate::bench::bed::{Bed, config};
use crate::bench::case::Case;
use crate::bench::figure::Figure;
use crate::bench::machine::settle;
use crate::bench::outcome::Found;
use crate::bench::samples::Samples;
use crate::failure::Failure;

/// Engines that count, after one that does not.
const ENGINES: u32 = 3;

pub(super) fn prepared(bench: &mut Bench) -> Result<Found, Failure> {
    let layout = bench.layout(Case::RetainPrepared);
    let (copy, calls) = (bench.copy_floor(&layout)?, bench.calls_floor(&layout)?);
    let (prepare, pause) = first_pauses(bench, Case::RetainPrepared)?;
    let figures = vec![
        Figure::times("first pause", &pause)
            .floor("copy", copy.down)
            .floor("calls", calls.down)
            .limit(1.1 * copy.down + CALLS * calls.down),
        Figure::times("prepare", &prepare),
    ];
    Ok(Found::Measured { layout, figures })
}

pub(super) fn unprepared(bench: &mut Bench) -> Result<Found, Failure> {
    let layout = bench.layout(Case::RetainFirst);
    let copy = bench.copy_floor(&layout)?;
    let (_, pause) = first_pauses(bench, Case::RetainFirst)?;
    let figures =
        vec![Figure::times("first pause", &pause).floor("copy", copy.down).limit(3.0 * copy.down)];
    Ok(Found::Measured { layout, figures })
}

/// Times of preparing and of the first pause, over fresh engines.
fn first_pauses(bench: &mut Bench, case: Case) -> Result<(Samples, Samples), Failure> {
    let layout = bench.layout(case);
    let (mut prepare, mut pause) = (Samples::default(), Samples::default());
    let engines = ENGINES.min(bench.cycles);
    for engine in 0..=engines {
        bench.progress.counted(engine, engines);
        let mut bed = Bed::new(&bench.driver, config(HostMode::Retain), &layout)?;
        // Filling has used staging; a fresh engine has none.
        let _bytes = bed.engine().trim();
        settle();
        let begun = Instant::now();
        if case == Case::RetainPrepared {
            let _prepared = bed.engine().prepare(bed.selection(), &PrepareOptions::default())?;
        }
        let ready = begun.elapsed();
        let (took, _) = bed.pause(bed.selection())?;
        if engine > 0 {
            prepare.push(ready);
            pause.push(took);
        }
        bed.resume(bed.selection())?;
        bench.check(case, &mut bed)?;
        bed.free()?;
    }
    Ok((prepare, pause))
}
