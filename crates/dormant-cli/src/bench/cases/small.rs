//! Blocks of one granule: the copying must be as fast as in large ones.
//!
//! A resume copies while it maps, and so many small blocks take longer to map than to copy: there the
//! limit is what copying and mapping take one after the other.

use dormant::HostMode;

use super::cycles::CALLS;
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
    bench.calls_floor(&layout)?;
    let blocks = layout.bytes / layout.block_bytes;
    let mapping = bench.floors.mapping_ms(bench.device(), layout.block_bytes, blocks);
    let mut figures = Vec::new();
    for mode in [HostMode::Reclaim, HostMode::Retain] {
        bench.progress.say(format!("small, {mode}, large blocks:"));
        let floor = cycles::measure(bench, Case::Small, mode, &large)?;
        bench.progress.say(format!("small, {mode}:"));
        let found = cycles::measure(bench, Case::Small, mode, &layout)?;
        let large_blocks = floor.pause_copy.median();
        figures.push(
            Figure::times(format!("{mode}, copying of a pause"), &found.pause_copy)
                .floor("large_blocks", large_blocks)
                .limit(SLOWER * large_blocks),
        );
        let large_blocks = floor.resume_copy.median();
        figures.push(
            Figure::times(format!("{mode}, mapping and copying"), &found.resume_copy)
                .floor("large_blocks", large_blocks)
                .floor("mapping", mapping)
                .limit(SLOWER * large_blocks + CALLS * mapping),
        );
    }
    Ok(Found::Measured { layout, figures })
}
