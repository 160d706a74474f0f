//! Rows about copies, kernels and host memory.

use std::time::{Duration, Instant};

use dormant_sim::machine::Code;

use super::*;

#[test]
fn copies_need_mapped_and_accessible_memory() {
    let machine = machine();
    let row = "copy or memset on reserved but unmapped memory, or mapped without access: \
               INVALID_VALUE, not sticky";
    let range = succeeds("reserve", machine.reserve(GRANULE, 0, 0));
    let mut byte = [0];
    for mapped in [false, true] {
        if mapped {
            let handle = succeeds("create", machine.create(GRANULE, 0, PLAIN));
            succeeds("map", machine.map(range, GRANULE, 0, handle));
        }
        refuses(row, machine.copy_to_host(&mut byte, range), Code::InvalidValue);
        refuses(row, machine.copy_to_device(range, &byte), Code::InvalidValue);
        refuses(row, machine.fill(range, 1, GRANULE), Code::InvalidValue);
        refuses(row, machine.copy_within(range, range, 8), Code::InvalidValue);
        refuses(row, machine.fill_async(range, 1, GRANULE, 0), Code::InvalidValue);
    }
    succeeds("not sticky", machine.context_synchronize());
    succeeds("set access", machine.set_access(range, GRANULE, &[(0, ALL)]));
    succeeds("fill", machine.fill(range, 1, GRANULE));
    refuses("past the end", machine.fill(range, 1, GRANULE + 1), Code::InvalidValue);
}

#[test]
fn an_async_copy_stays_within_one_registered_piece() {
    let machine = machine();
    let (_, address) = block(&machine, 1);
    let stream = succeeds("stream", machine.stream_create(false));
    let mut host = vec![0_u8; 8192];
    let (first, second) = host.split_at_mut(4096);
    let (first, second) = (first.as_mut_ptr(), second.as_mut_ptr());
    for piece in [first, second] {
        // SAFETY: the bytes live to the end of the test.
        succeeds("host register", unsafe { machine.host_register(piece, 4096) });
    }
    let row = "async copy across the border of two registered host pieces: INVALID_VALUE at once";
    // SAFETY: both pieces live to the end of the test, and nobody else uses them.
    let out = unsafe { machine.copy_to_host_async(first, address, 8192, stream) };
    refuses(row, out, Code::InvalidValue);
    // SAFETY: as above.
    let back = unsafe { machine.copy_to_device_async(address, first, 8192, stream) };
    refuses(row, back, Code::InvalidValue);
    // SAFETY: as above.
    succeeds("inside one", unsafe { machine.copy_to_host_async(second, address, 4096, stream) });
    succeeds("synchronize", machine.stream_synchronize(stream));
    assert_eq!((machine.registered_bytes(), machine.registrations()), (8192, 2));
}

#[test]
fn host_unregister_waits_for_copies_queued_on_the_range() {
    let machine = machine();
    let (_, address) = block(&machine, 1);
    let stream = succeeds("stream", machine.stream_create(false));
    let mut host = vec![0_u8; 4096];
    let at = host.as_mut_ptr();
    // SAFETY: the bytes live to the end of the test.
    succeeds("host register", unsafe { machine.host_register(at, 4096) });
    let busy = Duration::from_millis(60);
    let start = Instant::now();
    succeeds("kernel", machine.launch(stream, busy, |_| {}));
    // SAFETY: the bytes live to the end of the test, and nobody else uses them.
    succeeds("copy", unsafe { machine.copy_to_host_async(at, address, 4096, stream) });
    // SAFETY: no captured copy uses the bytes.
    succeeds("host unregister", unsafe { machine.host_unregister(at) });
    assert!(start.elapsed() >= busy);
}

#[test]
fn a_recorded_context_covers_non_blocking_streams_and_can_be_polled() {
    let machine = machine();
    let (_, address) = block(&machine, 1);
    let row = "cuCtxRecordEvent on the primary context (no capture): covers non-blocking \
               streams; can be polled";
    for blocking in [false, true] {
        let stream = succeeds("stream", machine.stream_create(blocking));
        let event = succeeds("event", machine.event_create());
        let busy = Duration::from_millis(150);
        succeeds(
            "kernel",
            machine.launch(stream, busy, move |lane| {
                assert!(lane.fill(address, 9, GRANULE).is_ok());
            }),
        );
        succeeds(row, machine.context_record_event(event));
        refuses(row, machine.event_query(event), Code::NotReady);
        // A closed stream's work is covered too.
        succeeds("close", machine.stream_destroy(stream));
        succeeds("wait", machine.event_synchronize(event));
        succeeds(row, machine.event_query(event));
        let mut byte = [0];
        succeeds("read", machine.copy_to_host(&mut byte, address));
        assert_eq!(byte, [9], "{row}");
        succeeds("clear", machine.fill(address, 0, GRANULE));
    }
}
