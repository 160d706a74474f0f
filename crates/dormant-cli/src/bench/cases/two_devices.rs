//! Two devices in one call, against one of them alone.

use dormant::HostMode;

use super::Bench;
use crate::bench::bed::{Bed, Layout, config};
use crate::bench::case::Case;
use crate::bench::figure::Figure;
use crate::bench::outcome::Found;
use crate::failure::Failure;

/// How much more two devices must move than one in the same time.
const RATE: f64 = 1.8;

pub(super) fn two_devices(bench: &mut Bench) -> Result<Found, Failure> {
    let [first, second, ..] = bench.devices[..] else {
        return Ok(Found::Skipped("there is one device, or one was named".to_owned()));
    };
    let layout = Layout {
        devices: vec![first, second],
        bytes: bench.sizes.half_bytes(),
        ..bench.layout(Case::TwoDevices)
    };
    let mut bed = Bed::new(&bench.driver, config(HostMode::Retain), &layout)?;
    bench.progress.say("two-devices, one alone:");
    let one = bed.cycles(&bed.first_device(), bench.cycles, &bench.progress)?;
    bench.progress.say("two-devices, both:");
    let both = bed.cycles(&bed.selection(), bench.cycles, &bench.progress)?;
    bench.check(Case::TwoDevices, &mut bed)?;
    bed.free()?;
    let figure = |way: &str, both, one: f64| {
        // Twice the bytes at 1.8 times the rate.
        Figure::times(format!("{way}, both"), both).floor("one_alone", one).limit(2.0 / RATE * one)
    };
    let figures = vec![
        figure("pause", &both.pause, one.pause.median()),
        figure("resume", &both.resume, one.resume.median()),
    ];
    Ok(Found::Measured { layout, figures })
}
