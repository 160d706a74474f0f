//! The wrappers over the simulated device.

use std::ptr::NonNull;
use std::sync::Arc;

use allocator_core::{Address, Device, Driver, ErrorKind, Operation, Range, Result};
use allocator_testkit::checked::Rules;
use allocator_testkit::wrapped::{Hook, Request};
use allocator_testkit::{Checked, Faulty, Recording};
use dormant_engine::{Allocation, Config, Engine, PauseOptions, Policy, ResumeOptions};
use dormant_sim::{Sim, SimConfig};

const DEVICE: Device = Device(0);
const UNIT: u64 = 2 << 20;

fn sim() -> Sim {
    Sim::new(SimConfig::new().devices(2)).expect("a simulated machine")
}

type Physical = <Checked<Sim> as Driver>::Physical;

/// A checked driver with a range of two units, and one handle of one unit.
struct Scene {
    driver: Checked<Sim>,
    range: Range,
    physical: Physical,
}

impl Scene {
    fn new() -> Self {
        let driver = Checked::new(sim());
        let range = driver.reserve(DEVICE, 2 * UNIT).expect("reserve");
        let physical = driver.create(DEVICE, UNIT).expect("create");
        Self { driver, range, physical }
    }

    /// With the handle mapped at the start, for the devices.
    fn mapped(devices: &[Device]) -> Self {
        let scene = Self::new();
        scene.map(0, &scene.physical).expect("map");
        scene.access(0, UNIT, devices).expect("access");
        scene
    }

    fn map(&self, offset: u64, physical: &Physical) -> Result<()> {
        // SAFETY: the checked driver refuses what is against the rules.
        unsafe { self.driver.map(&self.range, offset, physical) }
    }

    fn access(&self, offset: u64, bytes: u64, devices: &[Device]) -> Result<()> {
        // SAFETY: as in `map`.
        unsafe { self.driver.set_access(&self.range, offset, bytes, devices) }
    }

    fn unmap(&self, offset: u64, bytes: u64) -> Result<()> {
        // SAFETY: as in `map`.
        unsafe { self.driver.unmap(&self.range, offset, bytes) }
    }

    /// Ends the scene by the rules. Exactly the expected violations were counted.
    #[track_caller]
    fn end(self, violations: u64) {
        assert_eq!(self.driver.violations(), violations);
        let _ = self.unmap(0, UNIT);
        self.driver.release(self.physical).expect("release");
        // SAFETY: nothing is mapped there any more.
        unsafe { self.driver.unreserve(self.range) }.expect("unreserve");
    }
}

#[track_caller]
fn broken<T: std::fmt::Debug>(answer: Result<T>, rule: &str) {
    let error = answer.expect_err("a broken rule");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains(rule), "{error} does not say `{rule}`");
}

#[test]
fn checked_finds_maps_outside_onto_a_mapping_and_of_a_mapped_handle() {
    let scene = Scene::new();
    broken(scene.map(2 * UNIT, &scene.physical), "within the range");
    broken(scene.map(u64::MAX - 10, &scene.physical), "within the range");
    scene.map(0, &scene.physical).expect("map");
    broken(scene.map(UNIT, &scene.physical), "mapped nowhere else");
    let second = scene.driver.create(DEVICE, UNIT).expect("create");
    broken(scene.map(0, &second), "where no mapping is");
    scene.driver.release(second).expect("release");
    let other = Checked::new(sim());
    let foreign = other.create(DEVICE, UNIT).expect("create");
    broken(scene.map(UNIT, &foreign), "live handle of this driver");
    other.release(foreign).expect("release");
    let stray = other.reserve(DEVICE, UNIT).expect("reserve");
    // SAFETY: the checked driver refuses what is against the rules.
    let answer = unsafe { scene.driver.map(&stray, 0, &scene.physical) };
    broken(answer, "this driver has reserved");
    // SAFETY: nothing is mapped there.
    unsafe { other.unreserve(stray) }.expect("unreserve");
    scene.end(6);
}

#[test]
fn checked_finds_access_and_unmaps_that_are_not_of_one_piece() {
    let scene = Scene::mapped(&[DEVICE]);
    broken(scene.access(0, UNIT, &[]), "at least one device");
    broken(scene.access(0, UNIT / 2, &[DEVICE]), "exactly one mapped piece");
    broken(scene.access(UNIT, UNIT, &[DEVICE]), "exactly one mapped piece");
    broken(scene.unmap(0, 2 * UNIT), "exactly one mapped piece");
    broken(scene.unmap(UNIT, UNIT), "exactly one mapped piece");
    scene.end(5);
}

