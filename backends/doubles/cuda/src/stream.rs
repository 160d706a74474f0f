//! Streams, events, queued copies, captures.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::without_provenance_mut;

use dormant_sim::machine::CaptureStatus;
use double_common::abi::number;
use double_common::calls::call;
use double_common::errors::{INVALID_VALUE, Refused};
use double_common::{Out, exports, graphs, put};

use crate::driver;

const NON_BLOCKING: c_uint = 1;

exports! { find as find via call;
    /// Opens a stream.
    fn cuStreamCreate(stream: Out<'_, *mut c_void>, flags: c_uint) {
        let stream = stream.filter(|_| flags <= NON_BLOCKING).ok_or(Refused(INVALID_VALUE))?;
        put(Some(stream), pointer(driver()?.stream_create(flags & NON_BLOCKING == 0)?))
    }

    /// Closes a stream.
    fn cuStreamDestroy_v2(stream: *mut c_void) {
        Ok(driver()?.stream_destroy(handle(stream))?)
    }

    /// Waits for a stream.
    fn cuStreamSynchronize(stream: *mut c_void) {
        Ok(driver()?.stream_synchronize(handle(stream))?)
    }

    /// Asks whether a stream is done.
    fn cuStreamQuery(stream: *mut c_void) {
        Ok(driver()?.stream_query(handle(stream))?)
    }

    /// Lets a stream wait for an event.
    fn cuStreamWaitEvent(stream: *mut c_void, event: *mut c_void, _flags: c_uint) {
        Ok(driver()?.stream_wait_event(handle(stream), event.addr() as u64)?)
    }

    /// Whether a stream is being captured.
    fn cuStreamIsCapturing(stream: *mut c_void, status: Out<'_, c_uint>) {
        let answer = match driver()?.capture_status(handle(stream))? {
            CaptureStatus::None => 0,
            CaptureStatus::Active => 1,
            CaptureStatus::Invalidated => 2,
        };
        put(status, answer)
    }

    /// Begins to capture a stream.
    fn cuStreamBeginCapture_v2(stream: *mut c_void, mode: c_uint) {
        Ok(driver()?.begin_capture(handle(stream), graphs::mode(mode)?)?)
    }

    /// Begins to capture a stream into a graph that is there.
    fn cuStreamBeginCaptureToGraph(
        stream: *mut c_void,
        graph: *mut c_void,
        _dependencies: *const c_void,
        _data: *const c_void,
        count: usize,
        mode: c_uint,
    ) {
        let graph = graph.addr() as u64;
        graphs::begin_into(driver()?, handle(stream), graph, count, graphs::mode(mode)?)
    }

    /// Ends a capture.
    fn cuStreamEndCapture(stream: *mut c_void, graph: Out<'_, *mut c_void>) {
        let graph = graph.ok_or(Refused(INVALID_VALUE))?;
        match graphs::end(driver()?, handle(stream)) {
            Ok(captured) => put(Some(graph), pointer(captured)),
            Err(refused) => {
                graph.write(std::ptr::null_mut());
                Err(refused)
            }
        }
    }

    /// Makes an empty graph.
    fn cuGraphCreate(graph: Out<'_, *mut c_void>, flags: c_uint) {
        let graph = graph.filter(|_| flags == 0).ok_or(Refused(INVALID_VALUE))?;
        driver()?;
        put(Some(graph), pointer(graphs::create()))
    }

    /// Makes a graph ready to launch.
    fn cuGraphInstantiateWithFlags(ready: Out<'_, *mut c_void>, graph: *mut c_void, _flags: u64) {
        let graph = graphs::get(graph.addr() as u64)?;
        put(ready, pointer(graphs::keep(graph)))
    }

    /// Launches a graph.
    fn cuGraphLaunch(ready: *mut c_void, stream: *mut c_void) {
        let graph = graphs::get(ready.addr() as u64)?;
        // SAFETY: the host bytes of its copies are good still (the caller's promise).
        Ok(unsafe { driver()?.launch_graph(handle(stream), &graph) }?)
    }

    /// Forgets a graph.
    fn cuGraphDestroy(graph: *mut c_void) {
        graphs::forget(graph.addr() as u64)
    }

    /// Forgets a graph that was made ready.
    fn cuGraphExecDestroy(ready: *mut c_void) {
        graphs::forget(ready.addr() as u64)
    }

    /// Makes an event.
    fn cuEventCreate(event: Out<'_, *mut c_void>, _flags: c_uint) {
        let event = event.ok_or(Refused(INVALID_VALUE))?;
        put(Some(event), pointer(driver()?.event_create()?))
    }

    /// Ends an event.
    fn cuEventDestroy_v2(event: *mut c_void) {
        Ok(driver()?.event_destroy(event.addr() as u64)?)
    }

    /// Lets an event stand for the end of a stream.
    fn cuEventRecord(event: *mut c_void, stream: *mut c_void) {
        Ok(driver()?.event_record(event.addr() as u64, handle(stream))?)
    }

    /// Whether an event has passed.
    fn cuEventQuery(event: *mut c_void) {
        Ok(driver()?.event_query(event.addr() as u64)?)
    }

    /// Waits for an event.
    fn cuEventSynchronize(event: *mut c_void) {
        Ok(driver()?.event_synchronize(event.addr() as u64)?)
    }

    /// Queues a copy to the host.
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: *mut c_void) {
        let stream = handle(stream);
        // SAFETY: the caller's promise.
        Ok(unsafe { driver()?.copy_to_host_async(to.cast(), from, bytes as u64, stream) }?)
    }

    /// Queues a copy to the device.
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: *mut c_void) {
        let stream = handle(stream);
        // SAFETY: the caller's promise.
        Ok(unsafe { driver()?.copy_to_device_async(to, from.cast(), bytes as u64, stream) }?)
    }

    /// Queues a copy within device memory.
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: *mut c_void) {
        Ok(driver()?.copy_within_async(to, from, bytes as u64, handle(stream))?)
    }

    /// Queues a fill.
    fn cuMemsetD8Async(at: u64, byte: u8, bytes: usize, stream: *mut c_void) {
        Ok(driver()?.fill_async(at, byte, bytes as u64, handle(stream))?)
    }

    /// Queues a kernel that keeps the device busy for a time and then sets memory to a byte. For
    /// tests: the stand-in runs no programs.
    fn double_launch(
        stream: *mut c_void,
        microseconds: u64,
        at: u64,
        byte: c_int,
        bytes: usize,
    ) {
        let busy = std::time::Duration::from_micros(microseconds);
        let byte = u8::try_from(number(byte)?).map_err(|_| Refused(INVALID_VALUE))?;
        Ok(driver()?.launch(handle(stream), busy, move |lane| {
            // A bad access is remembered by the device, as it is of a real kernel.
            let _ = lane.fill(at, byte, bytes as u64);
        })?)
    }
}

/// The legacy stream has two names, and here the per-thread one is a third.
fn handle(stream: *mut c_void) -> u64 {
    match stream.addr() {
        0..=2 => 0,
        other => other as u64,
    }
}

fn pointer(number: u64) -> *mut c_void {
    without_provenance_mut(usize::try_from(number).unwrap_or(usize::MAX))
}
