//! What the calls and the stream threads share.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::time::{Duration, Instant};

use super::answer::{Answer, Code};
use super::arena::Arena;
use super::host::Registrations;
use super::link::Link;
use super::memory::{Doomed, Memory};
use super::streams::Streams;
use crate::config::SimConfig;

static MACHINES: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
pub(crate) struct DeviceState {
    pub(crate) arena: Arena,
    pub(crate) up: Link,
    pub(crate) down: Link,
    pub(crate) lost: AtomicBool,
    /// How often its primary context is retained.
    pub(crate) contexts: AtomicU32,
}

#[derive(Debug)]
pub(crate) struct Core {
    /// A number of this machine, for what threads remember about it.
    pub(crate) id: u64,
    pub(crate) config: SimConfig,
    pub(crate) capacity: u64,
    pub(crate) devices: Vec<DeviceState>,
    memory: RwLock<Memory>,
    /// Whoever wants to change memory holds it while waiting, and whoever looks passes through:
    /// else a stream that looks again and again would keep a change waiting for long.
    gate: Mutex<()>,
    streams: Mutex<Streams>,
    pub(crate) registrations: Registrations,
    /// Streams that are being captured.
    pub(crate) capturing: AtomicUsize,
    pub(crate) contexts_made: AtomicU64,
    illegal: AtomicBool,
    pub(crate) halt: Halt,
}

impl Core {
    pub(crate) fn new(config: SimConfig) -> Answer<Self> {
        let devices = (0..config.devices)
            .map(|_| {
                Ok(DeviceState {
                    arena: Arena::open()?,
                    up: Link::new(config.link_bytes_per_second),
                    down: Link::new(config.link_bytes_per_second),
                    lost: AtomicBool::new(false),
                    contexts: AtomicU32::new(0),
                })
            })
            .collect::<Answer<Vec<_>>>()?;
        Ok(Self {
            id: MACHINES.fetch_add(1, Ordering::Relaxed),
            capacity: config.device_bytes(),
            devices,
            memory: RwLock::new(Memory::new(config.devices)),
            gate: Mutex::default(),
            streams: Mutex::new(Streams::new(config.devices)),
            registrations: Registrations::default(),
            capturing: AtomicUsize::new(0),
            contexts_made: AtomicU64::new(0),
            illegal: AtomicBool::new(false),
            halt: Halt::default(),
            config,
        })
    }

    /// At the beginning of every call: the configured latency.
    pub(crate) fn enter(&self) {
        if let Some(latency) = self.config.latency {
            std::thread::sleep(latency);
        }
    }

    /// For the length of one chunk of work: nothing is unmapped meanwhile.
    pub(crate) fn look(&self) -> RwLockReadGuard<'_, Memory> {
        drop(lock(&self.gate));
        self.memory.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change(&self) -> RwLockWriteGuard<'_, Memory> {
        let _gate = lock(&self.gate);
        self.memory.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn streams(&self) -> MutexGuard<'_, Streams> {
        lock(&self.streams)
    }

    pub(crate) fn device(&self, device: u32) -> Answer<&DeviceState> {
        usize::try_from(device)
            .ok()
            .and_then(|index| self.devices.get(index))
            .ok_or(Code::InvalidDevice.because("no such device"))
    }

    /// Refuses on a device that is gone, and after a sticky error.
    pub(crate) fn alive(&self, device: u32) -> Answer {
        if self.device(device)?.lost.load(Ordering::SeqCst) {
            return Err(Code::DeviceLost.because("the device was lost"));
        }
        if self.illegal.load(Ordering::SeqCst) {
            return Err(Code::IllegalAddress.because(
                "earlier work touched memory that was not mapped or not accessible; sticky",
            ));
        }
        Ok(())
    }

    /// Work has touched what it may not touch. Call it without a lock.
    pub(crate) fn poison(&self) {
        self.illegal.store(true, Ordering::SeqCst);
        self.stir();
    }

    /// After this, no work that was running when a sticky error came up touches memory: each
    /// chunk asks [`alive`](Self::alive) under the lock.
    pub(crate) fn barrier(&self) {
        drop(self.change());
    }

    /// Gives physical memory back to the system, then to the device's free bytes. Not under a
    /// lock, since it takes time.
    pub(crate) fn bury(&self, doomed: impl IntoIterator<Item = Doomed>) {
        for Doomed { device, at, bytes } in doomed {
            if let Ok(state) = self.device(device) {
                state.arena.punch(at, bytes);
            }
            if let Ok(pool) = self.change().pool(device) {
                pool.extents.give(at, bytes);
                pool.used -= bytes;
            }
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sleeping that ends when the machine does.
#[derive(Debug, Default)]
pub(crate) struct Halt {
    halted: Mutex<bool>,
    told: Condvar,
}

impl Halt {
    pub(crate) fn now(&self) {
        *lock(&self.halted) = true;
        self.told.notify_all();
    }

    pub(crate) fn is_halted(&self) -> bool {
        *lock(&self.halted)
    }

    pub(crate) fn sleep(&self, time: Duration) {
        if let Some(until) = Instant::now().checked_add(time) {
            self.sleep_until(until);
        }
    }

    pub(crate) fn sleep_until(&self, until: Instant) {
        let mut halted = lock(&self.halted);
        while !*halted {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            halted = self.told.wait_timeout(halted, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
