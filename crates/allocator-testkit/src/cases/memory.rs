//! When memory is short.

use std::time::{Duration, Instant};

use allocator_core::{Driver, ErrorKind};
use dormant_engine::{
    Address, Allocation, BlockState, Config, Engine, PauseOptions, Policy, ResumeOptions, Selection,
};

use crate::Bench;
use crate::panics::spawn;

/// The device's memory, taken until it refuses a single granule. A full device may still read
/// some bytes as free that it gives to nobody (128 MiB on an H200), so the driver's own refusal
/// is what counts.
struct Ballast {
    /// Blocks of exactly the bench's unit, rounded to granules; at least one.
    units: Vec<Address>,
    others: Vec<Address>,
}

impl Ballast {
    fn all(self) -> impl Iterator<Item = Address> {
        self.units.into_iter().chain(self.others)
    }
}

fn fill_device<D: Driver>(bench: &Bench<D>) -> Ballast {
    let take = |bytes| {
        let allocation = Allocation::new(bytes, bench.device).tag("ballast");
        match bench.engine.allocate(&allocation) {
            Ok(address) => Some(address),
            Err(error) if error.kind() == ErrorKind::OutOfMemory => None,
            Err(error) => panic!("filling the device: {error}"),
        }
    };
    let granule = bench.granularity.bytes();
    let unit = bench.granularity.round_up(bench.unit_bytes).expect("a size");
    let mut ballast = Ballast { units: Vec::new(), others: Vec::new() };
    // One unit first, so that there is one to give back.
    ballast.units.push(take(unit).expect("room for one unit"));
    let mut step = bench.driver().memory(bench.device).expect("memory").total_bytes / 4;
    step -= step % granule;
    while step >= granule {
        ballast.others.extend(std::iter::from_fn(|| take(step)));
        step = (step / 2).next_multiple_of(granule).min(step - granule);
    }
    ballast
}

fn free_all<D: Driver>(bench: &Bench<D>, addresses: impl IntoIterator<Item = Address>) {
    addresses.into_iter().for_each(|address| bench.engine.free(address).expect("free"));
}

fn state<D: Driver>(bench: &Bench<D>, address: Address) -> BlockState {
    bench.engine.find(address).expect("a block of ours").state
}

/// A failed resume ends no job.
pub fn a_resume_without_room_changes_nothing_and_works_later<D: Driver>(bench: &Bench<D>) {
    let bytes = bench.unit_bytes;
    let blocks: Vec<_> = (1..=3).map(|seed| bench.filled("w", Policy::Host, bytes, seed)).collect();
    bench.engine.pause("w", &PauseOptions::default()).expect("pause");
    let ballast = fill_device(bench);
    let before = bench.free_bytes();
    let error = bench.engine.resume("w", &ResumeOptions::default()).expect_err("no room");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert_eq!(error.wanted_bytes(), Some(3 * bench.granularity.round_up(bytes).expect("size")));
    assert!(error.free_bytes().is_some(), "{error}");
    assert_eq!(error.holders().first().map(|holder| holder.tag.as_str()), Some("ballast"));
    bench.expect_free(before, "after the failed resume");
    for address in &blocks {
        assert_eq!(state(bench, *address), BlockState::Paused);
    }
    free_all(bench, ballast.all());
    bench.engine.resume("w", &ResumeOptions::default()).expect("there is room now");
    for (address, seed) in blocks.iter().zip(1..) {
        bench.expect_pattern(*address, bytes, seed);
    }
    free_all(bench, blocks);
}

/// Half a model is of no use.
pub fn a_resume_of_two_tags_is_all_or_nothing<D: Driver>(bench: &Bench<D>) {
    let bytes = bench.unit_bytes;
    let a = bench.filled("a", Policy::Host, bytes, 1);
    let b = bench.filled("b", Policy::Host, bytes, 2);
    bench.engine.pause(Selection::All, &PauseOptions::default()).expect("pause");
    let mut ballast = fill_device(bench);
    // Room for one, not for both.
    free_all(bench, ballast.units.pop());
    let both = Selection::tags(["a", "b"]);
    let error = bench.engine.resume(both, &ResumeOptions::default()).expect_err("no room");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert_eq!((state(bench, a), state(bench, b)), (BlockState::Paused, BlockState::Paused));
    bench.engine.resume("b", &ResumeOptions::default()).expect("room for one");
    bench.expect_pattern(b, bytes, 2);
    free_all(bench, ballast.all());
    bench.engine.resume(Selection::All, &ResumeOptions::default()).expect("room for all");
    bench.expect_pattern(a, bytes, 1);
    bench.expect_pattern(b, bytes, 2);
    free_all(bench, [a, b]);
}

/// Trainer and engine take turns; the other may be just leaving.
pub fn a_resume_waits_for_memory_that_comes_free<D: Driver>(bench: &Bench<D>) {
    let bytes = bench.unit_bytes;
    let address = bench.filled("w", Policy::Host, bytes, 1);
    bench.engine.pause("w", &PauseOptions::default()).expect("pause");
    let ballast = fill_device(bench);
    let waiting = ResumeOptions::default().wait_for_memory(Duration::from_millis(40));
    let begun = Instant::now();
    let error = bench.engine.resume("w", &waiting).expect_err("nobody leaves");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert!(begun.elapsed() >= Duration::from_millis(40));
    std::thread::scope(|scope| {
        let patient = ResumeOptions::default().wait_for_memory(Duration::from_secs(60));
        let waiter = spawn(scope, move || bench.engine.resume("w", &patient));
        std::thread::sleep(Duration::from_millis(30));
        free_all(bench, ballast.all());
        waiter.join().expect("no panic").expect("memory came free");
    });
    bench.expect_pattern(address, bytes, 1);
    bench.engine.free(address).expect("free");
}

