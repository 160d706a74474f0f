//! Which file the contents are in.

use std::time::Duration;

use allocator_core::ErrorKind;
use dormant_engine::{
    Allocation, BlockState, Config, Engine, PauseOptions, Policy, Selection, region,
};
use dormant_sim::Fault;

use crate::support::{
    GRANULE, ONE, ZERO, engine_over, engine_with_disk, expect_pattern, pause, resume, small, state,
    until,
};
use crate::{filled, names_in, open_files};

#[test]
fn two_regions_with_two_directories_each_have_a_file_of_their_own() {
    let (_sim, engine) = engine_over(small());
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut blocks = Vec::new();
    for (seed, directory) in (1..).zip(&directories) {
        let settings = region::Settings::new("w", Policy::Disk).with_directory(directory.path());
        let _region = region::enter(settings);
        for seed in [seed, seed + 10] {
            let allocation = Allocation::new(GRANULE, ZERO);
            blocks.push((crate::support::filled(&engine, &allocation, GRANULE, seed), seed));
        }
    }
    pause(&engine, "w");
    for directory in &directories {
        assert_eq!(open_files("self", directory.path()).len(), 1, "one file for two blocks");
        assert_eq!(names_in(directory.path()), 0);
    }
    resume(&engine, "w");
    blocks.iter().for_each(|(address, seed)| expect_pattern(&engine, *address, GRANULE, *seed));
    for directory in &directories {
        until("the file is closed", || open_files("self", directory.path()).is_empty());
    }
}

#[test]
fn each_device_has_a_file_of_its_own() {
    let (_sim, engine) = engine_over(small());
    let directory = tempfile::tempdir().unwrap();
    let blocks = [(ZERO, 1), (ONE, 2)]
        .map(|(device, seed)| (filled(&engine, "w", device, 9, seed, directory.path()), seed));
    pause(&engine, "w");
    assert_eq!(open_files("self", directory.path()).len(), 2);
    resume(&engine, "w");
    blocks.iter().for_each(|(address, seed)| expect_pattern(&engine, *address, 9, *seed));
}

#[test]
fn the_directory_of_the_settings_is_for_blocks_that_name_none_and_for_an_override() {
    let (settings, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_sim, engine) = engine_with_disk(small(), settings.path());
    let plain = Allocation::new(GRANULE, ZERO).tag("plain");
    let plain = crate::support::filled(&engine, &plain, GRANULE, 1);
    let named = Allocation::new(GRANULE, ZERO).tag("named").policy(Policy::Host);
    let named = named.directory(own.path());
    let named = crate::support::filled(&engine, &named, GRANULE, 2);
    let to_disk = PauseOptions::default().policy(Policy::Disk);
    let report = engine.pause(Selection::All, &to_disk).unwrap();
    assert_eq!((report.copied().blocks, report.copied().bytes), (2, 2 * GRANULE));
    for directory in [&settings, &own] {
        assert_eq!(open_files("self", directory.path()).len(), 1);
    }
    assert_eq!(engine.stats().host_backup_bytes, 0);
    resume(&engine, Selection::All);
    expect_pattern(&engine, plain, GRANULE, 1);
    expect_pattern(&engine, named, GRANULE, 2);
}

#[test]
fn space_of_a_woken_tag_is_used_again_and_the_file_ends_with_the_last_tag() {
    let (_sim, engine) = engine_over(small());
    let directory = tempfile::tempdir().unwrap();
    let bytes = 4 * GRANULE;
    for (tag, seed) in [("a", 1), ("b", 2)] {
        filled(&engine, tag, ZERO, bytes, seed, directory.path());
    }
    let length = || {
        let files = open_files("self", directory.path());
        files.iter().map(|file| std::fs::metadata(file).unwrap().len()).sum::<u64>()
    };
    pause(&engine, "a");
    pause(&engine, "b");
    for _ in 0..5 {
        assert_eq!(length(), 2 * bytes);
        resume(&engine, "a");
        until("the space is free", || engine.stats().disk_backup_bytes == bytes);
        pause(&engine, "a");
    }
    resume(&engine, "b");
    until("the tail is cut off", || length() == bytes);
    resume(&engine, "a");
    until("the file is closed", || open_files("self", directory.path()).is_empty());
    engine.blocks().iter().zip([1, 2]).for_each(|(block, seed)| {
        expect_pattern(&engine, block.address, bytes, seed);
    });
}

