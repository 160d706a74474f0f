//! Which memory is kept, and which goes back.

use allocator_core::{ErrorKind, Operation};
use dormant_engine::{HostMode, PauseOptions, PrepareOptions, region};

use crate::support::{ONE, ZERO, expect_pattern, filled, pause, resume, until};
use crate::{MIB, device, engine, engine_on, host};

#[test]
fn retained_memory_is_registered_after_the_first_pause_and_then_copied_to_by_the_device_itself() {
    let engine = engine(HostMode::Retain, |config| config.workers = Some(4));
    let sizes = [1, 4096, 3 * MIB, 20 * MIB, 4 * MIB - 5];
    let blocks: Vec<_> = (1..)
        .zip(sizes)
        .map(|(seed, bytes)| (filled(&engine, &host("w", bytes), bytes, seed), bytes, seed))
        .collect();
    let report = pause(&engine, "w");
    assert_eq!((report.host_mode, report.host_mode_reason), ("retain", "asked"));
    let retained = engine.stats().host_retained_bytes;
    let whole: u64 = sizes.iter().map(|bytes| bytes.next_multiple_of(4096)).sum();
    assert_eq!(retained, whole);
    let sim = engine.driver();
    let registered = || sim.registered_bytes() >= retained;
    until("it is registered", registered);
    assert_eq!(resume(&engine, "w").host_mode, "retain");
    let calls = [Operation::Read, Operation::RegisterHost].map(|operation| sim.calls(operation));
    let report = pause(&engine, "w");
    assert!(report.workers <= 2, "{report:?}");
    let reads = sim.calls(Operation::Read) - calls[0];
    assert_eq!(reads, 1 + 1 + 1 + 3 + 1, "copies of 8 MiB at most, none of them staged");
    assert_eq!(sim.calls(Operation::RegisterHost), calls[1]);
    resume(&engine, "w");
    for (address, bytes, seed) in blocks {
        expect_pattern(&engine, address, bytes, seed);
    }
    assert_eq!(engine.stats().host_retained_bytes, retained);
}

#[test]
fn the_same_blocks_find_the_same_memory_and_others_what_is_left() {
    let engine = engine(HostMode::Retain, |_| ());
    for (tag, bytes) in [("a", 5 * MIB), ("b", 3 * MIB), ("a", 2 * MIB), ("b", MIB)] {
        filled(&engine, &host(tag, bytes), bytes, 1);
    }
    pause(&engine, "a");
    pause(&engine, "b");
    assert_eq!(engine.stats().host_retained_bytes, 11 * MIB);
    for _ in 0..5 {
        resume(&engine, dormant_engine::Selection::All);
        pause(&engine, "b");
        pause(&engine, "a");
        assert_eq!(engine.stats().host_retained_bytes, 11 * MIB, "in either order");
    }
}

#[test]
fn trim_gives_back_what_no_backup_is_in() {
    let engine = engine(HostMode::Retain, |_| ());
    for tag in ["a", "b"] {
        filled(&engine, &host(tag, 3 * MIB), 3 * MIB, 1);
        pause(&engine, tag);
    }
    resume(&engine, "a");
    until("the backup is gone", || engine.stats().host_backup_bytes == 3 * MIB);
    assert_eq!(engine.trim(), 3 * MIB);
    assert_eq!(engine.trim(), 0);
    assert_eq!(engine.stats().host_retained_bytes, 3 * MIB);
    resume(&engine, "b");
    engine.blocks().iter().for_each(|block| expect_pattern(&engine, block.address, 3 * MIB, 1));
    until("the backup is gone", || engine.trim() == 3 * MIB);
    // The background may hold what it is registering for a moment.
    until("nothing is registered", || {
        engine.trim();
        engine.driver().registrations() == 0
    });
}

#[test]
fn prepared_memory_makes_the_first_pause_like_any_other() {
    for background in [false, true] {
        let engine = engine(HostMode::Retain, |config| config.workers = Some(2));
        let blocks = [(ZERO, 1), (ONE, 2)].map(|(device, seed)| {
            let allocation = dormant_engine::Allocation::new(9 * MIB, device)
                .tag("w")
                .policy(dormant_engine::Policy::Host);
            (filled(&engine, &allocation, 9 * MIB, seed), seed)
        });
        engine.trim();
        let options = PrepareOptions::default().background(background);
        let prepared = engine.prepare("w", &options).unwrap();
        assert_eq!((prepared.bytes, prepared.registered), (18 * MIB, !background));
        assert_eq!(engine.stats().host_retained_bytes, 18 * MIB);
        assert_eq!(engine.stats().host_backup_bytes, 0);
        let sim = engine.driver();
        until("it is registered", || sim.registered_bytes() >= 18 * MIB + 4 * 8 * MIB);
        let calls = [Operation::RegisterHost, Operation::OpenStream].map(|call| sim.calls(call));
        pause(&engine, "w");
        assert_eq!(calls, [Operation::RegisterHost, Operation::OpenStream].map(|c| sim.calls(c)));
        assert!(engine.prepare("w", &options).unwrap().bytes == 0, "there is nothing to prepare");
        resume(&engine, "w");
        for (address, seed) in blocks {
            expect_pattern(&engine, address, 9 * MIB, seed);
        }
    }
}

