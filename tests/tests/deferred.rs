//! Frees that are put off: what a busy device or a capture keeps is freed later, and never lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use allocator_core::{Device, Driver, ErrorKind, RawStream};
use dormant_engine::{Allocation, Config, Engine, PauseOptions, Policy};
use dormant_sim::{Sim, SimConfig};

const DEVICE: Device = Device(0);
const GRANULE: u64 = 64 << 10;
const CAPACITY: u64 = 64 * GRANULE;

fn engine() -> Engine<Sim> {
    let config = SimConfig::new().devices(1).granularity(GRANULE).capacity_bytes(CAPACITY);
    Engine::new(Arc::new(Sim::new(config).expect("a simulated device")), Config::default())
}

fn block(bytes: u64) -> Allocation {
    Allocation::new(bytes, DEVICE).tag("w").policy(Policy::Discard)
}

fn free_bytes(engine: &Engine<Sim>) -> u64 {
    engine.driver().memory(DEVICE).expect("memory").free_bytes
}

/// Keeps the device busy with a kernel that touches nothing.
fn busy_for(engine: &Engine<Sim>, time: Duration) -> RawStream {
    let stream = engine.driver().open_user_stream(DEVICE, false).expect("stream");
    engine.driver().launch(DEVICE, stream, time, |_| {}).expect("launch");
    stream
}

#[test]
fn a_block_freed_during_a_pause_that_fails_is_freed_once_the_device_is_idle() {
    let engine = engine();
    let address = engine.allocate(&block(GRANULE)).unwrap();
    let stream = busy_for(&engine, Duration::from_millis(1200));
    std::thread::scope(|scope| {
        let pause = scope.spawn(|| {
            let soon = PauseOptions::default().timeout(Duration::from_millis(300));
            engine.pause("w", &soon).unwrap_err()
        });
        std::thread::sleep(Duration::from_millis(100));
        let begun = Instant::now();
        engine.free(address).unwrap();
        assert!(begun.elapsed() < Duration::from_millis(100), "a free never waits for a pause");
        assert_eq!(pause.join().unwrap().kind(), ErrorKind::Busy);
    });
    // The device is still busy: the block is nobody's, its memory not yet the device's.
    assert!(!engine.owns(address));
    assert_eq!(engine.stats().deferred_frees, 1);
    assert_eq!(free_bytes(&engine), CAPACITY - GRANULE);
    engine.driver().synchronize(DEVICE, stream).unwrap();
    engine.pause("w", &PauseOptions::default()).unwrap();
    assert_eq!((engine.stats().deferred_frees, engine.stats().failed_frees), (0, 0));
    assert_eq!(free_bytes(&engine), CAPACITY);
}

#[test]
fn an_allocation_that_finds_no_room_frees_what_was_put_off() {
    let engine = engine();
    let large = engine.allocate(&block(CAPACITY)).unwrap();
    let stream = busy_for(&engine, Duration::from_millis(600));
    std::thread::scope(|scope| {
        let pause = scope.spawn(|| {
            let soon = PauseOptions::default().timeout(Duration::from_millis(100));
            engine.pause("w", &soon).unwrap_err()
        });
        std::thread::sleep(Duration::from_millis(30));
        engine.free(large).unwrap();
        pause.join().unwrap();
    });
    assert_eq!(engine.stats().deferred_frees, 1);
    engine.driver().synchronize(DEVICE, stream).unwrap();
    let next = engine.allocate(&block(CAPACITY)).unwrap();
    assert_eq!(engine.stats().deferred_frees, 0);
    engine.free(next).unwrap();
    assert_eq!(free_bytes(&engine), CAPACITY);
}

#[test]
fn a_free_that_finds_the_device_busy_leaves_the_block_to_its_owner() {
    let config = SimConfig::new().devices(1).granularity(GRANULE).capacity_bytes(CAPACITY);
    let mut settings = Config::default();
    settings.free_timeout = Duration::from_millis(30);
    let engine = Engine::new(Arc::new(Sim::new(config).unwrap()), settings);
    let address = engine.allocate(&block(GRANULE)).unwrap();
    let stream = busy_for(&engine, Duration::from_millis(400));
    assert_eq!(engine.free(address).unwrap_err().kind(), ErrorKind::Busy);
    assert!(engine.owns(address));
    engine.driver().synchronize(DEVICE, stream).unwrap();
    engine.free(address).unwrap();
    assert_eq!(free_bytes(&engine), CAPACITY);
}
