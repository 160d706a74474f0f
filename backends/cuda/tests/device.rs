//! What only a real device can answer. Run with `cargo test -p dormant-cuda --test device --
//! --ignored --test-threads 1` on a machine that has one.

use std::ffi::c_void;
use std::process::Command;
use std::ptr::{self, NonNull};
use std::time::{Duration, Instant};

use allocator_core::{Deadline, Device, Driver, ErrorKind, Range, RawStream};
use dormant_cuda::{Cuda, Physical};
use libloading::{Library, Symbol};

const MIB: u64 = 1 << 20;
const DEVICE: Device = Device(0);

/// The driver's own functions, called as a program would.
struct Program(Library);

impl Program {
    fn new() -> Self {
        // SAFETY: the driver's initialisers are those any program runs; `Cuda` has run them.
        Self(unsafe { Library::new("libcuda.so.1") }.expect("the driver"))
    }

    fn function<F>(&self, name: &str) -> Symbol<'_, F> {
        // SAFETY: the callers below give the types of cuda.h.
        unsafe { self.0.get(name) }.expect(name)
    }

    fn context_is_active(&self) -> bool {
        let state: Symbol<unsafe extern "C" fn(i32, *mut u32, *mut i32) -> u32> =
            self.function("cuDevicePrimaryCtxGetState");
        let (mut flags, mut active) = (0, 0);
        // SAFETY: both are writable.
        assert_eq!(unsafe { state(0, &raw mut flags, &raw mut active) }, 0);
        active != 0
    }

    fn current(&self) -> usize {
        let ask: Symbol<unsafe extern "C" fn(*mut usize) -> u32> = self.function("cuCtxGetCurrent");
        let mut context = 0;
        // SAFETY: `context` is writable.
        assert_eq!(unsafe { ask(&raw mut context) }, 0);
        context
    }

    /// Makes the primary context current in this thread.
    fn enter(&self) {
        let retain: Symbol<unsafe extern "C" fn(*mut *mut c_void, i32) -> u32> =
            self.function("cuDevicePrimaryCtxRetain");
        let set: Symbol<unsafe extern "C" fn(*mut c_void) -> u32> =
            self.function("cuCtxSetCurrent");
        let mut context = ptr::null_mut();
        // SAFETY: `context` is writable.
        assert_eq!(unsafe { retain(&raw mut context, 0) }, 0);
        // SAFETY: retained above and never released.
        assert_eq!(unsafe { set(context) }, 0);
    }

    /// Begins a capture in global mode, the strictest, on a new stream.
    fn begin_capture(&self) -> *mut c_void {
        let create: Symbol<unsafe extern "C" fn(*mut *mut c_void, u32) -> u32> =
            self.function("cuStreamCreate");
        let begin: Symbol<unsafe extern "C" fn(*mut c_void, u32) -> u32> =
            self.function("cuStreamBeginCapture_v2");
        let mut stream = ptr::null_mut();
        // SAFETY: `stream` is writable; a context is current.
        assert_eq!(unsafe { create(&raw mut stream, 1) }, 0);
        // SAFETY: the stream is alive.
        assert_eq!(unsafe { begin(stream, 0) }, 0);
        stream
    }

    /// Ends it; whether it was good.
    fn end_capture(&self, stream: *mut c_void) -> u32 {
        let end: Symbol<unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> u32> =
            self.function("cuStreamEndCapture");
        let mut graph = ptr::null_mut();
        // SAFETY: the stream is alive, `graph` writable; the graph is left behind.
        unsafe { end(stream, &raw mut graph) }
    }
}

fn mapped(cuda: &Cuda, bytes: u64) -> (Range, Physical) {
    let range = cuda.reserve(DEVICE, bytes).expect("reserve");
    let physical = cuda.create(DEVICE, bytes).expect("create");
    // SAFETY: both are as long as each other and fresh.
    unsafe { cuda.map(&range, 0, &physical) }.expect("map");
    // SAFETY: mapped above.
    unsafe { cuda.set_access(&range, 0, bytes, &[DEVICE]) }.expect("set_access");
    (range, physical)
}

