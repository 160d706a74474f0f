//! Frees that are put off: what a busy device or a capture keeps is freed later, and never lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use allocator_core::{Device, Driver, ErrorKind, RawStream};
use dormant_engine::{Allocation, Config, Engine, PauseOptions, Policy};
use dormant_sim::{Sim, SimConfig};

const DEVICE: Device = Device(0);
const GRANULE: u64 = 64 << 10;
const CAPACITY: u64 = 64 * GRANULE;

fn engine() -> Engine<Sim> {
    with(Config::default())
}

fn with(settings: Config) -> Engine<Sim> {
    let config = SimConfig::new().devices(2).granularity(GRANULE).capacity_bytes(CAPACITY);
    Engine::new(Arc::new(Sim::new(config).expect("a simulated device")), settings)
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
    let mut settings = Config::default();
    settings.free_timeout = Duration::from_millis(30);
    let engine = with(settings);
    let address = engine.allocate(&block(GRANULE)).unwrap();
    let stream = busy_for(&engine, Duration::from_millis(400));
    assert_eq!(engine.free(address).unwrap_err().kind(), ErrorKind::Busy);
    assert!(engine.owns(address));
    engine.driver().synchronize(DEVICE, stream).unwrap();
    engine.free(address).unwrap();
    assert_eq!(free_bytes(&engine), CAPACITY);
}

/// Blocks freed during a capture at whose end the device is busy.
fn twenty_put_off(engine: &Engine<Sim>, busy: Duration) -> RawStream {
    let blocks: Vec<_> =
        (0..20).map(|_| engine.allocate(&block(GRANULE)).expect("allocation")).collect();
    let capture = engine.begin_capture();
    blocks.into_iter().for_each(|address| engine.free(address).expect("free"));
    let stream = busy_for(engine, busy);
    drop(capture);
    assert_eq!(engine.stats().deferred_frees, 20);
    stream
}

#[test]
fn frees_that_were_put_off_do_not_hold_up_a_pause_past_its_timeout() {
    let engine = engine();
    let kept = engine.allocate(&block(GRANULE)).unwrap();
    let stream = twenty_put_off(&engine, Duration::from_secs(4));
    let begun = Instant::now();
    let soon = PauseOptions::default().timeout(Duration::from_millis(50));
    assert_eq!(engine.pause("w", &soon).unwrap_err().kind(), ErrorKind::Busy);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    engine.driver().synchronize(DEVICE, stream).unwrap();
    // A free that finds the device idle takes those along that waited for it.
    engine.free(kept).unwrap();
    assert_eq!(engine.stats().deferred_frees, 0);
    assert_eq!(free_bytes(&engine), CAPACITY);
}

#[test]
fn freeing_a_paused_block_waits_for_none_that_were_put_off() {
    let engine = engine();
    let elsewhere = Allocation::new(GRANULE, Device(1)).tag("asleep");
    let asleep = engine.allocate(&elsewhere).unwrap();
    engine.pause("asleep", &PauseOptions::default()).unwrap();
    let stream = twenty_put_off(&engine, Duration::from_secs(3));
    let begun = Instant::now();
    engine.free(asleep).unwrap();
    assert!(begun.elapsed() < Duration::from_millis(150), "{:?}", begun.elapsed());
    engine.driver().synchronize(DEVICE, stream).unwrap();
}

#[test]
fn a_block_whose_free_failed_has_the_access_that_was_given_meanwhile() {
    let mut settings = Config::default();
    settings.free_timeout = Duration::from_millis(200);
    let engine = with(settings);
    let address = engine.allocate(&block(GRANULE)).unwrap();
    let stream = busy_for(&engine, Duration::from_millis(900));
    std::thread::scope(|scope| {
        let free = scope.spawn(|| engine.free(address));
        std::thread::sleep(Duration::from_millis(70));
        engine.enable_peer_access(Device(1), DEVICE).unwrap();
        assert_eq!(free.join().unwrap().unwrap_err().kind(), ErrorKind::Busy);
    });
    engine.driver().synchronize(DEVICE, stream).unwrap();
    let peer = engine.driver().open_user_stream(Device(1), false).unwrap();
    engine.driver().launch_fill(Device(1), peer, Duration::ZERO, address, 9, 64).unwrap();
    engine.driver().synchronize(Device(1), peer).unwrap();
    engine.free(address).unwrap();
}

#[test]
fn frees_in_a_loop_do_not_keep_a_capture_from_beginning() {
    let engine = engine();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    if let Ok(address) = engine.allocate(&block(GRANULE)) {
                        engine.free(address).unwrap();
                    }
                }
            });
        }
        // Ends the loops where the capture would never begin.
        let watchdog = scope.spawn(|| {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(20) && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(10));
            }
            stop.swap(true, Ordering::Relaxed)
        });
        for _ in 0..5 {
            drop(engine.begin_capture());
        }
        let began_in_time = !stop.swap(true, Ordering::Relaxed);
        watchdog.join().unwrap();
        assert!(began_in_time);
    });
}
