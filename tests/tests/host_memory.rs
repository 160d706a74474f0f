//! Host memory: what backups and staging take, what is counted of it, and that it goes back.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allocator_core::{Device, ErrorKind, Operation};
use dormant_engine::{
    Allocation, Config, Engine, HostMode, PauseOptions, Policy, ResumeOptions, Selection,
};
use dormant_sim::{Fault, Sim, SimConfig};

const DEVICE: Device = Device(0);
const GRANULE: u64 = 64 << 10;

/// An engine whose host memory goes back.
fn engine(device: SimConfig, mut settings: Config) -> Engine<Sim> {
    settings.host_mode = HostMode::Reclaim;
    let device = device.devices(2).granularity(GRANULE);
    Engine::new(Arc::new(Sim::new(device).expect("a simulated device")), settings)
}

fn host(tag: &str, bytes: u64) -> Allocation {
    Allocation::new(bytes, DEVICE).tag(tag).policy(Policy::Host)
}

/// Held by the case that measures this process and by the one that takes much of it: they run in
/// one process under `cargo test`. The other cases are small.
static MEASURING: Mutex<()> = Mutex::new(());

/// Anonymous memory of this process in bytes.
fn resident() -> usize {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").expect("smaps_rollup");
    let line = rollup.lines().find(|line| line.starts_with("Anonymous:")).expect("a line");
    let kib = line.split_whitespace().nth(1).and_then(|word| word.parse::<usize>().ok());
    kib.expect("a number") << 10
}

/// Waits up to five seconds until `done`.
fn eventually(what: &str, done: impl Fn() -> bool) {
    for _ in 0..500 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}

#[test]
fn backups_of_odd_sizes_take_what_is_charged_and_all_of_it_goes_back() {
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    let engine = engine(SimConfig::new().capacity_bytes(512 << 20), Config::default());
    let bytes = (2 << 20) + 4096;
    let contents = vec![7; usize::try_from(bytes).unwrap()];
    for index in 0..60 {
        let tag = if index == 59 { "kept" } else { "back" };
        let address = engine.allocate(&host(tag, bytes)).unwrap();
        engine.write(address, &contents).unwrap();
    }
    let before = resident();
    engine.pause(Selection::All, &PauseOptions::default()).unwrap();
    let asleep = resident().saturating_sub(before) as u64;
    let charged = engine.stats().host_backup_bytes;
    assert_eq!(charged, 60 * bytes);
    assert!(asleep < charged + charged / 4, "{asleep} bytes taken, {charged} charged");
    engine.resume("back", &ResumeOptions::default()).unwrap();
    eventually("the charge falls", || engine.stats().host_backup_bytes == bytes);
    let left = resident().saturating_sub(before) as u64;
    assert!(left < 24 << 20, "{left} bytes stay for one backup of {bytes}");
}

#[test]
fn the_limit_counts_whole_pages() {
    let mut settings = Config::default();
    settings.host_limit_bytes = Some(64 << 10);
    let device = SimConfig::new().capacity_bytes(64 << 20);
    let engine = engine(device, settings);
    for _ in 0..40 {
        engine.allocate(&host("small", 1)).unwrap();
    }
    let error = engine.pause("small", &PauseOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::HostMemory, "{error}");
    assert!(error.cause().bytes() >= Some(40 * 4096), "{error}");
}

#[test]
fn idle_staging_of_one_device_goes_while_another_is_in_use() {
    let mut settings = Config::default();
    settings.idle_timeout = Duration::from_millis(100);
    let engine = engine(SimConfig::new().capacity_bytes(16 << 20), settings);
    let here = engine.allocate(&Allocation::new(GRANULE, DEVICE)).unwrap();
    let there = engine.allocate(&Allocation::new(GRANULE, Device(1))).unwrap();
    engine.write(there, &[1; 64]).unwrap();
    eventually("the other device's staging goes", || {
        engine.write(here, &[1; 64]).unwrap();
        engine.driver().registrations() == 1
    });
}

#[test]
fn no_more_staging_is_kept_than_a_transition_uses() {
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut settings = Config::default();
    settings.idle_timeout = Duration::from_secs(60);
    let slow = SimConfig::new().capacity_bytes(16 << 20).latency(Some(Duration::from_millis(5)));
    let engine = engine(slow, settings);
    std::thread::scope(|scope| {
        for _ in 0..40 {
            let zero = Allocation::new(GRANULE, DEVICE).tag("z").policy(Policy::Zero);
            let engine = &engine;
            scope.spawn(move || engine.allocate(&zero).unwrap());
        }
    });
    assert!(engine.driver().calls(Operation::RegisterHost) > 16, "they did not meet");
    assert!(engine.driver().registrations() <= 16, "{}", engine.driver().registrations());
}

#[test]
fn staging_goes_after_a_resume_that_failed_in_its_fill() {
    let mut settings = Config::default();
    settings.idle_timeout = Duration::from_millis(50);
    let engine = engine(SimConfig::new().capacity_bytes(16 << 20), settings);
    engine.allocate(&host("w", GRANULE)).unwrap();
    engine.allocate(&Allocation::new(GRANULE, DEVICE).tag("w").policy(Policy::Zero)).unwrap();
    engine.pause("w", &PauseOptions::default()).unwrap();
    engine.driver().fail_nth(Operation::Fill, 1, ErrorKind::Unknown);
    engine.resume("w", &ResumeOptions::default()).unwrap_err();
    eventually("staging goes", || engine.driver().registrations() == 0);
    engine.resume("w", &ResumeOptions::default()).unwrap();
}

#[test]
fn contents_of_a_block_that_lost_its_address_are_listed_until_they_are_dropped() {
    let device = SimConfig::new().capacity_bytes(16 << 20).fault(Fault::KeepUntilUnreserved);
    let engine = engine(device, Config::default());
    let address = engine.allocate(&host("w", 100)).unwrap();
    engine.write(address, &[5; 100]).unwrap();
    engine.driver().fail_nth(Operation::Vacate, 1, ErrorKind::AddressLost);
    let error = engine.pause("w", &PauseOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddressLost, "{error}");
    let lost = engine.lost_backups();
    assert_eq!(lost.len(), 1);
    assert_eq!((lost[0].0.address, &lost[0].1[..]), (address, &[5; 100][..]));
    drop(lost);
    assert_eq!(engine.drop_backup("w").unwrap(), 100);
    assert!(engine.lost_backups().is_empty());
    eventually("the charge falls", || engine.stats().host_backup_bytes == 0);
}
