//! What each call does to the calling thread, and what becomes of its errors.

use std::ptr::NonNull;

use allocator_core::{Address, Device, Driver, ErrorKind, RawStream};
use dormant_cuda::Cuda;

use crate::fake::Fake;

const GRANULE: u64 = 2 << 20;

/// All that a block and its copies need, on a device.
fn exercise(cuda: &Cuda, device: Device) {
    let range = cuda.reserve(device, GRANULE).unwrap();
    let physical = cuda.create(device, GRANULE).unwrap();
    // SAFETY: range and handle are as long as each other and fresh.
    unsafe { cuda.map(&range, 0, &physical) }.unwrap();
    // SAFETY: mapped above.
    unsafe { cuda.set_access(&range, 0, GRANULE, &[device]) }.unwrap();
    let stream = cuda.open_stream(device).unwrap();
    assert_eq!(stream.device(), device);
    let mut bytes = [0_u8; 64];
    let host = NonNull::new(bytes.as_mut_ptr()).unwrap();
    // SAFETY: the stand-in touches the host side only, and at once.
    unsafe { cuda.read(&stream, range.address(), host, 64) }.unwrap();
    assert_eq!(bytes, [7; 64]);
    // SAFETY: as above.
    unsafe { cuda.write(&stream, range.address(), host, 64) }.unwrap();
    // SAFETY: the bytes are mapped.
    unsafe { cuda.fill(&stream, range.address(), 0, GRANULE) }.unwrap();
    cuda.wait(&stream).unwrap();
    // SAFETY: the stand-in registers nothing.
    unsafe { cuda.register_host(host, 64) }.unwrap();
    // SAFETY: registered above.
    unsafe { cuda.unregister_host(host) }.unwrap();
    // SAFETY: the number is that of a stream of the stand-in's.
    assert!(!unsafe { cuda.is_capturing(device, RawStream(4)) }.unwrap());
    cuda.quiesce(device, allocator_core::Deadline::NEVER).unwrap();
    cuda.memory(device).unwrap();
    cuda.close_stream(stream).unwrap();
    // SAFETY: mapped above; nothing is in flight.
    unsafe { cuda.unmap(&range, 0, GRANULE) }.unwrap();
    cuda.release(physical).unwrap();
    // SAFETY: nothing is mapped in it any more.
    unsafe { cuda.unreserve(range) }.unwrap();
}

#[test]
fn a_thread_without_a_context_has_none_afterwards() {
    let fake = Fake::build(&[]);
    let cuda = fake.open();
    exercise(&cuda, Device(1));
    assert_eq!(fake.current(), 0);
    assert_eq!(fake.get("wrong_context"), 0);
    assert_eq!((fake.get("retains"), fake.get("releases")), (1, 0), "one context, kept");
    assert_eq!((fake.get("reserves"), fake.get("frees")), (1, 1));
    assert_eq!((fake.get("creates"), fake.get("handle_releases")), (1, 1));
}

#[test]
fn a_threads_own_context_is_current_again_after_each_call() {
    let fake = Fake::build(&[]);
    let cuda = fake.open();
    let mine = fake.enter(0);
    exercise(&cuda, Device(1));
    assert_eq!(fake.current(), mine);
    exercise(&cuda, Device(0));
    assert_eq!(fake.current(), mine);
    assert_eq!(fake.get("wrong_context"), 0, "copies came in their owner's context");
}

#[test]
fn the_capture_mode_is_relaxed_during_calls_and_put_back() {
    let fake = Fake::build(&[]);
    let cuda = fake.open();
    for mode in [0, 1, 2] {
        fake.exchange_mode(mode);
        exercise(&cuda, Device(0));
        assert_eq!(fake.exchange_mode(0), mode);
    }
    assert_eq!(fake.get("not_relaxed"), 0);
}

#[test]
fn calls_on_addresses_borrow_a_context_only_where_a_thread_has_none() {
    let fake = Fake::build(&[]);
    let cuda = fake.open();
    cuda.release(cuda.create(Device(1), GRANULE).unwrap()).unwrap();
    assert_eq!(fake.get("last_context_device"), 1);
    assert_eq!(fake.current(), 0);
    fake.enter(0);
    cuda.release(cuda.create(Device(1), GRANULE).unwrap()).unwrap();
    assert_eq!(fake.get("last_context_device"), 0, "left as it was");
}

