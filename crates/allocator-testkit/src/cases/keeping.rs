//! How contents are kept: host memory that stays or goes back, checksums, several ways in one call.

use std::time::{Duration, Instant};

use allocator_core::{Address, Driver, ErrorKind};
use dormant_engine::{
    Allocation, Checksum, HostMode, PauseOptions, Policy, PrepareOptions, ResumeOptions,
};

use crate::{Bench, expect_bytes, pattern};

const MIB: u64 = 1 << 20;

fn filled<D: Driver>(bench: &Bench<D>, allocation: Allocation, bytes: u64, seed: u8) -> Address {
    let address = bench.engine.allocate(&allocation.tag("k")).expect("allocation");
    bench.write(address, bytes, seed);
    address
}

fn host<D: Driver>(bench: &Bench<D>, bytes: u64, mode: HostMode) -> Allocation {
    Allocation::new(bytes, bench.device).policy(Policy::Host).host_mode(mode)
}

fn pause<D: Driver>(bench: &Bench<D>) -> dormant_engine::Report {
    bench.engine.pause("k", &PauseOptions::default()).expect("pause")
}

fn resume<D: Driver>(bench: &Bench<D>) -> dormant_engine::Report {
    bench.engine.resume("k", &ResumeOptions::default()).expect("resume")
}

