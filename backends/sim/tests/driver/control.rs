//! The control surface: failures, counters, contexts, the program's own state, lost devices.

use std::time::Duration;

use allocator_core::{Deadline, Operation, RawStream, Stuck};

use super::*;

#[test]
fn an_injected_failure_changes_nothing_and_happens_once() {
    let sim = sim();
    let before = free(&sim, ZERO);
    sim.fail_nth(Operation::Create, 2, ErrorKind::OutOfMemory);
    let first = sim.create(ZERO, GRANULE).unwrap();
    let message = fails(sim.create(ZERO, GRANULE), ErrorKind::OutOfMemory);
    assert!(message.contains("injected") && message.contains("device 0"), "{message}");
    assert_eq!(free(&sim, ZERO), before - GRANULE);
    let second = sim.create(ZERO, GRANULE).unwrap();
    for physical in [first, second] {
        sim.release(physical).unwrap();
    }
    assert_eq!(sim.calls(Operation::Create), 3);
    assert_eq!(sim.armed_failures(), 0);
}

#[test]
fn a_failed_unmap_leaves_the_block_as_it_was() {
    let sim = sim();
    let block = active(&sim, GRANULE);
    let at = block.address();
    sim.poke(at, b"kept").unwrap();
    sim.fail_from(Operation::Unmap, ErrorKind::Unknown);
    let stuck = block.detach(Some(b"stash".to_vec()), false).unwrap_err();
    let Stuck::Unchanged { block, spare, .. } = *stuck else { panic!("unchanged was wanted") };
    assert_eq!(spare.unwrap(), b"stash");
    assert_eq!(sim.peek(at, 4).unwrap(), b"kept");
    sim.clear_failures();
    block.free::<Stash>().unwrap();
    assert_eq!(free(&sim, ZERO), CAPACITY);
}

#[test]
fn the_log_tells_the_order_of_calls() {
    let sim = sim();
    sim.record_calls(true);
    let block = active(&sim, GRANULE);
    block.free::<Stash>().unwrap();
    assert_eq!(
        sim.call_log(),
        [
            Operation::Granularity,
            Operation::Reserve,
            Operation::Create,
            Operation::Map,
            Operation::SetAccess,
            Operation::Unmap,
            Operation::Release,
            Operation::Unreserve,
        ]
    );
    sim.record_calls(false);
    assert!(sim.call_log().is_empty());
}

#[test]
fn no_context_is_made_before_a_device_is_used() {
    let sim = sim();
    assert_eq!(sim.devices().unwrap().len(), 2);
    sim.granularity(ONE).unwrap();
    sim.capabilities(ONE).unwrap();
    sim.quiesce(ONE, Deadline::NEVER).unwrap();
    assert_eq!((sim.contexts(), sim.contexts_made()), (0, 0));
    sim.memory(ONE).unwrap();
    assert_eq!((sim.contexts(), sim.contexts_made()), (0, 1), "a temporary one");
    let range = sim.reserve(ONE, GRANULE).unwrap();
    assert_eq!((sim.contexts(), sim.contexts_made()), (1, 2));
    sim.memory(ONE).unwrap();
    // SAFETY: nothing is mapped in it.
    unsafe { sim.unreserve(range) }.unwrap();
    assert_eq!((sim.contexts(), sim.contexts_made()), (1, 2));
}

#[test]
fn driver_calls_leave_the_current_device_and_the_capture_mode_alone() {
    let sim = sim();
    for current in [None, Some(ONE)] {
        sim.set_current_device(current).unwrap();
        let block = active(&sim, GRANULE);
        let stream = sim.open_stream(ZERO).unwrap();
        // SAFETY: the block is mapped until the stream was waited for.
        unsafe { sim.fill(&stream, block.address(), 1, GRANULE) }.unwrap();
        sim.wait(&stream).unwrap();
        sim.close_stream(stream).unwrap();
        sim.quiesce(ZERO, Deadline::NEVER).unwrap();
        fails(sim.create(Device(7), GRANULE), ErrorKind::NotFound);
        block.free::<Stash>().unwrap();
        assert_eq!(sim.current_device(), current);
    }
    fails(sim.set_current_device(Some(Device(7))), ErrorKind::NotFound);
}

