//! Known faults of real drivers, through the trait.

use allocator_core::{Capabilities, Operation, Stuck};
use dormant_sim::Fault;

use super::*;

#[test]
fn memory_that_stays_with_the_range_comes_back_with_vacate() {
    let sim = sim_with(config().fault(Fault::KeepUntilUnreserved));
    assert!(sim.capabilities(ZERO).unwrap().contains(Capabilities::KEEPS_UNTIL_UNRESERVED));
    let block = active(&sim, GRANULE);
    let at = block.address();
    let paused = block.detach::<Stash>(None, false).unwrap();
    assert_eq!(free(&sim, ZERO), CAPACITY - GRANULE, "without vacate nothing is freed");
    let (block, _) = wake(&sim, paused);
    assert_eq!(free(&sim, ZERO), CAPACITY - 2 * GRANULE);
    let paused = block.detach::<Stash>(None, true).unwrap();
    assert_eq!(free(&sim, ZERO), CAPACITY);
    assert_eq!(paused.address(), at);
    let (block, _) = wake(&sim, paused);
    // A free needs no vacate: the range goes.
    block.free::<Stash>().unwrap();
    assert_eq!(free(&sim, ZERO), CAPACITY);
}

#[test]
fn a_driver_without_the_quirk_vacates_nothing() {
    let sim = sim();
    assert!(!sim.capabilities(ZERO).unwrap().contains(Capabilities::KEEPS_UNTIL_UNRESERVED));
    let paused = active(&sim, GRANULE).detach::<Stash>(None, true).unwrap();
    assert_eq!(sim.calls(Operation::Vacate), 1);
    paused.free().unwrap();
}

#[test]
fn a_lost_address_poisons_the_block_and_keeps_its_stash() {
    let injected = sim_with(config().fault(Fault::KeepUntilUnreserved));
    injected.fail_nth(Operation::Vacate, 1, ErrorKind::AddressLost);
    for sim in [sim_with(config().fault(Fault::AddressLost)), injected] {
        let block = active(&sim, GRANULE);
        let stuck = block.detach(Some(b"stash".to_vec()), true).unwrap_err();
        let Stuck::Poisoned { remnant, error } = *stuck else { panic!("poisoned was wanted") };
        assert_eq!(error.kind(), ErrorKind::AddressLost, "{error}");
        assert_eq!(remnant.stash().unwrap(), b"stash");
        assert!(!remnant.holds_addresses());
        assert_eq!(free(&sim, ZERO), CAPACITY);
        assert_eq!(sim.machine().counts().ranges, 0, "the range is no longer reserved");
    }
}

#[test]
fn large_pieces_are_out_of_memory_and_small_ones_are_not() {
    let sim = sim_with(config().fault(Fault::MaxPiece(2 * GRANULE)));
    let refused = Backing::create(&sim, ZERO, 8 * GRANULE, u64::MAX);
    fails(refused.map(|_| ()), ErrorKind::OutOfMemory);
    let backing = Backing::create(&sim, ZERO, 8 * GRANULE, 2 * GRANULE).unwrap();
    assert_eq!(backing.handles(), 4);
    let block = paused(&sim, 8 * GRANULE).attach(backing, [ZERO]).unwrap();
    let (block, _) = block.settle();
    sim.poke(block.address(), &[1; 8 * 65536]).unwrap();
    block.free::<Stash>().unwrap();
    assert_eq!(free(&sim, ZERO), CAPACITY);
}
