//! Blocks of one granule: the copying must be as fast as in large ones.

use dormant::HostMode;

use super::{Bench, cycles};
use crate::bench::bed::Layout;
use crate::bench::case::Case;
use crate::bench::figure::Figure;
use crate::bench::outcome::Found;
use crate::failure::Failure;

/// How much longer the copying may take.
const SLOWER: f64 = 1.1;

pub(super) fn small(bench: &mut Bench) -> Result<Found, Failure> {
    let large = Layout { bytes: bench.sizes.half_bytes(), ..bench.layout(Case::Small) };
    let layout = Layout { block_bytes: bench.sizes.granule_bytes, ..large.clone() };
    let mut figures = Vec::new();
    for mode in [HostMode::Reclaim, HostMode::Retain] {
        bench.progress.say(format!("small, {mode}, large blocks:"));
        let floor = cycles::measure(bench, Case::Small, mode, &large)?;
        bench.progress.say(format!("small, {mode}:"));
        let found = cycles::measure(bench, Case::Small, mode, &layout)?;
        for (way, found, floor) in [
            ("pause", found.pause_copy, floor.pause_copy.median()),
            ("resume", found.resume_copy, floor.resume_copy.median()),
        ] {
            let figure = Figure::times(format!("{mode}, copying of a {way}"), &found);
            figures.push(figure.floor("large_blocks", floor).limit(SLOWER * floor));
        }
    }
    Ok(Found::Measured { layout, figures })
}
