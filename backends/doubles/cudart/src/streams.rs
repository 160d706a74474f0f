//! The runtime's streams and captures.

use std::ffi::{c_uint, c_void};

use double_common::calls::call_and_remember;
use double_common::errors::INVALID_VALUE;
use double_common::{Refused, exports};

use crate::driver::{check, on_device};

exports! { via call_and_remember;
    /// Opens a stream that is ordered with the legacy one.
    fn cudaStreamCreate(stream: Option<&mut *mut c_void>) {
        let stream = stream.ok_or(Refused(INVALID_VALUE))?;
        // SAFETY: `stream` is writable.
        check(unsafe { (on_device()?.stream_create)(stream, 0) })
    }

    /// Opens a stream.
    fn cudaStreamCreateWithFlags(stream: Option<&mut *mut c_void>, flags: c_uint) {
        let stream = stream.ok_or(Refused(INVALID_VALUE))?;
        // SAFETY: `stream` is writable.
        check(unsafe { (on_device()?.stream_create)(stream, flags) })
    }

    /// Closes a stream.
    fn cudaStreamDestroy(stream: *mut c_void) {
        // SAFETY: the driver checks the stream.
        check(unsafe { (on_device()?.stream_destroy)(stream) })
    }

    /// Waits for a stream.
    fn cudaStreamSynchronize(stream: *mut c_void) {
        // SAFETY: the driver checks the stream.
        check(unsafe { (on_device()?.stream_synchronize)(stream) })
    }

    /// Whether a stream is being captured.
    fn cudaStreamIsCapturing(stream: *mut c_void, status: Option<&mut c_uint>) {
        let status = status.ok_or(Refused(INVALID_VALUE))?;
        // SAFETY: `status` is writable.
        check(unsafe { (on_device()?.stream_is_capturing)(stream, status) })
    }

    /// Begins to capture a stream.
    fn cudaStreamBeginCapture(stream: *mut c_void, mode: c_uint) {
        // SAFETY: the driver checks both.
        check(unsafe { (on_device()?.begin_capture)(stream, mode) })
    }

    /// The same, for programs that are built for streams of the thread's own.
    fn cudaStreamBeginCapture_ptsz(stream: *mut c_void, mode: c_uint) {
        // SAFETY: the driver checks both.
        check(unsafe { (on_device()?.begin_capture)(stream, mode) })
    }

    /// Begins to capture a stream into a graph that is there.
    fn cudaStreamBeginCaptureToGraph(
        stream: *mut c_void,
        graph: *mut c_void,
        dependencies: *const c_void,
        data: *const c_void,
        count: usize,
        mode: c_uint,
    ) {
        let driver = on_device()?;
        // SAFETY: the driver checks all of them.
        check(unsafe {
            (driver.begin_capture_to)(stream, graph, dependencies, data, count, mode)
        })
    }

    /// Ends a capture.
    fn cudaStreamEndCapture(stream: *mut c_void, graph: Option<&mut *mut c_void>) {
        let graph = graph.ok_or(Refused(INVALID_VALUE))?;
        // SAFETY: `graph` is writable.
        check(unsafe { (on_device()?.end_capture)(stream, graph) })
    }

    /// The same, for programs that are built for streams of the thread's own.
    fn cudaStreamEndCapture_ptsz(stream: *mut c_void, graph: Option<&mut *mut c_void>) {
        let graph = graph.ok_or(Refused(INVALID_VALUE))?;
        // SAFETY: `graph` is writable.
        check(unsafe { (on_device()?.end_capture)(stream, graph) })
    }

    /// Makes an empty graph.
    fn cudaGraphCreate(graph: Option<&mut *mut c_void>, flags: c_uint) {
        let graph = graph.ok_or(Refused(INVALID_VALUE))?;
        // SAFETY: `graph` is writable.
        check(unsafe { (on_device()?.graph_create)(graph, flags) })
    }

    /// Forgets a graph.
    fn cudaGraphDestroy(graph: *mut c_void) {
        // SAFETY: the driver checks the graph.
        check(unsafe { (on_device()?.graph_destroy)(graph) })
    }
}
