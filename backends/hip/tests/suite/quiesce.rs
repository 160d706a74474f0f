//! Waiting for a device.

use std::time::{Duration, Instant};

use allocator_core::{Capabilities, Deadline, Device, Driver, ErrorKind};

use crate::fake::Fake;

const DEVICE: Device = Device(1);

#[test]
fn a_device_is_synchronised_by_a_helper_and_the_thread_is_left_alone() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    fake.exchange_mode(1);
    hip.quiesce(DEVICE, Deadline::NEVER).unwrap();
    hip.quiesce(DEVICE, Deadline::NEVER).unwrap();
    assert_eq!((fake.get("synchronizations"), fake.get("last_device")), (2, 1));
    assert_eq!((fake.current(), fake.exchange_mode(1)), (0, 1));
    assert_eq!(fake.get("not_relaxed"), 0);
    assert!(!hip.capabilities(DEVICE).unwrap().contains(Capabilities::POLLED_QUIESCE));
}

#[test]
fn work_in_flight_at_the_deadline_is_busy_and_a_round_of_ones_own_follows() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    fake.set_at("synchronize_ms", 1, 100);
    let began = Instant::now();
    let error = hip.quiesce(DEVICE, Deadline::after(Duration::from_millis(10))).unwrap_err();
    assert_eq!((error.kind(), error.device()), (ErrorKind::Busy, Some(DEVICE)));
    assert!(began.elapsed() >= Duration::from_millis(10));
    // The round under way began before this call, so that it may not cover the newest work.
    hip.quiesce(DEVICE, Deadline::NEVER).unwrap();
    assert_eq!(fake.get("synchronizations"), 2);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| hip.quiesce(DEVICE, Deadline::NEVER).unwrap());
        }
    });
    let rounds = fake.get("synchronizations");
    assert!((3..6).contains(&rounds), "four callers share rounds: {rounds}");
}

#[test]
fn devices_do_not_wait_for_each_other() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    fake.set_at("synchronize_ms", 0, 60_000);
    hip.quiesce(Device(0), Deadline::after(Duration::from_millis(5))).unwrap_err();
    hip.quiesce(DEVICE, Deadline::after(Duration::from_secs(30))).unwrap();
    fake.set_at("synchronize_ms", 0, 0);
    hip.quiesce(Device(0), Deadline::NEVER).unwrap();
}

#[test]
fn a_capture_makes_a_quiesce_busy_and_failed_work_is_told_as_earlier_work() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    for (code, kind, word) in [
        (900, ErrorKind::Busy, "capture"),
        (719, ErrorKind::EarlierWorkFailed, "queued earlier"),
        (214, ErrorKind::DeviceLost, "hipDeviceSynchronize"),
    ] {
        fake.set("synchronize_result", code);
        let error = hip.quiesce(DEVICE, Deadline::NEVER).unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn a_wait_for_a_device_holds_up_no_virtual_memory_call() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    fake.set_at("synchronize_ms", 1, 60_000);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| hip.quiesce(DEVICE, Deadline::NEVER));
        while fake.get("synchronizations") == 0 {
            std::thread::yield_now();
        }
        hip.release(hip.create(DEVICE, 2 << 20).unwrap()).unwrap();
        assert!(!waiting.is_finished());
        fake.set_at("synchronize_ms", 1, 0);
        waiting.join().unwrap().unwrap();
    });
}
