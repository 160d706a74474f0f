//! Rows of what the real driver was seen to answer, asked of the stand-in through C. The machine
//! below has a longer list of its own; these are about what lies between.

use std::ptr::null_mut;

use crate::api::*;

const SMALL: &str = "DORMANT_SIM_DEVICES=1;DORMANT_SIM_CAPACITY=64MiB";
/// Where the real driver lets a mistake pass, so does this one.
const LAX: &str = "DORMANT_SIM_DEVICES=1;DORMANT_SIM_CAPACITY=64MiB;DORMANT_SIM_STRICT=0";

fn bytes(granules: usize) -> u64 {
    (granules * GRANULE) as u64
}

#[test]
fn create_wants_granules_and_takes_memory_at_once() {
    let api = Api::load(SMALL);
    let mut handle = 0;
    for size in [0, 6912, GRANULE + 1] {
        answers!(api.create(&raw mut handle, size, &raw const PROPERTIES, 0), INVALID_VALUE);
    }
    answers!(api.create(&raw mut handle, 1 << 40, &raw const PROPERTIES, 0), OUT_OF_MEMORY);
    answers!(api.create(null_mut(), GRANULE, &raw const PROPERTIES, 0), INVALID_VALUE);
    answers!(api.create(&raw mut handle, GRANULE, std::ptr::null(), 0), INVALID_VALUE);
    let before = api.free_bytes();
    let handle = api.created(2 * GRANULE);
    assert_eq!(api.free_bytes(), before - 2 * GRANULE);
    answers!(api.release(handle), OK);
    assert_eq!(api.free_bytes(), before);
    answers!(api.release(handle), INVALID_VALUE);
    answers!(api.release(0), INVALID_VALUE);
}

#[test]
fn reserve_wants_granules_and_honours_a_free_hint() {
    let api = Api::load(SMALL);
    let mut at = 0;
    for (size, alignment) in [(0, 0), (4096, 0), (6912, 0), (GRANULE + 4096, 0), (GRANULE, 3 << 20)]
    {
        answers!(api.reserve(&raw mut at, size, alignment, 0, 0), INVALID_VALUE);
    }
    let first = api.reserved(2 * GRANULE);
    let mut other = 0;
    answers!(api.reserve(&raw mut other, GRANULE, 0, first, 0), OK);
    assert_ne!(other, first);
    answers!(api.address_free(first, GRANULE), INVALID_VALUE);
    answers!(api.address_free(first, 2 * GRANULE), OK);
    answers!(api.address_free(first, 2 * GRANULE), INVALID_VALUE);
    let mut again = 0;
    answers!(api.reserve(&raw mut again, 2 * GRANULE, 0, first, 0), OK);
    assert_eq!(again, first);
}

#[test]
fn a_handle_is_mapped_whole_into_a_range() {
    let api = Api::load(SMALL);
    let (at, handle) = (api.reserved(4 * GRANULE), api.created(2 * GRANULE));
    answers!(api.map(4096, 2 * GRANULE, 0, handle, 0), INVALID_VALUE);
    answers!(api.map(at + 4096, 2 * GRANULE, 0, handle, 0), INVALID_VALUE);
    answers!(api.map(at, 2 * GRANULE, 0, 0, 0), INVALID_VALUE);
    answers!(api.map(at, GRANULE, 0, handle, 0), NOT_SUPPORTED);
    answers!(api.map(at, GRANULE, GRANULE, handle, 0), NOT_SUPPORTED);
    answers!(api.map(at, 2 * GRANULE, 0, handle, 0), OK);
    answers!(api.map(at, 2 * GRANULE, 0, handle, 0), INVALID_VALUE);
    answers!(api.address_free(at, 4 * GRANULE), INVALID_VALUE);
    answers!(api.unmap(at, GRANULE), INVALID_VALUE);
    answers!(api.unmap(at, 2 * GRANULE), OK);
}

#[test]
fn access_is_for_whole_mappings_and_devices_that_are_there() {
    let api = Api::load(SMALL);
    let at = api.reserved(4 * GRANULE);
    assert_eq!(api.opened(at, GRANULE), INVALID_VALUE, "nothing is mapped");
    for place in [at, at + bytes(1)] {
        let handle = api.created(GRANULE);
        answers!(api.map(place, GRANULE, 0, handle, 0), OK);
    }
    assert_eq!(api.opened(at, 3 * GRANULE), INVALID_VALUE, "partly mapped");
    assert_eq!(api.opened(at, GRANULE / 2), INVALID_VALUE, "half a mapping");
    let nobody = [1, 9, 3];
    answers!(api.set_access(at, GRANULE, &raw const nobody, 1), INVALID_VALUE);
    answers!(api.set_access(at, GRANULE, &raw const nobody, 0), INVALID_VALUE);
    assert_eq!(api.opened(at, 2 * GRANULE), OK, "two adjoining mappings");
    assert_eq!(api.opened(at, 2 * GRANULE), OK, "twice");
    let (mut base, mut length) = (0, 0);
    answers!(api.address_range(&raw mut base, &raw mut length, at + bytes(1) + 7), OK);
    assert_eq!((base, length), (at + bytes(1), GRANULE), "the one mapping, not the range");
}