fn gone(cuda: &Cuda, (range, physical): (Range, Physical)) {
    // SAFETY: mapped whole by `mapped`; the tests have waited for their work.
    unsafe { cuda.unmap(&range, 0, range.bytes()) }.expect("unmap");
    cuda.release(physical).expect("release");
    // SAFETY: nothing is mapped in it any more.
    unsafe { cuda.unreserve(range) }.expect("unreserve");
}

#[test]
#[ignore = "needs a CUDA device"]
fn no_context_is_made_before_the_first_block() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_makes_no_context", "--ignored"])
        .env("DORMANT_TEST_CHILD", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
#[ignore = "run by no_context_is_made_before_the_first_block in a process of its own"]
fn child_makes_no_context() {
    if std::env::var_os("DORMANT_TEST_CHILD").is_none() {
        return;
    }
    let cuda = Cuda::open().unwrap();
    let program = Program::new();
    cuda.info();
    cuda.devices().unwrap();
    cuda.granularity(DEVICE).unwrap();
    cuda.capabilities(DEVICE).unwrap();
    cuda.quiesce(DEVICE, Deadline::NEVER).unwrap();
    assert!(!program.context_is_active());
    cuda.memory(DEVICE).unwrap();
    assert!(!program.context_is_active(), "given back after the reading");
    gone(&cuda, mapped(&cuda, cuda.granularity(DEVICE).unwrap().bytes()));
    assert!(program.context_is_active(), "kept from the first block on");
    assert_eq!(program.current(), 0);
}

#[test]
#[ignore = "needs a CUDA device"]
fn a_block_holds_memory_and_bytes_come_back_as_they_went() {
    let cuda = Cuda::open().unwrap();
    let bytes = 256 * MIB;
    let before = cuda.memory(DEVICE).unwrap().free_bytes;
    let block = mapped(&cuda, bytes);
    let during = cuda.memory(DEVICE).unwrap().free_bytes;
    assert!(before - during >= bytes, "{before} {during}");
    let stream = cuda.open_stream(DEVICE).unwrap();
    let mut sent: Vec<u8> = (0..4 * MIB).map(|n| (n % 251) as u8).collect();
    let mut got = vec![0_u8; sent.len()];
    let (from, to) = (NonNull::from(&mut sent[0]), NonNull::from(&mut got[0]));
    let at = block.0.address().offset(bytes - 4 * MIB);
    // SAFETY: the vector outlives the wait below and is as long as the copy.
    unsafe { cuda.write(&stream, at, from, 4 * MIB) }.unwrap();
    // SAFETY: as above.
    unsafe { cuda.read(&stream, at, to, 4 * MIB) }.unwrap();
    cuda.wait(&stream).unwrap();
    assert_eq!(sent, got);
    // SAFETY: the bytes are mapped.
    unsafe { cuda.fill(&stream, at, 9, 4 * MIB) }.unwrap();
    // SAFETY: as above.
    unsafe { cuda.read(&stream, at, to, 4 * MIB) }.unwrap();
    cuda.wait(&stream).unwrap();
    assert!(got.iter().all(|byte| *byte == 9));
    cuda.close_stream(stream).unwrap();
    gone(&cuda, block);
    let after = cuda.memory(DEVICE).unwrap().free_bytes;
    // A stream's own memory stays with the context.
    assert!(after - during >= bytes - 32 * MIB, "{during} {after}");
}

#[test]
#[ignore = "needs a CUDA device"]
fn refusals_have_their_kinds() {
    let cuda = Cuda::open().unwrap();
    assert_eq!(cuda.create(DEVICE, 6912).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(cuda.reserve(DEVICE, 6912).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let granule = cuda.granularity(DEVICE).unwrap();
    let total = cuda.devices().unwrap()[0].total_bytes;
    let too_large = granule.round_up(2 * total).unwrap();
    assert_eq!(cuda.create(DEVICE, too_large).unwrap_err().kind(), ErrorKind::TooLarge);
    let held = cuda.create(DEVICE, granule.bytes()).unwrap();
    let most = total / granule.bytes() * granule.bytes();
    assert_eq!(cuda.create(DEVICE, most).unwrap_err().kind(), ErrorKind::OutOfMemory);
    cuda.release(held).unwrap();

    let mut bytes = vec![0_u8; 8 << 20];
    let at = NonNull::from(&mut bytes[0]);
    // SAFETY: the vector outlives the registration.
    unsafe { cuda.register_host(at, 8 * MIB) }.unwrap();
    // SAFETY: as above; a second time is refused.
    let error = unsafe { cuda.register_host(at, 8 * MIB) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    // SAFETY: registered above.
    unsafe { cuda.unregister_host(at) }.unwrap();
}

#[test]
#[ignore = "needs a CUDA device"]
fn a_quiesce_is_busy_while_work_is_in_flight_and_cheap_when_none_is() {
    let cuda = Cuda::open().unwrap();
    let block = mapped(&cuda, 4096 * MIB);
    let stream = cuda.open_stream(DEVICE).unwrap();
    for _ in 0..200 {
        // SAFETY: the block is mapped until the waits below are done.
        unsafe { cuda.fill(&stream, block.0.address(), 1, 4096 * MIB) }.unwrap();
    }
    let error = cuda.quiesce(DEVICE, Deadline::after(Duration::from_millis(1))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    cuda.quiesce(DEVICE, Deadline::NEVER).unwrap();
    let began = Instant::now();
    cuda.wait(&stream).unwrap();
    assert!(began.elapsed() < Duration::from_millis(1), "nothing was left to wait for");

    let began = Instant::now();
    for _ in 0..1000 {
        cuda.quiesce(DEVICE, Deadline::NEVER).unwrap();
    }
    let each = began.elapsed() / 1000;
    assert!(each < Duration::from_micros(20), "{each:?} per quiesce");

    let began = Instant::now();
    for _ in 0..1000 {
        // SAFETY: as above.
        unsafe { cuda.fill(&stream, block.0.address(), 2, 4096) }.unwrap();
    }
    let each = began.elapsed() / 1000;
    assert!(each < Duration::from_micros(10), "{each:?} per queued fill");
    cuda.wait(&stream).unwrap();
    cuda.close_stream(stream).unwrap();
    gone(&cuda, block);
}

#[test]
#[ignore = "needs a CUDA device"]
fn a_capture_stays_good_through_every_call_but_quiesce() {
    let cuda = Cuda::open().unwrap();
    let program = Program::new();
    program.enter();
    let context = program.current();
    let capturing = program.begin_capture();
    // SAFETY: the stream is alive.
    let asked = unsafe { cuda.is_capturing(DEVICE, RawStream(capturing.expose_provenance())) };
    assert!(asked.unwrap());

    let block = mapped(&cuda, 64 * MIB);
    let stream = cuda.open_stream(DEVICE).unwrap();
    cuda.memory(DEVICE).unwrap();
    let mut bytes = vec![0_u8; 8 << 20];
    let at = NonNull::from(&mut bytes[0]);
    // SAFETY: the vector outlives the registration.
    unsafe { cuda.register_host(at, 8 * MIB) }.unwrap();
    // SAFETY: block and vector outlive the wait.
    unsafe { cuda.write(&stream, block.0.address(), at, 8 * MIB) }.unwrap();
    // SAFETY: as above.
    unsafe { cuda.read(&stream, block.0.address(), at, 8 * MIB) }.unwrap();
    // SAFETY: as above.
    unsafe { cuda.fill(&stream, block.0.address(), 0, 8 * MIB) }.unwrap();
    cuda.wait(&stream).unwrap();
    // SAFETY: registered above; no copy is queued.
    unsafe { cuda.unregister_host(at) }.unwrap();
    // Not registered: the driver stages this copy.
    // SAFETY: as above.
    unsafe { cuda.read(&stream, block.0.address(), at, 8 * MIB) }.unwrap();
    cuda.wait(&stream).unwrap();
    cuda.close_stream(stream).unwrap();
    gone(&cuda, block);
    assert_eq!(program.current(), context);
    assert_eq!(program.end_capture(capturing), 0, "the capture is good");

    let capturing = program.begin_capture();
    let error = cuda.quiesce(DEVICE, Deadline::NEVER).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains("capture"), "{error}");
    assert_ne!(program.end_capture(capturing), 0, "a quiesce breaks it");
    cuda.quiesce(DEVICE, Deadline::NEVER).unwrap();
}
