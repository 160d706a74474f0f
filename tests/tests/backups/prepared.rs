//! Memory that is taken ahead of a pause.

use std::time::Duration;

use allocator_core::{ErrorKind, Operation};
use dormant_engine::{
    Allocation, BlockState, HostMode, PauseOptions, Policy, PrepareOptions, ResumeOptions,
    Selection,
};
use dormant_sim::Fault;

use crate::support::{ONE, ZERO, filled, pause, resume, state, until};
use crate::{MIB, device, engine, engine_on, host};

#[test]
fn what_is_prepared_for_one_tag_is_not_prepared_for_the_next_one() {
    let engine = engine(HostMode::Retain, |_| ());
    for tag in ["a", "b"] {
        filled(&engine, &host(tag, 8 * MIB), 8 * MIB, 1);
        let prepared = engine.prepare(tag, &PrepareOptions::default()).unwrap();
        assert_eq!(prepared.bytes, 8 * MIB);
    }
    assert_eq!(engine.stats().host_retained_bytes, 16 * MIB);
    // Once more, or for a tag that is gone, takes nothing new.
    engine.prepare(Selection::All, &PrepareOptions::default()).unwrap();
    pause(&engine, "a");
    pause(&engine, "b");
    assert_eq!(engine.stats().host_retained_bytes, 16 * MIB);
    resume(&engine, Selection::All);
    until("the backups are gone", || engine.stats().host_backup_bytes == 0);
    engine.blocks().iter().for_each(|block| engine.free(block.address).unwrap());
    assert_eq!(engine.trim(), 16 * MIB);
}

#[test]
fn what_is_prepared_gives_way_to_a_pause_that_finds_no_other_memory_and_to_trim() {
    let engine = engine(HostMode::Retain, |config| config.host_limit_bytes = Some(12 * MIB));
    filled(&engine, &host("a", 8 * MIB), 8 * MIB, 1);
    filled(&engine, &host("b", 10 * MIB), 10 * MIB, 1);
    engine.prepare("a", &PrepareOptions::default()).unwrap();
    pause(&engine, "b");
    assert_eq!(engine.stats().host_retained_bytes, 10 * MIB);
    resume(&engine, "b");
    engine.prepare("a", &PrepareOptions::default()).unwrap();
    assert!(engine.trim() > 0);
    assert_eq!(engine.stats().host_retained_bytes, 0);
}

#[test]
fn a_pause_that_is_refused_leaves_what_was_prepared_for_others() {
    let engine = engine(HostMode::Retain, |config| config.host_limit_bytes = Some(12 * MIB));
    filled(&engine, &host("a", 8 * MIB), 8 * MIB, 1);
    filled(&engine, &host("b", 100 * MIB), 100 * MIB, 1);
    engine.prepare("a", &PrepareOptions::default()).unwrap();
    let error = engine.pause("b", &PauseOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::HostMemory, "{error}");
    assert_eq!(engine.stats().host_retained_bytes, 8 * MIB);
}

#[test]
fn a_refused_first_detach_takes_back_what_was_taken_for_the_pause() {
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(HostMode::Retain, |config| {
        config.disk_directory = Some(directory.path().to_owned());
    });
    let disk = Allocation::new(8 * MIB, ZERO).tag("w").policy(Policy::Disk);
    let blocks = [host("w", 8 * MIB), disk].map(|block| filled(&engine, &block, 8 * MIB, 1));
    engine.driver().fail_nth(Operation::Unmap, 1, ErrorKind::Unknown);
    let error = engine.pause("w", &PauseOptions::default()).unwrap_err();
    assert!(error.report().is_none(), "{error}");
    let stats = engine.stats();
    assert_eq!((stats.host_retained_bytes, stats.disk_file_bytes), (0, 0));
    assert!(blocks.iter().all(|block| state(&engine, *block) == Some(BlockState::Active)));
}

#[test]
fn a_refused_pause_leaves_disk_space_that_is_kept_for_others() {
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(HostMode::Reclaim, |config| {
        config.disk_directory = Some(directory.path().to_owned());
    });
    let disk = Allocation::new(8 * MIB, ZERO).tag("d").policy(Policy::Disk);
    filled(&engine, &disk, 8 * MIB, 1);
    filled(&engine, &host("h", MIB), MIB, 1);
    pause(&engine, "d");
    resume(&engine, "d");
    until("the backup is gone", || engine.stats().disk_backup_bytes == 0);
    let capture = engine.begin_capture();
    engine.pause("h", &PauseOptions::default()).unwrap_err();
    drop(capture);
    assert_eq!(engine.stats().disk_file_bytes, 8 * MIB);
}

