//! Disks that are full and files that cannot be read.

use std::fs::File;
use std::io::{Read, Write};

use allocator_core::{ErrorKind, Operation};
use dormant_engine::{BlockState, Engine, PauseOptions, ResumeOptions};
use dormant_sim::Sim;

use crate::child::in_its_own_process;
use crate::support::{
    GRANULE, ONE, ZERO, counts, engine_over, expect_pattern, pause, resume, small, state, until,
};
use crate::{filled, names_in, open_files};

#[test]
fn a_file_that_was_cut_off_leaves_the_tag_asleep_until_it_can_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let (_sim, engine) = engine_over(small());
    let blocks = [(ZERO, 1), (ZERO, 2), (ONE, 3)].map(|(device, seed)| {
        (filled(&engine, "w", device, 3 * GRANULE - 7, seed, directory.path()), seed)
    });
    pause(&engine, "w");
    let before = counts(&engine);
    let files = open_files("self", directory.path());
    let open = |name| File::options().read(true).write(true).open(name).unwrap();
    for length in [0, 4096, 5 * GRANULE + 1] {
        let mut file = open(&files[0]);
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        file.set_len(length.min(bytes.len() as u64 - 1)).unwrap();
        let error = engine.resume("w", &ResumeOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.cause().address().is_some(), "{error}");
        assert!(error.to_string().contains(&directory.path().display().to_string()), "{error}");
        assert_eq!(counts(&engine), before, "all sleep, with their backups");
        let unread = blocks.iter().filter(|(address, _)| engine.backup(*address).is_err());
        assert!(unread.count() >= 1);
        until("what was lent out goes back", || counts(&engine) == before);
        open(&files[0]).write_all(&bytes).unwrap();
    }
    resume(&engine, "w");
    for (address, seed) in blocks {
        expect_pattern(&engine, address, 3 * GRANULE - 7, seed);
    }
}

/// Refused, and everything is as it was.
#[track_caller]
fn expect_refused(engine: &Engine<Sim>, tag: &str, kind: ErrorKind) -> dormant_engine::Error {
    let before = counts(engine);
    let error = engine.pause(tag, &PauseOptions::default()).expect_err("it was to be refused");
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.report().is_none() && error.failures().is_empty(), "{error}");
    assert_eq!(counts(engine), before, "{error}");
    error
}

#[test]
fn a_directory_that_cannot_be_made_refuses_the_pause() {
    let directory = tempfile::tempdir().unwrap();
    let blocked = directory.path().join("a file");
    std::fs::write(&blocked, "").unwrap();
    let (_sim, engine) = engine_over(small());
    let address = filled(&engine, "w", ZERO, GRANULE, 1, &blocked);
    let error = expect_refused(&engine, "w", ErrorKind::Io);
    assert!(error.to_string().contains(&blocked.display().to_string()), "{error}");
    assert_eq!(state(&engine, address), Some(BlockState::Active));
    expect_pattern(&engine, address, GRANULE, 1);
    std::fs::remove_file(&blocked).unwrap();
    pause(&engine, "w");
    resume(&engine, "w");
    expect_pattern(&engine, address, GRANULE, 1);
}

#[test]
fn a_copy_that_fails_leaves_no_file_and_no_charge() {
    let directory = tempfile::tempdir().unwrap();
    let (sim, engine) = engine_over(small());
    let address = filled(&engine, "w", ZERO, 80 * GRANULE, 1, directory.path());
    sim.fail_nth(Operation::Read, 2, ErrorKind::Unknown);
    expect_refused(&engine, "w", ErrorKind::Unknown);
    assert_eq!(engine.stats().disk_backup_bytes, 0);
    assert!(open_files("self", directory.path()).is_empty());
    expect_pattern(&engine, address, 80 * GRANULE, 1);
}