#[test]
fn staging_stays_under_its_limit() {
    let directory = tempfile::tempdir().unwrap();
    let (sim, _) = engine_over(small().capacity_bytes(64 << 20));
    let mut settings = Config::default();
    settings.workers = Some(16);
    settings.idle_timeout = Duration::from_secs(600);
    settings.disk_directory = Some(directory.path().to_owned());
    settings.disk_staging_bytes = 16 << 20;
    let engine = Engine::new(std::sync::Arc::clone(&sim), settings);
    let mut blocks = Vec::new();
    for seed in 1..=16 {
        for device in [ZERO, ONE] {
            let allocation = Allocation::new(2 << 20, device).tag("w").policy(Policy::Disk);
            blocks.push((crate::support::filled(&engine, &allocation, 2 << 20, seed), seed));
        }
    }
    let report = pause(&engine, "w");
    assert!(report.workers <= 4, "{report:?}");
    assert!(sim.registered_bytes() <= 16 << 20, "{} bytes", sim.registered_bytes());
    assert!(resume(&engine, "w").workers <= 4);
    assert!(sim.registered_bytes() <= 16 << 20, "{} bytes", sim.registered_bytes());
    for (address, seed) in blocks {
        expect_pattern(&engine, address, 2 << 20, seed);
    }
}

#[test]
fn contents_on_disk_of_a_block_that_lost_its_address_are_listed_until_they_are_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let (sim, engine) = engine_over(small().fault(Fault::KeepUntilUnreserved));
    let address = filled(&engine, "w", ZERO, 100, 5, directory.path());
    sim.fail_nth(allocator_core::Operation::Vacate, 1, ErrorKind::AddressLost);
    let error = engine.pause("w", &PauseOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddressLost, "{error}");
    assert_eq!(state(&engine, address), Some(BlockState::Poisoned));
    let lost = engine.lost_backups();
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].1[..], allocator_testkit::pattern(100, 5));
    assert_eq!(engine.stats().tags[0].saved.bytes, 100);
    drop(lost);
    assert_eq!(engine.drop_backup("w").unwrap(), 100);
    assert!(engine.lost_backups().is_empty());
    until("the file is closed", || open_files("self", directory.path()).is_empty());
    assert_eq!(engine.stats().disk_backup_bytes, 0);
}

#[test]
fn space_that_is_kept_gives_way_to_another_file_on_a_full_disk() {
    const MIB: u64 = 1 << 20;
    crate::mounts::with_mount(
        "places::space_that_is_kept_gives_way_to_another_file_on_a_full_disk",
        "tmpfs",
        "size=16m",
        |directory| {
            let (sim, _) = engine_over(small());
            let mut settings = Config::default();
            settings.disk_keep_bytes = None;
            let engine = Engine::new(std::sync::Arc::clone(&sim), settings);
            let blocks = [("a", ZERO), ("b", ONE)]
                .map(|(tag, device)| filled(&engine, tag, device, 10 * MIB, 1, directory));
            for _ in 0..2 {
                for tag in ["a", "b"] {
                    pause(&engine, tag);
                    assert_eq!(engine.stats().disk_file_bytes, 10 * MIB, "of `{tag}` alone");
                    resume(&engine, tag);
                    until("the backup is gone", || engine.stats().disk_backup_bytes == 0);
                }
            }
            blocks.iter().for_each(|block| expect_pattern(&engine, *block, 10 * MIB, 1));
        },
    );
}
