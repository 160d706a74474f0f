//! Host memory: copies, registrations, the link.

use std::ptr::NonNull;
use std::time::{Duration, Instant};

use allocator_core::{Address, Operation};
use dormant_sim::Fault;

use super::*;

fn read(sim: &Sim, from: Address, to: &mut [u8]) -> Result<()> {
    let stream = sim.open_stream(ZERO)?;
    let at = NonNull::new(to.as_mut_ptr()).expect("a slice is somewhere");
    // SAFETY: `to` is borrowed until the stream was waited for.
    let queued = unsafe { sim.read(&stream, from, at, to.len() as u64) };
    let waited = sim.wait(&stream);
    sim.close_stream(stream)?;
    queued.and(waited)
}

fn write(sim: &Sim, to: Address, from: &mut [u8]) -> Result<()> {
    let stream = sim.open_stream(ZERO)?;
    let at = NonNull::new(from.as_mut_ptr()).expect("a slice is somewhere");
    // SAFETY: `from` is borrowed until the stream was waited for.
    let queued = unsafe { sim.write(&stream, to, at, from.len() as u64) };
    let waited = sim.wait(&stream);
    sim.close_stream(stream)?;
    queued.and(waited)
}

#[test]
fn what_is_written_is_read_back_at_any_offset_and_length() {
    let sim = sim();
    let block = active(&sim, 4 * MIB);
    let mut contents: Vec<u8> =
        (0..3 * MIB + 77).map(|n| u8::try_from(n * n % 253).unwrap()).collect();
    write(&sim, block.address().offset(13), &mut contents).unwrap();
    let mut back = vec![0; contents.len()];
    read(&sim, block.address().offset(13), &mut back).unwrap();
    assert!(back == contents);
    assert_eq!(sim.peek(block.address(), 14).unwrap()[12..], [0, contents[0]]);
    block.free::<Stash>().unwrap();
}

#[test]
fn registered_memory_is_counted_and_its_borders_hold() {
    let sim = sim();
    let block = active(&sim, GRANULE);
    let mut host = vec![0_u8; 8192];
    let start = NonNull::new(host.as_mut_ptr()).unwrap();
    let middle = NonNull::new(host[4096..].as_mut_ptr()).unwrap();
    for piece in [start, middle] {
        // SAFETY: the bytes live to the end of the test.
        unsafe { sim.register_host(piece, 4096) }.unwrap();
    }
    assert_eq!((sim.registered_bytes(), sim.registrations()), (8192, 2));
    let message = fails(read(&sim, block.address(), &mut host), ErrorKind::InvalidArgument);
    assert!(message.contains("border"), "{message}");
    read(&sim, block.address(), &mut host[..4096]).unwrap();
    // SAFETY: the call is refused.
    fails(unsafe { sim.register_host(middle, 1) }, ErrorKind::InvalidArgument);
    for piece in [start, middle] {
        // SAFETY: no copy is queued on it.
        unsafe { sim.unregister_host(piece) }.unwrap();
    }
    // SAFETY: the call is refused.
    fails(unsafe { sim.unregister_host(start) }, ErrorKind::InvalidArgument);
    assert_eq!(sim.registered_bytes(), 0);
    block.free::<Stash>().unwrap();
}

#[test]
fn a_refused_registration_is_about_host_memory() {
    let sim = sim_with(config().fault(Fault::RefuseHostRegistration));
    let mut host = [0_u8; 64];
    let at = NonNull::new(host.as_mut_ptr()).unwrap();
    // SAFETY: the bytes live to the end of the test.
    fails(unsafe { sim.register_host(at, 64) }, ErrorKind::HostMemory);
}

#[test]
fn host_memory_that_is_not_there_is_an_error_and_not_a_crash() {
    let sim = sim();
    let block = active(&sim, GRANULE);
    // Reserved, so that nothing else can be there; the machine's own, so that it is no memory.
    let nowhere = sim.reserve(ZERO, GRANULE).unwrap();
    let stream = sim.open_stream(ZERO).unwrap();
    let at = NonNull::new(cpu(nowhere.address().0)).unwrap();
    // SAFETY: nobody uses the bytes; that they cannot be written is what is tested, and the
    // system finds out, since the simulated device has it copy.
    unsafe { sim.read(&stream, block.address(), at, 64) }.unwrap();
    fails(sim.wait(&stream), ErrorKind::InvalidArgument);
    sim.wait(&stream).unwrap();
    // SAFETY: nothing is mapped in it.
    unsafe { sim.unreserve(nowhere) }.unwrap();
    block.free::<Stash>().unwrap();
}

#[test]
fn a_slow_link_is_as_slow_as_it_says_in_each_direction() {
    let sim = sim_with(config().link_bytes_per_second(Some(20 * MIB)));
    let block = active(&sim, 2 * MIB);
    let mut host = vec![1; 2 << 20];
    let start = Instant::now();
    write(&sim, block.address(), &mut host).unwrap();
    read(&sim, block.address(), &mut host).unwrap();
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(195), "{took:?}");
    block.free::<Stash>().unwrap();
}

#[test]
fn a_long_copy_holds_nobody_up() {
    // Four seconds; the machine ends before, and before the host bytes do.
    let mut host = vec![0_u8; 2 << 20];
    let sim = sim_with(config().link_bytes_per_second(Some(MIB / 2)));
    let block = active(&sim, 2 * MIB);
    let stream = sim.open_stream(ZERO).unwrap();
    let at = NonNull::new(host.as_mut_ptr()).unwrap();
    // SAFETY: `host` lives, and nobody else uses it, until the machine has ended.
    unsafe { sim.read(&stream, block.address(), at, 2 * MIB) }.unwrap();
    for _ in 0..10 {
        let other = active(&sim, MIB);
        let queue = sim.open_stream(ZERO).unwrap();
        // SAFETY: the block is mapped until the stream was waited for.
        unsafe { sim.fill(&queue, other.address(), 1, MIB) }.unwrap();
        sim.wait(&queue).unwrap();
        sim.close_stream(queue).unwrap();
        other.free::<Stash>().unwrap();
    }
    let still = sim.machine().stream_query(stream.handle()).unwrap_err();
    assert_eq!(still.code, dormant_sim::machine::Code::NotReady);
}

#[test]
fn an_injected_failure_of_wait_still_waits() {
    let sim = sim();
    let block = active(&sim, GRANULE);
    let stream = sim.open_stream(ZERO).unwrap();
    sim.machine().set_current(Some(0)).unwrap();
    let start = Instant::now();
    sim.machine().launch(stream.handle(), Duration::from_millis(40), |_| {}).unwrap();
    sim.fail_nth(Operation::Wait, 1, ErrorKind::Unknown);
    fails(sim.wait(&stream), ErrorKind::Unknown);
    assert!(start.elapsed() >= Duration::from_millis(40));
    block.free::<Stash>().unwrap();
}
