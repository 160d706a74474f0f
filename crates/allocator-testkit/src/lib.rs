//! The conformance suite: what every backend must do, written once.
//!
//! A backend's whole test file is one macro call:
//!
//! ```text
//! fn setup() -> Option<allocator_testkit::Setup<MyDriver>> { … }
//! allocator_testkit::conformance_suite!(setup);
//! ```
//!
//! Each case is a `#[test]` of the same name for every backend. A setup that answers `None` has
//! no device: the case is a skip that is seen on stderr.
//!
//! Freed memory is checked by the device's own free reading, not by a return code. On a device
//! that other processes use as well, allow some slack; cases that share a device hold
//! [`exclusive`] while they run.
//!
//! [`suite::run`] runs the same cases as a function, in any program, on a device that others use
//! too: over a [`Limited`] driver, which takes so much memory and no more, and reads what the
//! program itself has taken.
//!
//! # Testing a choreography of your own
//!
//! Who sleeps when is the program's business, and it can be tested without a GPU. Three drivers
//! go around any other: [`Recording`] writes down the calls, [`Faulty`] fails chosen ones, and
//! [`Checked`] refuses those that are against the rules of [`Driver`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use allocator_core::{Device, Driver, Operation};
//! use allocator_testkit::Recording;
//! use dormant_engine::{Allocation, Config, Engine, PauseOptions, Policy, ResumeOptions};
//! use dormant_sim::{Sim, SimConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let sim = Sim::new(SimConfig::new().devices(1).capacity_bytes(64 << 20))?;
//! let engine = Engine::new(Arc::new(Recording::new(sim)), Config::default());
//! let (driver, bytes) = (engine.driver(), 40 << 20);
//!
//! // A train step: the weights change.
//! let trainer = Allocation::new(bytes, Device(0)).tag("trainer").policy(Policy::Host);
//! let weights = engine.allocate(&trainer)?;
//! engine.write(weights, b"step 1")?;
//!
//! // The trainer sleeps. Nothing is unmapped before its bytes are safe.
//! driver.clear();
//! engine.pause("trainer", &PauseOptions::default())?;
//! let steps = driver.operations(&[Operation::Read, Operation::Wait, Operation::Unmap]);
//! assert_eq!(steps.first(), Some(&Operation::Read));
//! assert_eq!(steps.last(), Some(&Operation::Unmap));
//! assert_eq!(driver.operations(&[Operation::Unreserve]), []);
//!
//! // An engine step: both would not fit, so this is only right while the trainer sleeps.
//! let cache = engine.allocate(&Allocation::new(bytes, Device(0)).tag("engine"))?;
//! assert!(driver.memory(Device(0))?.free_bytes < bytes);
//! assert!(engine.resume("trainer", &ResumeOptions::default()).is_err());
//! engine.pause("engine", &PauseOptions::default())?;
//!
//! // The trainer goes on where it was.
//! engine.resume("trainer", &ResumeOptions::default())?;
//! let mut have = [0; 6];
//! engine.read(weights, &mut have)?;
//! assert_eq!(&have, b"step 1");
//! engine.free(cache)?;
//! engine.free(weights)?;
//! # Ok(())
//! # }
//! ```

#![expect(
    clippy::missing_panics_doc,
    reason = "a conformance case says that it failed by panicking, as every test does"
)]

use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allocator_core::{Capabilities, Device, Driver, Granularity};
use dormant_engine::{Address, Allocation, Config, Engine, Policy};

pub mod cases;
pub mod checked;
pub mod faulty;
pub mod limited;
pub mod null;
mod panics;
pub mod recording;
pub mod suite;
pub mod wrapped;

pub use checked::Checked;
pub use faulty::Faulty;
pub use limited::Limited;
pub use recording::{Call, Recording};

/// A driver under test.
#[derive(Debug)]
pub struct Setup<D: Driver> {
    /// The driver, fresh or shared between cases.
    pub driver: Arc<D>,
    /// The size of an ordinary block in the cases, in bytes: a few granules, and more than
    /// [`slack_bytes`](Self::slack_bytes).
    pub unit_bytes: u64,
    /// How far a free reading may be off: zero where nobody else uses the device.
    pub slack_bytes: u64,
    /// Held while the case runs, where cases share one device: they read its free bytes.
    pub exclusive: Option<MutexGuard<'static, ()>>,
}

/// What a case works with: an engine of its own over the driver under test.
#[derive(Debug)]
pub struct Bench<D: Driver> {
    /// The engine.
    pub engine: Engine<D>,
    /// The devices there are.
    pub devices: Vec<Device>,
    /// The first device, which most cases use.
    pub device: Device,
    /// Its granularity.
    pub granularity: Granularity,
    /// The size of an ordinary block, in bytes.
    pub unit_bytes: u64,
    slack_bytes: u64,
    _exclusive: Option<MutexGuard<'static, ()>>,
}

impl<D: Driver> Bench<D> {
    fn new(setup: Setup<D>) -> Self {
        let Setup { driver, unit_bytes, slack_bytes, exclusive } = setup;
        let devices: Vec<_> =
            driver.devices().expect("devices").into_iter().map(|info| info.device).collect();
        let device = *devices.first().expect("a device");
        let granularity = driver.granularity(device).expect("granularity");
        let engine = Engine::new(driver, Config::default());
        let bench = Self {
            engine,
            devices,
            device,
            granularity,
            unit_bytes,
            slack_bytes,
            _exclusive: exclusive,
        };
        bench.warm_up();
        bench
    }

