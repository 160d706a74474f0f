//! Physical memory, mappings and copies, below the engine.

use std::ptr::NonNull;

use allocator_core::{Backing, Capabilities, Driver, ErrorKind, Mapped, PausedBlock, Stuck};

use crate::{Bench, expect_bytes, pattern};

type Sleeper<D> = PausedBlock<D, ()>;

/// A sleeping block of `bytes`.
fn sleeper<D: Driver>(bench: &Bench<D>, bytes: u64) -> Sleeper<D> {
    PausedBlock::reserve(bench.driver(), bench.device, bytes, bench.granularity).expect("reserve")
}

/// Memory for it, in handles of `piece_bytes`.
fn backing<D: Driver>(bench: &Bench<D>, bytes: u64, piece_bytes: u64) -> Backing<D> {
    Backing::create(bench.driver(), bench.device, bytes, piece_bytes).expect("create")
}

/// Without it there is nothing to test.
pub fn a_device_offers_virtual_memory<D: Driver>(bench: &Bench<D>) {
    assert!(bench.can(Capabilities::VIRTUAL_MEMORY));
}

/// Memory counts from its creation, not from its mapping.
pub fn creating_takes_memory_at_once_and_releasing_gives_it_back<D: Driver>(bench: &Bench<D>) {
    let before = bench.free_bytes();
    let bytes = bench.granularity.round_up(bench.unit_bytes).expect("a size");
    let memory = backing(bench, bytes, bytes);
    bench.expect_free(before - bytes, "after creating");
    memory.release().expect("release");
    bench.expect_free(before, "after releasing");
}

/// Sizes come in granules.
pub fn a_creation_not_in_granules_is_refused<D: Driver>(bench: &Bench<D>) {
    let granule = bench.granularity.bytes();
    for bytes in [0, 6912, granule + 1] {
        let error = bench.driver().create(bench.device, bytes).expect_err("a bad size");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{bytes}: {error}");
    }
}

/// One range over several handles is one block to its user.
pub fn a_block_of_several_handles_holds_its_contents<D: Driver>(bench: &Bench<D>) {
    let granule = bench.granularity.bytes();
    let bytes = 5 * granule;
    let memory = backing(bench, bytes, 2 * granule);
    assert_eq!(memory.handles(), 3);
    let block = sleeper(bench, bytes).attach(memory, [bench.device]).expect("attach");
    copy_through(bench, &block, bytes, 3);
    let (block, _) = block.settle();
    let block = block.detach::<()>(None, vacates(bench)).expect("detach");
    block.free().expect("free");
}

fn vacates<D: Driver>(bench: &Bench<D>) -> bool {
    bench.can(Capabilities::KEEPS_UNTIL_UNRESERVED)
}

/// Writes a pattern into a mapped block and reads it back.
fn copy_through<D: Driver, B: Mapped<Driver = D>>(
    bench: &Bench<D>,
    block: &B,
    bytes: u64,
    seed: u8,
) {
    let driver = bench.driver();
    let mut source = pattern(bytes, seed);
    let mut target = vec![0_u8; source.len()];
    let stream = driver.open_stream(bench.device).expect("stream");
    let from = NonNull::new(source.as_mut_ptr()).expect("an address");
    let to = NonNull::new(target.as_mut_ptr()).expect("an address");
    // SAFETY: the block is mapped for these bytes; the vectors live and rest until `wait`.
    unsafe { driver.write(&stream, block.address(), from, bytes) }.expect("write");
    // SAFETY: as above.
    unsafe { driver.read(&stream, block.address(), to, bytes) }.expect("read");
    driver.wait(&stream).expect("wait");
    driver.close_stream(stream).expect("close");
    expect_bytes(&target, &source);
}

/// The heart of it, below the engine.
pub fn detaching_gives_memory_back_and_keeps_the_address_out_of_reach<D: Driver>(bench: &Bench<D>) {
    let before = bench.free_bytes();
    let bytes = bench.granularity.round_up(bench.unit_bytes).expect("a size");
    let block = sleeper(bench, bytes);
    let address = block.address();
    let block = block.attach(backing(bench, bytes, bytes), [bench.device]).expect("attach");
    bench.expect_free(before - bytes, "attached");
    let (block, _) = block.settle();
    let block = block.detach::<()>(None, vacates(bench)).expect("detach");
    bench.expect_free(before, "detached");
    assert_eq!(block.address(), address);
    let other = bench.driver().reserve(bench.device, bytes).expect("reserve");
    assert_ne!(other.address(), address, "the address of a sleeping block was handed out");
    // SAFETY: nothing was mapped in it.
    unsafe { bench.driver().unreserve(other) }.expect("unreserve");
    let block = block.attach(backing(bench, bytes, bytes), [bench.device]).expect("attach");
    assert_eq!(block.address(), address);
    copy_through(bench, &block, bytes, 9);
    block.free().expect("free");
    bench.expect_free(before, "freed");
}

/// A mistake of the layer above loses nothing.
pub fn physical_memory_of_the_wrong_size_comes_back_with_the_block<D: Driver>(bench: &Bench<D>) {
    let granule = bench.granularity.bytes();
    let stuck = sleeper(bench, granule)
        .attach(backing(bench, 2 * granule, granule), [bench.device])
        .expect_err("a backing of another size");
    match *stuck {
        Stuck::Unchanged { block, spare, error } => {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            spare.release().expect("release");
            block.free().expect("free");
        }
        Stuck::Poisoned { error, .. } => panic!("poisoned: {error}"),
    }
}

