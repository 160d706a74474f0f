//! Known faults of real drivers, under the engine.

use allocator_core::{ErrorKind, Operation};
use dormant_engine::{BlockState, Policy};
use dormant_sim::Fault;

use crate::support::{CAPACITY, ONE, World, ZERO, small};

fn three(world: &mut World) {
    world.add(Policy::Host, ZERO);
    world.add(Policy::Zero, ONE);
    world.add(Policy::Host, ONE);
}

#[test]
fn staging_that_cannot_be_registered_is_told_and_every_byte_is_kept() {
    let mut world = World::new(small().fault(Fault::RefuseHostRegistration));
    three(&mut world);
    for _ in 0..2 {
        let report = world.pause().unwrap();
        assert!(!report.staging_registered, "{report:?}");
        let _ = world.look();
        let report = world.resume().unwrap();
        assert!(!report.staging_registered, "{report:?}");
        world.blocks.iter().for_each(|block| world.expect_contents(block, "unregistered"));
    }
    assert_eq!(world.sim.registrations(), 0);
    world.finish(&[], "unregistered");
}

#[test]
fn staging_that_can_be_registered_is_told_too() {
    let mut world = World::new(small());
    three(&mut world);
    assert!(world.pause().unwrap().staging_registered);
    assert!(world.resume().unwrap().staging_registered);
    let _ = world.look();
}

#[test]
fn a_driver_that_keeps_memory_with_the_range_gives_it_back_in_a_pause_all_the_same() {
    let mut world = World::new(small().fault(Fault::KeepUntilUnreserved));
    three(&mut world);
    for round in 1..=2 {
        let report = world.pause().unwrap();
        assert_eq!(world.look().free, [CAPACITY, CAPACITY], "round {round}");
        assert!(report.devices.iter().all(|device| !device.freed_nothing()), "{report:?}");
        assert_eq!(world.sim.calls(Operation::Vacate), round * 3, "one for each block");
        world.resume().unwrap();
    }
    world.finish(&[], "with ranges that keep memory");
}

#[test]
fn a_free_never_vacates() {
    let mut world = World::new(small().fault(Fault::KeepUntilUnreserved));
    three(&mut world);
    world.engine.free(world.blocks[0].address).unwrap();
    world.pause().unwrap();
    let vacated = world.sim.calls(Operation::Vacate);
    assert_eq!(vacated, 2, "the pause's own");
    world.engine.free(world.blocks[1].address).unwrap();
    world.resume().unwrap();
    world.engine.free(world.blocks[2].address).unwrap();
    assert_eq!(world.sim.calls(Operation::Vacate), vacated);
    assert_eq!(world.free_bytes(), [CAPACITY, CAPACITY]);
}

#[test]
fn a_driver_without_the_quirk_is_never_asked_to_vacate() {
    let mut world = World::new(small());
    three(&mut world);
    world.pause().unwrap();
    assert_eq!(world.sim.calls(Operation::Vacate), 0);
    world.finish(&[], "without the quirk");
}

#[test]
fn blocks_that_lose_their_address_are_poisoned_and_their_backups_stay_readable() {
    let mut world = World::new(small().fault(Fault::AddressLost));
    three(&mut world);
    let error = world.pause().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddressLost, "{error}");
    assert_eq!(error.failures().len(), 3, "{error}");
    let report = error.report().expect("it had committed");
    assert_eq!((report.moved().blocks, report.poisoned().blocks), (0, 3));
    assert_eq!(world.look().free, [CAPACITY, CAPACITY], "the memory came back");
    let lease = world.engine.backup(world.blocks[0].address).unwrap();
    for block in &world.blocks {
        assert_eq!(world.state(block), Some(BlockState::Poisoned));
        world.expect_backup(block, "poisoned");
        let error = world.engine.read(block.address, &mut [0; 4]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
    }
    // Later transitions count them and leave them alone.
    assert_eq!(world.pause().unwrap().poisoned().blocks, 3);
    assert_eq!(world.resume().unwrap().poisoned().blocks, 3);
    let leased = lease.to_vec();
    world.engine.free(world.blocks[0].address).unwrap();
    assert!(*lease == *leased, "a lease outlives the block");
    drop(lease);
    world.finish(&[], "lost addresses");
}
