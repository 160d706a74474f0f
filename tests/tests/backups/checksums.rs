//! Contents that change while a block sleeps.

use allocator_core::ErrorKind;
use dormant_engine::{
    Allocation, Backup, BlockState, Checksum, Engine, HostMode, PauseOptions, Policy,
    ResumeOptions, Selection, region,
};
use dormant_sim::Sim;

use crate::support::{ZERO, counts, expect_pattern, filled, pause, resume, state, until};
use crate::{MIB, engine, host};

/// Changes one byte of saved contents, as failing memory would.
fn flip(backup: &Backup, at: usize) {
    let byte = backup[at..].as_ptr().cast_mut();
    // SAFETY: the lease keeps the pages, and nobody writes them now.
    let before = unsafe { byte.read_volatile() };
    // SAFETY: nobody else reads or writes them now. That they are borrowed as shared is what failing
    // memory does not care about either.
    unsafe { byte.write_volatile(before ^ 0x10) };
}

#[track_caller]
fn expect_mismatch(engine: &Engine<Sim>, block: dormant_engine::Address, range: &str) {
    let before = counts(engine);
    let free = crate::support::free_bytes(engine.driver(), ZERO);
    let error = engine
        .resume(Selection::All, &ResumeOptions::default())
        .expect_err("the contents have changed");
    assert_eq!(error.kind(), ErrorKind::ChecksumMismatch, "{error}");
    assert_eq!(error.cause().address(), Some(block), "{error}");
    assert!(error.to_string().contains(range), "{error}");
    assert_eq!(counts(engine), before);
    assert_eq!(crate::support::free_bytes(engine.driver(), ZERO), free);
    assert!(engine.blocks().iter().all(|block| block.state == BlockState::Paused));
}

#[test]
fn a_changed_byte_in_host_memory_is_found_and_the_block_stays_paused_with_its_backup() {
    let bytes = 5 * MIB + 77;
    for mode in [HostMode::Reclaim, HostMode::Retain] {
        let engine = engine(mode, |config| config.checksum = Checksum::Full);
        let good = filled(&engine, &host("w", 9), 9, 1);
        let block = filled(&engine, &host("w", bytes), bytes, 2);
        // The second round of retained memory is copied by the device itself.
        for _ in 0..2 {
            pause(&engine, "w");
            resume(&engine, "w");
            until("it is registered, if it will be", || {
                engine.driver().registered_bytes() >= engine.stats().host_retained_bytes
            });
        }
        pause(&engine, "w");
        let backup = engine.backup(block).unwrap();
        for (at, range) in [
            (0, "bytes 0 to 2097152"),
            (2 << 20, "bytes 2097152 to 4194304"),
            ((5 << 20) + 76, "bytes 4194304 to 5242957"),
        ] {
            flip(&backup, at);
            expect_mismatch(&engine, block, range);
            flip(&backup, at);
        }
        drop(backup);
        resume(&engine, "w");
        expect_pattern(&engine, good, 9, 1);
        expect_pattern(&engine, block, bytes, 2);
    }
}

#[test]
fn a_changed_byte_on_disk_is_found_at_resume_and_when_it_is_read() {
    use std::os::unix::fs::FileExt;

    let directory = tempfile::tempdir().unwrap();
    let engine = engine(HostMode::Reclaim, |config| {
        config.disk_directory = Some(directory.path().to_owned());
        config.checksum = Checksum::Full;
    });
    let allocation = Allocation::new(3 * MIB, ZERO).tag("w").policy(Policy::Disk);
    let block = filled(&engine, &allocation, 3 * MIB, 1);
    pause(&engine, "w");
    let names = std::fs::read_dir("/proc/self/fd").unwrap();
    let name = names
        .flatten()
        .map(|entry| entry.path())
        .find(|name| std::fs::read_link(name).is_ok_and(|file| file.starts_with(directory.path())));
    let file = std::fs::OpenOptions::new().read(true).write(true).open(name.unwrap()).unwrap();
    let flip = || {
        let mut byte = [0];
        file.read_exact_at(&mut byte, 2 * MIB + 5).unwrap();
        file.write_all_at(&[byte[0] ^ 1], 2 * MIB + 5).unwrap();
        file.sync_all().unwrap();
    };
    flip();
    expect_mismatch(&engine, block, "bytes 2097152 to 3145728");
    let error = engine.backup(block).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChecksumMismatch, "{error}");
    flip();
    assert!(*engine.backup(block).unwrap() == *allocator_testkit::pattern(3 * MIB, 1));
    resume(&engine, "w");
    expect_pattern(&engine, block, 3 * MIB, 1);
}

#[test]
fn a_call_a_block_and_a_region_say_whether_contents_are_checked_in_this_order() {
    let engine = engine(HostMode::Reclaim, |config| config.checksum = Checksum::Off);
    let settings = region::Settings::new("w", Policy::Host).with_checksum(Checksum::Full);
    let region = region::enter(settings);
    let checked = filled(&engine, &Allocation::new(100, ZERO), 100, 1);
    let unchecked = Allocation::new(100, ZERO).checksum(Checksum::Off);
    let unchecked = filled(&engine, &unchecked, 100, 2);
    drop(region);
    let plain = filled(&engine, &host("w", 100), 100, 3);
    let finds = |options: &PauseOptions, block| {
        engine.pause("w", options).unwrap();
        let backup = engine.backup(block).unwrap();
        flip(&backup, 99);
        let found = engine.resume("w", &ResumeOptions::default()).is_err();
        flip(&backup, 99);
        if found {
            resume(&engine, "w");
        } else {
            let right = allocator_testkit::pattern(100, if block == unchecked { 2 } else { 3 });
            engine.write(block, &right).unwrap();
        }
        assert_eq!(state(&engine, block), Some(BlockState::Active));
        found
    };
    let options = PauseOptions::default();
    assert!(finds(&options, checked));
    assert!(!finds(&options, unchecked));
    assert!(!finds(&options, plain));
    let full = PauseOptions::default().checksum(Checksum::Full);
    for block in [checked, unchecked, plain] {
        assert!(finds(&full, block));
    }
    let off = PauseOptions::default().checksum(Checksum::Off);
    assert!(!finds(&off, plain));
    for (block, seed) in [(checked, 1), (unchecked, 2), (plain, 3)] {
        expect_pattern(&engine, block, 100, seed);
    }
}
