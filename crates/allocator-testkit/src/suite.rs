//! The whole suite as a function: in a program, on a device that others use too.
//!
//! The cases are those of [`conformance_suite`](crate::conformance_suite), from the same list. They
//! run one after another over a [`Limited`] driver. A case that fails is a result with a reason;
//! nothing is printed, and nothing of it stays on the device.
//!
//! ```
//! use std::sync::Arc;
//!
//! use allocator_testkit::suite::{self, Outcome, SuiteOptions};
//! use dormant_sim::{Sim, SimConfig};
//!
//! # fn main() -> allocator_core::Result<()> {
//! let sim = Sim::new(SimConfig::new().devices(2).capacity_bytes(256 << 20))?;
//! let options = SuiteOptions {
//!     limit_bytes: 128 << 20,
//!     only: vec!["an_unknown_tag_is_no_error".to_owned()],
//!     ..SuiteOptions::default()
//! };
//! let mut results = Vec::new();
//! suite::run(Arc::new(sim), &options, &mut |result| results.push(result.clone()))?;
//! assert_eq!(results.len(), suite::cases().len(), "those left out are skipped");
//! assert!(results.iter().all(|result| result.outcome != Outcome::Failed), "{results:?}");
//! # Ok(())
//! # }
//! ```

use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use allocator_core::{Device, Driver, Error, ErrorKind, Operation, Result};

use crate::cases::{contents, keeping};
use crate::limited::{Limit, Limited, Reading};
use crate::panics::{self, Quiet};
use crate::{Bench, Setup, cases};

mod device;

/// The simulated device of the tests has 128 MiB, and an ordinary block is 6 MiB there.
const UNIT_OF_LIMIT: (u64, u64) = (6, 128);

/// How many devices the cases have a use for.
const MOST_DEVICES: usize = 2;

/// Why a case was not run.
const LEFT_OUT: &str = "left out by the caller";
const ONE_DEVICE: &str = "it takes two devices";

/// What says nothing of a single device.
const OF_TWO_DEVICES: [&str; 1] = ["two_devices_keep_their_own_bytes"];

/// How to run the suite.
#[derive(Clone, Debug)]
pub struct SuiteOptions {
    /// The devices, of which the first two are used. None is the first that there are.
    pub devices: Vec<Device>,
    /// The most memory that is taken of each at once, beside what the driver itself needs.
    pub limit_bytes: u64,
    /// The size of an ordinary block. It follows from the limit, unless the driver gives no single
    /// piece of that size.
    pub unit_bytes: Option<u64>,
    /// Nobody else uses the devices: their own reading of free memory is what counts, and has to be
    /// right. Else what the run itself has taken counts, which others cannot move.
    pub alone: bool,
    /// How far the devices' own reading may be off when nobody else uses them.
    pub slack_bytes: u64,
    /// The names of the cases to run; the others are skipped. None is all.
    pub only: Vec<String>,
}

impl Default for SuiteOptions {
    fn default() -> Self {
        Self {
            devices: Vec::new(),
            limit_bytes: 1 << 30,
            unit_bytes: None,
            alone: false,
            slack_bytes: 0,
            only: Vec::new(),
        }
    }
}

/// A case of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Case {
    /// What it is about, in a word.
    pub area: &'static str,
    /// What has to hold. No other case has the same name.
    pub name: &'static str,
}

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It holds.
    Passed,
    /// It does not.
    Failed,
    /// It was not run.
    Skipped,
}

impl Outcome {
    /// The name for records: `passed`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseResult {
    /// Which one.
    pub case: Case,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// Why it did not pass.
    pub reason: Option<String>,
}

type Body<D> = fn(&Bench<D>);

/// A case and how it is run.
type Entry<D> = (Case, Body<D>);

/// The case that is none of a driver with a device of its own: the others see to it there.
const DEVICE: Case = Case { area: "device", name: "the_device_gets_its_memory_back" };

macro_rules! names {
    ({} $($area:ident { $($case:ident)* })*) => {
        vec![$($(Case { area: stringify!($area), name: stringify!($case) },)*)*]
    };
}

macro_rules! entries {
    ({} $($area:ident { $($case:ident)* })*) => {
        vec![$($((
            Case { area: stringify!($area), name: stringify!($case) },
            |bench| cases::$area::$case(bench),
        ),)*)*]
    };
}

/// All cases, in the order in which they are run. A whole run has one result for each.
#[must_use]
pub fn cases() -> Vec<Case> {
    let mut all = crate::for_each_case!([names]);
    all.push(DEVICE);
    all
}

fn entries<D: Driver>(alone: bool) -> Vec<Entry<Limited<D>>> {
    let mut all: Vec<Entry<Limited<D>>> = crate::for_each_case!([entries]);
    all.push((DEVICE, if alone { device::every_round } else { device::most_rounds }));
    all
}

/// Runs the suite and tells of each case as soon as it has ended, in the order of
/// [`cases()`], those left out too. Runs of one process take turns, so `on_result` must not begin another.
///
/// It takes over the panic hook for panics of its own cases, and no others.
///
/// # Errors
/// It cannot begin: `NotFound` for a device that is not there, or where there is none;
/// `InvalidArgument` for a limit under which not every case has room, a slack that hides a block,
/// or a name that no case has; the driver's own error when it is asked what there is.
pub fn run<D: Driver>(
    driver: Arc<D>,
    options: &SuiteOptions,
    on_result: &mut dyn FnMut(&CaseResult),
) -> Result<()> {
    run_entries(driver, options, &entries(options.alone), on_result)
}