#[test]
fn a_context_is_retained_on_the_device_of_a_block_only() {
    let fake = Fake::build(&[]);
    let cuda = fake.open();
    exercise(&cuda, Device(1));
    assert_eq!(fake.get_at("active_elsewhere", 0), 0);
    assert_eq!(fake.get("retains"), 1);
    assert_eq!(cuda.memory(Device(0)).unwrap().total_bytes, 1 << 30);
    assert_eq!(fake.get("last_context_device"), 0);
    assert_eq!((fake.get("retains"), fake.get("releases")), (2, 1), "borrowed for the reading");
}

#[test]
fn many_threads_retain_a_context_once() {
    let fake = Fake::build(&[]);
    let cuda = fake.open();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| exercise(&cuda, Device(0)));
        }
    });
    assert_eq!(fake.get("retains"), 1);
    assert_eq!(fake.get("not_relaxed"), 0);
}

#[test]
fn out_of_memory_may_work_later_but_more_than_the_device_has_never_will() {
    let fake = Fake::build(&[]);
    let cuda = fake.open();
    fake.set("create_result", 2);
    let error = cuda.create(Device(0), 1 << 30).unwrap_err();
    assert_eq!(
        error.to_string(),
        "out of memory in create of 1073741824 bytes on device 0: cuMemCreate: \
         CUDA_ERROR_OUT_OF_MEMORY (out of memory) (driver code 2)"
    );
    let error = cuda.create(Device(0), (1 << 30) + GRANULE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    fake.set("reserve_result", 2);
    assert_eq!(cuda.reserve(Device(0), GRANULE).unwrap_err().kind(), ErrorKind::OutOfMemory);
}

#[test]
fn a_code_without_a_name_is_still_an_error() {
    let fake = Fake::build(&[]);
    let cuda = fake.open();
    fake.set("create_result", 4711);
    let error = cuda.create(Device(0), GRANULE).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Unknown, Some(4711)));
    assert!(error.text().contains("cuMemCreate"), "{error}");
}

#[test]
fn work_that_failed_earlier_is_told_as_such() {
    let fake = Fake::build(&[]);
    let cuda = fake.open();
    let stream = cuda.open_stream(Device(0)).unwrap();
    fake.set("stream_result", 700);
    let error = cuda.wait(&stream).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EarlierWorkFailed);
    assert!(error.to_string().contains("queued earlier"), "{error}");
    assert_eq!(fake.current(), 0, "the thread is put back after a failure too");
    cuda.close_stream(stream).unwrap();
}

#[test]
fn a_stream_of_the_callers_is_capturing_also_when_its_capture_is_invalidated() {
    let fake = Fake::build(&[]);
    let cuda = fake.open();
    for (status, expected) in [(0, false), (1, true), (2, true)] {
        fake.set("capture_status", status);
        // SAFETY: the number is that of a stream of the stand-in's.
        assert_eq!(unsafe { cuda.is_capturing(Device(0), RawStream(4)) }.unwrap(), expected);
        for legacy in [0, 1] {
            // SAFETY: the legacy stream.
            assert!(!unsafe { cuda.is_capturing(Device(0), RawStream(legacy)) }.unwrap());
        }
    }
    assert_eq!(fake.get("retains"), 0);
}

#[test]
fn registering_host_memory_needs_a_context_and_tells_whose_memory_ran_out() {
    let fake = Fake::build(&[]);
    let cuda = fake.open();
    let mut bytes = [0_u8; 64];
    let at = NonNull::new(bytes.as_mut_ptr()).unwrap();
    // SAFETY: the stand-in registers nothing.
    let register = || unsafe { cuda.register_host(at, 64) };
    assert_eq!(register().unwrap_err().kind(), ErrorKind::WrongState);
    let stream = cuda.open_stream(Device(1)).unwrap();
    register().unwrap();
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
    cuda.close_stream(stream).unwrap();
}

