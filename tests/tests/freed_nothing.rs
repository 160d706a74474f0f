//! A pause that gave nothing back by the device's own reading, though the driver said it would.

use std::sync::Arc;
use std::time::Duration;

use allocator_core::{Device, Driver, ErrorKind, Operation};
use dormant_engine::{Allocation, BlockState, Config, Engine, PauseOptions, Policy, ResumeOptions};
use dormant_sim::{Fault, Sim, SimConfig};

const DEVICE: Device = Device(0);
const CAPACITY: u64 = 16 << 20;
const BYTES: u64 = 2 << 20;

fn engine(config: SimConfig) -> Engine<Sim> {
    let config = config.devices(1).granularity(64 << 10).capacity_bytes(CAPACITY);
    Engine::new(Arc::new(Sim::new(config).expect("a simulated device")), Config::default())
}

fn filled(engine: &Engine<Sim>) -> dormant_engine::Address {
    let allocation = Allocation::new(BYTES, DEVICE).tag("w").policy(Policy::Host);
    let address = engine.allocate(&allocation).expect("allocation");
    engine.write(address, &vec![7; 2 << 20]).expect("write");
    address
}

#[test]
fn a_driver_that_keeps_memory_with_the_range_and_does_not_say_so_is_found_out() {
    let engine = engine(SimConfig::new().fault(Fault::KeepUnsaid));
    let address = filled(&engine);
    for _ in 0..2 {
        let report = engine.pause("w", &PauseOptions::default()).unwrap();
        assert!(!report.devices[0].freed_nothing(), "{report:?}");
        assert_eq!(engine.memory(DEVICE).unwrap().free_bytes, CAPACITY);
        engine.resume("w", &ResumeOptions::default()).unwrap();
        let mut back = vec![0; 2 << 20];
        engine.read(address, &mut back).unwrap();
        assert!(back.iter().all(|byte| *byte == 7));
    }
    // Once found out, it is vacated as the block is paused: the reading is not needed any more.
    assert_eq!(engine.driver().calls(Operation::Vacate), 2);
}

#[test]
fn a_driver_that_gives_memory_back_is_not_asked_to_vacate() {
    let engine = engine(SimConfig::new());
    filled(&engine);
    engine.pause("w", &PauseOptions::default()).unwrap();
    assert_eq!(engine.driver().calls(Operation::Vacate), 0);
}

#[test]
fn a_neighbour_that_takes_the_memory_at_once_makes_no_keeper_of_the_device() {
    let engine = engine(SimConfig::new().latency(Some(Duration::from_millis(20))));
    filled(&engine);
    let driver = Arc::clone(engine.driver());
    // Takes what the pause gives back before the pause reads it.
    let taken = std::thread::spawn(move || {
        let room = |driver: &Sim| driver.machine().free_bytes(0).unwrap_or(0);
        let start = room(&driver);
        while room(&driver) <= start {
            std::hint::spin_loop();
        }
        driver.create(DEVICE, BYTES)
    });
    let report = engine.pause("w", &PauseOptions::default()).unwrap();
    let neighbour = taken.join().unwrap().unwrap();
    engine.driver().release(neighbour).unwrap();
    let vacated = engine.driver().calls(Operation::Vacate);
    assert_eq!(vacated, u64::from(report.devices[0].freed_nothing()), "{report:?}");
    engine.resume("w", &ResumeOptions::default()).unwrap();
    engine.pause("w", &PauseOptions::default()).unwrap();
    assert_eq!(engine.driver().calls(Operation::Vacate), vacated, "the device keeps nothing");
}

#[test]
fn an_address_lost_on_the_way_is_named_and_its_contents_stay_readable() {
    let engine = engine(SimConfig::new().fault(Fault::KeepUnsaid));
    let address = filled(&engine);
    engine.driver().fail_nth(Operation::Vacate, 1, ErrorKind::AddressLost);
    let error = engine.pause("w", &PauseOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddressLost, "{error}");
    assert_eq!(error.failures()[0].address, address);
    assert_eq!(engine.find(address).unwrap().state, BlockState::Poisoned);
    assert!(engine.lost_backups()[0].1.iter().all(|byte| *byte == 7));
}