#[test]
fn preparing_straight_after_a_resume_takes_nothing_new() {
    let engine = engine(HostMode::Retain, |config| config.workers = Some(1));
    for _ in 0..1000 {
        engine.allocate(&host("w", 1)).unwrap();
    }
    pause(&engine, "w");
    let retained = engine.stats().host_retained_bytes;
    for _ in 0..5 {
        engine.resume("w", &ResumeOptions::default()).unwrap();
        let plan = engine.plan("w", &PauseOptions::default()).unwrap();
        assert_eq!(plan.host_wanted_bytes, 0);
        engine.prepare("w", &PrepareOptions::default()).unwrap();
        pause(&engine, "w");
        assert_eq!(engine.stats().host_retained_bytes, retained);
    }
}

#[test]
fn a_plan_finds_the_places_that_the_pause_will_find() {
    let engine = engine(HostMode::Retain, |config| config.host_limit_bytes = Some(12 * MIB));
    filled(&engine, &host("a", 4 * MIB), 4 * MIB, 1);
    filled(&engine, &host("b", 8 * MIB), 8 * MIB, 1);
    pause(&engine, "b");
    pause(&engine, "a");
    resume(&engine, Selection::All);
    let plan = engine.plan(Selection::All, &PauseOptions::default()).unwrap();
    assert_eq!((plan.host_wanted_bytes, plan.host_short_bytes), (0, 0), "{plan:?}");
    pause(&engine, "a");
    pause(&engine, "b");
    assert_eq!(engine.stats().host_retained_bytes, 12 * MIB);
}

#[test]
fn a_second_preparation_in_the_background_is_done_too() {
    let slow = device().latency(Some(Duration::from_millis(50)));
    let engine = engine_on(slow, HostMode::Retain, |config| config.workers = Some(1));
    for (tag, device) in [("a", ZERO), ("b", ONE)] {
        let block = Allocation::new(8 * MIB, device).tag(tag).policy(Policy::Host);
        engine.allocate(&block).unwrap();
    }
    let background = PrepareOptions::default().background(true);
    engine.prepare("a", &background).unwrap();
    engine.prepare("b", &background).unwrap();
    assert_eq!(engine.stats().host_retained_bytes, 16 * MIB);
    // A lane of 8 MiB on each device beside them.
    until("both are registered", || engine.driver().registered_bytes() == 32 * MIB);
}

#[test]
fn memory_that_is_just_being_registered_gives_way_as_the_plan_says() {
    let slow = device().latency(Some(Duration::from_millis(100)));
    let engine = engine_on(slow, HostMode::Retain, |config| {
        config.workers = Some(1);
        config.host_limit_bytes = Some(12 * MIB);
    });
    engine.allocate(&host("a", 8 * MIB)).unwrap();
    engine.allocate(&host("b", 10 * MIB).host_mode(HostMode::Reclaim)).unwrap();
    engine.prepare("a", &PrepareOptions::default().background(true)).unwrap();
    engine.trim();
    engine.prepare("a", &PrepareOptions::default().background(true)).unwrap();
    engine.pause("b", &PauseOptions::default()).unwrap();
}

#[test]
fn a_refused_registration_is_tried_again_after_a_trim() {
    let engine = engine_on(device(), HostMode::Retain, |_| ());
    filled(&engine, &host("w", 8 * MIB), 8 * MIB, 1);
    engine.trim();
    // Those of the lanes and of the memory.
    engine.driver().fail_from(Operation::RegisterHost, ErrorKind::HostMemory);
    assert!(!engine.prepare("w", &PrepareOptions::default()).unwrap().registered);
    engine.driver().clear_failures();
    assert!(!engine.prepare("w", &PrepareOptions::default()).unwrap().registered);
    engine.trim();
    assert!(engine.prepare("w", &PrepareOptions::default()).unwrap().registered);
}

crate::child::in_its_own_process! {
    fn memory_that_nobody_has_touched_is_not_free() {
        let refusing = device().capacity_bytes(1024 * MIB).fault(Fault::RefuseHostRegistration);
        let engine = engine_on(refusing, HostMode::Retain, |_| ());
        for (tag, bytes) in [("probe", MIB), ("a", 512 * MIB), ("b", 256 * MIB)] {
            engine.allocate(&host(tag, bytes)).unwrap();
        }
        engine.prepare("probe", &PrepareOptions::default()).unwrap();
        let reclaim = PauseOptions::default().host_mode(HostMode::Reclaim);
        let allowed = || engine.plan("b", &reclaim).unwrap().host_allowed_bytes;
        let grown = |background| {
            let before = allowed();
            engine.prepare("a", &PrepareOptions::default().background(background)).unwrap();
            assert!(engine.stats().host_retained_bytes >= 512 * MIB);
            let grown = allowed().saturating_sub(before) / MIB;
            engine.trim();
            grown
        };
        for background in [false, true] {
            // Retained memory can give way, so that nothing should have changed; but other processes
            // give memory back just now.
            let least = (0..5).map(|_| grown(background)).min().unwrap();
            assert!(least < 200, "retaining 512 MiB has made {least} MiB more allowed each time");
        }
    }
}