    /// Takes what only the first use takes (contexts, streams), so that readings compare.
    fn warm_up(&self) {
        for device in &self.devices {
            let address = self
                .engine
                .allocate(&Allocation::new(1, *device).tag("warm-up"))
                .expect("warm-up allocation");
            self.engine.write(address, &[0]).expect("warm-up copy");
            self.engine.free(address).expect("warm-up free");
        }
    }

    /// The driver.
    #[must_use]
    pub fn driver(&self) -> &Arc<D> {
        self.engine.driver()
    }

    /// Allocates on the first device.
    #[must_use]
    pub fn allocate(&self, tag: &str, policy: Policy, bytes: u64) -> Address {
        let allocation = Allocation::new(bytes, self.device).tag(tag).policy(policy);
        self.engine.allocate(&allocation).expect("allocation")
    }

    /// Allocates and writes a pattern that depends on `seed` and on the position.
    #[must_use]
    pub fn filled(&self, tag: &str, policy: Policy, bytes: u64, seed: u8) -> Address {
        let address = self.allocate(tag, policy, bytes);
        self.write(address, bytes, seed);
        address
    }

    /// Writes the pattern of `seed` over a block.
    pub fn write(&self, address: Address, bytes: u64, seed: u8) {
        self.engine.write(address, &pattern(bytes, seed)).expect("write");
    }

    /// All bytes of a block.
    #[must_use]
    pub fn read(&self, address: Address, bytes: u64) -> Vec<u8> {
        let mut into = vec![0xA5; usize::try_from(bytes).expect("a size that fits")];
        self.engine.read(address, &mut into).expect("read");
        into
    }

    /// Fails unless a block holds the pattern of `seed`.
    #[track_caller]
    pub fn expect_pattern(&self, address: Address, bytes: u64, seed: u8) {
        expect_bytes(&self.read(address, bytes), &pattern(bytes, seed));
    }

    /// The first device's free reading, in bytes.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.driver().memory(self.device).expect("memory").free_bytes
    }

    /// Fails unless the first device's free reading is `expected`, give or take the slack.
    #[track_caller]
    pub fn expect_free(&self, expected: u64, when: &str) {
        let free = self.free_bytes();
        let off = free.abs_diff(expected);
        assert!(off <= self.slack_bytes, "{when}: {free} bytes are free, {expected} were expected");
    }

    /// Whether the device has a capability.
    #[must_use]
    pub fn can(&self, capability: Capabilities) -> bool {
        self.driver().capabilities(self.device).expect("capabilities").contains(capability)
    }
}

/// The lock for [`Setup::exclusive`]: one for all drivers of the process.
pub fn exclusive() -> MutexGuard<'static, ()> {
    static DEVICE: Mutex<()> = Mutex::new(());
    DEVICE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that depend on `seed` and on the position, so that a shifted copy is seen.
#[must_use]
pub fn pattern(bytes: u64, seed: u8) -> Vec<u8> {
    let mut state = u64::from(seed) << 32 | 0x9E37_79B9;
    let mut out = vec![0; usize::try_from(bytes).expect("a size that fits")];
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let (whole, rest) = out.as_chunks_mut();
    whole.iter_mut().for_each(|part| *part = next());
    rest.copy_from_slice(&next()[..rest.len()]);
    out
}

/// Fails at the first byte that differs, naming it, instead of printing both sides.
#[track_caller]
pub fn expect_bytes(have: &[u8], want: &[u8]) {
    assert_eq!(have.len(), want.len(), "lengths differ");
    if have == want {
        return;
    }
    let place = have.iter().zip(want).position(|(have, want)| have != want).unwrap_or(0);
    panic!(
        "byte {place} of {} is {:#04x}, {:#04x} was written",
        want.len(),
        have[place],
        want[place]
    );
}

/// Runs one case, or says that it is skipped.
pub fn run<D: Driver>(name: &str, setup: Option<Setup<D>>, case: impl FnOnce(&Bench<D>)) {
    match setup {
        Some(setup) => {
            let bench = Bench::new(setup);
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&bench)));
            if let Err(panic) = ended {
                // A device outlives the case; what it holds would fail those after it.
                for block in bench.engine.blocks() {
                    let _ = bench.engine.free(block.address);
                }
                std::panic::resume_unwind(panic);
            }
            let stats = bench.engine.stats();
            let left: Vec<_> = stats.tags.iter().collect();
            assert!(left.is_empty(), "the case left blocks behind: {left:?}");
            assert_eq!(stats.failed_frees, 0, "frees failed unseen");
        }
        None => {
            // Past the test harness's capture: a skip is to be seen.
            let _ = writeln!(std::io::stderr(), "SKIPPED {name}: there is no such device here");
        }
    }
}

/// Declares one `#[test]` for each case of the suite, over what `$setup` makes: a function that
/// returns `Option<Setup<D>>`.
#[macro_export]
macro_rules! conformance_suite {
    ($setup:path) => {
        $crate::for_each_case!([$crate::conformance_tests] $setup);
    };
}

/// All cases as tests.
#[macro_export]
#[doc(hidden)]
macro_rules! conformance_tests {
    ({ $setup:path } $($area:ident { $($case:ident)* })*) => {$($(
        #[test]
        fn $case() {
            $crate::run(stringify!($case), $setup(), |bench| $crate::cases::$area::$case(bench));
        }
    )*)*};
}
