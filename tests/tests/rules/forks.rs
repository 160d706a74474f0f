//! Rule 12: a forked child is refused everything, and frees nothing of its parent's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use allocator_core::{Address, ErrorKind, Operation};
use dormant_engine::{
    Allocation, BlockState, Engine, PauseOptions, Policy, ResumeOptions, Selection,
};
use dormant_sim::Sim;

use crate::child::in_its_own_process;
use crate::support::{
    GRANULE, ZERO, all_calls, engine_over, expect_pattern, filled, pause, resume, small, state,
    until,
};

fn host(tag: &str, bytes: u64) -> Allocation {
    Allocation::new(bytes, ZERO).tag(tag).policy(Policy::Host)
}

/// Forks; the child runs `body` and leaves through the ordinary exit handlers. Fails unless it
/// ends in time with code 0.
fn in_a_fork(body: impl FnOnce()) {
    // SAFETY: the child runs `body`, which the test keeps to what a fork of a threaded process may
    // do (glibc keeps its allocator usable), and exits.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        // SAFETY: ends the child with its exit handlers, which is what is asked about.
        unsafe { libc::exit(i32::from(ran.is_err())) }
    }
    assert!(pid > 0, "fork failed");
    let begun = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: `status` is a valid place for the answer; `pid` is our own child.
        let ended = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) };
        if ended == pid {
            break;
        }
        if begun.elapsed() > Duration::from_secs(20) {
            // SAFETY: `pid` is our own child, not waited for yet.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            // SAFETY: as above.
            unsafe { libc::waitpid(pid, &raw mut status, 0) };
            panic!("the forked child hung");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(status, 0, "the forked child failed (wait status {status})");
}

/// In the child: every call is refused, and no driver is called.
fn expect_refusals(sim: &Sim, engine: &Engine<Sim>, address: Address) {
    let before = all_calls(sim);
    let errors = [
        engine.allocate(&Allocation::new(GRANULE, ZERO)).expect_err("allocate"),
        engine.free(address).expect_err("free"),
        engine.pause(Selection::All, &PauseOptions::default()).expect_err("pause"),
        engine.resume(Selection::All, &ResumeOptions::default()).expect_err("resume"),
        engine.read(address, &mut [0; 8]).expect_err("read"),
        engine.write(address, &[0; 8]).expect_err("write"),
        engine.backup(address).expect_err("backup"),
        engine.drop_backup(Selection::All).expect_err("drop_backup"),
        engine.enable_peer_access(ZERO, ZERO).expect_err("enable_peer_access"),
        engine.memory(ZERO).expect_err("memory"),
        engine.devices().expect_err("devices"),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Forked, "{error}");
    }
    assert!(!engine.owns(address) && engine.find(address).is_none());
    assert!(engine.stats().tags.is_empty() && engine.blocks().is_empty());
    engine.trim();
    drop(engine.begin_capture());
    assert_eq!(all_calls(sim), before, "a driver call in a forked child");
}

in_its_own_process! {
    fn rule_12_a_forked_child_is_refused_everything_and_the_parent_keeps_its_blocks() {
        let (sim, engine) = engine_over(small());
        let engine = Arc::new(engine);
        let awake = filled(&engine, &host("awake", GRANULE), GRANULE, 1);
        let asleep = filled(&engine, &host("asleep", GRANULE), GRANULE, 2);
        let buffer = dormant::Buffer::new(&engine, &host("buffer", GRANULE)).unwrap();
        buffer.write(0, &[7; 100]).unwrap();
        pause(&engine, "asleep");
        let (before, parent) = (engine.stats(), all_calls(&sim));
        let buffer = std::cell::Cell::new(Some(buffer));
        in_a_fork(|| {
            expect_refusals(&sim, &engine, awake);
            expect_refusals(&sim, &engine, asleep);
            let before = all_calls(&sim);
            drop(buffer.take());
            assert_eq!(all_calls(&sim), before, "a buffer freed its block in a forked child");
        });
        assert_eq!(all_calls(&sim), parent, "a parent's driver was called");
        assert_eq!(engine.stats(), before);
        expect_pattern(&engine, awake, GRANULE, 1);
        resume(&engine, "asleep");
        expect_pattern(&engine, asleep, GRANULE, 2);
        let buffer = buffer.take().unwrap();
        let mut have = [0; 100];
        buffer.read(0, &mut have).unwrap();
        assert_eq!(have, [7; 100]);
        buffer.free().unwrap();
    }

    /// An asynchronous checkpoint forks whenever it likes, and reads copies.
    fn rule_12_a_fork_during_a_pause_hangs_nobody() {
        let (sim, engine) = engine_over(small().link_bytes_per_second(Some(4 << 20)));
        let bytes = 2 << 20;
        let address = filled(&engine, &host("w", bytes), bytes, 1);
        let other = filled(&engine, &host("asleep", GRANULE), GRANULE, 2);
        pause(&engine, "asleep");
        let copy = engine.backup(other).unwrap().to_vec();
        std::thread::scope(|scope| {
            let reads = sim.calls(Operation::Read);
            let pausing = scope.spawn(|| pause(&engine, "w"));
            until("the pause copies", || sim.calls(Operation::Read) > reads);
            in_a_fork(|| {
                expect_refusals(&sim, &engine, address);
                assert!(copy == allocator_testkit::pattern(GRANULE, 2));
            });
            assert!(!pausing.is_finished(), "the pause was too quick to be forked in");
            pausing.join().unwrap();
        });
        resume(&engine, Selection::All);
        expect_pattern(&engine, address, bytes, 1);
        expect_pattern(&engine, other, GRANULE, 2);
    }

    fn rule_12_a_fork_while_a_pause_waits_for_a_kernel_hangs_nobody() {
        let (sim, engine) = engine_over(small());
        let address = filled(&engine, &host("w", GRANULE), GRANULE, 1);
        let stream = sim.open_user_stream(ZERO, false).unwrap();
        sim.launch(ZERO, stream, Duration::from_secs(1), |_| {}).unwrap();
        std::thread::scope(|scope| {
            let pausing = scope.spawn(|| pause(&engine, "w"));
            until("the pause waits", || sim.calls(Operation::Quiesce) > 0);
            in_a_fork(|| expect_refusals(&sim, &engine, address));
            pausing.join().unwrap();
        });
        assert_eq!(state(&engine, address), Some(BlockState::Paused));
        resume(&engine, "w");
        expect_pattern(&engine, address, GRANULE, 1);
    }

    fn rule_12_a_capture_that_was_going_on_at_the_fork_ends_in_the_child_without_a_call() {
        let (sim, engine) = engine_over(small());
        let address = filled(&engine, &host("w", GRANULE), GRANULE, 1);
        let put_off = filled(&engine, &host("w", GRANULE), GRANULE, 2);
        let capture = std::cell::Cell::new(Some(engine.begin_capture()));
        engine.free(put_off).unwrap();
        in_a_fork(|| {
            let before = all_calls(&sim);
            drop(capture.take());
            assert_eq!(all_calls(&sim), before, "a block was freed in a forked child");
        });
        assert_eq!(engine.stats().deferred_frees, 1);
        drop(capture.take());
        assert_eq!(engine.stats().deferred_frees, 0);
        expect_pattern(&engine, address, GRANULE, 1);
    }
}