/// What is queued last is what stays.
pub fn copies_of_one_stream_happen_in_order<D: Driver>(bench: &Bench<D>) {
    let bytes = bench.granularity.bytes();
    let driver = bench.driver();
    let block =
        sleeper(bench, bytes).attach(backing(bench, bytes, bytes), [bench.device]).expect("attach");
    let stream = driver.open_stream(bench.device).expect("stream");
    for byte in 1..=100 {
        // SAFETY: the block is mapped for these bytes until after `wait`.
        unsafe { driver.fill(&stream, block.address(), byte, bytes) }.expect("fill");
    }
    let mut target = vec![0_u8; usize::try_from(bytes).expect("a size")];
    let to = NonNull::new(target.as_mut_ptr()).expect("an address");
    // SAFETY: as above; the vector lives and rests until `wait`.
    unsafe { driver.read(&stream, block.address(), to, bytes) }.expect("read");
    driver.wait(&stream).expect("wait");
    driver.close_stream(stream).expect("close");
    assert!(target.iter().all(|byte| *byte == 100));
    block.free().expect("free");
}

/// A registration is taken once.
pub fn registering_host_memory_twice_is_refused<D: Driver>(bench: &Bench<D>) {
    let driver = bench.driver();
    let mut memory = vec![0_u8; 1 << 20];
    // Registrations are by page; a page of its own inside the vector.
    let start = memory.as_mut_ptr();
    let start = start.wrapping_add(start.align_offset(64 << 10));
    let at = NonNull::new(start).expect("an address");
    // SAFETY: the vector is mapped and stays so until it is unregistered.
    unsafe { driver.register_host(at, 64 << 10) }.expect("register");
    // SAFETY: as above; that it is registered already is what this asks about.
    let error = unsafe { driver.register_host(at, 64 << 10) }.expect_err("registered twice");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    // SAFETY: registered above, and no copy uses it.
    unsafe { driver.unregister_host(at) }.expect("unregister");
    // SAFETY: as above; that it is no longer registered is what this asks about.
    unsafe { driver.unregister_host(at) }.expect_err("unregistered twice");
}

/// Whether or not the driver hands out the same ones again.
pub fn addresses_given_back_are_reserved_and_mapped_again<D: Driver>(bench: &Bench<D>) {
    let before = bench.free_bytes();
    let bytes = 2 * bench.granularity.bytes();
    for seed in 1..=8 {
        let memory = backing(bench, bytes, bench.granularity.bytes());
        let block = sleeper(bench, bytes).attach(memory, [bench.device]).expect("attach");
        copy_through(bench, &block, bytes, seed);
        block.free().expect("free");
    }
    bench.expect_free(before, "after the last free");
}

/// To the byte, and across the border of two handles.
pub fn a_fill_of_a_part_leaves_the_rest<D: Driver>(bench: &Bench<D>) {
    let granule = bench.granularity.bytes();
    let bytes = 2 * granule;
    let memory = backing(bench, bytes, granule);
    let block = sleeper(bench, bytes).attach(memory, [bench.device]).expect("attach");
    copy_through(bench, &block, bytes, 5);
    let driver = bench.driver();
    let stream = driver.open_stream(bench.device).expect("stream");
    let at = block.address().offset(granule - 5);
    // SAFETY: the block is mapped for these bytes until after `wait`.
    unsafe { driver.fill(&stream, at, 0xC3, 12) }.expect("fill");
    let mut have = vec![0_u8; usize::try_from(bytes).expect("a size")];
    let to = NonNull::new(have.as_mut_ptr()).expect("an address");
    // SAFETY: as above; the vector lives and rests until `wait`.
    unsafe { driver.read(&stream, block.address(), to, bytes) }.expect("read");
    driver.wait(&stream).expect("wait");
    driver.close_stream(stream).expect("close");
    let mut want = pattern(bytes, 5);
    let place = usize::try_from(granule - 5).expect("a size");
    want[place..place + 12].fill(0xC3);
    expect_bytes(&have, &want);
    block.free().expect("free");
}

/// A wait for one is no wait for the other, and neither takes the other's bytes.
pub fn two_streams_of_a_device_work_side_by_side<D: Driver>(bench: &Bench<D>) {
    let half = bench.granularity.bytes();
    let driver = bench.driver();
    let memory = backing(bench, 2 * half, half);
    let block = sleeper(bench, 2 * half).attach(memory, [bench.device]).expect("attach");
    let streams = [1, 2].map(|byte| (driver.open_stream(bench.device).expect("stream"), byte));
    for (stream, byte) in &streams {
        let at = block.address().offset(u64::from(*byte - 1) * half);
        // SAFETY: the block is mapped for these bytes until after `wait`.
        unsafe { driver.fill(stream, at, *byte, half) }.expect("fill");
    }
    for (stream, byte) in streams {
        let mut have = vec![0_u8; usize::try_from(half).expect("a size")];
        let to = NonNull::new(have.as_mut_ptr()).expect("an address");
        let at = block.address().offset(u64::from(byte - 1) * half);
        // SAFETY: as above; the vector lives and rests until `wait`.
        unsafe { driver.read(&stream, at, to, half) }.expect("read");
        driver.wait(&stream).expect("wait");
        driver.close_stream(stream).expect("close");
        assert!(have.iter().all(|have| *have == byte), "stream {byte}");
    }
    block.free().expect("free");
}