/// A verdict, not a moment.
pub fn more_than_the_device_has_is_too_large<D: Driver>(bench: &Bench<D>) {
    let total = bench.driver().memory(bench.device).expect("memory").total_bytes;
    for bytes in [2 * total, u64::MAX - 1] {
        let error = bench
            .engine
            .allocate(&Allocation::new(bytes, bench.device))
            .expect_err("more than there is");
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{bytes}: {error}");
    }
}

/// Neither memory nor addresses.
pub fn an_allocation_that_fails_leaves_nothing_behind<D: Driver>(bench: &Bench<D>) {
    let ballast = fill_device(bench);
    let before = bench.free_bytes();
    let ranges = allocator_core::leaked_ranges();
    for policy in [Policy::Host, Policy::Zero] {
        let allocation = Allocation::new(bench.unit_bytes, bench.device).tag("late").policy(policy);
        let error = bench.engine.allocate(&allocation).expect_err("the device is full");
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        assert_eq!(error.holders()[0].tag.as_str(), "ballast");
    }
    bench.expect_free(before, "after failed allocations");
    assert_eq!(allocator_core::leaked_ranges(), ranges);
    free_all(bench, ballast.all());
}

/// There is no such block.
pub fn an_allocation_of_no_bytes_is_refused<D: Driver>(bench: &Bench<D>) {
    let error = bench.engine.allocate(&Allocation::new(0, bench.device)).expect_err("no bytes");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

/// Known before the first byte is copied.
pub fn backups_over_their_limit_are_refused_before_anything_is_touched<D: Driver>(
    bench: &Bench<D>,
) {
    let bytes = bench.unit_bytes;
    let mut config = Config::default();
    config.host_limit_bytes = Some(2 * bytes);
    let engine = Engine::new(bench.driver().clone(), config);
    let blocks: Vec<_> = (0..3)
        .map(|index| {
            let allocation = Allocation::new(bytes, bench.device)
                .tag(if index == 2 { "last" } else { "first" })
                .policy(Policy::Host);
            let address = engine.allocate(&allocation).expect("allocation");
            engine.write(address, &crate::pattern(bytes, 1)).expect("write");
            address
        })
        .collect();
    let before = bench.free_bytes();
    let error = engine.pause(Selection::All, &PauseOptions::default()).expect_err("over it");
    assert_eq!(error.kind(), ErrorKind::HostMemory, "{error}");
    assert_eq!(error.cause().bytes(), Some(3 * bytes), "{error}");
    bench.expect_free(before, "after the refused pause");
    assert_eq!(engine.stats().host_backup_bytes, 0);
    engine.pause("first", &PauseOptions::default()).expect("two are within it");
    engine.pause("last", &PauseOptions::default()).expect_err("a third is not");
    engine.resume(Selection::All, &ResumeOptions::default()).expect("resume");
    for address in blocks {
        let mut have = vec![0; usize::try_from(bytes).expect("a size")];
        engine.read(address, &mut have).expect("read");
        crate::expect_bytes(&have, &crate::pattern(bytes, 1));
        engine.free(address).expect("free");
    }
}

/// Others' want is no reason to wake anybody, or to lose what they saved.
pub fn running_out_of_memory_leaves_a_paused_tag_asleep<D: Driver>(bench: &Bench<D>) {
    let bytes = bench.unit_bytes;
    let asleep = bench.filled("asleep", Policy::Host, bytes, 1);
    bench.engine.pause("asleep", &PauseOptions::default()).expect("pause");
    let ballast = fill_device(bench);
    let late = Allocation::new(bytes, bench.device).tag("late").policy(Policy::Host);
    let error = bench.engine.allocate(&late).expect_err("the device is full");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    // It holds nothing now, so it is not to blame.
    assert!(error.holders().iter().all(|holder| holder.tag.as_str() != "asleep"), "{error}");
    assert_eq!(state(bench, asleep), BlockState::Paused);
    let backup = bench.engine.backup(asleep).expect("backup");
    crate::expect_bytes(&backup, &crate::pattern(bytes, 1));
    free_all(bench, ballast.all());
    bench.engine.resume("asleep", &ResumeOptions::default()).expect("resume");
    bench.expect_pattern(asleep, bytes, 1);
    free_all(bench, [asleep]);
}

/// A full device has room as soon as one tag sleeps.
pub fn a_pause_on_a_full_device_makes_room_for_another_tag<D: Driver>(bench: &Bench<D>) {
    let bytes = bench.unit_bytes;
    let mut ballast = fill_device(bench);
    bench.engine.pause("ballast", &PauseOptions::default()).expect("pause");
    let guest = bench.filled("guest", Policy::Host, bytes, 1);
    bench.expect_pattern(guest, bytes, 1);
    bench.engine.pause("guest", &PauseOptions::default()).expect("pause");
    // Others may have taken a little meanwhile.
    free_all(bench, ballast.units.pop());
    bench.engine.resume("ballast", &ResumeOptions::default()).expect("resume");
    free_all(bench, ballast.all());
    bench.engine.resume("guest", &ResumeOptions::default()).expect("resume");
    bench.expect_pattern(guest, bytes, 1);
    free_all(bench, [guest]);
}
