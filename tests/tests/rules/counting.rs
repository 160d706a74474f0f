//! No mode keeps more than 64 MiB of our own copies queued on a device: what a free may wait for.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use allocator_core::{
    Address, Capabilities, Deadline, Device, DeviceInfo, Driver, DriverInfo, Granularity,
    MemoryInfo, Range, RawStream, Result,
};
use dormant_engine::{Allocation, Config, Engine, PauseOptions, Policy, ResumeOptions};
use dormant_sim::{Sim, SimPhysical, SimStream};

use crate::support::{ONE, ZERO, small};

/// The simulated driver, with a count of the bytes that are queued and not waited for.
#[derive(Debug)]
struct Counting {
    sim: Sim,
    queued: Mutex<BTreeMap<Device, (u64, u64)>>,
}

#[derive(Debug)]
struct Counted(SimStream, AtomicU64);

impl Counting {
    fn queue(&self, stream: &Counted, bytes: u64) {
        stream.1.fetch_add(bytes, Ordering::Relaxed);
        let mut queued = self.queued.lock().expect("nobody panicked");
        let (now, most) = queued.entry(stream.0.device()).or_default();
        *now += bytes;
        *most = (*most).max(*now);
    }

    fn most(&self, device: Device) -> u64 {
        self.queued.lock().expect("nobody panicked").get(&device).map_or(0, |(_, most)| *most)
    }

    fn forget(&self) {
        self.queued.lock().expect("nobody panicked").values_mut().for_each(|(_, most)| *most = 0);
    }
}

// SAFETY: every call is the simulated driver's own.
unsafe impl Driver for Counting {
    type Physical = SimPhysical;
    type Stream = Counted;

    fn info(&self) -> DriverInfo {
        self.sim.info()
    }
    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        self.sim.devices()
    }
    fn memory(&self, device: Device) -> Result<MemoryInfo> {
        self.sim.memory(device)
    }
    fn granularity(&self, device: Device) -> Result<Granularity> {
        self.sim.granularity(device)
    }
    fn capabilities(&self, device: Device) -> Result<Capabilities> {
        self.sim.capabilities(device)
    }
    fn quiesce(&self, device: Device, deadline: Deadline) -> Result<()> {
        self.sim.quiesce(device, deadline)
    }
    unsafe fn is_capturing(&self, device: Device, stream: RawStream) -> Result<bool> {
        // SAFETY: the caller's promise.
        unsafe { self.sim.is_capturing(device, stream) }
    }
    fn enable_peer(&self, from: Device, to: Device) -> Result<()> {
        self.sim.enable_peer(from, to)
    }
    fn reserve(&self, device: Device, bytes: u64) -> Result<Range> {
        self.sim.reserve(device, bytes)
    }
    fn create(&self, device: Device, bytes: u64) -> Result<SimPhysical> {
        self.sim.create(device, bytes)
    }
    unsafe fn map(&self, range: &Range, offset: u64, physical: &SimPhysical) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.sim.map(range, offset, physical) }
    }
    unsafe fn set_access(&self, r: &Range, at: u64, bytes: u64, who: &[Device]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.sim.set_access(r, at, bytes, who) }
    }
    unsafe fn unmap(&self, range: &Range, offset: u64, bytes: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.sim.unmap(range, offset, bytes) }
    }
    fn release(&self, physical: SimPhysical) -> Result<()> {
        self.sim.release(physical)
    }
    unsafe fn vacate(&self, range: &mut Range) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.sim.vacate(range) }
    }
    unsafe fn unreserve(&self, range: Range) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.sim.unreserve(range) }
    }
    fn open_stream(&self, device: Device) -> Result<Counted> {
        self.sim.open_stream(device).map(|stream| Counted(stream, AtomicU64::new(0)))
    }
    fn close_stream(&self, stream: Counted) -> Result<()> {
        self.sim.close_stream(stream.0)
    }
    unsafe fn read(&self, on: &Counted, from: Address, to: NonNull<u8>, bytes: u64) -> Result<()> {
        self.queue(on, bytes);
        // SAFETY: the caller's promise.
        unsafe { self.sim.read(&on.0, from, to, bytes) }
    }
    unsafe fn write(&self, on: &Counted, to: Address, from: NonNull<u8>, bytes: u64) -> Result<()> {
        self.queue(on, bytes);
        // SAFETY: the caller's promise.
        unsafe { self.sim.write(&on.0, to, from, bytes) }
    }
    unsafe fn fill(&self, on: &Counted, at: Address, byte: u8, bytes: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.sim.fill(&on.0, at, byte, bytes) }
    }
    fn wait(&self, stream: &Counted) -> Result<()> {
        let result = self.sim.wait(&stream.0);
        let done = stream.1.swap(0, Ordering::Relaxed);
        let mut queued = self.queued.lock().expect("nobody panicked");
        queued.entry(stream.0.device()).or_default().0 -= done;
        result
    }
    unsafe fn register_host(&self, at: NonNull<u8>, bytes: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.sim.register_host(at, bytes) }
    }
    unsafe fn unregister_host(&self, at: NonNull<u8>) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.sim.unregister_host(at) }
    }
}

#[test]
fn rule_9_no_transition_keeps_more_than_64_mib_of_copies_queued_on_a_device() {
    let sim = Sim::new(small().capacity_bytes(96 << 20).scribble(None)).unwrap();
    let driver = Arc::new(Counting { sim, queued: Mutex::default() });
    let mut config = Config::default();
    // More than there may be.
    config.workers = Some(1000);
    let engine = Engine::new(Arc::clone(&driver), config);
    for device in [ZERO, ONE] {
        let allocation = Allocation::new(80 << 20, device).tag("w").policy(Policy::Host);
        engine.allocate(&allocation).unwrap();
    }
    let limit = 64 << 20;
    let expect = |what: &str| {
        for device in [ZERO, ONE] {
            let most = driver.most(device);
            assert!(most <= limit, "{what}: {most} bytes were queued on device {device}");
            assert!(most > 4 << 20, "{what}: only {most} bytes, the limit was not tried");
        }
        driver.forget();
    };
    engine.pause("w", &PauseOptions::default()).unwrap();
    expect("pause");
    engine.resume("w", &ResumeOptions::default()).unwrap();
    expect("resume");
}
