//! Failures while undoing a failure.

use allocator_core::{ErrorKind, Operation};
use dormant_engine::{BlockState, Policy};
use dormant_sim::{Fault, SimConfig};

use crate::support::{CAPACITY, ONE, World, ZERO, small};

fn asleep(config: SimConfig) -> World {
    let mut world = World::new(config);
    for device in [ZERO, ONE] {
        for policy in [Policy::Host, Policy::Zero, Policy::Disk] {
            world.add(policy, device);
        }
    }
    world.pause().expect("pause");
    let _ = world.look();
    world
}

/// Fails the `n`-th call of an operation in a resume, and then a call that undoes it. Says how
/// many blocks that has poisoned, and whether both failures were met.
fn fail_twice(config: SimConfig, operation: Operation, n: u64, undo: Operation) -> (usize, bool) {
    let at = format!("{operation}, call {n}, then {undo}");
    let mut world = asleep(config);
    let before = world.look();
    world.sim.fail_nth(operation, n, ErrorKind::Unknown);
    world.sim.fail_nth(undo, 1, ErrorKind::Io);
    let error = world.resume().expect_err("the first failure");
    let met = world.sim.armed_failures() == 0;
    world.sim.clear_failures();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{at}: the first error is the answer: {error}");
    let mut poisoned = 0;
    for block in &world.blocks {
        let named = error.failures().iter().find(|failure| failure.address == block.address);
        match (world.state(block), named) {
            (Some(BlockState::Paused), None) => {}
            (Some(BlockState::Poisoned), Some(failure)) => {
                assert!(failure.poisoned, "{at}: {error}");
                poisoned += 1;
            }
            (state, named) => panic!("{at}: {block:?} is {state:?}, and named: {named:?}"),
        }
        world.expect_backup(block, &at);
    }
    // One block's memory at most is lost: it stays mapped, with the range, or in a handle that no
    // block had yet.
    let physical = world.blocks[0].physical_bytes;
    let free = world.free_bytes();
    let lost: Vec<_> = [ZERO, ONE]
        .into_iter()
        .zip(&free)
        .filter(|(_, free)| **free == CAPACITY - physical)
        .map(|(device, _)| (device, physical))
        .collect();
    if !met {
        assert_eq!(world.look(), before, "{at}: only the first was met");
    } else if poisoned == 0 {
        assert!(error.to_string().contains("undoing it failed too"), "{at}: {error}");
        assert_eq!(lost.len(), 1, "{at}: {free:?}");
    }
    world.finish(&lost, &at);
    (poisoned, met)
}

#[track_caller]
fn fail_every_undo(config: fn() -> SimConfig, undos: &[Operation]) {
    for undo in undos {
        let mut poisoned = 0;
        for (operation, calls) in [
            (Operation::Create, 6),
            (Operation::Map, 6),
            (Operation::SetAccess, 6),
            (Operation::Write, 4),
            (Operation::Fill, 2),
        ] {
            for n in 1..=calls {
                let (count, _) = fail_twice(config(), operation, n, *undo);
                assert!(count <= 1, "one undo failed, so one block is poisoned");
                poisoned += count;
            }
        }
        assert!(poisoned > 0, "no failure of {undo} was met");
    }
}

#[test]
fn a_resume_whose_undo_fails_poisons_one_block_and_keeps_every_backup() {
    fail_every_undo(small, &[Operation::Unmap, Operation::Release]);
}

#[test]
fn a_resume_whose_undo_cannot_vacate_poisons_one_block_and_keeps_every_backup() {
    fn keeping() -> SimConfig {
        small().fault(Fault::KeepUntilUnreserved)
    }
    fail_every_undo(keeping, &[Operation::Vacate]);
}

#[test]
fn an_allocation_whose_undo_fails_is_in_no_registry_and_tells_both_errors() {
    for (operation, undo) in [
        (Operation::Map, Operation::Release),
        (Operation::Map, Operation::Unreserve),
        (Operation::SetAccess, Operation::Unmap),
        (Operation::Reserve, Operation::Release),
        (Operation::Fill, Operation::Unmap),
        (Operation::Fill, Operation::Release),
    ] {
        let mut world = World::new(small());
        world.add(Policy::Host, ZERO);
        let tags = world.engine.stats().tags;
        world.sim.fail_nth(operation, 1, ErrorKind::Unknown);
        world.sim.fail_nth(undo, 1, ErrorKind::Io);
        let error = world.allocate(Policy::Zero, ONE).unwrap_err();
        assert_eq!(world.sim.armed_failures(), 0, "{operation}, {undo}: both are met");
        assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
        assert!(error.to_string().contains("undoing it failed too"), "{error}");
        assert_eq!(world.engine.stats().tags, tags, "{operation}, {undo}");
        world.expect_contents(&world.blocks[0], "the other block");
    }
}
