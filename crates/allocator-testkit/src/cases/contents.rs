//! What happens to the bytes.

use allocator_core::{Driver, ErrorKind};
use dormant_engine::{Allocation, PauseOptions, Policy, ResumeOptions, Selection};

use crate::{Bench, expect_bytes, pattern};

const MIB: u64 = 1 << 20;

fn pause<D: Driver>(bench: &Bench<D>, selection: impl Into<Selection>) {
    bench.engine.pause(selection, &PauseOptions::default()).expect("pause");
}

fn resume<D: Driver>(bench: &Bench<D>, selection: impl Into<Selection>) {
    bench.engine.resume(selection, &ResumeOptions::default()).expect("resume");
}

/// Sizes around the granule, and far from it.
pub fn host_keeps_every_byte_at_every_size<D: Driver>(bench: &Bench<D>) {
    let sizes = [1, 128, 6912, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 3 * MIB, 5 * MIB + 13];
    let blocks: Vec<_> = sizes
        .iter()
        .zip(1..)
        .map(|(bytes, seed)| (bench.filled("w", Policy::Host, *bytes, seed), *bytes, seed))
        .collect();
    pause(bench, "w");
    resume(bench, "w");
    for (address, bytes, seed) in blocks {
        bench.expect_pattern(address, bytes, seed);
        bench.engine.free(address).expect("free");
    }
}

/// By an explicit fill, whatever the memory held before.
pub fn zero_reads_as_zero_at_first_use_and_after_a_resume<D: Driver>(bench: &Bench<D>) {
    let bytes = 3 * MIB + 5;
    // Memory that has held something else.
    let dirty = bench.filled("dirty", Policy::Discard, bytes, 77);
    bench.engine.free(dirty).expect("free");
    let address = bench.allocate("z", Policy::Zero, bytes);
    let zeros = vec![0; usize::try_from(bytes).expect("a size")];
    expect_bytes(&bench.read(address, bytes), &zeros);
    for round in 1..=2 {
        bench.write(address, bytes, round);
        pause(bench, "z");
        resume(bench, "z");
        expect_bytes(&bench.read(address, bytes), &zeros);
    }
    bench.engine.free(address).expect("free");
}

/// Undefined contents are still memory.
pub fn discard_is_writable_again_after_a_resume<D: Driver>(bench: &Bench<D>) {
    let address = bench.filled("kv", Policy::Discard, bench.unit_bytes, 1);
    pause(bench, "kv");
    resume(bench, "kv");
    bench.write(address, bench.unit_bytes, 2);
    bench.expect_pattern(address, bench.unit_bytes, 2);
    bench.engine.free(address).expect("free");
}

/// As a graph's memory does: some blocks are backed up, others are not.
pub fn one_tag_may_hold_blocks_of_every_policy<D: Driver>(bench: &Bench<D>) {
    let bytes = 2 * MIB + 3;
    let kept = bench.filled("mix", Policy::Host, bytes, 1);
    let zeroed = bench.filled("mix", Policy::Zero, bytes, 2);
    let discarded = bench.filled("mix", Policy::Discard, bytes, 3);
    let directory = tempfile::tempdir().expect("a directory");
    let on_disk = Allocation::new(bytes, bench.device).tag("mix").policy(Policy::Disk);
    let on_disk = on_disk.directory(directory.path());
    let on_disk = bench.engine.allocate(&on_disk).expect("allocation");
    bench.write(on_disk, bytes, 5);
    let report = bench.engine.pause("mix", &PauseOptions::default()).expect("pause");
    assert_eq!((report.moved().blocks, report.copied().bytes), (4, 2 * bytes));
    resume(bench, "mix");
    bench.expect_pattern(kept, bytes, 1);
    assert!(bench.read(zeroed, bytes).iter().all(|byte| *byte == 0));
    bench.expect_pattern(on_disk, bytes, 5);
    bench.write(discarded, bytes, 4);
    for address in [kept, zeroed, discarded, on_disk] {
        bench.engine.free(address).expect("free");
    }
}

