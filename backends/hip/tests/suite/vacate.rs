//! Giving a range back and getting the same one again.

use allocator_core::{Device, Driver, ErrorKind, Operation, Range, leaked_ranges};
use dormant_hip::Hip;

use crate::fake::Fake;

const DEVICE: Device = Device(1);
const BYTES: u64 = 4 << 20;

fn vacate(hip: &Hip, range: &mut Range) -> allocator_core::Result<()> {
    // SAFETY: nothing was ever mapped in it.
    unsafe { hip.vacate(range) }
}

#[test]
fn the_same_addresses_come_back() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    let mut range = hip.reserve(DEVICE, BYTES).unwrap();
    let other = hip.reserve(DEVICE, BYTES).unwrap();
    let before = range.address();
    for round in 1..=3 {
        vacate(&hip, &mut range).unwrap();
        assert_eq!((range.address(), range.bytes()), (before, BYTES));
        assert_eq!((fake.get("reserves"), fake.get("frees")), (2 + round, round));
    }
    for range in [range, other] {
        // SAFETY: nothing was ever mapped in it.
        unsafe { hip.unreserve(range) }.unwrap();
    }
    fake.expect_nothing_left();
}

#[test]
fn other_addresses_are_given_back_and_the_loss_is_told() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    let mut range = hip.reserve(DEVICE, BYTES).unwrap();
    let before = range.address();
    fake.set("elsewhere", 1);
    let error = vacate(&hip, &mut range).unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::AddressLost, Operation::Vacate));
    assert_eq!((error.address(), error.device()), (Some(before), Some(DEVICE)));
    assert!(error.to_string().contains("instead of the same addresses"), "{error}");
    fake.expect_nothing_left();
    let _the_runtimes_again = range.into_driver();
}

#[test]
fn a_range_that_cannot_be_reserved_again_is_lost() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    let mut range = hip.reserve(DEVICE, BYTES).unwrap();
    fake.set("wish_result", 2);
    let error = vacate(&hip, &mut range).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::AddressLost, Some(2)));
    fake.expect_nothing_left();
    let _the_runtimes_again = range.into_driver();
}

#[test]
fn a_range_that_cannot_be_given_back_is_still_reserved() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    let mut range = hip.reserve(DEVICE, BYTES).unwrap();
    fake.set("free_result", 999);
    let error = vacate(&hip, &mut range).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Unknown, Some(999)));
    assert_eq!(fake.get("reserves"), 1);
    fake.set("free_result", 0);
    // SAFETY: nothing was ever mapped in it.
    unsafe { hip.unreserve(range) }.unwrap();
    fake.expect_nothing_left();
}

#[test]
fn a_range_whose_unreserve_fails_counts_as_a_leak() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    let range = hip.reserve(DEVICE, BYTES).unwrap();
    let before = leaked_ranges();
    fake.set("free_result", 1);
    // SAFETY: nothing was ever mapped in it.
    unsafe { hip.unreserve(range) }.unwrap_err();
    assert!(leaked_ranges() > before);
}