fn run_entries<D: Driver>(
    driver: Arc<D>,
    options: &SuiteOptions,
    entries: &[Entry<Limited<D>>],
    on_result: &mut dyn FnMut(&CaseResult),
) -> Result<()> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let suite = Suite::new(driver, options)?;
    let known = |name: &&String| entries.iter().all(|(case, _)| case.name != name.as_str());
    if let Some(unknown) = options.only.iter().find(known) {
        return Err(refused(format!("no case is named {unknown}")));
    }
    let quiet = Quiet::begin();
    let told = panic::catch_unwind(AssertUnwindSafe(|| {
        for (case, body) in entries {
            let wanted =
                options.only.is_empty() || options.only.iter().any(|name| name == case.name);
            on_result(&if !wanted {
                skipped(*case, LEFT_OUT)
            } else if suite.devices < 2 && OF_TWO_DEVICES.contains(&case.name) {
                skipped(*case, ONE_DEVICE)
            } else {
                suite.run(*case, *body)
            });
        }
    }));
    quiet.end();
    told.map_err(|panic| panic::resume_unwind(panic))
}

fn skipped(case: Case, why: &str) -> CaseResult {
    CaseResult { case, outcome: Outcome::Skipped, ms: 0, reason: Some(why.to_owned()) }
}

fn refused(text: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, Operation::Open, text)
}

/// What the cases need room for, whatever an ordinary block is: the largest block of a fixed size,
/// and the most blocks that are there at once, of a granule each.
fn least_bytes(granule: u64) -> u64 {
    contents::MANY_CHUNKS_BYTES.next_multiple_of(granule).max(keeping::SMALL_BLOCKS * granule)
}

/// A run.
struct Suite<D: Driver> {
    /// What the cases see.
    limited: Arc<Limited<D>>,
    /// How many devices they see.
    devices: usize,
    reading: Reading,
    unit_bytes: u64,
    slack_bytes: u64,
}

impl<D: Driver> Suite<D> {
    fn new(driver: Arc<D>, options: &SuiteOptions) -> Result<Self> {
        let mut devices = options.devices.clone();
        if devices.is_empty() {
            devices.extend(driver.devices()?.into_iter().map(|info| info.device));
        }
        devices.truncate(MOST_DEVICES);
        if devices.is_empty() {
            let text = "there is no device";
            return Err(Error::new(ErrorKind::NotFound, Operation::Devices, text));
        }
        let reading = if options.alone { Reading::Device } else { Reading::Ledger };
        let limited =
            Limited::new(driver, &Limit { devices, bytes: options.limit_bytes, reading })?;
        let (mut granule, mut smallest) = (1, options.limit_bytes);
        let shown = limited.devices()?;
        for info in &shown {
            let of_device = limited.granularity(info.device)?.bytes();
            let least = least_bytes(of_device);
            if info.total_bytes < least {
                let text = format!("the cases need at least {least} bytes of each device");
                return Err(refused(text).with_device(info.device).with_bytes(info.total_bytes));
            }
            granule = of_device.max(granule);
            smallest = info.total_bytes.min(smallest);
        }
        let (unit, whole) = UNIT_OF_LIMIT;
        let ordinary = smallest / whole * unit;
        let unit_bytes = options.unit_bytes.unwrap_or(ordinary - ordinary % granule);
        let slack_bytes = if options.alone { options.slack_bytes } else { 0 };
        if slack_bytes >= unit_bytes {
            let text = format!("a slack of {slack_bytes} bytes hides a block of {unit_bytes}");
            return Err(refused(text));
        }
        Ok(Self {
            limited: Arc::new(limited),
            devices: shown.len(),
            reading,
            unit_bytes,
            slack_bytes,
        })
    }

    /// Runs one, and takes from the device what it left there.
    fn run(&self, case: Case, body: Body<Limited<D>>) -> CaseResult {
        let begun = Instant::now();
        self.limited.set_reading(self.reading);
        let ended = panics::run(|| {
            let setup = Setup {
                driver: Arc::clone(&self.limited),
                unit_bytes: self.unit_bytes,
                slack_bytes: self.slack_bytes,
                exclusive: None,
            };
            crate::run(case.name, Some(setup), |bench| {
                // The driver has taken what only the first use takes.
                self.limited.reset().expect("the device's own reading");
                body(bench);
            });
        });
        // SAFETY: the bench and whatever the case held went with its thread.
        let left = match unsafe { self.limited.reclaim() } {
            Ok(0) => None,
            Ok(bytes) => Some(format!("{bytes} bytes of memory were dropped and not released")),
            Err(error) => Some(format!("what it left could not be given back: {error}")),
        };
        // Falling over something, a case drops what it holds.
        let reason = ended.err().or(left);
        let outcome = if reason.is_some() { Outcome::Failed } else { Outcome::Passed };
        let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        CaseResult { case, outcome, ms, reason }
    }
}
