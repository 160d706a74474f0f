//! Rule 3: one transition at a time; a second waits up to its timeout, then it is `Busy`.

use std::time::{Duration, Instant};

use allocator_core::{ErrorKind, Operation};
use dormant_engine::{Allocation, BlockState, PauseOptions, Policy, ResumeOptions};

use crate::support::{
    CAPACITY, GRANULE, ONE, ZERO, engine_over, expect_pattern, filled, free_bytes, resume, small,
    state, until,
};

#[test]
fn rule_3_a_second_transition_is_busy_at_its_timeout_and_changes_nothing() {
    let (sim, engine) = engine_over(small().link_bytes_per_second(Some(4 << 20)));
    let host = |tag| Allocation::new(4 << 20, ZERO).tag(tag).policy(Policy::Host);
    let slow = engine.allocate(&host("slow")).unwrap();
    let other = filled(&engine, &Allocation::new(GRANULE, ONE).tag("other"), GRANULE, 1);
    std::thread::scope(|scope| {
        let pausing = scope.spawn(|| engine.pause("slow", &PauseOptions::default()));
        until("the slow pause copies", || sim.calls(Operation::Read) > 0);
        let soon = Duration::from_millis(20);
        let before = (engine.stats().tags, free_bytes(&sim, ONE));
        let error = engine.pause("other", &PauseOptions::default().timeout(soon)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert!(error.to_string().contains("`other`"), "{error}");
        let error = engine.resume("other", &ResumeOptions::default().timeout(soon)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        let after = (engine.stats().tags, free_bytes(&sim, ONE));
        assert!(!pausing.is_finished(), "the pause was too quick to be in the way");
        assert_eq!(after, before);
        // A patient one gets its turn.
        engine.pause("other", &PauseOptions::default()).unwrap();
        assert!(pausing.join().unwrap().unwrap().phases.copy > Duration::from_millis(200));
    });
    assert_eq!(state(&engine, slow), Some(BlockState::Paused));
    assert_eq!(state(&engine, other), Some(BlockState::Paused));
    assert_eq!((free_bytes(&sim, ZERO), free_bytes(&sim, ONE)), (CAPACITY, CAPACITY));
}

#[test]
fn rule_3_a_pause_keeps_to_its_timeout_although_a_block_was_freed_meanwhile() {
    let (sim, engine) = engine_over(small());
    let kept = filled(&engine, &Allocation::new(GRANULE, ZERO).tag("w"), GRANULE, 1);
    let freed = filled(&engine, &Allocation::new(GRANULE, ZERO).tag("w"), GRANULE, 2);
    let stream = sim.open_user_stream(ZERO, false).unwrap();
    sim.launch(ZERO, stream, Duration::from_secs(4), |_| {}).unwrap();
    std::thread::scope(|scope| {
        let pausing = scope.spawn(|| {
            let begun = Instant::now();
            let options = PauseOptions::default().timeout(Duration::from_millis(300));
            (engine.pause("w", &options), begun.elapsed())
        });
        until("the pause waits for the kernel", || {
            state(&engine, freed) == Some(BlockState::Moving)
        });
        engine.free(freed).unwrap();
        let (result, took) = pausing.join().unwrap();
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Busy);
        assert!(took < Duration::from_secs(3), "it waited for the kernel: {took:?}");
    });
    assert!(!engine.owns(freed) && engine.owns(kept));
    // The memory comes back with the next call that finds the device at rest.
    sim.synchronize(ZERO, stream).unwrap();
    until("the freed block's memory is back", || {
        resume(&engine, "nobody");
        free_bytes(&sim, ZERO) == CAPACITY - GRANULE
    });
    let stats = engine.stats();
    assert_eq!((stats.deferred_frees, stats.failed_frees), (0, 0));
    expect_pattern(&engine, kept, GRANULE, 1);
}