#[test]
fn checked_finds_a_range_given_back_and_a_handle_released_while_mapped() {
    let Scene { driver, mut range, physical } = Scene::mapped(&[DEVICE]);
    // SAFETY: the checked driver refuses what is against the rules.
    broken(unsafe { driver.vacate(&mut range) }, "nothing is mapped");
    broken(driver.release(physical), "not mapped any more");
    // SAFETY: as above.
    broken(unsafe { driver.unreserve(range) }, "nothing is mapped");
    assert_eq!(driver.violations(), 3);
}

#[test]
fn checked_finds_a_vacate_before_the_release() {
    let mut scene = Scene::mapped(&[DEVICE]);
    scene.unmap(0, UNIT).expect("unmap");
    // SAFETY: the checked driver refuses what is against the rules.
    broken(unsafe { scene.driver.vacate(&mut scene.range) }, "released before vacate");
    scene.end(1);
}

#[test]
fn checked_finds_copies_outside_mapped_pieces_and_without_access() {
    let scene = Scene::mapped(&[Device(1)]);
    let mut host = vec![0_u8; 16];
    let to = NonNull::new(host.as_mut_ptr()).expect("an address");
    let at = scene.range.address();
    let stream = scene.driver.open_stream(DEVICE).expect("stream");
    let past = at.offset(UNIT - 8);
    // SAFETY: the checked driver refuses what is against the rules.
    broken(unsafe { scene.driver.read(&stream, at, to, 16) }, "has access to");
    scene.access(0, UNIT, &[DEVICE]).expect("access");
    // SAFETY: as above.
    broken(unsafe { scene.driver.read(&stream, past, to, 16) }, "within mapped pieces");
    // SAFETY: as above.
    broken(unsafe { scene.driver.write(&stream, past, to, 16) }, "within mapped pieces");
    // SAFETY: as above.
    broken(unsafe { scene.driver.fill(&stream, past, 1, 16) }, "within mapped pieces");
    // SAFETY: as above.
    broken(unsafe { scene.driver.fill(&stream, Address(u64::MAX), 1, 16) }, "mapped pieces");
    // SAFETY: the bytes are mapped for this device; the unmap below is refused.
    unsafe { scene.driver.fill(&stream, at, 1, 16) }.expect("fill");
    broken(scene.unmap(0, UNIT), "in flight");
    scene.driver.wait(&stream).expect("wait");
    scene.driver.close_stream(stream).expect("close");
    scene.end(6);
}

#[test]
fn checked_finds_registrations_that_are_wrong_or_in_use() {
    const PIECE: usize = 64 << 10;
    let scene = Scene::mapped(&[DEVICE]);
    let driver = &scene.driver;
    let mut host = vec![0_u8; 3 * PIECE];
    let start = host.as_mut_ptr();
    let start = start.wrapping_add(start.align_offset(PIECE));
    let [first, second] =
        [start, start.wrapping_add(PIECE)].map(|place| NonNull::new(place).expect("an address"));
    let border = NonNull::new(start.wrapping_add(PIECE - 8)).expect("an address");
    let stream = driver.open_stream(DEVICE).expect("stream");
    let at = scene.range.address();
    for piece in [first, second] {
        // SAFETY: the vector is mapped until the end.
        unsafe { driver.register_host(piece, PIECE as u64) }.expect("register");
    }
    // SAFETY: the checked driver refuses what is against the rules.
    broken(unsafe { driver.register_host(border, 16) }, "not registered yet");
    // SAFETY: as above.
    broken(unsafe { driver.unregister_host(border) }, "start of a registration");
    // SAFETY: as above.
    broken(unsafe { driver.write(&stream, at, border, 16) }, "no border");
    // SAFETY: the bytes are mapped, and rest until `wait`.
    unsafe { driver.write(&stream, at, first, 16) }.expect("write");
    // SAFETY: as above.
    broken(unsafe { driver.unregister_host(first) }, "no copy is queued");
    driver.wait(&stream).expect("wait");
    for piece in [first, second] {
        // SAFETY: registered above, with nothing queued.
        unsafe { driver.unregister_host(piece) }.expect("unregister");
    }
    driver.close_stream(stream).expect("close");
    scene.end(4);
}