#[test]
fn memory_that_is_released_while_mapped_stays_until_the_last_unmap() {
    let api = Api::load(SMALL);
    let before = api.free_bytes();
    let (at, handle) = (api.reserved(2 * GRANULE), api.created(GRANULE));
    answers!(api.map(at, GRANULE, 0, handle, 0), OK);
    answers!(api.map(at + bytes(1), GRANULE, 0, handle, 0), OK);
    let mut again = 0;
    answers!(api.retain_handle(&raw mut again, at), OK);
    assert_eq!(again, handle);
    answers!(api.release(handle), OK);
    answers!(api.release(handle), OK);
    answers!(api.release(handle), INVALID_VALUE);
    answers!(api.unmap(at, GRANULE), OK);
    assert_eq!(api.free_bytes(), before - GRANULE);
    answers!(api.unmap(at + bytes(1), GRANULE), OK);
    assert_eq!(api.free_bytes(), before);
}

#[test]
fn a_second_unmap_is_a_mistake_that_only_the_real_driver_lets_pass() {
    for (configuration, code) in [(SMALL, INVALID_VALUE), (LAX, OK)] {
        let api = Api::load(configuration);
        let (at, handle) = (api.reserved(GRANULE), api.created(GRANULE));
        answers!(api.map(at, GRANULE, 0, handle, 0), OK);
        answers!(api.unmap(at, GRANULE), OK);
        answers!(api.unmap(at, GRANULE), code);
        answers!(api.unmap(4096, GRANULE), INVALID_VALUE);
    }
}

#[test]
fn a_fill_of_unmapped_memory_is_refused_and_a_kernel_that_writes_there_is_the_end() {
    let api = Api::load(SMALL);
    let at = api.reserved(GRANULE);
    answers!(api.fill(at, 1, GRANULE), INVALID_VALUE);
    answers!(api.synchronize(), OK);
    let mut stream = null_mut();
    answers!(api.stream_create(&raw mut stream, 1), OK);
    answers!(api.launch(stream, 100, at, 1, GRANULE), OK);
    answers!(api.synchronize(), ILLEGAL_ADDRESS);
    let (mut free, mut total) = (0, 0);
    answers!(api.mem_info(&raw mut free, &raw mut total), ILLEGAL_ADDRESS);
    // What gives memory back, and takes it, goes on.
    let handle = api.created(GRANULE);
    answers!(api.map(at, GRANULE, 0, handle, 0), OK);
    answers!(api.unmap(at, GRANULE), OK);
    answers!(api.release(handle), OK);
    answers!(api.address_free(at, GRANULE), OK);
}

#[test]
fn work_that_loses_its_memory_is_not_waited_for() {
    let api = Api::load(SMALL);
    let (at, handle) = (api.reserved(GRANULE), api.created(GRANULE));
    answers!(api.map(at, GRANULE, 0, handle, 0), OK);
    assert_eq!(api.opened(at, GRANULE), OK);
    let mut stream = null_mut();
    answers!(api.stream_create(&raw mut stream, 1), OK);
    answers!(api.launch(stream, 50_000, at, 1, GRANULE), OK);
    answers!(api.unmap(at, GRANULE), OK);
    answers!(api.synchronize(), ILLEGAL_ADDRESS);
}

#[test]
fn virtual_memory_has_no_legacy_handle_and_a_descriptor_only_when_asked_for() {
    let api = Api::load(SMALL);
    let before = api.free_bytes();
    let (at, plain) = (api.reserved(GRANULE), api.created(GRANULE));
    let (mut legacy, mut kind, mut file) = ([0; 64], 0, -1);
    answers!(api.attribute(&raw mut kind, 2, at), INVALID_VALUE);
    answers!(api.map(at, GRANULE, 0, plain, 0), OK);
    answers!(api.attribute(&raw mut kind, 2, at), OK);
    assert_eq!(kind, 2, "memory of a device");
    answers!(api.ipc_handle(&raw mut legacy, at), INVALID_VALUE);
    answers!(api.export(&raw mut file, plain, 1, 0), INVALID_VALUE);
    let mut handle = 0;
    let fabric = Properties::exportable(8);
    answers!(api.create(&raw mut handle, GRANULE, &raw const fabric, 0), NOT_PERMITTED);
    let shared = Properties::exportable(1);
    answers!(api.create(&raw mut handle, GRANULE, &raw const shared, 0), OK);
    answers!(api.export(&raw mut file, handle, 1, 0), OK);
    answers!(api.release(handle), OK);
    assert_eq!(api.free_bytes(), before - 2 * GRANULE, "the descriptor keeps it");
    // SAFETY: the descriptor is this test's, and closed once.
    assert_eq!(unsafe { libc::close(file) }, 0);
    assert_eq!(api.free_bytes(), before - GRANULE);
}

