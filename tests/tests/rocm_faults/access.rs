//! Who may use a mapping.

use std::ffi::c_void;
use std::process::Command;
use std::sync::Arc;

use allocator_core::Driver;
use dormant_sim::Fault;
use dormant_tests::c::run;

use crate::support::*;

#[test]
fn access_to_two_pieces_at_once_is_refused_and_to_each_by_itself_works() {
    let raw = Raw::load("DORMANT_SIM_FAULTS=no_joined_access");
    let at = raw.reserved(2);
    raw.mapped(at);
    raw.mapped(next(at));
    assert_ne!(raw.opened(at, 2, &[1]), 0, "both at once");
    assert_eq!((raw.opened(at, 1, &[1]), raw.opened(next(at), 1, &[1])), (0, 0));

    fn check<D: Driver>(driver: &Arc<D>) {
        let mut block = active(driver, 4 * GRANULE, GRANULE);
        block.set_access(&[ZERO]).expect("set_access");
        block.free::<Vec<u8>>().expect("free");
    }
    check(&sim(&[Fault::NoJoinedAccess]));
    check(&hip("DORMANT_SIM_FAULTS=no_joined_access").1);
}

/// Whether the CPU can read a byte there: the system says so without a fault.
fn readable(at: *const c_void) -> bool {
    let mut ends = [0; 2];
    // SAFETY: the array has room for both ends.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // SAFETY: the system checks the address, and answers EFAULT where it cannot be read.
    let written = unsafe { libc::write(ends[1], at, 1) };
    for end in ends {
        // SAFETY: made above, and closed once.
        unsafe { libc::close(end) };
    }
    written == 1
}

#[test]
fn the_host_reads_only_what_it_was_given_access_to() {
    let fault = "DORMANT_SIM_FAULTS=host_access_needed;DORMANT_DOUBLE_HIP_VERSION=7.2-patched";
    let raw = Raw::load(fault);
    let at = raw.reserved(1);
    raw.mapped(at);
    assert_eq!(raw.opened(at, 1, &[1]), 0);
    assert!(!readable(at), "a descriptor for the device alone");
    assert_eq!(raw.opened(at, 1, &[1, 2]), 0);
    assert!(readable(at));
}

/// The driver is told by the environment, so this is for a child.
const QUIRK: (&str, &str) = ("DORMANT_HIP_QUIRKS", "host_access=yes");

#[test]
fn the_driver_gives_the_host_access_when_told_to() {
    if std::env::var(QUIRK.0).is_err() {
        let mut child = Command::new(std::env::current_exe().expect("this test's own path"));
        child.args(["--exact", "access::the_driver_gives_the_host_access_when_told_to"]);
        run(child.env(QUIRK.0, QUIRK.1));
    }
    let told = std::env::var(QUIRK.0).is_ok();
    let fault = "DORMANT_SIM_FAULTS=host_access_needed;DORMANT_DOUBLE_HIP_VERSION=7.2-patched";
    let (_library, driver) = hip(fault);
    let block = active(&driver, GRANULE, GRANULE);
    let address = usize::try_from(block.address().0).expect("an address");
    assert_eq!(readable(std::ptr::with_exposed_provenance(address)), told);
    block.free::<Vec<u8>>().expect("free");
}
