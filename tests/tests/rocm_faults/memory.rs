//! Memory that does not come back, ranges that stay busy, bytes of somebody else.

use std::sync::Arc;

use allocator_core::{Capabilities, Driver, ErrorKind};
use dormant_engine::{Allocation, Config, Engine, PauseOptions, Policy, Selection};
use dormant_sim::Fault;

use crate::support::*;

#[test]
fn memory_that_stays_with_its_range_comes_back_with_a_vacate() {
    fn check<D: Driver>(driver: &Arc<D>) {
        let start = free(driver);
        let block = active(driver, 2 * GRANULE, GRANULE);
        let paused = block.detach::<Vec<u8>>(None, false).expect("detach");
        assert_eq!(free(driver), start - 2 * GRANULE, "without a vacate nothing is freed");
        let paused = paused.vacate().expect("vacate");
        assert_eq!(free(driver), start);
        paused.free().expect("free");

        let engine = Engine::new(Arc::clone(driver), Config::default());
        let allocation = Allocation::new(2 * GRANULE, ZERO).tag("w").policy(Policy::Host);
        let address = engine.allocate(&allocation).expect("allocation");
        let report = engine.pause(Selection::All, &PauseOptions::default()).expect("pause");
        assert_eq!(free(driver), start, "the engine vacates");
        assert!(!report.devices[0].freed_nothing());
        engine.free(address).expect("free");
    }
    check(&sim(&[Fault::KeepUntilUnreserved]));
    check(&hip("DORMANT_DOUBLE_HIP_VERSION=7.2").1);
}

#[test]
fn the_three_states_of_rocm_are_told_apart_by_asking() {
    for (version, keeps) in [("7.0", false), ("7.2", true), ("7.2-patched", false)] {
        // The asking has a time limit, which a busy machine may pass: then it is in doubt.
        let (_library, driver, found) = (0..10)
            .map(|_| {
                let (library, driver) = hip(&format!("DORMANT_DOUBLE_HIP_VERSION={version}"));
                let found = driver.capabilities(ZERO).expect("capabilities");
                (library, driver, found)
            })
            .find(|(_, _, found)| !found.contains(Capabilities::QUIRKS_IN_DOUBT))
            .expect("one asking of ten in time");
        assert_eq!(found.contains(Capabilities::KEEPS_UNTIL_UNRESERVED), keeps, "{version}");
        assert!(driver.info().version.starts_with(&version[..3]), "{version}");
    }
}

#[test]
fn a_range_stays_busy_after_an_early_release_and_not_after_ours() {
    let raw = Raw::load("DORMANT_SIM_FAULTS=early_release_keeps_range");
    let at = raw.reserved(1);
    let handle = raw.mapped(at);
    // SAFETY: the stand-in checks everything; nobody uses the memory.
    assert_eq!(unsafe { (raw.release)(handle) }, 0, "released while it is mapped");
    // SAFETY: as above.
    assert_eq!(unsafe { (raw.unmap)(at, BYTES) }, 0);
    // SAFETY: as above.
    assert_ne!(unsafe { (raw.address_free)(at, BYTES) }, 0, "the range stays busy");

    fn check<D: Driver>(driver: &Arc<D>) {
        let start = free(driver);
        let ranges = allocator_core::leaked_ranges();
        active(driver, 2 * GRANULE, GRANULE).free::<Vec<u8>>().expect("free");
        assert_eq!((free(driver), allocator_core::leaked_ranges()), (start, ranges));
    }
    check(&sim(&[Fault::EarlyReleaseKeepsRange]));
    check(&hip("DORMANT_SIM_FAULTS=early_release_keeps_range").1);
}

#[test]
fn fresh_memory_holds_anything_and_zero_is_filled() {
    let (_library, driver) = hip("DORMANT_SIM_FAULTS=stale_bytes");
    let engine = Engine::new(driver, Config::default());
    let read = |policy| {
        let allocation = Allocation::new(GRANULE, ZERO).tag("w").policy(policy);
        let address = engine.allocate(&allocation).expect("allocation");
        let mut bytes = vec![1_u8; BYTES];
        engine.read(address, &mut bytes).expect("read");
        engine.free(address).expect("free");
        bytes
    };
    assert!(read(Policy::Discard).iter().all(|byte| *byte == 0xD5), "somebody's bytes");
    assert!(read(Policy::Zero).iter().all(|byte| *byte == 0));
}

#[test]
fn a_lost_address_poisons_the_block_and_a_free_tells() {
    let (_library, driver) = hip("DORMANT_DOUBLE_HIP_VERSION=7.2;DORMANT_SIM_FAULTS=address_lost");
    let start = free(&driver);
    let engine = Engine::new(Arc::clone(&driver), Config::default());
    let allocation = Allocation::new(GRANULE, ZERO).tag("w").policy(Policy::Host);
    let address = engine.allocate(&allocation).expect("allocation");
    let error = engine.pause(Selection::All, &PauseOptions::default()).expect_err("lost");
    assert_eq!(error.kind(), ErrorKind::AddressLost, "{error}");
    assert_eq!(free(&driver), start, "its memory came back all the same");
    engine.free(address).expect("free of what is left");
}

#[test]
fn a_legacy_handle_of_virtual_memory_is_bogus_where_the_fault_is() {
    // The answer, to refuse it for addresses of ours, is for the hooks, which are not here yet.
    for (fault, code) in [("", 1), ("bogus_ipc_handle", 0)] {
        let raw = Raw::load(&format!("DORMANT_SIM_FAULTS={fault}"));
        let at = raw.reserved(1);
        raw.mapped(at);
        let mut handle = [0; 64];
        // SAFETY: `handle` is writable; the stand-in checks the address.
        assert_eq!(unsafe { (raw.ipc_handle)(&raw mut handle, at) }, code, "{fault}");
    }
}
