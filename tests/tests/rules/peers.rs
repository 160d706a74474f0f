//! Rule 10: who may use a block besides its owner, now and after every resume.

use std::time::Duration;

use allocator_core::{Access, ErrorKind, Operation, RawStream};
use dormant_engine::{Address, Allocation, Config, Engine, Policy, region};
use dormant_sim::Sim;

use crate::support::{
    CAPACITY, GRANULE, ONE, ZERO, engine_over, filled, free_bytes, pause, read, resume, small,
    until,
};

fn peer_access(sim: &Sim, address: Address) -> Access {
    sim.machine().access(address.0, ONE.0).expect("it is mapped")
}

fn both() -> Access {
    Access::READ | Access::WRITE
}

fn host(tag: &str) -> Allocation {
    Allocation::new(GRANULE, ZERO).tag(tag).policy(Policy::Host)
}

#[test]
fn rule_10_a_peer_gets_access_to_existing_sleeping_and_new_blocks_and_again_at_every_resume() {
    let (sim, engine) = engine_over(small());
    let awake = filled(&engine, &host("awake"), GRANULE, 1);
    let asleep = filled(&engine, &host("asleep"), GRANULE, 2);
    let foreign = filled(&engine, &Allocation::new(GRANULE, ONE).tag("awake"), GRANULE, 3);
    pause(&engine, "asleep");
    assert!(peer_access(&sim, awake).is_empty());
    engine.enable_peer_access(ONE, ZERO).unwrap();
    assert_eq!(peer_access(&sim, awake), both(), "an existing block");
    let new = engine.allocate(&host("new")).unwrap();
    assert_eq!(peer_access(&sim, new), both(), "a new block");
    resume(&engine, "asleep");
    assert_eq!(peer_access(&sim, asleep), both(), "a block that slept");
    let other_way = sim.machine().access(foreign.0, ZERO.0).unwrap();
    assert!(other_way.is_empty(), "the other way was not asked for");
    for _ in 0..2 {
        pause(&engine, dormant_engine::Selection::All);
        resume(&engine, dormant_engine::Selection::All);
        for address in [awake, asleep, new] {
            assert_eq!(peer_access(&sim, address), both(), "after a resume");
        }
    }
    engine.enable_peer_access(ONE, ZERO).expect("a second time changes nothing");
}

#[test]
fn rule_10_access_that_is_taken_back_is_gone_from_every_block_but_those_whose_region_names_it() {
    let (sim, engine) = engine_over(small());
    let awake = filled(&engine, &host("awake"), GRANULE, 1);
    let asleep = filled(&engine, &host("asleep"), GRANULE, 2);
    let named = engine.allocate(&host("named").peers([ONE])).unwrap();
    engine.enable_peer_access(ONE, ZERO).unwrap();
    pause(&engine, "asleep");
    engine.disable_peer_access(ONE, ZERO).unwrap();
    resume(&engine, "asleep");
    let new = engine.allocate(&host("new")).unwrap();
    for address in [awake, asleep, new] {
        assert!(peer_access(&sim, address).is_empty());
    }
    assert_eq!(peer_access(&sim, named), both());
}

#[test]
fn rule_10_a_kernel_of_the_peer_writes_a_block_after_its_resume() {
    let (sim, engine) = engine_over(small());
    let address = filled(&engine, &host("w"), GRANULE, 1);
    engine.enable_peer_access(ONE, ZERO).unwrap();
    pause(&engine, "w");
    resume(&engine, "w");
    sim.launch_fill(ONE, RawStream(0), Duration::ZERO, address, 0x77, GRANULE).unwrap();
    sim.synchronize(ONE, RawStream(0)).expect("the peer may write there");
    assert!(read(&engine, address, GRANULE).iter().all(|byte| *byte == 0x77));
}

#[test]
fn rule_10_peers_that_a_region_or_an_allocation_names_get_access_to_its_blocks_alone() {
    let (sim, engine) = engine_over(small());
    let inside = {
        let settings = region::Settings::new("w", Policy::Host).with_peers([ONE]);
        let _region = region::enter(settings);
        engine.allocate(&Allocation::new(GRANULE, ZERO)).unwrap()
    };
    let named = engine.allocate(&host("w").peers([ONE])).unwrap();
    let outside = engine.allocate(&host("w")).unwrap();
    for round in 0..2 {
        assert_eq!(peer_access(&sim, inside), both(), "round {round}");
        assert_eq!(peer_access(&sim, named), both(), "round {round}");
        assert!(peer_access(&sim, outside).is_empty(), "round {round}");
        pause(&engine, "w");
        resume(&engine, "w");
    }
}

#[test]
fn rule_10_devices_that_are_no_peers_are_refused_and_nothing_changes() {
    let (sim, engine) = engine_over(small().peers(false));
    let address = filled(&engine, &host("w"), GRANULE, 1);
    let error = engine.enable_peer_access(ONE, ZERO).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    pause(&engine, "w");
    resume(&engine, "w");
    assert!(peer_access(&sim, address).is_empty());
    let error = engine.allocate(&host("late").peers([ONE])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    assert_eq!(free_bytes(&sim, ZERO), CAPACITY - GRANULE);
}

#[test]
fn rule_10_a_block_that_refuses_the_peer_is_named_and_the_others_get_access() {
    let (sim, engine) = engine_over(small());
    let blocks: Vec<_> = ["a", "b", "c"].map(|tag| filled(&engine, &host(tag), GRANULE, 1)).into();
    sim.fail_nth(Operation::SetAccess, 2, ErrorKind::Unknown);
    let error = engine.enable_peer_access(ONE, ZERO).unwrap_err();
    assert!(error.to_string().contains("a block of `b`"), "{error}");
    let access = blocks.iter().map(|address| peer_access(&sim, *address)).collect::<Vec<_>>();
    assert_eq!(access, [both(), Access::empty(), both()]);
    engine.enable_peer_access(ONE, ZERO).expect("a second time");
    assert_eq!(peer_access(&sim, blocks[1]), both());
}

#[test]
fn rule_10_an_allocation_that_cannot_give_a_late_peer_access_leaves_nothing_behind() {
    // Slow calls, so that the peer is enabled between the mapping and the end of the allocation.
    let sim =
        std::sync::Arc::new(Sim::new(small().latency(Some(Duration::from_millis(60)))).unwrap());
    let engine = Engine::new(std::sync::Arc::clone(&sim), Config::default());
    std::thread::scope(|scope| {
        let allocating = scope.spawn(|| engine.allocate(&host("late")));
        until("the block is being mapped", || sim.calls(Operation::Map) > 0);
        sim.fail_nth(Operation::SetAccess, 2, ErrorKind::Unknown);
        engine.enable_peer_access(ONE, ZERO).unwrap();
        match allocating.join().unwrap() {
            Err(error) => {
                assert_eq!(error.cause().operation(), Operation::SetAccess, "{error}");
                assert!(engine.stats().tags.is_empty(), "a block that nobody knows: {error}");
                assert_eq!(free_bytes(&sim, ZERO), CAPACITY);
            }
            // The machine was too slow for the race; the block has access then.
            Ok(address) => assert_eq!(peer_access(&sim, address), both()),
        }
    });
}
