//! Contents that are kept on disk.

use std::path::Path;
use std::time::{Duration, Instant};

use allocator_core::{Address, Driver, ErrorKind};
use dormant_engine::{Allocation, PauseOptions, Policy, ResumeOptions};

use crate::{Bench, expect_bytes, pattern};

const MIB: u64 = 1 << 20;

fn filled<D: Driver>(bench: &Bench<D>, bytes: u64, seed: u8, directory: &Path) -> Address {
    let allocation = Allocation::new(bytes, bench.device).tag("d").policy(Policy::Disk);
    let address = bench.engine.allocate(&allocation.directory(directory)).expect("allocation");
    bench.write(address, bytes, seed);
    address
}

/// Space goes back in the background.
fn expect_no_space_taken<D: Driver>(bench: &Bench<D>) {
    let begun = Instant::now();
    while bench.engine.stats().disk_backup_bytes > 0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "space on disk is kept");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sizes around the sector, the granule and the chunk, over a few rounds.
pub fn a_disk_backup_comes_back_and_leaves_no_file<D: Driver>(bench: &Bench<D>) {
    let above = tempfile::tempdir().expect("a directory");
    let directory = above.path().join("made when it is needed");
    let start = bench.free_bytes();
    let sizes = [1, 4095, 4096, 6912, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 5 * MIB + 13];
    let blocks: Vec<_> = sizes
        .iter()
        .zip(1..)
        .map(|(bytes, seed)| (filled(bench, *bytes, seed, &directory), *bytes, seed))
        .collect();
    for _ in 0..3 {
        let report = bench.engine.pause("d", &PauseOptions::default()).expect("pause");
        let sum: u64 = sizes.iter().sum();
        assert_eq!((report.copied().blocks, report.copied().bytes), (8, sum));
        bench.expect_free(start, "asleep");
        let stats = bench.engine.stats();
        assert_eq!((stats.tags[0].saved.bytes, stats.host_backup_bytes), (sum, 0));
        let sectors: u64 = sizes.iter().map(|bytes| bytes.next_multiple_of(4096)).sum();
        assert_eq!(stats.disk_backup_bytes, sectors);
        let names = std::fs::read_dir(&directory).expect("the directory was made").count();
        assert_eq!(names, 0, "a file has a name");
        let report = bench.engine.resume("d", &ResumeOptions::default()).expect("resume");
        assert_eq!((report.copied().blocks, report.copied().bytes), (8, sum));
        for (address, bytes, seed) in &blocks {
            bench.expect_pattern(*address, *bytes, *seed);
        }
    }
    expect_no_space_taken(bench);
    blocks.iter().for_each(|(address, ..)| bench.engine.free(*address).expect("free"));
}

/// What is on disk can be read while the block sleeps, and given up.
pub fn a_disk_backup_is_lent_out_dropped_and_freed<D: Driver>(bench: &Bench<D>) {
    let bytes = 2 * MIB + 7;
    let directory = tempfile::tempdir().expect("a directory");
    let freed = filled(bench, bytes, 1, directory.path());
    let dropped = filled(bench, bytes, 2, directory.path());
    bench.engine.pause("d", &PauseOptions::default()).expect("pause");
    let backup = bench.engine.backup(freed).expect("backup");
    expect_bytes(&backup, &pattern(bytes, 1));
    assert!(bench.engine.stats().host_backup_bytes >= bytes, "what is lent out is charged");
    bench.engine.free(freed).expect("free");
    assert_eq!(bench.engine.drop_backup("d").expect("drop"), bytes);
    expect_no_space_taken(bench);
    let error = bench.engine.backup(dropped).expect_err("dropped");
    assert_eq!(error.kind(), ErrorKind::WrongState, "{error}");
    expect_bytes(&backup, &pattern(bytes, 1));
    drop(backup);
    assert_eq!(bench.engine.stats().host_backup_bytes, 0);
    bench.engine.resume("d", &ResumeOptions::default()).expect("resume");
    bench.write(dropped, bytes, 3);
    bench.expect_pattern(dropped, bytes, 3);
    bench.engine.free(dropped).expect("free");
}
