//! Waiting for a device, with and without `cuCtxRecordEvent`.

use std::time::{Duration, Instant};

use allocator_core::{Capabilities, Deadline, Device, Driver, ErrorKind};
use dormant_cuda::Cuda;

use crate::fake::Fake;

const DEVICE: Device = Device(0);

/// A device with a context of ours.
fn held(fake: &Fake) -> Cuda {
    let cuda = fake.open();
    cuda.release(cuda.create(DEVICE, 2 << 20).unwrap()).unwrap();
    cuda
}

#[test]
fn a_device_that_nobody_in_the_process_uses_has_nothing_to_wait_for() {
    let fake = Fake::build(&[]);
    let cuda = fake.open();
    cuda.quiesce(DEVICE, Deadline::NEVER).unwrap();
    assert_eq!((fake.get("retains"), fake.get("records")), (0, 0));
}

#[test]
fn a_context_that_only_the_program_has_is_quiesced_and_given_back() {
    let fake = Fake::build(&[]);
    let cuda = fake.open();
    fake.set_at("active_elsewhere", 1, 1);
    cuda.quiesce(Device(1), Deadline::NEVER).unwrap();
    assert_eq!((fake.get("records"), fake.get("last_record_device")), (1, 1));
    assert_eq!((fake.get("retains"), fake.get("releases")), (1, 1));
    assert_eq!((fake.get("events_created"), fake.get("events_destroyed")), (1, 1));
}

#[test]
fn one_event_serves_many_quiesces() {
    let fake = Fake::build(&[]);
    let cuda = held(&fake);
    for _ in 0..100 {
        cuda.quiesce(DEVICE, Deadline::after(Duration::ZERO)).unwrap();
    }
    assert_eq!((fake.get("records"), fake.get("queries")), (100, 100));
    assert_eq!((fake.get("events_created"), fake.get("events_destroyed")), (1, 0));
    assert_eq!(fake.get("wrong_context"), 0);
}

#[test]
fn work_in_flight_at_the_deadline_is_busy_and_a_later_quiesce_works() {
    let fake = Fake::build(&[]);
    let cuda = held(&fake);
    fake.exchange_mode(1);
    let mine = fake.enter(1);
    fake.set("events_pending", 1);
    let began = Instant::now();
    let error = cuda.quiesce(DEVICE, Deadline::after(Duration::from_millis(20))).unwrap_err();
    assert_eq!((error.kind(), error.device()), (ErrorKind::Busy, Some(DEVICE)));
    assert!(began.elapsed() >= Duration::from_millis(20));
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!((fake.current(), fake.exchange_mode(1)), (mine, 1));
    assert_eq!((fake.get("events_created"), fake.get("events_destroyed")), (1, 1));

    let error = cuda.quiesce(DEVICE, Deadline::after(Duration::ZERO)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    fake.set("events_pending", 0);
    cuda.quiesce(DEVICE, Deadline::after(Duration::ZERO)).unwrap();
    assert_eq!(fake.get("not_relaxed"), 0);
}

#[test]
fn a_quiesce_ends_soon_after_the_work_does() {
    let fake = Fake::build(&[]);
    let cuda = held(&fake);
    fake.set("events_pending", 1);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| cuda.quiesce(DEVICE, Deadline::NEVER));
        // It looks again and again, whenever it gets a CPU.
        let begun = Instant::now();
        while fake.get("queries") <= 10 {
            assert!(begun.elapsed() < Duration::from_secs(30), "it does not look again");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!waiting.is_finished());
        fake.set("events_pending", 0);
        waiting.join().unwrap().unwrap();
    });
}

#[test]
fn a_capture_makes_a_quiesce_busy_and_failed_work_is_told_as_earlier_work() {
    let fake = Fake::build(&[]);
    let cuda = held(&fake);
    for (code, kind, word) in [
        (900, ErrorKind::Busy, "capture"),
        (700, ErrorKind::EarlierWorkFailed, "queued earlier"),
        (214, ErrorKind::DeviceLost, "cuCtxRecordEvent"),
    ] {
        fake.set("record_result", code);
        let error = cuda.quiesce(DEVICE, Deadline::NEVER).unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains(word), "{error}");
    }
    assert_eq!(fake.get("events_created"), fake.get("events_destroyed"));
}

#[test]
fn a_driver_that_cannot_record_is_synchronised_by_a_helper() {
    let fake = Fake::build(&["WITHOUT_RECORD"]);
    let cuda = held(&fake);
    assert!(!cuda.capabilities(DEVICE).unwrap().contains(Capabilities::POLLED_QUIESCE));
    cuda.quiesce(DEVICE, Deadline::NEVER).unwrap();
    cuda.quiesce(DEVICE, Deadline::NEVER).unwrap();
    assert_eq!(fake.get("synchronizations"), 2);
    assert_eq!(fake.get("events_created"), 0);
    assert_eq!(fake.current(), 0);
    fake.set("synchronize_result", 719);
    let error = cuda.quiesce(DEVICE, Deadline::NEVER).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EarlierWorkFailed);
    assert!(error.text().starts_with("cuCtxSynchronize"), "{error}");
}

#[test]
fn a_driver_that_answers_not_supported_is_synchronised_from_then_on() {
    let fake = Fake::build(&[]);
    let cuda = held(&fake);
    fake.set("record_result", 801);
    cuda.quiesce(DEVICE, Deadline::NEVER).unwrap();
    cuda.quiesce(DEVICE, Deadline::NEVER).unwrap();
    assert_eq!((fake.get("records"), fake.get("synchronizations")), (1, 2));
    assert_eq!(fake.get("events_created"), fake.get("events_destroyed"));
    assert!(!cuda.capabilities(DEVICE).unwrap().contains(Capabilities::POLLED_QUIESCE));
}

#[test]
fn a_helper_that_is_left_waiting_is_joined_and_a_round_of_ones_own_follows() {
    let fake = Fake::build(&["WITHOUT_RECORD"]);
    let cuda = held(&fake);
    fake.set("synchronize_ms", 100);
    let error = cuda.quiesce(DEVICE, Deadline::after(Duration::from_millis(10))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    // The round under way began before this call, so that it may not cover the newest work.
    cuda.quiesce(DEVICE, Deadline::NEVER).unwrap();
    assert_eq!(fake.get("synchronizations"), 2);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| cuda.quiesce(DEVICE, Deadline::NEVER).unwrap());
        }
    });
    let rounds = fake.get("synchronizations");
    assert!((3..6).contains(&rounds), "four callers share rounds: {rounds}");
    assert_eq!(fake.get("retains"), 1 + fake.get("releases"), "ours alone is kept");
    assert_eq!(fake.get("not_relaxed"), 0);
}
