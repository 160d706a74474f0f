//! A driver that gives only so much, over the simulated device.

use std::sync::Arc;

use allocator_core::{Device, Driver, ErrorKind, Operation};
use allocator_testkit::limited::{Limit, Reading};
use allocator_testkit::{Limited, Recording};
use dormant_engine::{Allocation, Config, Engine};
use dormant_sim::{Sim, SimConfig};

const DEVICE: Device = Device(1);
const MIB: u64 = 1 << 20;
const LIMIT: u64 = 16 * MIB;
const READINGS: [Reading; 2] = [Reading::Ledger, Reading::Device];

fn sim() -> Arc<Sim> {
    let config = SimConfig::new().devices(3).capacity_bytes(64 * MIB);
    Arc::new(Sim::new(config).expect("a simulated machine"))
}

/// The second of three devices, cut to the limit.
fn limited(sim: &Arc<Sim>, reading: Reading) -> Limited<Sim> {
    let limit = Limit { devices: vec![DEVICE], bytes: LIMIT, reading };
    Limited::<Sim>::new(Arc::clone(sim), &limit).expect("a limited driver")
}

fn free<D: Driver>(driver: &D) -> u64 {
    driver.memory(DEVICE).expect("memory").free_bytes
}

#[test]
fn what_is_over_the_limit_is_refused_and_there_is_room_after_a_release() {
    for reading in READINGS {
        let driver = limited(&sim(), reading);
        let first = driver.create(DEVICE, 10 * MIB).expect("within the limit");
        assert_eq!(free(&driver), 6 * MIB);
        let error = driver.create(DEVICE, 8 * MIB).expect_err("over the limit");
        assert_eq!((error.kind(), error.operation()), (ErrorKind::OutOfMemory, Operation::Create));
        assert_eq!((error.device(), error.bytes()), (Some(DEVICE), Some(8 * MIB)));
        assert_eq!(free(&driver), 6 * MIB);
        let rest = driver.create(DEVICE, 6 * MIB).expect("to the byte");
        driver.release(first).expect("release");
        let again = driver.create(DEVICE, 8 * MIB).expect("there is room now");
        driver.release(rest).expect("release");
        driver.release(again).expect("release");
        assert_eq!(free(&driver), LIMIT);
    }
}

#[test]
fn it_is_a_device_of_that_size_and_the_only_one() {
    let sim = sim();
    let driver = limited(&sim, Reading::Ledger);
    let shown: Vec<_> =
        driver.devices().expect("devices").iter().map(|i| (i.device, i.total_bytes)).collect();
    assert_eq!(shown, [(DEVICE, LIMIT)]);
    assert_eq!(driver.memory(DEVICE).expect("memory").total_bytes, LIMIT);
    let error = driver.create(DEVICE, LIMIT + 2 * MIB).expect_err("more than it has");
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    let others = [
        driver.create(Device(0), 2 * MIB).expect_err("not shown"),
        driver.memory(Device(2)).expect_err("not shown"),
        driver.enable_peer(DEVICE, Device(0)).expect_err("not shown"),
    ];
    for error in others {
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(error.device().is_some_and(|device| device != DEVICE), "{error}");
    }
    let limit = Limit { devices: vec![Device(7)], bytes: LIMIT, reading: Reading::Ledger };
    let error = Limited::<Sim>::new(sim, &limit).expect_err("no such device");
    assert_eq!((error.kind(), error.device()), (ErrorKind::NotFound, Some(Device(7))));
}

#[test]
fn a_neighbour_moves_the_reading_of_the_device_and_not_the_ledger() {
    let sim = sim();
    let drivers = READINGS.map(|reading| limited(&sim, reading));
    let theirs = sim.create(DEVICE, 4 * MIB).expect("a neighbour's");
    assert_eq!(drivers.each_ref().map(free), [LIMIT, LIMIT - 4 * MIB]);
    drivers[1].reset().expect("reset");
    assert_eq!(free(&drivers[1]), LIMIT);
    let ours = drivers.each_ref().map(|driver| driver.create(DEVICE, 2 * MIB).expect("ours"));
    assert_eq!(drivers.each_ref().map(free), [LIMIT - 2 * MIB, LIMIT - 4 * MIB]);
    sim.release(theirs).expect("release");
    assert_eq!(drivers.each_ref().map(free), [LIMIT - 2 * MIB, LIMIT]);
    for (driver, ours) in drivers.iter().zip(ours) {
        driver.release(ours).expect("release");
    }
}

#[test]
fn a_creation_that_the_device_refuses_is_not_counted() {
    let sim = sim();
    let driver = limited(&sim, Reading::Ledger);
    let theirs = sim.create(DEVICE, 60 * MIB).expect("a neighbour's");
    let error = driver.create(DEVICE, 8 * MIB).expect_err("the device has no room");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert_eq!(free(&driver), LIMIT);
    sim.release(theirs).expect("release");
    let ours = driver.create(DEVICE, LIMIT).expect("all of it");
    driver.release(ours).expect("release");
}

#[test]
fn what_was_dropped_is_taken_from_the_device_once() {
    let sim = Arc::new(Recording::<Sim>::new(sim()));
    let limit = Limit { devices: vec![DEVICE], bytes: LIMIT, reading: Reading::Ledger };
    let driver = Limited::<Recording<Sim>>::new(Arc::clone(&sim), &limit);
    let driver = Arc::new(driver.expect("a limited driver"));
    let before = free(&*sim);
    {
        let engine = Engine::new(Arc::clone(&driver), Config::default());
        for bytes in [6 * MIB, 2 * MIB] {
            engine.allocate(&Allocation::new(bytes, DEVICE)).expect("allocation");
        }
        let _lost = driver.create(DEVICE, 2 * MIB).expect("a handle");
    }
    assert_eq!((free(&*driver), free(&*sim)), (LIMIT - 10 * MIB, before - 10 * MIB));
    sim.clear();
    // SAFETY: the engine is gone, and so is the handle.
    let answers = [(); 2].map(|()| unsafe { driver.reclaim() }.expect("reclaim"));
    assert_eq!(answers, [10 * MIB, 0]);
    let calls = sim.operations(&[Operation::Unmap, Operation::Release, Operation::Unreserve]);
    let count = |wanted| calls.iter().filter(|call| **call == wanted).count();
    assert_eq!(
        [Operation::Unmap, Operation::Release, Operation::Unreserve].map(count),
        [2, 3, 2],
        "{calls:?}"
    );
    assert!(sim.log().iter().all(|call| call.ok), "{:?}", sim.log());
    assert_eq!((free(&*driver), free(&*sim)), (LIMIT, before));
}
