//! What each call does to the calling thread, and what becomes of its errors.

use std::ptr::NonNull;

use allocator_core::{Address, Deadline, Device, Driver, ErrorKind, Range, RawStream};
use dormant_hip::{Hip, Physical};

use crate::fake::Fake;
use crate::open::child;

const GRANULE: u64 = 2 << 20;

pub(crate) fn mapped(hip: &Hip, device: Device) -> (Range, Physical) {
    let range = hip.reserve(device, GRANULE).unwrap();
    let physical = hip.create(device, GRANULE).unwrap();
    // SAFETY: range and handle are as long as each other and fresh.
    unsafe { hip.map(&range, 0, &physical) }.unwrap();
    // SAFETY: mapped above.
    unsafe { hip.set_access(&range, 0, GRANULE, &[device]) }.unwrap();
    (range, physical)
}

pub(crate) fn gone(hip: &Hip, (range, physical): (Range, Physical)) {
    // SAFETY: mapped by `mapped`; nothing is in flight.
    unsafe { hip.unmap(&range, 0, GRANULE) }.unwrap();
    hip.release(physical).unwrap();
    // SAFETY: nothing is mapped in it any more.
    unsafe { hip.unreserve(range) }.unwrap();
}

/// All that a block and its copies need, on a device.
fn exercise(hip: &Hip, device: Device) {
    let block = mapped(hip, device);
    let at = block.0.address();
    let stream = hip.open_stream(device).unwrap();
    assert_eq!(stream.device(), device);
    let mut bytes = [0_u8; 64];
    let host = NonNull::new(bytes.as_mut_ptr()).unwrap();
    // SAFETY: the stand-in touches the host side only, and at once.
    unsafe { hip.read(&stream, at, host, 64) }.unwrap();
    assert_eq!(bytes, [7; 64]);
    // SAFETY: as above.
    unsafe { hip.write(&stream, at, host, 64) }.unwrap();
    // SAFETY: the bytes are mapped.
    unsafe { hip.fill(&stream, at, 0, GRANULE) }.unwrap();
    hip.wait(&stream).unwrap();
    // SAFETY: the stand-in registers nothing.
    unsafe { hip.register_host(host, 64) }.unwrap();
    // SAFETY: registered above.
    unsafe { hip.unregister_host(host) }.unwrap();
    let theirs = RawStream(usize::try_from(device.0).unwrap() << 8 | 4);
    // SAFETY: the number is that of a stream of the stand-in's.
    assert!(!unsafe { hip.is_capturing(device, theirs) }.unwrap());
    hip.quiesce(device, Deadline::NEVER).unwrap();
    hip.memory(device).unwrap();
    hip.capabilities(device).unwrap();
    let mut range = hip.reserve(device, GRANULE).unwrap();
    // SAFETY: nothing was ever mapped in it.
    unsafe { hip.vacate(&mut range) }.unwrap();
    // SAFETY: as above.
    unsafe { hip.unreserve(range) }.unwrap();
    hip.close_stream(stream).unwrap();
    gone(hip, block);
}

#[test]
fn a_threads_own_device_is_current_again_after_each_call() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    for mine in [0, 1] {
        fake.enter(mine);
        for device in [Device(1), Device(0)] {
            exercise(&hip, device);
            assert_eq!(fake.current(), mine);
        }
    }
    assert_eq!(fake.get("wrong_device"), 0, "each call came with its owner's device current");
    fake.expect_nothing_left();
}

#[test]
fn the_capture_mode_is_relaxed_during_calls_and_put_back() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    for mode in [0, 1, 2] {
        fake.exchange_mode(mode);
        exercise(&hip, Device(1));
        assert_eq!(fake.exchange_mode(0), mode);
    }
    assert_eq!(fake.get("not_relaxed"), 0);
}

#[test]
fn virtual_memory_calls_of_many_threads_come_one_at_a_time() {
    let fake = Fake::build(&[]);
    fake.set("slow_us", 100);
    // Two drivers over one library share the turn.
    let drivers = [fake.open(), fake.open()];
    std::thread::scope(|scope| {
        for index in 0..8 {
            let hip = &drivers[index % 2];
            scope.spawn(move || exercise(hip, Device(u32::from(index % 3 == 0))));
        }
    });
    assert_eq!(fake.get("overlaps"), 0);
    assert_eq!(fake.get("wrong_device"), 0);
    fake.expect_nothing_left();
}

#[test]
fn out_of_memory_may_work_later_but_more_than_the_device_has_never_will() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    fake.set("create_result", 2);
    let error = hip.create(Device(0), 1 << 30).unwrap_err();
    assert_eq!(
        error.to_string(),
        "out of memory in create of 1073741824 bytes on device 0: hipMemCreate: \
         hipErrorOutOfMemory (out of memory) (driver code 2)"
    );
    let error = hip.create(Device(0), (1 << 30) + GRANULE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    fake.set("reserve_result", 2);
    assert_eq!(hip.reserve(Device(0), GRANULE).unwrap_err().kind(), ErrorKind::OutOfMemory);
}

#[test]
fn a_size_not_in_granules_is_an_invalid_argument_also_where_the_runtime_says_out_of_memory() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    let error = hip.reserve(Device(0), 6912).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::InvalidArgument, Some(2)));
    assert!(error.to_string().contains("granules of 2097152 bytes"), "{error}");
    assert_eq!(hip.create(Device(0), 6912).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_failure_of_ours_does_not_stay_behind_as_the_threads_last_error() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    fake.set("create_result", 2);
    hip.create(Device(0), GRANULE).unwrap_err();
    assert_eq!(fake.last_error(), 0);
    fake.set("create_result", 0);
    fake.set("get_access_result", 1);
    let block = mapped(&hip, Device(0));
    // SAFETY: mapped above.
    unsafe { hip.set_access(&block.0, 0, GRANULE, &[Device(1)]) }.unwrap();
    assert_eq!(fake.last_error(), 0);
    gone(&hip, block);
}

