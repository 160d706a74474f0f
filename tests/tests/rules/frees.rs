//! Rule 5: ownership is by address, and a free never waits for a transition.

use std::time::{Duration, Instant};

use allocator_core::{ErrorKind, Operation};
use dormant_engine::{Address, Allocation, BlockState, Engine, PauseOptions, Policy};
use dormant_sim::Sim;

use crate::support::{
    CAPACITY, ZERO, engine_over, expect_pattern, filled, free_bytes, pause, resume, small, state,
    until,
};

const BLOCK: u64 = 1 << 20;

/// Four blocks whose copies take about a second together.
fn slow() -> (std::sync::Arc<Sim>, Engine<Sim>, Vec<Address>) {
    let (sim, engine) = engine_over(small().link_bytes_per_second(Some(4 << 20)));
    let allocation = Allocation::new(BLOCK, ZERO).tag("w").policy(Policy::Host);
    let blocks = (1..=4).map(|seed| filled(&engine, &allocation, BLOCK, seed)).collect::<Vec<_>>();
    (sim, engine, blocks)
}

/// Frees a block that a transition is at; says that this was at once.
fn free_at_once(engine: &Engine<Sim>, address: Address) {
    let begun = Instant::now();
    engine.free(address).expect("free");
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(250), "a free waited: {took:?}");
    assert!(!engine.owns(address) && engine.find(address).is_none(), "gone for its owner");
    let again = engine.free(address).expect_err("freed already");
    assert_eq!(again.kind(), ErrorKind::NotFound, "{again}");
}

#[test]
fn rule_5_a_free_during_a_pause_returns_at_once_and_the_block_goes_with_the_pause() {
    let (sim, engine, blocks) = slow();
    std::thread::scope(|scope| {
        let pausing = scope.spawn(|| pause(&engine, "w"));
        until("the pause copies", || sim.calls(Operation::Read) > 0);
        free_at_once(&engine, blocks[1]);
        assert!(!pausing.is_finished(), "the pause was too quick to be in the way");
        assert_eq!(state(&engine, blocks[0]), Some(BlockState::Moving));
        pausing.join().unwrap();
    });
    assert_eq!(free_bytes(&sim, ZERO), CAPACITY);
    assert_eq!(sim.machine().counts().ranges, 3, "its addresses are free too");
    assert_eq!(resume(&engine, "w").moved().blocks, 3);
    for (index, seed) in [(0, 1), (2, 3), (3, 4)] {
        expect_pattern(&engine, blocks[index], BLOCK, seed);
    }
    assert_eq!(engine.stats().failed_frees, 0);
}

#[test]
fn rule_5_a_block_freed_during_a_pause_that_fails_goes_all_the_same() {
    let (sim, engine, blocks) = slow();
    std::thread::scope(|scope| {
        let pausing = scope.spawn(|| engine.pause("w", &PauseOptions::default()));
        until("the pause copies", || sim.calls(Operation::Read) > 0);
        free_at_once(&engine, blocks[1]);
        // The first detach: the last call that can still undo the pause.
        sim.fail_nth(Operation::Unmap, 1, ErrorKind::Unknown);
        let error = pausing.join().unwrap().unwrap_err();
        assert_eq!(error.cause().operation(), Operation::Unmap, "{error}");
    });
    assert_eq!(free_bytes(&sim, ZERO), CAPACITY - 3 * BLOCK);
    assert_eq!(sim.machine().counts().ranges, 3);
    for (index, seed) in [(0, 1), (2, 3), (3, 4)] {
        assert_eq!(state(&engine, blocks[index]), Some(BlockState::Active));
        expect_pattern(&engine, blocks[index], BLOCK, seed);
    }
    assert_eq!(engine.stats().failed_frees, 0);
}

#[test]
fn rule_5_a_free_during_a_resume_returns_at_once_and_the_block_goes_with_the_resume() {
    let (sim, engine, blocks) = slow();
    pause(&engine, "w");
    let written = sim.calls(Operation::Write);
    std::thread::scope(|scope| {
        let resuming = scope.spawn(|| resume(&engine, "w"));
        until("the resume copies", || sim.calls(Operation::Write) > written);
        free_at_once(&engine, blocks[1]);
        assert!(!resuming.is_finished(), "the resume was too quick to be in the way");
        resuming.join().unwrap();
    });
    assert_eq!(free_bytes(&sim, ZERO), CAPACITY - 3 * BLOCK);
    assert_eq!(sim.machine().counts().ranges, 3);
    for (index, seed) in [(0, 1), (2, 3), (3, 4)] {
        expect_pattern(&engine, blocks[index], BLOCK, seed);
    }
}

#[test]
fn rule_5_a_block_freed_during_a_resume_that_fails_goes_all_the_same() {
    let (sim, engine, blocks) = slow();
    pause(&engine, "w");
    let written = sim.calls(Operation::Write);
    // The third block's copy: queued when the first one has ended.
    sim.fail_nth(Operation::Write, 4, ErrorKind::Unknown);
    std::thread::scope(|scope| {
        let resuming = scope.spawn(|| engine.resume("w", &Default::default()));
        until("the resume copies", || sim.calls(Operation::Write) > written);
        free_at_once(&engine, blocks[1]);
        resuming.join().unwrap().unwrap_err();
    });
    assert_eq!(free_bytes(&sim, ZERO), CAPACITY);
    assert_eq!(sim.machine().counts().ranges, 3);
    resume(&engine, "w");
    for (index, seed) in [(0, 1), (2, 3), (3, 4)] {
        expect_pattern(&engine, blocks[index], BLOCK, seed);
    }
}
