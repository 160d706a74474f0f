//! What backups may take, and what a plan says of it.

use allocator_core::{ErrorKind, Operation};
use dormant_engine::{BlockState, HostMode, PauseOptions, Plan, Policy, PrepareOptions};

use crate::support::{expect_pattern, filled, pause, resume, state, until};
use crate::{MIB, engine, host};

#[test]
fn a_pause_over_the_budget_is_refused_before_anything_is_touched() {
    for mode in [HostMode::Reclaim, HostMode::Retain, HostMode::Auto] {
        let engine = engine(mode, |config| config.host_limit_bytes = Some(10 * MIB));
        let blocks = [1, 2].map(|seed| filled(&engine, &host("w", 10 * MIB), 10 * MIB, seed));
        let sim = engine.driver();
        let calls = [Operation::Quiesce, Operation::Read].map(|call| sim.calls(call));
        let plan = engine.plan("w", &PauseOptions::default()).unwrap();
        let error = engine.pause("w", &PauseOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::HostMemory, "{error}");
        assert_eq!(error.cause().bytes(), Some(20 * MIB), "{error}");
        assert!(error.to_string().contains(&(10 * MIB).to_string()), "{error}");
        assert_eq!(calls, [Operation::Quiesce, Operation::Read].map(|call| sim.calls(call)));
        assert_eq!(plan.host_short_bytes, 10 * MIB, "{plan:?}");
        let prepared = engine.prepare("w", &PrepareOptions::default());
        assert_eq!(prepared.unwrap_err().kind(), ErrorKind::HostMemory);
        let stats = engine.stats();
        assert_eq!((stats.host_backup_bytes, stats.host_retained_bytes), (0, 0));
        for (address, seed) in blocks.iter().zip([1, 2]) {
            assert_eq!(state(&engine, *address), Some(BlockState::Active));
            expect_pattern(&engine, *address, 10 * MIB, seed);
        }
        // One of them fits.
        engine.free(blocks[0]).unwrap();
        assert_eq!(engine.plan("w", &PauseOptions::default()).unwrap().host_short_bytes, 0);
        pause(&engine, "w");
        resume(&engine, "w");
        expect_pattern(&engine, blocks[1], 10 * MIB, 2);
    }
}

#[test]
fn a_plan_says_what_the_pause_then_does() {
    let engine = engine(HostMode::Retain, |config| config.host_limit_bytes = Some(64 * MIB));
    filled(&engine, &host("w", 3 * MIB - 1), 3 * MIB - 1, 1);
    filled(&engine, &host("w", 2 * MIB).policy(Policy::Discard), 2 * MIB, 1);
    filled(&engine, &host("v", MIB).policy(Policy::Disk), MIB, 1);
    let plan = |tag: &str| engine.plan(tag, &PauseOptions::default()).unwrap();
    let all = engine.plan(dormant_engine::Selection::All, &PauseOptions::default()).unwrap();
    assert_eq!((all.freed.blocks, all.freed.bytes), (3, 6 * MIB));
    assert_eq!((all.host.blocks, all.host.bytes), (1, 3 * MIB - 1));
    assert_eq!((all.disk.blocks, all.disk.bytes), (1, MIB));
    assert_eq!((all.host_wanted_bytes, all.host_allowed_bytes), (3 * MIB, 64 * MIB));
    let report = pause(&engine, "w");
    assert_eq!(report.moved().bytes, 5 * MIB);
    assert_eq!(plan("w"), Plan { host_allowed_bytes: 61 * MIB, ..Plan::default() });
    resume(&engine, "w");
    until("the backup is gone", || engine.stats().host_backup_bytes == 0);
    // Retained memory is there already.
    assert_eq!((plan("w").host_wanted_bytes, plan("w").host_short_bytes), (0, 0));
    let discard = PauseOptions::default().policy(Policy::Discard);
    assert_eq!(engine.plan("w", &discard).unwrap().host.blocks, 0);
    assert_eq!(plan("unknown").freed.blocks, 0);
}

#[test]
fn retained_memory_that_is_idle_gives_way_to_backups() {
    let engine = engine(HostMode::Retain, |config| config.host_limit_bytes = Some(12 * MIB));
    let first = filled(&engine, &host("a", 8 * MIB), 8 * MIB, 1);
    pause(&engine, "a");
    resume(&engine, "a");
    until("the backup is gone", || engine.stats().host_backup_bytes == 0);
    let allocation = host("b", 10 * MIB).host_mode(HostMode::Reclaim);
    let second = filled(&engine, &allocation, 10 * MIB, 2);
    assert_eq!(engine.plan("b", &PauseOptions::default()).unwrap().host_short_bytes, 0);
    pause(&engine, "b");
    assert_eq!(engine.stats().host_retained_bytes, 0);
    resume(&engine, "b");
    expect_pattern(&engine, first, 8 * MIB, 1);
    expect_pattern(&engine, second, 10 * MIB, 2);
}

crate::child::in_its_own_process! {
    fn a_system_that_maps_no_more_memory_refuses_the_pause_and_nothing_is_changed() {
        for mode in [HostMode::Reclaim, HostMode::Retain] {
            let engine = engine(mode, |config| config.workers = Some(1));
            let block = filled(&engine, &host("w", 64 * MIB), 64 * MIB, 1);
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            let pages: u64 = statm.split(' ').next().unwrap().parse().unwrap();
            let limit = |bytes| libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
            let little = limit(pages * 4096 + 16 * MIB);
            // SAFETY: `little` is a valid limit; this process runs this one test.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const little) }, 0);
            let error = engine.pause("w", &PauseOptions::default()).unwrap_err();
            let all = limit(libc::RLIM_INFINITY);
            // SAFETY: as above.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const all) }, 0);
            assert_eq!(error.kind(), ErrorKind::HostMemory, "{error}");
            assert_eq!(state(&engine, block), Some(BlockState::Active));
            let stats = engine.stats();
            assert_eq!((stats.host_backup_bytes, stats.host_retained_bytes), (0, 0));
            pause(&engine, "w");
            resume(&engine, "w");
            expect_pattern(&engine, block, 64 * MIB, 1);
        }
    }
}