fn until(what: &str, so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The first pause copies by way of staging; later ones have the device write the memory itself.
pub fn retained_memory_keeps_every_byte_before_and_after_it_is_registered<D: Driver>(
    bench: &Bench<D>,
) {
    let sizes = [1, 4096, 6912, 2 * MIB + 1, 9 * MIB + 13];
    let blocks: Vec<_> = (1..)
        .zip(sizes)
        .map(|(seed, bytes)| {
            (filled(bench, host(bench, bytes, HostMode::Retain), bytes, seed), bytes)
        })
        .collect();
    for round in 0..4_u8 {
        for ((address, bytes), seed) in blocks.iter().zip(1..) {
            bench.write(*address, *bytes, seed + 10 * round);
        }
        assert_eq!(pause(bench).host_mode, "retain");
        let stats = bench.engine.stats();
        assert_eq!(stats.host_retained_bytes, stats.host_backup_bytes, "nothing beside them");
        assert_eq!(resume(bench).host_mode, "retain");
        for ((address, bytes), seed) in blocks.iter().zip(1..) {
            bench.expect_pattern(*address, *bytes, seed + 10 * round);
        }
        // By now, or by the next round, what is retained has been registered in the background.
        bench.engine.prepare("k", &PrepareOptions::default()).expect("prepare");
    }
    let retained = bench.engine.stats().host_retained_bytes;
    assert!(retained >= sizes.iter().sum::<u64>());
    until("the backups are gone", || bench.engine.stats().host_backup_bytes == 0);
    assert_eq!(bench.engine.trim(), retained);
    assert_eq!(bench.engine.stats().host_retained_bytes, 0);
    blocks.iter().for_each(|(address, _)| bench.engine.free(*address).expect("free"));
}

/// So many.
pub(crate) const SMALL_BLOCKS: u64 = 60;

/// Many blocks that are smaller than a copy may be, in both modes.
pub fn many_small_blocks_keep_their_own_bytes<D: Driver>(bench: &Bench<D>) {
    for mode in [HostMode::Reclaim, HostMode::Retain] {
        let size = |index: u64| 1 + index * 977 % 5000;
        let blocks: Vec<_> = (0..SMALL_BLOCKS)
            .map(|index| {
                let seed = u8::try_from(index + 1).expect("few blocks");
                (filled(bench, host(bench, size(index), mode), size(index), seed), index, seed)
            })
            .collect();
        for _ in 0..2 {
            bench.engine.prepare("k", &PrepareOptions::default()).expect("prepare");
            let sum = (0..SMALL_BLOCKS).map(size).sum::<u64>();
            let copied = (pause(bench).copied().blocks, resume(bench).copied().bytes);
            assert_eq!(copied, (SMALL_BLOCKS, sum));
            for (address, index, seed) in &blocks {
                bench.expect_pattern(*address, size(*index), *seed);
            }
        }
        blocks.iter().for_each(|(address, ..)| bench.engine.free(*address).expect("free"));
    }
}

/// Disk, pageable and registered memory, zeroes and nothing, at once; with checksums and without.
pub fn every_way_of_keeping_contents_works_in_one_call<D: Driver>(bench: &Bench<D>) {
    let directory = tempfile::tempdir().expect("a directory");
    let bytes = 5 * MIB + 3;
    let on = |policy| Allocation::new(bytes, bench.device).policy(policy);
    let reclaimed = filled(bench, host(bench, bytes, HostMode::Reclaim), bytes, 1);
    let retained = filled(bench, host(bench, bytes, HostMode::Retain), bytes, 2);
    let disk = filled(bench, on(Policy::Disk).directory(directory.path()), bytes, 3);
    let zeroed = filled(bench, on(Policy::Zero), bytes, 4);
    let discarded = filled(bench, on(Policy::Discard), bytes, 5);
    for checksum in [Checksum::Full, Checksum::Off, Checksum::Full] {
        let options = PauseOptions::default().checksum(checksum);
        let report = bench.engine.pause("k", &options).expect("pause");
        assert_eq!((report.moved().blocks, report.copied().bytes), (5, 3 * bytes));
        assert_eq!(report.host_mode, "mixed");
        assert_eq!(
            (resume(bench).moved().blocks, bench.engine.stats().tags[0].active.blocks),
            (5, 5)
        );
        for (address, seed) in [(reclaimed, 1), (retained, 2), (disk, 3)] {
            bench.expect_pattern(address, bytes, seed);
        }
        assert!(bench.read(zeroed, bytes).iter().all(|byte| *byte == 0));
        bench.engine.prepare("k", &PrepareOptions::default()).expect("prepare");
    }
    for address in [reclaimed, retained, disk, zeroed, discarded] {
        bench.engine.free(address).expect("free");
    }
}

/// What was lent out of retained memory stays as it was while others use the memory around it.
pub fn a_lease_of_retained_memory_is_not_written_over<D: Driver>(bench: &Bench<D>) {
    let bytes = 3 * MIB + 7;
    let address = filled(bench, host(bench, bytes, HostMode::Retain), bytes, 1);
    bench.engine.prepare("k", &PrepareOptions::default()).expect("prepare");
    pause(bench);
    let lease = bench.engine.backup(address).expect("backup");
    resume(bench);
    let error = bench.engine.backup(address).expect_err("after the resume there is no backup");
    assert_eq!(error.kind(), ErrorKind::WrongState, "{error}");
    for seed in 2..4 {
        bench.write(address, bytes, seed);
        pause(bench);
        expect_bytes(&lease, &pattern(bytes, 1));
        resume(bench);
        bench.expect_pattern(address, bytes, seed);
    }
    bench.engine.free(address).expect("free");
    expect_bytes(&lease, &pattern(bytes, 1));
}

/// A plan's numbers are those of the pause.
pub fn a_plan_is_what_the_pause_comes_to<D: Driver>(bench: &Bench<D>) {
    let bytes = 2 * MIB + 5;
    let blocks = [HostMode::Reclaim, HostMode::Retain]
        .map(|mode| filled(bench, host(bench, bytes, mode), bytes, 1));
    let options = PauseOptions::default();
    let plan = bench.engine.plan("k", &options).expect("plan");
    assert_eq!((plan.host_short_bytes, plan.disk.blocks), (0, 0), "{plan:?}");
    let report = bench.engine.pause("k", &options).expect("pause");
    assert_eq!((plan.freed, plan.host), (report.moved(), report.copied()));
    let stats = bench.engine.stats();
    assert_eq!(plan.host_wanted_bytes, stats.host_backup_bytes);
    assert_eq!(bench.engine.plan("k", &options).expect("plan").freed.blocks, 0);
    resume(bench);
    blocks.iter().for_each(|address| bench.engine.free(*address).expect("free"));
}
