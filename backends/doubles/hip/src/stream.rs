//! Streams, queued copies, captures.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use dormant_sim::machine::CaptureStatus;
use double_common::calls::call_and_remember;
use double_common::errors::{INVALID_VALUE, Refused};
use double_common::{Out, exports, graphs, memory, put};

use crate::{number, on_device, pointer};

const NON_BLOCKING: c_uint = 1;

exports! { via call_and_remember;
    /// Opens a stream.
    fn hipStreamCreateWithFlags(stream: Out<'_, *mut c_void>, flags: c_uint) {
        let stream = stream.filter(|_| flags <= NON_BLOCKING).ok_or(Refused(INVALID_VALUE))?;
        put(Some(stream), pointer(on_device()?.stream_create(flags & NON_BLOCKING == 0)?))
    }

    /// Opens a stream that is ordered with the legacy one.
    fn hipStreamCreate(stream: Out<'_, *mut c_void>) {
        let stream = stream.ok_or(Refused(INVALID_VALUE))?;
        put(Some(stream), pointer(on_device()?.stream_create(true)?))
    }

    /// Closes a stream.
    fn hipStreamDestroy(stream: *mut c_void) {
        Ok(on_device()?.stream_destroy(handle(stream))?)
    }

    /// Waits for a stream.
    fn hipStreamSynchronize(stream: *mut c_void) {
        Ok(on_device()?.stream_synchronize(handle(stream))?)
    }

    /// Whether a stream is being captured.
    fn hipStreamIsCapturing(stream: *mut c_void, status: Out<'_, c_uint>) {
        let answer = match on_device()?.capture_status(handle(stream))? {
            CaptureStatus::None => 0,
            CaptureStatus::Active => 1,
            CaptureStatus::Invalidated => 2,
        };
        put(status, answer)
    }

    /// Begins to capture a stream.
    fn hipStreamBeginCapture(stream: *mut c_void, mode: c_uint) {
        Ok(on_device()?.begin_capture(handle(stream), graphs::mode(mode)?)?)
    }

    /// The same, for programs that are built for streams of the thread's own.
    fn hipStreamBeginCapture_spt(stream: *mut c_void, mode: c_uint) {
        Ok(on_device()?.begin_capture(handle(stream), graphs::mode(mode)?)?)
    }

    /// Begins to capture a stream into a graph that is there.
    fn hipStreamBeginCaptureToGraph(
        stream: *mut c_void,
        graph: *mut c_void,
        _dependencies: *const c_void,
        _data: *const c_void,
        count: usize,
        mode: c_uint,
    ) {
        let graph = number(graph);
        graphs::begin_into(on_device()?, handle(stream), graph, count, graphs::mode(mode)?)
    }

    /// Ends a capture.
    fn hipStreamEndCapture(stream: *mut c_void, graph: Out<'_, *mut c_void>) {
        end_capture(stream, graph)
    }

    /// The same, for programs that are built for streams of the thread's own.
    fn hipStreamEndCapture_spt(stream: *mut c_void, graph: Out<'_, *mut c_void>) {
        end_capture(stream, graph)
    }

    /// Makes an empty graph.
    fn hipGraphCreate(graph: Out<'_, *mut c_void>, flags: c_uint) {
        let graph = graph.filter(|_| flags == 0).ok_or(Refused(INVALID_VALUE))?;
        on_device()?;
        put(Some(graph), pointer(graphs::create()))
    }

    /// Forgets a graph.
    fn hipGraphDestroy(graph: *mut c_void) {
        graphs::forget(number(graph))
    }

    /// Queues a copy to the host.
    fn hipMemcpyDtoHAsync(
        to: *mut c_void,
        from: *mut c_void,
        bytes: usize,
        stream: *mut c_void,
    ) {
        let (from, stream) = (number(from), handle(stream));
        // SAFETY: the caller's promise.
        Ok(unsafe { on_device()?.copy_to_host_async(to.cast(), from, bytes as u64, stream) }?)
    }

    /// Queues a copy to the device.
    fn hipMemcpyHtoDAsync(
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
        stream: *mut c_void,
    ) {
        let (to, stream) = (number(to), handle(stream));
        // SAFETY: the caller's promise.
        Ok(unsafe { on_device()?.copy_to_device_async(to, from.cast(), bytes as u64, stream) }?)
    }

    /// Queues a fill.
    fn hipMemsetD8Async(at: *mut c_void, byte: u8, bytes: usize, stream: *mut c_void) {
        Ok(on_device()?.fill_async(number(at), byte, bytes as u64, handle(stream))?)
    }

    /// Queues a fill.
    fn hipMemsetAsync(at: *mut c_void, byte: c_int, bytes: usize, stream: *mut c_void) {
        let byte = memory::low_byte(byte);
        Ok(on_device()?.fill_async(number(at), byte, bytes as u64, handle(stream))?)
    }
}

fn end_capture(stream: *mut c_void, graph: Out<'_, *mut c_void>) -> Result<(), Refused> {
    let graph = graph.ok_or(Refused(INVALID_VALUE))?;
    match graphs::end(on_device()?, handle(stream)) {
        Ok(captured) => put(Some(graph), pointer(captured)),
        Err(refused) => {
            graph.write(null_mut());
            Err(refused)
        }
    }
}

/// The legacy stream has two names, and here the per-thread one is a third.
fn handle(stream: *mut c_void) -> u64 {
    match stream.addr() {
        0..=2 => 0,
        other => other as u64,
    }
}
