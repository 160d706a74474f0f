//! Blocks: real memory, given back for real.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use allocator_core::RawStream;

use super::*;

#[test]
fn a_block_keeps_its_address_and_gives_its_memory_back() {
    let sim = sim();
    let block = active(&sim, 10 * GRANULE - 5);
    let (address, bytes) = (block.address(), block.physical_bytes());
    assert_eq!(bytes, 10 * GRANULE);
    assert_eq!(free(&sim, ZERO), CAPACITY - bytes);
    assert_eq!(sim.machine().resident_bytes(0).unwrap(), bytes);

    let contents: Stash = (0..bytes).map(|n| u8::try_from(n % 251).unwrap()).collect();
    sim.poke(address, &contents).unwrap();
    let paused = block.detach(Some(contents.clone()), false).unwrap();
    assert_eq!(free(&sim, ZERO), CAPACITY);
    assert_eq!(sim.machine().resident_bytes(0).unwrap(), 0);
    fails(sim.peek(address, 1), ErrorKind::InvalidArgument);

    let (block, stash) = wake(&sim, paused);
    assert_eq!(block.address(), address);
    sim.poke(address, &stash.unwrap()).unwrap();
    assert_eq!(sim.peek(address, contents.len()).unwrap(), contents);
    block.free::<Stash>().unwrap();
    assert_eq!(free(&sim, ZERO), CAPACITY);
    assert_eq!(sim.machine().counts(), Default::default());
}

#[test]
fn a_mapped_block_is_memory_of_the_cpu_too() {
    let sim = sim();
    let block = active(&sim, GRANULE);
    let (at, seventh) = (cpu(block.address().0), cpu(block.address().0 + 7));
    // SAFETY: the block is mapped and writable, and no work touches it.
    unsafe { seventh.write_volatile(42) };
    assert_eq!(sim.peek(block.address().offset(7), 1).unwrap(), [42]);
    sim.poke(block.address(), b"!").unwrap();
    // SAFETY: as above.
    let seen = unsafe { at.read_volatile() };
    assert_eq!(seen, b'!');
    block.free::<Stash>().unwrap();
}

const SIGSEGV: i32 = 11;

#[test]
fn a_paused_block_faults() {
    if !is_child() {
        let status = in_child("blocks::a_paused_block_faults", &[]).status;
        assert_eq!(status.signal(), Some(SIGSEGV), "{status}");
        return;
    }
    let sim = sim();
    let block = active(&sim, GRANULE);
    let at = cpu(block.address().0);
    // SAFETY: the block is mapped and readable, and no work touches it.
    let _ = unsafe { at.read_volatile() };
    let _paused = block.detach::<Stash>(None, false).unwrap();
    // SAFETY: none; this is the fault that the parent waits for.
    let _ = unsafe { at.read_volatile() };
}

#[test]
fn a_block_without_access_faults() {
    if !is_child() {
        let status = in_child("blocks::a_block_without_access_faults", &[]).status;
        assert_eq!(status.signal(), Some(SIGSEGV), "{status}");
        return;
    }
    let sim = sim();
    let range = sim.reserve(ZERO, GRANULE).unwrap();
    let physical = sim.create(ZERO, GRANULE).unwrap();
    // SAFETY: the range is empty and as long as the memory, which is mapped nowhere.
    unsafe { sim.map(&range, 0, &physical) }.unwrap();
    // SAFETY: none; this is the fault that the parent waits for.
    let _ = unsafe { cpu(range.address().0).read_volatile() };
}

#[test]
fn fresh_memory_has_any_contents_when_asked_to() {
    let sim = sim_with(config().scribble(Some(0xa5)));
    let block = active(&sim, 3 * GRANULE);
    assert_eq!(sim.peek(block.address(), 5).unwrap(), [0xa5; 5]);
    assert_eq!(sim.peek(block.address().offset(3 * GRANULE - 1), 1).unwrap(), [0xa5]);
    block.free::<Stash>().unwrap();
    let sim = self::sim();
    let block = active(&sim, GRANULE);
    assert_eq!(sim.peek(block.address(), 5).unwrap(), [0; 5]);
    block.free::<Stash>().unwrap();
}

#[test]
fn a_hundred_thousand_small_blocks_need_no_descriptors_each() {
    const COUNT: u64 = 100_000;
    let page = 4096;
    let sim = sim_with(config().granularity(page).capacity_bytes(COUNT * page));
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open();
    let mut blocks: Vec<_> = (0..COUNT)
        .map(|_| (sim.reserve(ZERO, page).unwrap(), sim.create(ZERO, page).unwrap()))
        .collect();
    fails(sim.create(ZERO, page), ErrorKind::OutOfMemory);
    for (range, physical) in blocks.iter().take(20_000) {
        // SAFETY: the range is empty and as long as the memory, which is mapped nowhere.
        unsafe { sim.map(range, 0, physical) }.unwrap();
        // SAFETY: the piece was mapped by the line above.
        unsafe { sim.set_access(range, 0, page, &[ZERO]) }.unwrap();
    }
    // Other tests of this process open some too.
    assert!(open() < before + 200);
    for (range, _) in blocks.iter().take(20_000) {
        // SAFETY: the piece was mapped above, and no work touches it.
        unsafe { sim.unmap(range, 0, page) }.unwrap();
    }
    for (range, physical) in blocks.drain(..) {
        sim.release(physical).unwrap();
        // SAFETY: nothing is mapped in it any more.
        unsafe { sim.unreserve(range) }.unwrap();
    }
    assert_eq!(free(&sim, ZERO), COUNT * page);
    assert_eq!(sim.machine().resident_bytes(0).unwrap(), 0);
}

#[test]
fn a_request_larger_than_the_device_is_too_large() {
    let sim = sim();
    let message = fails(sim.create(ZERO, CAPACITY + GRANULE), ErrorKind::TooLarge);
    for part in ["device 0", "67174400 bytes", "OUT_OF_MEMORY", "67108864"] {
        assert!(message.contains(part), "{message}");
    }
    let all = sim.create(ZERO, CAPACITY).unwrap();
    fails(sim.create(ZERO, GRANULE), ErrorKind::OutOfMemory);
    sim.release(all).unwrap();
    fails(sim.create(ZERO, 0), ErrorKind::InvalidArgument);
    fails(sim.create(ZERO, GRANULE + 1), ErrorKind::InvalidArgument);
    fails(sim.create(Device(9), GRANULE), ErrorKind::NotFound);
}

#[test]
fn access_is_exactly_what_was_named() {
    let sim = sim();
    let mut block = active(&sim, GRANULE);
    let at = block.address();
    block.set_access(&[ZERO, ONE]).unwrap();
    sim.launch_fill(ONE, RawStream(0), Duration::ZERO, at, 1, 8).unwrap();
    sim.synchronize(ONE, RawStream(0)).unwrap();
    assert_eq!(sim.peek(at, 8).unwrap(), [1; 8]);
    block.set_access(&[ZERO]).unwrap();
    sim.launch_fill(ONE, RawStream(0), Duration::ZERO, at, 2, 8).unwrap();
    fails(sim.synchronize(ONE, RawStream(0)), ErrorKind::EarlierWorkFailed);
}