#[test]
fn checked_finds_a_driver_that_hands_out_what_overlaps() {
    let rules = Rules::default();
    let reserve = |start: u64| {
        let address = Address(start);
        let request = Request {
            operation: Operation::Reserve,
            device: Some(DEVICE),
            address: Some(address),
            bytes: Some(UNIT),
            range: Some((address, UNIT)),
            handle: None,
            stream: None,
            host: None,
            devices: &[],
        };
        rules.after(&request, None)
    };
    reserve(4 * UNIT).expect("the first");
    broken(reserve(5 * UNIT - 1), "overlaps no other");
    reserve(5 * UNIT).expect("right behind it");
}

fn engine<D: Driver>(driver: D) -> Engine<D> {
    Engine::new(Arc::new(driver), Config::default())
}

fn allocate<D: Driver>(engine: &Engine<D>, policy: Policy) -> Address {
    let allocation = Allocation::new(UNIT + 5, DEVICE).tag("w").policy(policy);
    engine.allocate(&allocation).expect("allocation")
}

#[test]
fn a_round_trip_of_the_engine_breaks_no_rule() {
    let engine = engine(Checked::new(sim()));
    let blocks = [Policy::Host, Policy::Zero, Policy::Discard].map(|p| allocate(&engine, p));
    engine.write(blocks[0], b"kept").expect("write");
    engine.pause("w", &PauseOptions::default()).expect("pause");
    engine.free(blocks[2]).expect("free of a paused block");
    engine.resume("w", &ResumeOptions::default()).expect("resume");
    let mut have = [0; 4];
    engine.read(blocks[0], &mut have).expect("read");
    assert_eq!(&have, b"kept");
    engine.free(blocks[0]).expect("free");
    engine.free(blocks[1]).expect("free");
    engine.trim();
    assert_eq!(engine.driver().violations(), 0);
}

#[test]
fn faulty_fails_the_right_call_once_and_the_engine_undoes() {
    let engine = engine(Faulty::new(sim()));
    let driver = engine.driver();
    let before = driver.memory(DEVICE).expect("memory").free_bytes;
    driver.fail_nth(Operation::Map, 2, ErrorKind::Unknown);
    let address = allocate(&engine, Policy::Discard);
    let allocation = Allocation::new(UNIT, DEVICE);
    let error = engine.allocate(&allocation).expect_err("the second map fails");
    assert_eq!((error.kind(), error.cause().operation()), (ErrorKind::Unknown, Operation::Map));
    engine.free(address).expect("free");
    assert_eq!(driver.memory(DEVICE).expect("memory").free_bytes, before);
    let address = allocate(&engine, Policy::Discard);
    assert_eq!(driver.calls(Operation::Map), 3);
    driver.fail_from(Operation::Create, ErrorKind::OutOfMemory);
    engine.pause("w", &PauseOptions::default()).expect("pause");
    for _ in 0..2 {
        let error = engine.resume("w", &ResumeOptions::default()).expect_err("no memory");
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    }
    driver.clear();
    engine.resume("w", &ResumeOptions::default()).expect("resume");
    engine.free(address).expect("free");
}

#[test]
fn a_release_told_to_fail_leaves_the_memory_with_the_driver_inside() {
    let driver = Faulty::new(sim());
    let before = driver.memory(DEVICE).expect("memory").free_bytes;
    let physical = driver.create(DEVICE, UNIT).expect("create");
    driver.fail_nth(Operation::Release, 1, ErrorKind::Unknown);
    driver.release(physical).expect_err("told to fail");
    assert_eq!(driver.inner().memory(DEVICE).expect("memory").free_bytes, before - UNIT);
}

#[test]
fn recording_shows_the_order_of_an_allocation_and_of_a_pause() {
    use Operation::{Create, Map, Release, Reserve, SetAccess, Unmap, Unreserve};
    let steps = [Reserve, Create, Map, SetAccess, Unmap, Release, Unreserve];
    let engine = engine(Recording::new(sim()));
    let driver = engine.driver();
    let address = allocate(&engine, Policy::Discard);
    assert_eq!(driver.operations(&steps), [Create, Reserve, Map, SetAccess]);
    assert!(driver.log().iter().all(|call| call.ok));
    driver.clear();
    engine.pause("w", &PauseOptions::default()).expect("pause");
    assert_eq!(driver.operations(&steps), [Unmap, Release]);
    let log = driver.log();
    let unmap = log.iter().find(|call| call.operation == Unmap).expect("an unmap");
    assert_eq!((unmap.address, unmap.device), (Some(address), Some(DEVICE)));
    assert_eq!(unmap.bytes, Some(2 * UNIT));
    engine.free(address).expect("free");
    assert_eq!(driver.operations(&steps), [Unmap, Release, Unreserve]);
    driver.memory(Device(9)).expect_err("no such device");
    assert!(!driver.log().last().expect("a call").ok);
}