#[test]
fn automatic_memory_is_retained_up_to_half_of_what_backups_may_take() {
    for (limit, mode, reason) in [
        (20 * MIB, "retain", "share_allows"),
        (18 * MIB, "mixed", "share_too_small"),
        (9 * MIB, "reclaim", "share_too_small"),
    ] {
        let engine = engine(HostMode::Auto, |config| config.host_limit_bytes = Some(limit));
        let bytes = 5 * MIB;
        let blocks = [1, 2].map(|seed| filled(&engine, &host("w", bytes), bytes, seed));
        if limit < 10 * MIB {
            engine.free(blocks[0]).unwrap();
        }
        let report = pause(&engine, "w");
        assert_eq!((report.host_mode, report.host_mode_reason), (mode, reason), "{limit}");
        let retained = engine.stats().host_retained_bytes;
        assert!(retained <= limit / 2, "{retained} of {limit}");
        resume(&engine, "w");
        expect_pattern(&engine, blocks[1], bytes, 2);
    }
}

#[test]
fn a_limit_on_retained_memory_holds_and_is_the_reason() {
    let engine = engine(HostMode::Retain, |config| config.retain_limit_bytes = Some(7 * MIB));
    for seed in 1..=3 {
        filled(&engine, &host("w", 3 * MIB), 3 * MIB, seed);
    }
    for _ in 0..3 {
        let report = pause(&engine, "w");
        assert_eq!((report.host_mode, report.host_mode_reason), ("mixed", "retain_limit"));
        assert_eq!(engine.stats().host_retained_bytes, 6 * MIB);
        assert_eq!(engine.stats().host_backup_bytes, 9 * MIB);
        resume(&engine, "w");
        until("the backups are gone", || engine.stats().host_backup_bytes == 0);
    }
    for (block, seed) in engine.blocks().iter().zip(1..) {
        expect_pattern(&engine, block.address, 3 * MIB, seed);
    }
}

#[test]
fn idle_memory_of_another_size_gives_way_where_the_limit_is_met() {
    let engine = engine(HostMode::Retain, |config| config.retain_limit_bytes = Some(8 * MIB));
    filled(&engine, &host("small", 2 * MIB), 2 * MIB, 1);
    pause(&engine, "small");
    resume(&engine, "small");
    until("the backup is gone", || engine.stats().host_backup_bytes == 0);
    filled(&engine, &host("large", 7 * MIB), 7 * MIB, 2);
    assert_eq!(pause(&engine, "large").host_mode, "retain");
    assert_eq!(engine.stats().host_retained_bytes, 7 * MIB);
}

#[test]
fn regions_and_allocations_say_how_memory_is_held_for_themselves() {
    let engine = engine(HostMode::Reclaim, |_| ());
    let settings = region::Settings::new("w", dormant_engine::Policy::Host);
    {
        let _region = region::enter(settings.with_host_mode(HostMode::Retain));
        filled(&engine, &dormant_engine::Allocation::new(MIB, ZERO), MIB, 1);
        let own = dormant_engine::Allocation::new(MIB, ZERO).host_mode(HostMode::Reclaim);
        filled(&engine, &own, MIB, 2);
    }
    filled(&engine, &host("w", MIB), MIB, 3);
    assert_eq!(pause(&engine, "w").host_mode, "mixed");
    assert_eq!(engine.stats().host_retained_bytes, MIB);
    assert_eq!(resume(&engine, "w").host_mode, "mixed");
}

#[test]
fn a_lease_keeps_its_bytes_while_the_memory_around_it_is_used_again() {
    let engine = engine(HostMode::Retain, |_| ());
    let address = filled(&engine, &host("w", 3 * MIB), 3 * MIB, 1);
    pause(&engine, "w");
    let lease = engine.backup(address).unwrap();
    engine.register_backup(&lease).unwrap();
    resume(&engine, "w");
    let error = engine.backup(address).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongState, "a stale copy is never offered: {error}");
    for seed in 2..5 {
        engine.write(address, &allocator_testkit::pattern(3 * MIB, seed)).unwrap();
        pause(&engine, "w");
        assert_eq!(engine.stats().host_retained_bytes, 6 * MIB);
        assert!(*lease == *allocator_testkit::pattern(3 * MIB, 1));
        let now = engine.backup(address).unwrap();
        assert!(*now == *allocator_testkit::pattern(3 * MIB, seed));
        resume(&engine, "w");
        expect_pattern(&engine, address, 3 * MIB, seed);
    }
    engine.free(address).unwrap();
    assert!(*lease == *allocator_testkit::pattern(3 * MIB, 1));
}

#[test]
fn a_pause_that_fails_retains_nothing_new() {
    let engine = engine_on(device(), HostMode::Retain, |config| config.workers = Some(1));
    filled(&engine, &host("a", 3 * MIB), 3 * MIB, 1);
    pause(&engine, "a");
    resume(&engine, "a");
    let b = filled(&engine, &host("b", 5 * MIB), 5 * MIB, 2);
    engine.driver().fail_nth(Operation::Read, 2, ErrorKind::Unknown);
    let error = engine.pause("b", &PauseOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    assert_eq!(engine.stats().host_retained_bytes, 3 * MIB);
    assert_eq!(engine.stats().host_backup_bytes, 0);
    pause(&engine, "b");
    resume(&engine, "b");
    expect_pattern(&engine, b, 5 * MIB, 2);
}
