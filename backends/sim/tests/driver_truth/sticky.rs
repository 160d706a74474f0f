//! Rows about work that touches memory it may not touch.

use std::time::Duration;

use dormant_sim::machine::Code;

use super::*;

#[test]
fn a_kernel_on_unmapped_memory_is_a_sticky_illegal_address() {
    let machine = machine();
    let (_, address) = block(&machine, 1);
    let empty = succeeds("reserve", machine.reserve(GRANULE, 0, 0));
    let stream = succeeds("stream", machine.stream_create(false));
    let row = "a kernel that writes to unmapped memory: ILLEGAL_ADDRESS at the next synchronize, \
               sticky for the process";
    let launched = machine.launch(stream, Duration::ZERO, move |lane| {
        assert!(lane.write(empty, &[1]).is_err());
    });
    succeeds("the launch itself succeeds", launched);
    for _ in 0..2 {
        refuses(row, machine.stream_synchronize(stream), Code::IllegalAddress);
        refuses(row, machine.context_synchronize(), Code::IllegalAddress);
    }
    let row = "mem_info and copies fail from then on, while create and reserve still succeed";
    refuses(row, machine.mem_info(), Code::IllegalAddress);
    refuses(row, machine.copy_to_device(address, &[1]), Code::IllegalAddress);
    refuses(row, machine.fill_async(address, 1, GRANULE, stream), Code::IllegalAddress);
    succeeds(row, machine.create(GRANULE, 0, PLAIN));
    succeeds(row, machine.reserve(GRANULE, 0, 0));
    // The whole process: the other device too.
    machine.set_current(Some(1)).unwrap();
    refuses(row, machine.mem_info(), Code::IllegalAddress);
}

#[test]
fn an_unmap_does_not_wait_for_work() {
    let machine = machine();
    let (handle, address) = block(&machine, 1);
    let stream = succeeds("stream", machine.stream_create(false));
    let row = "unmap with work queued on a non-blocking stream: SUCCESS at once; then \
               ILLEGAL_ADDRESS, sticky: unmap does not wait";
    let launched = machine.launch(stream, Duration::from_millis(200), move |lane| {
        assert!(lane.fill(address, 1, GRANULE).is_err());
    });
    succeeds("launch", launched);
    succeeds(row, machine.unmap(address, GRANULE));
    refuses(row, machine.stream_query(stream), Code::NotReady);
    succeeds("release", machine.release(handle));
    refuses(row, machine.stream_synchronize(stream), Code::IllegalAddress);
}

#[test]
fn after_a_sticky_error_memory_can_still_be_given_back() {
    let machine = machine();
    let (handle, address) = block(&machine, 1);
    let mut host = [0_u8; 64];
    // SAFETY: the bytes live to the end of the test.
    succeeds("host register", unsafe { machine.host_register(host.as_mut_ptr(), 64) });
    poison(&machine);
    let row = "after a sticky ILLEGAL_ADDRESS: unmap, release, address free, create, map; host \
               unregister: SUCCESS; fails";
    succeeds(row, machine.unmap(address, GRANULE));
    succeeds(row, machine.release(handle));
    succeeds(row, machine.address_free(address, GRANULE));
    assert_eq!(machine.free_bytes(0).unwrap(), CAPACITY, "{row}");
    let address = succeeds(row, machine.reserve(GRANULE, 0, 0));
    let handle = succeeds(row, machine.create(GRANULE, 0, PLAIN));
    succeeds(row, machine.map(address, GRANULE, 0, handle));
    // SAFETY: no captured copy uses the bytes.
    let answer = unsafe { machine.host_unregister(host.as_mut_ptr()) };
    refuses(row, answer, Code::IllegalAddress);
}

#[test]
fn after_a_sticky_error_queued_work_ends_without_touching_memory() {
    let machine = machine();
    let (_, address) = block(&machine, 1);
    let stream = succeeds("stream", machine.stream_create(false));
    let late = machine.launch(stream, Duration::from_millis(200), move |lane| {
        assert!(lane.fill(address, 1, GRANULE).is_err());
    });
    succeeds("launch", late);
    poison(&machine);
    refuses("at once", machine.stream_synchronize(stream), Code::IllegalAddress);
    std::thread::sleep(Duration::from_millis(250));
    // SAFETY: mapped, readable, and written by nobody any more.
    let byte = unsafe {
        std::ptr::with_exposed_provenance::<u8>(usize::try_from(address).unwrap()).read_volatile()
    };
    assert_eq!(byte, 0);
}