/// An override is no change of mind for ever.
pub fn a_policy_given_at_pause_holds_for_the_blocks_of_that_pause_alone<D: Driver>(
    bench: &Bench<D>,
) {
    let bytes = bench.unit_bytes;
    let early = bench.filled("p", Policy::Host, bytes, 1);
    pause(bench, "p");
    let late = bench.filled("p", Policy::Host, bytes, 2);
    let zero = PauseOptions::default().policy(Policy::Zero);
    bench.engine.pause("p", &zero).expect("pause");
    resume(bench, "p");
    bench.expect_pattern(early, bytes, 1);
    assert!(bench.read(late, bytes).iter().all(|byte| *byte == 0));
    bench.write(late, bytes, 3);
    pause(bench, "p");
    resume(bench, "p");
    bench.expect_pattern(late, bytes, 3);
    bench.engine.free(early).expect("free");
    bench.engine.free(late).expect("free");
}

/// Weight sync reads the saved weights while the trainer sleeps.
pub fn a_backup_is_readable_while_the_block_sleeps_and_outlives_the_resume<D: Driver>(
    bench: &Bench<D>,
) {
    let bytes = 2 * MIB + 7;
    let address = bench.filled("w", Policy::Host, bytes, 5);
    let error = bench.engine.backup(address).expect_err("an active block has no backup");
    assert_eq!(error.kind(), ErrorKind::WrongState, "{error}");
    pause(bench, "w");
    let backup = bench.engine.backup(address).expect("backup");
    expect_bytes(&backup, &pattern(bytes, 5));
    resume(bench, "w");
    bench.write(address, bytes, 6);
    expect_bytes(&backup, &pattern(bytes, 5));
    bench.engine.backup(address).expect_err("after the resume there is no backup");
    bench.engine.free(address).expect("free");
    expect_bytes(&backup, &pattern(bytes, 5));
}

/// For copies of the program's own at the link's full speed; blocks of one pause share a mapping.
pub fn a_backup_can_be_registered_and_ends_so_when_it_is_given_back<D: Driver>(bench: &Bench<D>) {
    let bytes = bench.unit_bytes + 5;
    let addresses = [7, 8].map(|seed| bench.filled("w", Policy::Host, bytes, seed));
    for _ in 0..2 {
        pause(bench, "w");
        let backups = addresses.map(|address| bench.engine.backup(address).expect("backup"));
        for backup in &backups {
            bench.engine.register_backup(backup).expect("register");
            bench.engine.register_backup(backup).expect("a second time is nothing");
        }
        resume(bench, "w");
        expect_bytes(&backups[1], &pattern(bytes, 8));
    }
    bench.expect_pattern(addresses[0], bytes, 7);
    for address in addresses {
        bench.engine.free(address).expect("free");
    }
}

/// The program has newer contents elsewhere.
pub fn a_dropped_backup_is_gone_and_the_block_still_wakes<D: Driver>(bench: &Bench<D>) {
    let bytes = bench.unit_bytes;
    let address = bench.filled("w", Policy::Host, bytes, 5);
    pause(bench, "w");
    assert_eq!(bench.engine.drop_backup("w").expect("drop"), bytes);
    assert_eq!(bench.engine.drop_backup("w").expect("drop again"), 0);
    let error = bench.engine.backup(address).expect_err("dropped");
    assert_eq!(error.kind(), ErrorKind::WrongState, "{error}");
    resume(bench, "w");
    bench.write(address, bytes, 6);
    bench.expect_pattern(address, bytes, 6);
    bench.engine.free(address).expect("free");
}

/// Offsets, lengths, and the block's end.
pub fn parts_of_a_block_are_read_and_written<D: Driver>(bench: &Bench<D>) {
    let bytes = 5 * MIB;
    let address = bench.filled("w", Policy::Host, bytes, 1);
    bench.engine.write(address.offset(2 * MIB - 3), b"abcdef").expect("write inside");
    let mut want = pattern(bytes, 1);
    let place = usize::try_from(2 * MIB - 3).expect("a size");
    want[place..place + 6].copy_from_slice(b"abcdef");
    expect_bytes(&bench.read(address, bytes), &want);
    let mut tail = [0; 4];
    bench.engine.read(address.offset(bytes - 4), &mut tail).expect("read at the end");
    expect_bytes(&tail, &want[want.len() - 4..]);
    let error = bench.engine.read(address.offset(bytes - 3), &mut tail).expect_err("past the end");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    bench.engine.free(address).expect("free");
}