#[test]
fn driver_calls_do_not_break_a_capture_and_a_quiesce_does() {
    let sim = sim();
    let stream = sim.open_user_stream(ZERO, false).unwrap();
    let queue = sim.open_stream(ZERO).unwrap();
    sim.begin_capture(stream).unwrap();
    // SAFETY: the stream is live; zero is the legacy one.
    let capturing = [stream, RawStream(0)].map(|s| unsafe { sim.is_capturing(ZERO, s) }.unwrap());
    assert_eq!(capturing, [true, false]);
    let block = active(&sim, GRANULE);
    // SAFETY: the block is mapped until the stream was waited for.
    unsafe { sim.fill(&queue, block.address(), 1, GRANULE) }.unwrap();
    sim.wait(&queue).unwrap();
    sim.memory(ZERO).unwrap();
    sim.end_capture(stream).unwrap();

    sim.begin_capture(stream).unwrap();
    let message = fails(sim.quiesce(ZERO, Deadline::NEVER), ErrorKind::Busy);
    assert!(message.contains("STREAM_CAPTURE_UNSUPPORTED"), "{message}");
    fails(sim.end_capture(stream), ErrorKind::Busy);
    sim.quiesce(ZERO, Deadline::NEVER).unwrap();
    block.free::<Stash>().unwrap();
}

#[test]
fn a_quiesce_waits_for_every_stream_and_is_busy_at_its_deadline() {
    let sim = sim();
    let block = active(&sim, GRANULE);
    for blocking in [false, true] {
        let stream = sim.open_user_stream(ZERO, blocking).unwrap();
        let busy = Duration::from_millis(150);
        sim.launch_fill(ZERO, stream, busy, block.address(), 8, 4).unwrap();
        let deadline = Deadline::after(Duration::from_millis(5));
        fails(sim.quiesce(ZERO, deadline), ErrorKind::Busy);
        sim.quiesce(ZERO, Deadline::NEVER).unwrap();
        assert_eq!(sim.peek(block.address(), 4).unwrap(), [8; 4]);
        sim.poke(block.address(), &[0; 4]).unwrap();
        sim.close_user_stream(stream).unwrap();
    }
    block.free::<Stash>().unwrap();
}

#[test]
fn after_a_sticky_error_free_still_works() {
    let sim = sim();
    let (block, spare) = (active(&sim, GRANULE), active(&sim, GRANULE));
    let at = block.address();
    sim.launch_fill(ZERO, RawStream(0), Duration::from_millis(200), at, 1, 8).unwrap();
    // Too early: the kernel has not written yet.
    block.free::<Stash>().unwrap();
    let message = fails(sim.quiesce(ZERO, Deadline::NEVER), ErrorKind::EarlierWorkFailed);
    assert!(message.contains("ILLEGAL_ADDRESS"), "{message}");
    fails(sim.memory(ZERO), ErrorKind::EarlierWorkFailed);
    fails(sim.peek(spare.address(), 1), ErrorKind::EarlierWorkFailed);
    spare.free::<Stash>().unwrap();
    assert_eq!(sim.machine().free_bytes(0).unwrap(), CAPACITY);
    // Addresses and memory are still given out.
    let another = active(&sim, GRANULE);
    another.free::<Stash>().unwrap();
}

#[test]
fn a_lost_device_says_so_and_lets_go_of_its_memory() {
    let sim = sim();
    let block = active(&sim, GRANULE);
    let stream = sim.open_stream(ZERO).unwrap();
    sim.launch(ZERO, RawStream(0), Duration::from_secs(60), |_| {}).unwrap();
    let waiting = Arc::clone(&sim);
    let waiter = std::thread::spawn(move || waiting.quiesce(ZERO, Deadline::NEVER));
    std::thread::sleep(Duration::from_millis(20));
    sim.lose_device(ZERO).unwrap();
    fails(waiter.join().unwrap(), ErrorKind::DeviceLost);
    fails(sim.memory(ZERO), ErrorKind::DeviceLost);
    // SAFETY: the call is refused.
    fails(unsafe { sim.fill(&stream, block.address(), 1, 8) }, ErrorKind::DeviceLost);
    fails(sim.wait(&stream), ErrorKind::DeviceLost);
    block.free::<Stash>().unwrap();
    sim.memory(ONE).unwrap();
}

#[test]
fn every_call_takes_the_configured_latency() {
    let sim = sim_with(config().latency(Some(Duration::from_millis(10))));
    let start = std::time::Instant::now();
    let range = sim.reserve(ZERO, GRANULE).unwrap();
    // SAFETY: nothing is mapped in it.
    unsafe { sim.unreserve(range) }.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(20));
}

#[test]
fn a_machine_without_virtual_memory_says_that_it_is_not_supported() {
    let sim = sim_with(config().capabilities(allocator_core::Capabilities::empty()));
    fails(sim.reserve(ZERO, GRANULE), ErrorKind::NotSupported);
    fails(sim.create(ZERO, GRANULE), ErrorKind::NotSupported);
}

#[test]
fn a_machine_without_devices_has_none() {
    let sim = sim_with(config().devices(0));
    assert!(sim.devices().unwrap().is_empty());
    fails(sim.memory(ZERO), ErrorKind::NotFound);
    fails(sim.quiesce(ZERO, Deadline::NEVER), ErrorKind::NotFound);
}
