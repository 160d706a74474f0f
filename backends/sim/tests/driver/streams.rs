//! Streams: order, and memory that goes away under work.

use std::ptr::NonNull;
use std::sync::Mutex;
use std::time::Duration;

use allocator_core::RawStream;

use super::*;

#[test]
fn a_stream_does_its_work_in_order() {
    let sim = sim();
    let stream = sim.open_user_stream(ZERO, false).unwrap();
    let done = Arc::new(Mutex::new(Vec::new()));
    for n in 0..50_u64 {
        let done = Arc::clone(&done);
        let busy = Duration::from_micros(if n % 7 == 0 { 500 } else { 0 });
        sim.launch(ZERO, stream, busy, move |_| done.lock().unwrap().push(n)).unwrap();
    }
    sim.synchronize(ZERO, stream).unwrap();
    assert!(done.lock().unwrap().iter().copied().eq(0..50));
}

#[test]
fn the_legacy_stream_and_blocking_ones_wait_for_each_other() {
    let sim = sim();
    let order = |blocking| {
        let stream = sim.open_user_stream(ZERO, blocking).unwrap();
        let done = Arc::new(Mutex::new(Vec::new()));
        for (at, ms, n) in [(stream, 150, 0), (RawStream(0), 20, 1), (stream, 0, 2)] {
            let done = Arc::clone(&done);
            let busy = Duration::from_millis(ms);
            sim.launch(ZERO, at, busy, move |_| done.lock().unwrap().push(n)).unwrap();
        }
        sim.synchronize(ZERO, stream).unwrap();
        sim.synchronize(ZERO, RawStream(0)).unwrap();
        sim.close_user_stream(stream).unwrap();
        std::mem::take(&mut *done.lock().unwrap())
    };
    assert_eq!(order(true), [0, 1, 2]);
    assert_eq!(order(false), [1, 0, 2], "a non-blocking one waits for nobody");
}

#[test]
fn a_closed_stream_still_does_its_work() {
    let sim = sim();
    let block = active(&sim, GRANULE);
    let stream = sim.open_user_stream(ZERO, false).unwrap();
    let busy = Duration::from_millis(20);
    sim.launch_fill(ZERO, stream, busy, block.address(), 3, 8).unwrap();
    sim.close_user_stream(stream).unwrap();
    fails(sim.close_user_stream(stream), ErrorKind::InvalidArgument);
    sim.quiesce(ZERO, allocator_core::Deadline::NEVER).unwrap();
    assert_eq!(sim.peek(block.address(), 8).unwrap(), [3; 8]);
    block.free::<Stash>().unwrap();
}

#[test]
fn a_kernel_that_panics_is_an_error_of_its_stream() {
    let sim = sim();
    let stream = sim.open_user_stream(ZERO, false).unwrap();
    // A panic, but without the message.
    let body = |_: &dormant_sim::Lane<'_>| std::panic::resume_unwind(Box::new(()));
    sim.launch(ZERO, stream, Duration::ZERO, body).unwrap();
    let message = fails(sim.synchronize(ZERO, stream), ErrorKind::Unknown);
    assert!(message.contains("LAUNCH_FAILED"), "{message}");
    sim.launch(ZERO, stream, Duration::ZERO, |_| {}).unwrap();
    sim.synchronize(ZERO, stream).unwrap();
}

#[test]
fn a_host_without_a_thread_for_a_stream_is_short_of_host_memory() {
    if !is_child() {
        // A stack that no address space has room for.
        let stack = (1_u64 << 62).to_string();
        let test = "streams::a_host_without_a_thread_for_a_stream_is_short_of_host_memory";
        let output = in_child(test, &[("RUST_MIN_STACK", &stack)]);
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{text} {errors}");
        return;
    }
    let sim = sim();
    let block = active(&sim, GRANULE);
    let stream = sim.open_stream(ZERO).unwrap();
    let mut host = [0_u8; 8];
    // SAFETY: the block is mapped until the stream was waited for.
    let filled = unsafe { sim.fill(&stream, block.address(), 1, 8) };
    let message = fails(filled, ErrorKind::HostMemory);
    assert!(message.contains("thread"), "{message}");
    // SAFETY: `host` lives, and the block is mapped, until the stream was waited for.
    let read = unsafe { sim.read(&stream, block.address(), NonNull::from(&mut host).cast(), 8) };
    fails(read, ErrorKind::HostMemory);
    let user = sim.open_user_stream(ZERO, false).unwrap();
    fails(sim.launch(ZERO, user, Duration::ZERO, |_| {}), ErrorKind::HostMemory);
    // Nothing was queued.
    sim.wait(&stream).unwrap();
    sim.close_stream(stream).unwrap();
    block.free::<Stash>().unwrap();
}

#[test]
fn an_unmap_in_the_middle_of_a_copy_is_an_error_and_not_a_crash() {
    for round in 0..12 {
        let slow = (round % 3 == 0).then_some(64 * MIB);
        let sim = sim_with(config().link_bytes_per_second(slow));
        let block = active(&sim, 8 * MIB);
        let mut host = vec![0_u8; 8 << 20];
        let at = NonNull::new(host.as_mut_ptr()).unwrap();
        let streams = [(); 2].map(|()| sim.open_stream(ZERO).unwrap());
        for _ in 0..64 {
            // SAFETY: `host` lives until the stream was waited for, and two streams write the
            // same side by turns of which nobody looks at the result.
            unsafe { sim.read(&streams[0], block.address(), at, 8 * MIB) }.unwrap();
            // SAFETY: the block is mapped now; that it is not later is what is tested.
            unsafe { sim.fill(&streams[1], block.address(), 1, 8 * MIB) }.unwrap();
        }
        std::thread::sleep(Duration::from_micros(300 * round));
        block.free::<Stash>().unwrap();
        // The physical memory has other owners now, whom late work must not touch.
        let other = active(&sim, 8 * MIB);
        for stream in &streams {
            fails(sim.wait(stream), ErrorKind::EarlierWorkFailed);
        }
        // SAFETY: mapped, and no work touches memory after a sticky error.
        let seen = unsafe { std::slice::from_raw_parts(cpu(other.address().0), 8 << 20) };
        assert!(seen.iter().all(|&byte| byte == 0), "round {round}");
        other.free::<Stash>().unwrap();
        assert_eq!(sim.machine().free_bytes(0).unwrap(), CAPACITY);
        assert_eq!(sim.machine().resident_bytes(0).unwrap(), 0);
    }
}

#[test]
fn many_threads_come_and_go_at_once() {
    let sim = sim();
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            let sim = &sim;
            scope.spawn(move || {
                let stream = sim.open_stream(ZERO).unwrap();
                for round in 0..25 {
                    let block = active(sim, GRANULE * (1 + u64::from(thread + round) % 5));
                    let at = block.address();
                    // SAFETY: the block is mapped until the stream was waited for.
                    unsafe { sim.fill(&stream, at, thread, block.physical_bytes()) }.unwrap();
                    sim.wait(&stream).unwrap();
                    let mut last = [0];
                    let end = at.offset(block.physical_bytes() - 1);
                    let to = NonNull::from(&mut last).cast();
                    // SAFETY: `last` lives until the stream was waited for.
                    unsafe { sim.read(&stream, end, to, 1) }.unwrap();
                    sim.wait(&stream).unwrap();
                    assert_eq!(last, [thread]);
                    block.free::<Stash>().unwrap();
                }
                sim.close_stream(stream).unwrap();
            });
        }
    });
    assert_eq!(free(&sim, ZERO), CAPACITY);
    assert_eq!(sim.machine().counts(), Default::default());
}
