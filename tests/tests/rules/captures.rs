//! Stream captures: known ones refuse pauses and put frees off; none is broken by a resume.

use std::time::Duration;

use allocator_core::{ErrorKind, RawStream};
use dormant_engine::{Allocation, BlockState, Engine, PauseOptions, Policy};
use dormant_sim::Sim;

use crate::support::{
    CAPACITY, GRANULE, ONE, ZERO, engine_over, expect_pattern, filled, free_bytes, pause, read,
    resume, small, state,
};

fn capturing(sim: &Sim) -> RawStream {
    let stream = sim.open_user_stream(ZERO, true).expect("stream");
    sim.begin_capture(stream).expect("capture");
    sim.launch(ZERO, stream, Duration::ZERO, |_| {}).expect("launch");
    stream
}

fn host(tag: &str) -> Allocation {
    Allocation::new(GRANULE, ZERO).tag(tag).policy(Policy::Host)
}

fn two(engine: &Engine<Sim>) -> (dormant_engine::Address, dormant_engine::Address) {
    (filled(engine, &host("awake"), GRANULE, 1), filled(engine, &host("asleep"), GRANULE, 2))
}

#[test]
fn a_pause_during_a_known_capture_is_refused_and_the_capture_stays_good() {
    let (sim, engine) = engine_over(small());
    let (awake, _) = two(&engine);
    let stream = capturing(&sim);
    {
        let _capture = engine.begin_capture();
        let soon = PauseOptions::default().timeout(Duration::from_millis(10));
        for tag in ["awake", "asleep"] {
            let error = engine.pause(tag, &soon).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        }
        engine.free(awake).expect("put off");
        assert_eq!(free_bytes(&sim, ZERO), CAPACITY - 2 * GRANULE);
        assert_eq!(sim.end_capture(stream).expect("not broken").len(), 1);
    }
    assert_eq!(free_bytes(&sim, ZERO), CAPACITY - GRANULE, "freed at the capture's end");
    pause(&engine, "asleep");
}

#[test]
fn a_pause_of_nothing_is_no_matter_for_a_capture() {
    let (sim, engine) = engine_over(small());
    let stream = capturing(&sim);
    let _capture = engine.begin_capture();
    pause(&engine, "nobody");
    sim.end_capture(stream).expect("not broken");
}

#[test]
fn a_resume_and_an_allocation_during_a_capture_in_global_mode_keep_it_good() {
    let (sim, engine) = engine_over(small());
    let (_, asleep) = two(&engine);
    let zeroed = filled(&engine, &Allocation::new(GRANULE, ZERO).tag("z"), GRANULE, 3);
    pause(&engine, "asleep");
    engine.pause("z", &PauseOptions::default().policy(Policy::Zero)).unwrap();
    engine.trim();
    let stream = capturing(&sim);
    resume(&engine, "asleep");
    resume(&engine, "z");
    let new = engine.allocate(&Allocation::new(GRANULE, ONE).policy(Policy::Zero)).unwrap();
    let here = engine.allocate(&Allocation::new(GRANULE, ZERO).policy(Policy::Zero)).unwrap();
    assert_eq!(sim.end_capture(stream).expect("the resume broke it").len(), 1);
    expect_pattern(&engine, asleep, GRANULE, 2);
    for address in [zeroed, new, here] {
        assert!(read(&engine, address, GRANULE).iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_free_of_a_sleeping_block_during_a_capture_happens_at_once_and_keeps_it_good() {
    let (sim, engine) = engine_over(small());
    let (_, asleep) = two(&engine);
    pause(&engine, "asleep");
    let ranges = sim.machine().counts().ranges;
    let stream = capturing(&sim);
    let _capture = engine.begin_capture();
    engine.free(asleep).unwrap();
    assert_eq!(sim.machine().counts().ranges, ranges - 1);
    sim.end_capture(stream).expect("not broken");
}

#[test]
fn a_graph_replays_at_the_same_addresses_after_a_pause_and_a_resume() {
    let (sim, engine) = engine_over(small());
    let (_, block) = two(&engine);
    let stream = sim.open_user_stream(ZERO, false).unwrap();
    sim.begin_capture(stream).unwrap();
    sim.launch_fill(ZERO, stream, Duration::ZERO, block, 0x66, GRANULE).unwrap();
    let graph = sim.end_capture(stream).unwrap();
    pause(&engine, "asleep");
    assert_eq!(state(&engine, block), Some(BlockState::Paused));
    resume(&engine, "asleep");
    expect_pattern(&engine, block, GRANULE, 2);
    // SAFETY: what was captured has no host bytes.
    unsafe { sim.launch_graph(stream, &graph) }.unwrap();
    sim.synchronize(ZERO, stream).unwrap();
    assert!(read(&engine, block, GRANULE).iter().all(|byte| *byte == 0x66));
}