#[test]
fn what_must_be_done_in_any_case_is_done_also_where_the_thread_cannot_be_prepared() {
    let fake = Fake::build(&[]);
    let cuda = fake.open();
    let stream = cuda.open_stream(Device(0)).unwrap();
    let mut bytes = [0_u8; 64];
    let host = NonNull::new(bytes.as_mut_ptr()).unwrap();
    // SAFETY: the stand-in registers nothing.
    unsafe { cuda.register_host(host, 64) }.unwrap();
    assert_eq!((fake.get("registrations"), fake.get("streams")), (1, 1));
    // A context that the unregistration can take, since ours cannot be made current.
    let mine = fake.enter(1);
    for refusal in ["get_current_result", "exchange_result"] {
        fake.set(refusal, 999);
        // SAFETY: the call is refused before anything is queued.
        let queued = unsafe { cuda.fill(&stream, Address(1 << 40), 0, 8) };
        assert_eq!(queued.unwrap_err().code(), Some(999), "{refusal}");
        let before = fake.get("waits");
        cuda.wait(&stream).unwrap();
        assert_eq!(fake.get("waits"), before + 1, "{refusal}: it was waited");
        fake.set("stream_result", 700);
        let error = cuda.wait(&stream).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::EarlierWorkFailed, "the answer of the wait itself");
        fake.set("stream_result", 0);
        fake.set(refusal, 0);
    }
    fake.set("get_current_result", 999);
    // SAFETY: registered above.
    unsafe { cuda.unregister_host(host) }.unwrap();
    cuda.close_stream(stream).unwrap();
    assert_eq!((fake.get("registrations"), fake.get("streams")), (0, 0));
    fake.set("get_current_result", 0);
    assert_eq!(fake.current(), mine);
}

#[test]
fn access_is_given_to_exactly_the_devices_named() {
    let fake = Fake::build(&[]);
    let cuda = fake.open();
    let range = cuda.reserve(Device(0), GRANULE).unwrap();
    let physical = cuda.create(Device(0), GRANULE).unwrap();
    // SAFETY: range and handle are as long as each other and fresh.
    unsafe { cuda.map(&range, 0, &physical) }.unwrap();
    let open_to = |devices: &[Device]| {
        // SAFETY: mapped above.
        unsafe { cuda.set_access(&range, 0, GRANULE, devices) }.unwrap();
        fake.get("last_access_count")
    };
    assert_eq!(open_to(&[Device(0)]), 1);
    assert_eq!(open_to(&[Device(0), Device(1)]), 2);
    assert_eq!(open_to(&[Device(0)]), 2, "the other loses what it has");
    assert_eq!(open_to(&[Device(0)]), 1, "and is not named again");
    // SAFETY: mapped above; nothing is in flight.
    unsafe { cuda.unmap(&range, 0, GRANULE) }.unwrap();
    cuda.release(physical).unwrap();
    // SAFETY: nothing is mapped in it any more.
    unsafe { cuda.unreserve(range) }.unwrap();
}

#[test]
fn devices_that_are_no_peers_are_told_so_and_nothing_is_enabled() {
    let fake = Fake::build(&[]);
    let cuda = fake.open();
    cuda.enable_peer(Device(0), Device(1)).unwrap();
    cuda.enable_peer(Device(0), Device(1)).unwrap();
    fake.set("peers", 0);
    let error = cuda.enable_peer(Device(0), Device(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    cuda.enable_peer(Device(1), Device(1)).unwrap();
    assert_eq!(fake.get("retains"), 0);
}

#[test]
fn vacate_leaves_the_range_alone() {
    let fake = Fake::build(&[]);
    let cuda = fake.open();
    let mut range = cuda.reserve(Device(0), GRANULE).unwrap();
    let before = range.address();
    // SAFETY: nothing was ever mapped in it.
    unsafe { cuda.vacate(&mut range) }.unwrap();
    assert_eq!(range.address(), before);
    assert_eq!(fake.get("frees"), 0);
    assert_ne!(before, Address(0));
    // SAFETY: as above.
    unsafe { cuda.unreserve(range) }.unwrap();
}
