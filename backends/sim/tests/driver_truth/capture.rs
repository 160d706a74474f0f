//! Rows about stream capture.

use std::time::Duration;

use dormant_sim::machine::{CaptureMode, CaptureStatus, Code};

use super::*;

/// A stream that is being captured in global mode.
fn captured(machine: &Machine) -> u64 {
    let stream = succeeds("stream", machine.stream_create(false));
    succeeds("begin", machine.begin_capture(stream, CaptureMode::Global));
    stream
}

#[track_caller]
fn stays_good(row: &str, machine: &Machine, stream: u64) {
    assert_eq!(machine.capture_status(stream), Ok(CaptureStatus::Active), "{row}");
    succeeds(row, machine.end_capture(stream));
}

#[track_caller]
fn is_broken(row: &str, machine: &Machine, stream: u64) {
    assert_eq!(machine.capture_status(stream), Ok(CaptureStatus::Invalidated), "{row}");
    refuses(row, machine.end_capture(stream), Code::CaptureInvalidated);
    assert_eq!(machine.capture_status(stream), Ok(CaptureStatus::None), "{row}");
}

#[test]
fn virtual_memory_calls_leave_a_capture_good() {
    let machine = machine();
    let stream = captured(&machine);
    let row = "reserve, create, map, set access, unmap, release, mem_info during a global \
               capture: SUCCESS, the capture stays good";
    let address = succeeds(row, machine.reserve(GRANULE, 0, 0));
    let handle = succeeds(row, machine.create(GRANULE, 0, PLAIN));
    succeeds(row, machine.map(address, GRANULE, 0, handle));
    succeeds(row, machine.set_access(address, GRANULE, &[(0, ALL)]));
    succeeds(row, machine.mem_info());
    succeeds(row, machine.unmap(address, GRANULE));
    succeeds(row, machine.release(handle));
    succeeds(row, machine.address_free(address, GRANULE));
    stays_good(row, &machine, stream);
}

#[test]
fn unsafe_calls_break_a_global_capture_unless_the_thread_is_relaxed() {
    let machine = machine();
    let ours = succeeds("stream", machine.stream_create(false));
    let event = succeeds("event", machine.event_create());
    succeeds("record", machine.event_record(event, ours));
    let mut host = [0_u8; 8];
    let at = host.as_mut_ptr();
    let row = "register or allocate host memory, synchronize or query our own stream or event \
               during a global capture: invalidates, unless the thread is RELAXED";
    type Call<'a> = (&'a str, Box<dyn Fn() -> Answer + 'a>);
    let machine_ref = &machine;
    let calls: [Call<'_>; 5] = [
        // SAFETY: the bytes live to the end of the test.
        ("register", Box::new(move || unsafe { machine_ref.host_register(at, 8) })),
        ("synchronize", Box::new(move || machine_ref.stream_synchronize(ours))),
        ("query", Box::new(move || machine_ref.stream_query(ours))),
        ("event synchronize", Box::new(move || machine_ref.event_synchronize(event))),
        ("event query", Box::new(move || machine_ref.event_query(event))),
    ];
    for (name, call) in &calls {
        let stream = captured(&machine);
        refuses(&format!("{row}: {name}"), call(), Code::StreamCaptureUnsupported);
        is_broken(row, &machine, stream);

        let stream = captured(&machine);
        let before = machine.exchange_capture_mode(CaptureMode::Relaxed);
        assert_eq!(before, CaptureMode::Global);
        succeeds(&format!("{row}: {name}, relaxed"), call());
        let _ = machine.exchange_capture_mode(before);
        stays_good(row, &machine, stream);
    }
}

#[test]
fn unsafe_calls_of_another_thread_break_a_global_capture_only() {
    let machine = machine();
    let ours = succeeds("stream", machine.stream_create(false));
    for (mode, breaks) in [
        (CaptureMode::Global, true),
        (CaptureMode::ThreadLocal, false),
        (CaptureMode::Relaxed, false),
    ] {
        let stream = succeeds("stream", machine.stream_create(false));
        succeeds("begin", machine.begin_capture(stream, mode));
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(machine.stream_query(ours).is_err(), breaks, "{mode:?}"));
        });
        assert_eq!(machine.end_capture(stream).is_err(), breaks, "{mode:?}");
    }
}

#[test]
fn context_wide_calls_break_a_capture_from_any_thread() {
    let machine = machine();
    let event = succeeds("event", machine.event_create());
    let row = "context synchronize, cuCtxRecordEvent during a capture: invalidates it from any \
               thread, also RELAXED; STREAM_CAPTURE_UNSUPPORTED";
    for synchronize in [true, false] {
        let stream = captured(&machine);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                machine.set_current(Some(0)).unwrap();
                let _ = machine.exchange_capture_mode(CaptureMode::Relaxed);
                let answer = if synchronize {
                    machine.context_synchronize()
                } else {
                    machine.context_record_event(event)
                };
                refuses(row, answer, Code::StreamCaptureUnsupported);
            });
        });
        is_broken(row, &machine, stream);
    }
    let stream = captured(&machine);
    machine.set_current(Some(1)).unwrap();
    succeeds("another context", machine.context_synchronize());
    machine.set_current(Some(0)).unwrap();
    stays_good("another context", &machine, stream);
}

#[test]
fn the_legacy_stream_sees_no_capture() {
    let machine = machine();
    let stream = captured(&machine);
    let row = "cuStreamIsCapturing on the legacy stream sees nothing";
    assert_eq!(machine.capture_status(0), Ok(CaptureStatus::None), "{row}");
    stays_good(row, &machine, stream);
}

#[test]
fn captured_work_is_done_when_its_graph_is_launched() {
    let machine = machine();
    let (_, address) = block(&machine, 1);
    let stream = captured(&machine);
    succeeds("fill", machine.fill_async(address, 5, 16, stream));
    let kernel = machine.launch(stream, Duration::ZERO, move |lane| {
        assert!(lane.write(address, &[6]).is_ok());
    });
    succeeds("kernel", kernel);
    let graph = succeeds("end", machine.end_capture(stream));
    assert_eq!(graph.len(), 2);
    let mut seen = [0_u8; 2];
    succeeds("read", machine.copy_to_host(&mut seen, address));
    assert_eq!(seen, [0, 0], "captured work is not done");
    // SAFETY: nothing captured has host bytes.
    succeeds("launch", unsafe { machine.launch_graph(stream, &graph) });
    succeeds("wait", machine.stream_synchronize(stream));
    succeeds("read", machine.copy_to_host(&mut seen, address));
    assert_eq!(seen, [6, 5]);
}

#[test]
fn a_capture_is_ended_by_the_thread_that_began_it() {
    let machine = machine();
    let stream = captured(&machine);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            machine.set_current(Some(0)).unwrap();
            refuses("another thread", machine.end_capture(stream), Code::CaptureWrongThread);
        });
    });
    refuses("once", machine.begin_capture(stream, CaptureMode::Global), Code::InvalidValue);
    stays_good("its own thread", &machine, stream);
    refuses("no capture", machine.end_capture(stream), Code::InvalidValue);
}

#[test]
fn work_in_the_legacy_stream_breaks_the_capture_of_a_blocking_one() {
    let machine = machine();
    let (_, address) = block(&machine, 1);
    let stream = succeeds("stream", machine.stream_create(true));
    succeeds("begin", machine.begin_capture(stream, CaptureMode::Relaxed));
    let answer = machine.fill_async(address, 1, 8, 0);
    refuses("legacy work", answer, Code::StreamCaptureImplicit);
    is_broken("legacy work", &machine, stream);
}
