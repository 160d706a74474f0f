//! Calls at the same time: none takes from another what that has found.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use allocator_core::{ErrorKind, Operation};
use dormant_engine::{
    Allocation, BlockState, Checksum, HostMode, PauseOptions, Policy, PrepareOptions,
    ResumeOptions, Selection,
};

use crate::support::{ZERO, expect_pattern, filled, free_bytes, pause, resume, state};
use crate::{MIB, device, engine, engine_on, host};

const FOR: Duration = Duration::from_secs(2);

/// Runs `beside` again and again in another thread while `work` goes on for some time.
fn while_beside(beside: impl Fn() + Sync, mut work: impl FnMut()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                beside();
            }
        });
        let begun = Instant::now();
        // Also when it panics.
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            while begun.elapsed() < FOR {
                work();
            }
        }));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = worked {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
fn leases_that_are_taken_at_once_stay_under_the_limit() {
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(HostMode::Reclaim, |config| {
        config.host_limit_bytes = Some(4096);
        config.disk_directory = Some(directory.path().to_owned());
    });
    let disk = Allocation::new(4096, ZERO).tag("d").policy(Policy::Disk);
    let block = engine.allocate(&disk).unwrap();
    pause(&engine, "d");
    let leases = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let begun = Instant::now();
                while begun.elapsed() < FOR {
                    if let Ok(lease) = engine.backup(block) {
                        assert_eq!(leases.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                        leases.fetch_sub(1, Ordering::SeqCst);
                        drop(lease);
                    }
                }
            });
        }
    });
}

#[test]
fn a_pause_that_wants_no_host_memory_is_not_refused_any() {
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(HostMode::Reclaim, |config| {
        config.host_limit_bytes = Some(4096);
        config.disk_directory = Some(directory.path().to_owned());
    });
    let disk = Allocation::new(4096, ZERO).tag("d").policy(Policy::Disk);
    let block = engine.allocate(&disk).unwrap();
    engine.allocate(&Allocation::new(4096, ZERO).tag("x")).unwrap();
    pause(&engine, "d");
    while_beside(
        || drop(engine.backup(block)),
        || {
            pause(&engine, "x");
            resume(&engine, "x");
        },
    );
}

#[test]
fn plans_change_nothing_for_pauses() {
    let blocks = 2000;
    let engine = engine(HostMode::Retain, |config| {
        config.workers = Some(1);
        config.host_limit_bytes = Some(blocks * 4096);
    });
    for _ in 0..blocks {
        engine.allocate(&host("w", 1)).unwrap();
    }
    while_beside(
        || drop(engine.plan("w", &PauseOptions::default())),
        || {
            pause(&engine, "w");
            resume(&engine, "w");
        },
    );
}

#[test]
fn memory_that_backups_are_in_is_counted_whatever_is_trimmed_meanwhile() {
    let engine = engine(HostMode::Retain, |config| config.workers = Some(1));
    let background = PrepareOptions::default().background(true);
    let tags: Vec<_> = (0..100).map(|index| format!("t{index}")).collect();
    for tag in &tags {
        engine.allocate(&host(tag, 1)).unwrap();
    }
    while_beside(
        || {
            engine.trim();
        },
        || {
            for tag in &tags {
                engine.prepare(tag.as_str(), &background).unwrap();
            }
            pause(&engine, Selection::All);
            let stats = engine.stats();
            assert!(stats.host_retained_bytes >= stats.host_backup_bytes, "{stats:?}");
            resume(&engine, Selection::All);
        },
    );
}

#[test]
fn one_device_that_cannot_map_stops_the_other_and_nothing_is_lost() {
    for nth in 1..=12_u64 {
        let slow = device().latency(Some(Duration::from_micros(300)));
        let engine = engine_on(slow, HostMode::Retain, |config| {
            config.checksum = Checksum::Full;
            config.workers = Some(1);
        });
        let blocks: Vec<_> = (0..12_u32)
            .map(|index| {
                let bytes = 300_000 + u64::from(index) * 77_777;
                let device = allocator_core::Device(index % 2);
                let allocation = Allocation::new(bytes, device).tag("w").policy(Policy::Host);
                let seed = u8::try_from(index + 1).unwrap();
                (filled(&engine, &allocation, bytes, seed), bytes, seed)
            })
            .collect();
        pause(&engine, "w");
        let free =
            || [0, 1].map(|device| free_bytes(engine.driver(), allocator_core::Device(device)));
        let before = free();
        let call = if nth % 2 == 0 { Operation::Map } else { Operation::SetAccess };
        engine.driver().fail_nth(call, nth / 2 + 1, ErrorKind::Unknown);
        let victim = blocks[usize::try_from(nth % 12).unwrap()].0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(2));
                engine.free(victim).unwrap();
            });
            engine.resume("w", &ResumeOptions::default()).unwrap_err();
        });
        assert_eq!(free(), before);
        resume(&engine, "w");
        assert!(engine.find(victim).is_none());
        for (address, bytes, seed) in blocks {
            if address != victim {
                expect_pattern(&engine, address, bytes, seed);
            }
        }
    }
}

#[test]
fn a_pause_for_which_no_stream_opens_fails_and_loses_nothing() {
    let engine = engine(HostMode::Reclaim, |config| config.workers = Some(4));
    let block = filled(&engine, &host("w", 20 * MIB), 20 * MIB, 1);
    engine.trim();
    engine.driver().fail_from(Operation::OpenStream, ErrorKind::Unknown);
    engine.pause("w", &PauseOptions::default()).unwrap_err();
    assert_eq!(state(&engine, block), Some(BlockState::Active));
    engine.driver().clear_failures();
    expect_pattern(&engine, block, 20 * MIB, 1);
}

#[test]
fn the_limit_counts_what_sleeps_already() {
    for mode in [HostMode::Reclaim, HostMode::Retain] {
        let engine = engine(mode, |config| config.host_limit_bytes = Some(10 * MIB));
        for tag in ["a", "b"] {
            engine.allocate(&host(tag, 6 * MIB)).unwrap();
        }
        pause(&engine, "a");
        let error = engine.pause("b", &PauseOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::HostMemory, "{error}");
        resume(&engine, "a");
        pause(&engine, "b");
    }
}