/// More chunks than all workers have buffers for.
pub(crate) const MANY_CHUNKS_BYTES: u64 = 70 * MIB + 11;

/// None is lost, and none takes another's place.
pub fn a_block_of_many_chunks_keeps_every_byte_over_three_rounds<D: Driver>(bench: &Bench<D>) {
    let bytes = MANY_CHUNKS_BYTES;
    let address = bench.filled("w", Policy::Host, bytes, 1);
    for _ in 0..3 {
        pause(bench, "w");
        resume(bench, "w");
        bench.expect_pattern(address, bytes, 1);
    }
    bench.engine.free(address).expect("free");
}

/// A backup is of the last pause, not of the first.
pub fn a_second_pause_saves_the_newer_contents<D: Driver>(bench: &Bench<D>) {
    let bytes = bench.unit_bytes;
    let address = bench.filled("w", Policy::Host, bytes, 1);
    for seed in 2..=4 {
        pause(bench, "w");
        resume(bench, "w");
        bench.expect_pattern(address, bytes, seed - 1);
        bench.write(address, bytes, seed);
        // A part alone, too.
        bench.engine.write(address.offset(bytes / 2), &[seed; 3]).expect("write inside");
        pause(bench, "w");
        let mut want = pattern(bytes, seed);
        let place = usize::try_from(bytes / 2).expect("a size");
        want[place..place + 3].fill(seed);
        expect_bytes(&bench.engine.backup(address).expect("backup"), &want);
        resume(bench, "w");
        expect_bytes(&bench.read(address, bytes), &want);
        bench.write(address, bytes, seed);
    }
    bench.engine.free(address).expect("free");
}

/// A block of one byte sleeps as one byte, whatever a granule is.
pub fn bytes_behind_the_logical_size_are_neither_saved_nor_charged<D: Driver>(bench: &Bench<D>) {
    let address = bench.filled("w", Policy::Host, 1, 1);
    let report = bench.engine.pause("w", &PauseOptions::default()).expect("pause");
    assert_eq!(report.moved().bytes, bench.granularity.bytes());
    assert_eq!(report.copied().bytes, 1);
    let stats = bench.engine.stats();
    assert_eq!(stats.tags[0].saved.bytes, 1);
    assert!(stats.host_backup_bytes < bench.granularity.bytes(), "{stats:?}");
    assert_eq!(bench.engine.backup(address).expect("backup").len(), 1);
    resume(bench, "w");
    bench.expect_pattern(address, 1, 1);
    bench.engine.free(address).expect("free");
}

/// A checkpoint of what is not worth keeping otherwise.
pub fn the_host_policy_given_at_pause_keeps_the_bytes_of_every_block<D: Driver>(bench: &Bench<D>) {
    let bytes = bench.unit_bytes;
    let blocks = [(Policy::Discard, 1), (Policy::Zero, 2), (Policy::Host, 3)]
        .map(|(policy, seed)| (bench.filled("w", policy, bytes, seed), seed));
    let keep = PauseOptions::default().policy(Policy::Host);
    let report = bench.engine.pause("w", &keep).expect("pause");
    assert_eq!((report.copied().blocks, report.copied().bytes), (3, 3 * bytes));
    resume(bench, "w");
    for (address, seed) in blocks {
        bench.expect_pattern(address, bytes, seed);
        bench.engine.free(address).expect("free");
    }
}

/// Whoever reads it has borrowed it, not the block.
pub fn a_backup_outlives_a_free_of_the_paused_block<D: Driver>(bench: &Bench<D>) {
    let bytes = bench.unit_bytes - 3;
    let start = bench.free_bytes();
    let address = bench.filled("w", Policy::Host, bytes, 5);
    pause(bench, "w");
    let backup = bench.engine.backup(address).expect("backup");
    bench.engine.free(address).expect("free");
    bench.expect_free(start, "freed while paused");
    let error = bench.engine.backup(address).expect_err("the block is gone");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let other = bench.filled("other", Policy::Host, bytes, 6);
    pause(bench, "other");
    expect_bytes(&backup, &pattern(bytes, 5));
    assert_eq!(backup.device(), bench.device);
    drop(backup);
    bench.engine.free(other).expect("free");
}