#[test]
fn work_that_failed_earlier_is_told_as_such_and_left_for_the_program_to_find() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    let stream = hip.open_stream(Device(1)).unwrap();
    fake.set("stream_result", 700);
    let error = hip.wait(&stream).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EarlierWorkFailed);
    assert!(error.to_string().contains("queued earlier"), "{error}");
    assert_eq!(fake.current(), 0, "the thread is put back after a failure too");
    assert_eq!(fake.last_error(), 700);
    hip.close_stream(stream).unwrap();
}

#[test]
fn a_stream_of_the_callers_is_capturing_also_when_its_capture_is_invalidated() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    for (status, expected) in [(0, false), (1, true), (2, true)] {
        fake.set("capture_status", status);
        // SAFETY: the number is that of a stream of the stand-in's.
        assert_eq!(unsafe { hip.is_capturing(Device(0), RawStream(4)) }.unwrap(), expected);
        for legacy in [0, 1] {
            // SAFETY: the legacy stream.
            assert!(!unsafe { hip.is_capturing(Device(0), RawStream(legacy)) }.unwrap());
        }
    }
}

#[test]
fn registering_host_memory_needs_a_device_in_use_and_tells_whose_memory_ran_out() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    let mut bytes = [0_u8; 64];
    let at = NonNull::new(bytes.as_mut_ptr()).unwrap();
    // SAFETY: the stand-in registers nothing.
    let register = || unsafe { hip.register_host(at, 64) };
    assert_eq!(register().unwrap_err().kind(), ErrorKind::WrongState);
    let stream = hip.open_stream(Device(1)).unwrap();
    register().unwrap();
    assert_eq!(fake.get("last_register_device"), 1);
    for (code, kind) in [
        (2, ErrorKind::HostMemory),
        (304, ErrorKind::HostMemory),
        (712, ErrorKind::InvalidArgument),
        (700, ErrorKind::EarlierWorkFailed),
    ] {
        fake.set("register_result", code);
        let error = register().unwrap_err();
        assert_eq!((error.kind(), error.bytes()), (kind, Some(64)));
    }
    hip.close_stream(stream).unwrap();
}

#[test]
fn what_must_be_done_in_any_case_is_done_also_where_the_thread_cannot_be_prepared() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    let stream = hip.open_stream(Device(0)).unwrap();
    let mut bytes = [0_u8; 64];
    let host = NonNull::new(bytes.as_mut_ptr()).unwrap();
    // SAFETY: the stand-in registers nothing.
    unsafe { hip.register_host(host, 64) }.unwrap();
    assert_eq!((fake.get("registrations"), fake.get("streams")), (1, 1));
    fake.enter(1);
    for refusal in ["get_device_result", "exchange_result"] {
        fake.set(refusal, 999);
        // SAFETY: the call is refused before anything is queued.
        let queued = unsafe { hip.fill(&stream, Address(1 << 40), 0, 8) };
        assert_eq!(queued.unwrap_err().code(), Some(999), "{refusal}");
        let before = fake.get("waits");
        hip.wait(&stream).unwrap();
        assert_eq!(fake.get("waits"), before + 1, "{refusal}: it was waited");
        fake.set("stream_result", 700);
        let error = hip.wait(&stream).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::EarlierWorkFailed, "the answer of the wait itself");
        fake.set("stream_result", 0);
        fake.set(refusal, 0);
    }
    fake.set("get_device_result", 999);
    // SAFETY: registered above.
    unsafe { hip.unregister_host(host) }.unwrap();
    hip.close_stream(stream).unwrap();
    assert_eq!((fake.get("registrations"), fake.get("streams")), (0, 0));
    fake.set("get_device_result", 0);
    assert_eq!(fake.current(), 1);
    assert_eq!(fake.exchange_mode(0), 0);
}

#[test]
fn access_is_given_to_exactly_the_devices_named() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    let block = mapped(&hip, Device(0));
    let open_to = |devices: &[Device]| {
        // SAFETY: mapped above.
        unsafe { hip.set_access(&block.0, 0, GRANULE, devices) }.unwrap();
        fake.get("last_access_count")
    };
    assert_eq!(open_to(&[Device(0)]), 1);
    assert_eq!(open_to(&[Device(0), Device(1)]), 2);
    assert_eq!(open_to(&[Device(0)]), 2, "the other loses what it has");
    assert_eq!(open_to(&[Device(0)]), 1, "and is not named again");
    assert_eq!(fake.get("last_host_access"), -1, "the host is not named");
    gone(&hip, block);
}

#[test]
fn the_host_gets_access_where_the_environment_says_so() {
    let (well, text) =
        child("calls::child_gives_the_host_access", &[("DORMANT_HIP_QUIRKS", "host_access=yes")]);
    assert!(well, "{text}");
}

#[test]
#[ignore = "run by the_host_gets_access_where_the_environment_says_so in a process of its own"]
fn child_gives_the_host_access() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    let block = mapped(&hip, Device(1));
    assert_eq!((fake.get("last_access_count"), fake.get("last_host_access")), (2, 1));
    gone(&hip, block);
}

#[test]
fn devices_that_are_no_peers_are_told_so_and_nothing_is_enabled() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    hip.enable_peer(Device(0), Device(1)).unwrap();
    hip.enable_peer(Device(0), Device(1)).unwrap();
    fake.set("peers", 0);
    let error = hip.enable_peer(Device(0), Device(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    hip.enable_peer(Device(1), Device(1)).unwrap();
}
