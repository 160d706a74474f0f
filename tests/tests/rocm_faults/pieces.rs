//! Sizes of pieces, and calls over several of them.

use std::sync::Arc;

use allocator_core::{Backing, Driver, ErrorKind};
use dormant_engine::{Allocation, Config, Engine};
use dormant_sim::Fault;

use crate::support::*;

#[test]
fn one_unmap_over_two_pieces_is_refused_and_each_by_itself_works() {
    let raw = Raw::load("DORMANT_SIM_FAULTS=no_joined_unmap");
    let at = raw.reserved(2);
    raw.mapped(at);
    raw.mapped(next(at));
    // SAFETY: the stand-in checks everything; nobody uses the memory.
    assert_ne!(unsafe { (raw.unmap)(at, 2 * BYTES) }, 0, "both at once");
    // SAFETY: as above.
    assert_eq!(unsafe { (raw.unmap)(at, BYTES) }, 0);

    fn check<D: Driver>(driver: &Arc<D>) {
        let start = free(driver);
        let block = active(driver, 4 * GRANULE, GRANULE);
        assert_eq!(free(driver), start - 4 * GRANULE);
        block.free::<Vec<u8>>().expect("free");
        assert_eq!(free(driver), start);
    }
    check(&sim(&[Fault::NoJoinedUnmap]));
    check(&hip("DORMANT_SIM_FAULTS=no_joined_unmap").1);
}

#[test]
fn large_pieces_are_out_of_memory_and_the_engine_takes_smaller_ones() {
    fn check<D: Driver>(driver: &Arc<D>) {
        let start = free(driver);
        let bytes = 11 * GRANULE;
        let refused = driver.create(ZERO, bytes).map(|_| ()).expect_err("one large piece");
        assert_eq!(refused.kind(), ErrorKind::OutOfMemory, "{refused}");
        let backing = Backing::create(driver, ZERO, bytes, 2 * GRANULE).expect("small pieces");
        assert_eq!(backing.handles(), 6);
        backing.release().expect("release");

        let engine = Engine::new(Arc::clone(driver), Config::default());
        let address = engine.allocate(&Allocation::new(bytes, ZERO)).expect("it halves");
        assert_eq!(free(driver), start - bytes);
        engine.free(address).expect("free");
        assert_eq!(free(driver), start);
    }
    check(&sim(&[Fault::MaxPiece(2 * GRANULE)]));
    check(&hip("DORMANT_SIM_FAULTS=max_piece=4MiB").1);
}

#[test]
fn sizes_that_are_no_granules_are_refused_and_the_engine_rounds() {
    let raw = Raw::load("");
    assert_eq!(raw.created(6912).err(), Some(1));
    let (_library, driver) = hip("");
    let start = free(&driver);
    let refused = driver.create(ZERO, 6912).map(|_| ()).expect_err("6912 bytes");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    let engine = Engine::new(Arc::clone(&driver), Config::default());
    let address = engine.allocate(&Allocation::new(6912, ZERO)).expect("allocation");
    assert_eq!(free(&driver), start - GRANULE);
    engine.free(address).expect("free");
}
