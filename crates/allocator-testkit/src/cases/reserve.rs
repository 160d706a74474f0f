//! Address ranges.

use allocator_core::{Device, Driver, ErrorKind};

use crate::Bench;
use crate::panics::spawn;

/// Gives a range back.
fn unreserve<D: Driver>(bench: &Bench<D>, range: allocator_core::Range) {
    // SAFETY: the case mapped nothing in it.
    unsafe { bench.driver().unreserve(range) }.expect("unreserve");
}

/// A reservation is address space and nothing else.
pub fn a_reservation_starts_on_a_granule_and_takes_no_memory<D: Driver>(bench: &Bench<D>) {
    let before = bench.free_bytes();
    let bytes = bench.granularity.round_up(bench.unit_bytes).expect("a size");
    let range = bench.driver().reserve(bench.device, bytes).expect("reserve");
    assert_eq!(range.address().0 % bench.granularity.bytes(), 0);
    assert_eq!((range.bytes(), range.device()), (bytes, bench.device));
    bench.expect_free(before, "after reserving");
    unreserve(bench, range);
}

/// No two ranges share an address.
pub fn reservations_do_not_overlap<D: Driver>(bench: &Bench<D>) {
    let bytes = bench.granularity.bytes();
    let mut ranges: Vec<_> = (1..=8)
        .map(|count| bench.driver().reserve(bench.device, count * bytes).expect("reserve"))
        .collect();
    ranges.sort_by_key(allocator_core::Range::address);
    for pair in ranges.windows(2) {
        assert!(pair[0].address().offset(pair[0].bytes()) <= pair[1].address(), "{pair:?}");
    }
    ranges.into_iter().for_each(|range| unreserve(bench, range));
}

/// Sizes come in granules.
pub fn a_reservation_not_in_granules_is_refused<D: Driver>(bench: &Bench<D>) {
    let granule = bench.granularity.bytes();
    for bytes in [0, 6912, granule + 1] {
        let error = bench.driver().reserve(bench.device, bytes).expect_err("a bad size");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{bytes}: {error}");
    }
}

/// An ordinal that no device has.
pub fn an_unknown_device_is_refused_and_named<D: Driver>(bench: &Bench<D>) {
    let nowhere = Device(999);
    let errors = [
        bench.driver().memory(nowhere).expect_err("no such device"),
        bench.driver().granularity(nowhere).expect_err("no such device"),
        bench.driver().capabilities(nowhere).expect_err("no such device"),
        bench.driver().create(nowhere, bench.granularity.bytes()).expect_err("no such device"),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert_eq!(error.device(), Some(nowhere), "{error}");
    }
}

/// Nor do those of two threads.
pub fn threads_reserve_at_once_and_no_ranges_overlap<D: Driver>(bench: &Bench<D>) {
    let bytes = bench.granularity.bytes();
    let mut ranges: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=4)
            .map(|count| {
                spawn(scope, move || {
                    let reserve = |_| bench.driver().reserve(bench.device, count * bytes);
                    (0..8).map(reserve).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    let mut ranges: Vec<_> = ranges.drain(..).map(|range| range.expect("reserve")).collect();
    ranges.sort_by_key(allocator_core::Range::address);
    for pair in ranges.windows(2) {
        assert!(pair[0].address().offset(pair[0].bytes()) <= pair[1].address(), "{pair:?}");
    }
    ranges.into_iter().for_each(|range| unreserve(bench, range));
}