/// Refused for lack of space on disk.
#[track_caller]
fn expect_full(engine: &Engine<Sim>, tag: &str, wanted: u64, directory: &std::path::Path) {
    let open = open_files("self", directory).len();
    let error = expect_refused(engine, tag, ErrorKind::Io);
    assert_eq!(error.cause().bytes(), Some(wanted), "{error}");
    let text = error.to_string();
    assert!(text.contains(&directory.display().to_string()), "{text}");
    assert!(text.contains(&format!("{wanted} bytes")) && text.contains("are free"), "{text}");
    assert_eq!(open_files("self", directory).len(), open, "{text}");
    assert_eq!(names_in(directory), 0, "{text}");
}

in_its_own_process! {
    fn a_limit_on_the_size_of_files_is_an_error_and_no_signal() {
        let directory = tempfile::tempdir().unwrap();
        let (_sim, engine) = engine_over(small());
        let address = filled(&engine, "w", ZERO, 20 * GRANULE, 1, directory.path());
        let limit = libc::rlimit { rlim_cur: 19 * GRANULE, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: `limit` is a valid limit; this process runs this one test.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
        expect_full(&engine, "w", 20 * GRANULE, directory.path());
        expect_pattern(&engine, address, 20 * GRANULE, 1);
    }
}

/// F12: more than the disk has room for.
#[test]
fn a_full_disk_is_an_error_and_every_block_is_active_and_as_it_was() {
    const MIB: u64 = 1 << 20;
    crate::mounts::with_mount(
        "failures::a_full_disk_is_an_error_and_every_block_is_active_and_as_it_was",
        "tmpfs",
        "size=100m",
        |directory| {
            let free = || {
                let mut found = std::mem::MaybeUninit::<libc::statvfs>::uninit();
                let name =
                    std::ffi::CString::new(directory.as_os_str().as_encoded_bytes()).unwrap();
                // SAFETY: the name ends with zero, and the answer has room.
                assert_eq!(unsafe { libc::statvfs(name.as_ptr(), found.as_mut_ptr()) }, 0);
                // SAFETY: the call has filled it in.
                let found = unsafe { found.assume_init() };
                found.f_bfree * found.f_frsize
            };
            let (_sim, engine) = engine_over(small().capacity_bytes(256 * MIB));
            let small = filled(&engine, "small", ZERO, 30 * MIB, 9, directory);
            let large = [(ZERO, 1), (ZERO, 2), (ONE, 3), (ONE, 4)].map(|(device, seed)| {
                (filled(&engine, "large", device, 40 * MIB, seed, directory), seed)
            });
            let check = || {
                large.iter().for_each(|(address, seed)| {
                    assert_eq!(state(&engine, *address), Some(BlockState::Active));
                    expect_pattern(&engine, *address, 40 * MIB, *seed);
                })
            };
            // One device's file has room, the other's has not.
            let empty = free();
            expect_full(&engine, "large", 80 * MIB, directory);
            assert_eq!(free(), empty, "space is kept");
            check();
            // The file of another tag is not harmed.
            pause(&engine, "small");
            let taken = free();
            expect_full(&engine, "large", 80 * MIB, directory);
            assert_eq!(free(), taken, "space is kept");
            check();
            resume(&engine, "small");
            expect_pattern(&engine, small, 30 * MIB, 9);
            until("the space is free again", || free() == empty);
            // With room it goes.
            engine.free(large[0].0).unwrap();
            engine.free(large[3].0).unwrap();
            pause(&engine, "large");
            resume(&engine, "large");
            for (address, seed) in &large[1..3] {
                expect_pattern(&engine, *address, 40 * MIB, *seed);
            }
        },
    );
}

/// No space can be promised there, and the page cache cannot be passed.
#[test]
fn a_file_system_without_reservation_and_direct_access_works() {
    crate::mounts::with_mount(
        "failures::a_file_system_without_reservation_and_direct_access_works",
        "ramfs",
        "mode=700",
        |directory| {
            let (_sim, engine) = engine_over(small());
            let address = filled(&engine, "w", ZERO, 40 * GRANULE + 1, 1, directory);
            for _ in 0..3 {
                pause(&engine, "w");
                assert_eq!(open_files("self", directory).len(), 1);
                resume(&engine, "w");
                expect_pattern(&engine, address, 40 * GRANULE + 1, 1);
            }
        },
    );
}
