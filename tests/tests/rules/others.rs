//! Rule 9: what has nothing to do with a pause is not held up by it.

use std::time::{Duration, Instant};

use allocator_core::{Address, Operation};
use dormant_engine::{Allocation, Device, Engine, Policy};
use dormant_sim::Sim;

use crate::support::{GRANULE, ONE, ZERO, engine_over, filled, pause, small, steady, until};

const SPEED: u64 = 32 << 20;
const BYTES: u64 = 32 << 20;

/// What the slowest but one in a hundred took.
fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * 99 / 100]
}

/// Allocates and frees once, and says how long each took.
fn pair(engine: &Engine<Sim>, device: Device) -> (Duration, Duration) {
    let begun = Instant::now();
    let address = engine.allocate(&Allocation::new(GRANULE, device).tag("mine")).expect("room");
    let allocated = begun.elapsed();
    engine.free(address).expect("free");
    (allocated, begun.elapsed() - allocated)
}

#[test]
fn rule_9_other_tags_are_allocated_and_freed_as_quickly_during_a_pause() {
    let config = small().capacity_bytes(48 << 20).link_bytes_per_second(Some(SPEED));
    let (sim, engine) = engine_over(config);
    let big = Allocation::new(BYTES, ZERO).tag("slow").policy(Policy::Host);
    engine.allocate(&big).unwrap();
    let asleep = filled(&engine, &Allocation::new(GRANULE, ZERO).tag("asleep"), GRANULE, 1);
    pause(&engine, "asleep");
    let idle: Vec<_> = (0..200).map(|_| pair(&engine, ONE)).collect();
    let idle = p99(idle.iter().map(|(allocated, freed)| *allocated + *freed).collect());

    let (mut elsewhere, mut here, mut busy_frees) = (Vec::new(), Vec::new(), Vec::new());
    let took = std::thread::scope(|scope| {
        let pausing = scope.spawn(|| pause(&engine, "slow"));
        until("the pause copies", || sim.calls(Operation::Read) > 0);
        let begun = Instant::now();
        engine.free(asleep).unwrap();
        assert!(!engine.owns(Address(64)));
        here.push(begun.elapsed());
        while !pausing.is_finished() {
            let (allocated, freed) = pair(&engine, ONE);
            elsewhere.push(allocated + freed);
            // On the device itself: a free waits for the copies that are queued, not for the pause.
            if elsewhere.len() % 20 == 0 {
                let (allocated, freed) = pair(&engine, ZERO);
                here.push(allocated);
                busy_frees.push(freed);
            }
        }
        pausing.join().unwrap().phases.copy
    });
    assert!(
        took > Duration::from_millis(700),
        "the pause was too quick to be in the way: {took:?}"
    );
    assert!(elsewhere.len() > 20, "only {} were made in {took:?}", elsewhere.len());
    let (during, same) = (p99(elsewhere), p99(here));
    let slack = Duration::from_millis(100);
    assert!(during < idle + slack, "another device: {idle:?} idle, {during:?} during a pause");
    assert!(same < idle + slack, "the same device: {idle:?} idle, {same:?} during a pause");
    let slowest = busy_frees.iter().max().copied().unwrap_or_default();
    assert!(slowest < took / 2, "a free took {slowest:?} of a pause's {took:?}");
}

#[test]
fn rule_9_a_pause_of_nothing_waits_for_no_work_and_no_device() {
    let (sim, engine) = engine_over(small());
    filled(&engine, &Allocation::new(GRANULE, ZERO).tag("w"), GRANULE, 1);
    let quiesces = sim.calls(Operation::Quiesce);
    pause(&engine, "nobody");
    assert_eq!(sim.calls(Operation::Quiesce), quiesces);
    assert_eq!(steady().workers, Some(1));
}
