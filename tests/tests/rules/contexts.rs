//! What the engine leaves alone: contexts, the current device, work in flight.

use std::sync::Arc;
use std::time::Duration;

use allocator_core::Address;
use dormant_engine::{Allocation, Config, Device, Engine, PauseOptions, Policy, Selection};
use dormant_sim::Sim;

use crate::support::{
    CAPACITY, GRANULE, ONE, ZERO, engine_over, expect_pattern, filled, free_bytes, pause, resume,
    small,
};

#[test]
fn no_context_and_no_call_before_the_first_allocation() {
    let sim = Arc::new(Sim::new(small().devices(8)).unwrap());
    sim.record_calls(true);
    let engine = Engine::new(Arc::clone(&sim), Config::default());
    assert!(engine.find(Address(64)).is_none() && !engine.owns(Address(64)));
    assert!(engine.stats().tags.is_empty() && engine.blocks().is_empty());
    pause(&engine, Selection::All);
    pause(&engine, "w");
    resume(&engine, Selection::All);
    engine.drop_backup(Selection::All).unwrap();
    engine.backup(Address(64)).unwrap_err();
    engine.read(Address(64), &mut [0]).unwrap_err();
    engine.free(Address(64)).unwrap_err();
    drop(engine.begin_capture());
    engine.trim();
    assert_eq!(sim.call_log(), [], "driver calls before the first allocation");
    assert_eq!((sim.contexts(), sim.contexts_made()), (0, 0));
}

#[test]
fn blocks_on_one_of_eight_devices_make_one_context() {
    let sim = Arc::new(Sim::new(small().devices(8)).unwrap());
    let engine = Engine::new(Arc::clone(&sim), Config::default());
    let fifth = Device(5);
    for policy in [Policy::Host, Policy::Zero, Policy::Discard] {
        let allocation = Allocation::new(GRANULE, fifth).tag("w").policy(policy);
        filled(&engine, &allocation, GRANULE, 1);
    }
    pause(&engine, Selection::All);
    resume(&engine, Selection::All);
    pause(&engine, "w");
    for block in engine.blocks() {
        engine.free(block.address).unwrap();
    }
    engine.trim();
    assert_eq!((sim.contexts(), sim.contexts_made()), (1, 1));
    assert!(sim.machine().has_context(fifth.0));
}

#[test]
fn no_call_of_the_engine_moves_the_current_device_of_its_thread() {
    let (sim, engine) = engine_over(small());
    for current in [None, Some(ONE), Some(ZERO)] {
        sim.set_current_device(current).unwrap();
        let mut step = 0;
        let mut same = |what: &str| {
            step += 1;
            assert_eq!(sim.current_device(), current, "{what} moved it (step {step})");
        };
        let host = Allocation::new(GRANULE, ZERO).tag("w").policy(Policy::Host);
        let zero = Allocation::new(GRANULE, ONE).tag("w").policy(Policy::Zero);
        let (a, b) = (engine.allocate(&host).unwrap(), engine.allocate(&zero).unwrap());
        same("allocate");
        engine.write(a, &[1; 64]).unwrap();
        engine.read(b, &mut [0; 64]).unwrap();
        same("write or read");
        pause(&engine, "w");
        same("pause");
        engine.free(a).unwrap();
        same("free of a paused block");
        resume(&engine, "w");
        same("resume");
        engine.allocate(&Allocation::new(CAPACITY + 1, ONE)).unwrap_err();
        same("a failed allocation");
        engine.enable_peer_access(ONE, ZERO).unwrap();
        same("enable_peer_access");
        engine.memory(ONE).unwrap();
        engine.devices().unwrap();
        same("memory or devices");
        engine.free(b).unwrap();
        same("free of an active block");
        engine.trim();
        same("trim");
    }
}

#[test]
fn f9_a_stream_that_is_busy_with_a_block_finishes_before_the_block_is_saved() {
    let (sim, engine) = engine_over(small());
    let bytes = 4 * GRANULE;
    let allocation = Allocation::new(bytes, ZERO).tag("w").policy(Policy::Host);
    let address = filled(&engine, &allocation, bytes, 1);
    let stream = sim.open_user_stream(ZERO, false).unwrap();
    let busy = Duration::from_millis(500);
    sim.launch_fill(ZERO, stream, busy, address, 0xEE, bytes).unwrap();
    let report = pause(&engine, "w");
    assert!(report.phases.quiesce > Duration::from_millis(300), "{report:?}");
    sim.synchronize(ZERO, stream).expect("the work was not disturbed");
    resume(&engine, "w");
    assert_eq!(sim.peek(address, 4 * 65536).unwrap(), vec![0xEE; 4 * 65536]);
}

#[test]
fn f9_a_free_waits_for_a_stream_that_is_busy_with_its_block() {
    let (sim, engine) = engine_over(small());
    let address = filled(&engine, &Allocation::new(GRANULE, ZERO), GRANULE, 1);
    let stream = sim.open_user_stream(ZERO, false).unwrap();
    let busy = Duration::from_millis(300);
    sim.launch_fill(ZERO, stream, busy, address, 0xEE, GRANULE).unwrap();
    engine.free(address).unwrap();
    sim.synchronize(ZERO, stream).expect("the work was not disturbed");
}

#[test]
fn f10_one_tag_on_two_devices_sleeps_and_wakes_whichever_device_is_current() {
    let (sim, engine) = engine_over(small());
    let bytes = 5 * GRANULE - 3;
    let host = |device| Allocation::new(bytes, device).tag("w").policy(Policy::Host);
    let blocks =
        [(filled(&engine, &host(ZERO), bytes, 1), 1), (filled(&engine, &host(ONE), bytes, 2), 2)];
    let free = || (free_bytes(&sim, ZERO), free_bytes(&sim, ONE));
    let less = CAPACITY - 5 * GRANULE;
    for (pausing, resuming) in [(ONE, ZERO), (ZERO, ONE)] {
        assert_eq!(free(), (less, less));
        sim.set_current_device(Some(pausing)).unwrap();
        let report = engine.pause("w", &PauseOptions::default()).unwrap();
        assert_eq!(sim.current_device(), Some(pausing));
        assert!(report.devices.iter().all(|device| !device.freed_nothing()), "{report:?}");
        assert_eq!(free(), (CAPACITY, CAPACITY));
        sim.set_current_device(Some(resuming)).unwrap();
        resume(&engine, "w");
        assert_eq!(sim.current_device(), Some(resuming));
        for (address, seed) in blocks {
            expect_pattern(&engine, address, bytes, seed);
        }
    }
}