#[test]
fn plain_memory_is_freed_as_such() {
    let api = Api::load(SMALL);
    let (mut plain, at, handle) = (0, api.reserved(GRANULE), api.created(GRANULE));
    answers!(api.map(at, GRANULE, 0, handle, 0), OK);
    answers!(api.free(at), INVALID_VALUE);
    answers!(api.free(4096), INVALID_VALUE);
    answers!(api.alloc(&raw mut plain, 0), INVALID_VALUE);
    answers!(api.alloc(&raw mut plain, 100), OK);
    answers!(api.unmap(plain, GRANULE), INVALID_VALUE);
    answers!(api.free(plain), OK);
    answers!(api.free(plain), INVALID_VALUE);
}

#[test]
fn a_copy_over_the_border_of_two_registrations_is_refused() {
    const PAGE: usize = 4096;
    let api = Api::load(SMALL);
    let (at, handle) = (api.reserved(GRANULE), api.created(GRANULE));
    answers!(api.map(at, GRANULE, 0, handle, 0), OK);
    assert_eq!(api.opened(at, GRANULE), OK);
    let mut host = vec![0_u8; 4 * PAGE];
    let start = host.as_mut_ptr();
    let first = start.wrapping_add(start.align_offset(PAGE));
    let second = first.wrapping_add(PAGE);
    for piece in [first, second] {
        answers!(api.register(piece.cast(), PAGE, 0), OK);
    }
    let mut stream = null_mut();
    answers!(api.stream_create(&raw mut stream, 1), OK);
    answers!(api.to_host_async(first.cast(), at, 2 * PAGE, stream), INVALID_VALUE);
    answers!(api.to_host_async(second.cast(), at, PAGE, stream), OK);
    for piece in [first, second] {
        answers!(api.unregister(piece.cast()), OK);
    }
}

#[test]
fn a_capture_survives_memory_calls_and_breaks_at_a_synchronize() {
    let api = Api::load(SMALL);
    let (mut stream, mut graph) = (null_mut(), null_mut());
    answers!(api.stream_create(&raw mut stream, 1), OK);
    answers!(api.begin_capture(stream, 0), OK);
    let (at, handle) = (api.reserved(GRANULE), api.created(GRANULE));
    answers!(api.map(at, GRANULE, 0, handle, 0), OK);
    assert_eq!(api.opened(at, GRANULE), OK);
    api.free_bytes();
    let mut host = [0_u8; 64];
    let mut mode = 2;
    answers!(api.exchange_mode(&raw mut mode), OK);
    assert_eq!(mode, 0);
    answers!(api.register(host.as_mut_ptr().cast(), 64, 0), OK);
    answers!(api.exchange_mode(&raw mut mode), OK);
    answers!(api.end_capture(stream, &raw mut graph), OK);

    answers!(api.begin_capture(stream, 0), OK);
    answers!(api.synchronize(), CAPTURE_UNSUPPORTED);
    answers!(api.end_capture(stream, &raw mut graph), CAPTURE_INVALIDATED);
    assert!(graph.is_null());

    answers!(api.begin_capture(stream, 0), OK);
    answers!(api.unregister(host.as_mut_ptr().cast()), CAPTURE_UNSUPPORTED);
    answers!(api.end_capture(stream, &raw mut graph), CAPTURE_INVALIDATED);
    answers!(api.unregister(host.as_mut_ptr().cast()), OK);
}

#[test]
fn functions_are_found_by_the_name_without_a_suffix() {
    let api = Api::load(SMALL);
    let (mut found, mut status) = (null_mut(), -1);
    let name = c"cuMemAlloc".as_ptr();
    answers!(api.function(name, &raw mut found, 12_000, 0, &raw mut status), OK);
    assert_eq!((found.addr(), status), (api.alloc as usize, 0));
    let name = c"cuNoSuchFunction".as_ptr();
    answers!(api.function(name, &raw mut found, 12_000, 0, &raw mut status), 500);
    assert!(found.is_null() && status == 1);
}
