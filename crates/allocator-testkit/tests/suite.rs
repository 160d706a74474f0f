//! The suite as a function, on simulated devices that are good, bad, and not ours alone.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use allocator_core::{
    Device, Driver, Error, ErrorKind, MemoryInfo, Operation, Result, leaked_handles,
};
use allocator_testkit::suite::{self, CaseResult, Outcome, SuiteOptions};
use allocator_testkit::wrapped::{Hook, Request, Wrapped};
use allocator_testkit::{Checked, Faulty};
use dormant_sim::{Sim, SimConfig};

const MIB: u64 = 1 << 20;
const DEVICE: Device = Device(0);
const THE_DEVICE: &str = "the_device_gets_its_memory_back";

fn sim(capacity_bytes: u64) -> Sim {
    let config = SimConfig::new().devices(2).capacity_bytes(capacity_bytes).scribble(Some(0xA7));
    Sim::new(config).expect("a simulated machine")
}

fn options(alone: bool) -> SuiteOptions {
    SuiteOptions { limit_bytes: 128 * MIB, alone, ..SuiteOptions::default() }
}

fn run<D: Driver>(driver: Arc<D>, options: &SuiteOptions) -> Vec<CaseResult> {
    let mut results = Vec::new();
    suite::run(driver, options, &mut |result| results.push(result.clone())).expect("a run");
    let told: Vec<_> = results.iter().map(|result| result.case).collect();
    assert_eq!(told, suite::cases(), "one result for each case");
    results
}

fn failed(results: &[CaseResult]) -> Vec<(&'static str, &str)> {
    let failed = results.iter().filter(|result| result.outcome == Outcome::Failed);
    failed.map(|result| (result.case.name, result.reason.as_deref().unwrap_or(""))).collect()
}

fn free<D: Driver>(driver: &D) -> u64 {
    driver.memory(DEVICE).expect("memory").free_bytes
}

#[test]
fn every_case_passes_within_the_limit_and_breaks_no_rule() {
    for alone in [false, true] {
        let driver = Arc::new(Checked::new(sim(256 * MIB)));
        let results = run(Arc::clone(&driver), &options(alone));
        assert_eq!(failed(&results), []);
        assert!(results.iter().all(|result| result.outcome == Outcome::Passed));
        // One case asks for two refusals.
        assert_eq!(driver.violations(), 2);
        assert_eq!(free(&*driver), 256 * MIB);
    }
}

/// Sees how much is taken of the device at once.
#[derive(Clone, Debug, Default)]
struct Peak {
    now: Arc<AtomicU64>,
    most: Arc<AtomicU64>,
}

impl Hook for Peak {
    fn before(&self, _: &Request<'_>) -> Result<()> {
        Ok(())
    }

    fn after(&self, request: &Request<'_>, error: Option<&Error>) -> Result<()> {
        let ours = request.device == Some(DEVICE) && error.is_none();
        let bytes = request.bytes.unwrap_or(0);
        match request.operation {
            Operation::Create if ours => {
                let now = self.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
                self.most.fetch_max(now, Ordering::Relaxed);
            }
            Operation::Release if ours => {
                self.now.fetch_sub(bytes, Ordering::Relaxed);
            }
            _ => {}
        }
        Ok(())
    }
}

/// While `work` runs, a neighbour takes and frees up to 24 MiB of the device at a time, and now and
/// then everything, as it likes.
fn beside_a_neighbour<T>(sim: &Sim, work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut state, mut held) = (0x9E37_79B9_u64, Vec::new());
            while !done.load(Ordering::Relaxed) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                if held.len() > 7 || state.is_multiple_of(16) {
                    held.drain(..).for_each(|memory| sim.release(memory).expect("release"));
                } else if state.is_multiple_of(2) && !held.is_empty() {
                    sim.release(held.swap_remove(0)).expect("release");
                } else {
                    let bytes = (1 + state / 16 % 12) * 2 * MIB;
                    held.push(sim.create(DEVICE, bytes).expect("room beside the run"));
                }
                std::thread::sleep(Duration::from_micros(state / 256 % 2000));
            }
            held.drain(..).for_each(|memory| sim.release(memory).expect("release"));
        });
        // Also when the work fails: else nobody would hear of it.
        let ended = catch_unwind(AssertUnwindSafe(work));
        done.store(true, Ordering::Relaxed);
        ended.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

#[test]
fn a_neighbour_on_the_device_neither_fools_the_run_nor_loses_its_room() {
    let sim = Arc::new(sim(512 * MIB));
    let peak = Peak::default();
    let driver = Wrapped::<Sim, _>::with_hook(Arc::clone(&sim), peak.clone());
    let results = beside_a_neighbour(&sim, || run(Arc::new(driver), &options(false)));
    assert_eq!(failed(&results), []);
    let most = peak.most.load(Ordering::Relaxed);
    assert!((100 * MIB..=128 * MIB).contains(&most), "{most} bytes were taken at once");
    assert_eq!(free(&*sim), 512 * MIB);
}

/// A device that gets memory back only with the range that it was mapped in, and a driver that
/// neither says so nor does anything about it: its reading tells.
#[derive(Debug, Default)]
struct Keeps {
    kept: AtomicU64,
}

impl Hook for Keeps {
    fn before(&self, _: &Request<'_>) -> Result<()> {
        Ok(())
    }

    fn after(&self, request: &Request<'_>, _: Option<&Error>) -> Result<()> {
        match request.operation {
            Operation::Release => {
                self.kept.fetch_add(request.bytes.unwrap_or(0), Ordering::Relaxed);
            }
            Operation::Unreserve => self.kept.store(0, Ordering::Relaxed),
            _ => {}
        }
        Ok(())
    }

    fn memory(&self, _: Device, read: MemoryInfo) -> MemoryInfo {
        let kept = self.kept.load(Ordering::Relaxed);
        MemoryInfo { free_bytes: read.free_bytes.saturating_sub(kept), ..read }
    }
}

#[test]
fn a_device_that_keeps_what_a_pause_gave_back_is_found_out() {
    for alone in [false, true] {
        let driver = Wrapped::<Sim, _>::with_hook(sim(512 * MIB), Keeps::default());
        let results = run(Arc::new(driver), &options(alone));
        let failed = failed(&results);
        let (_, reason) = failed.last().expect("a failure");
        assert!(reason.contains("device 0"), "{reason}");
        let names: Vec<_> = failed.iter().map(|(name, _)| *name).collect();
        if alone {
            assert!(names.len() > 5 && names.contains(&THE_DEVICE), "{failed:?}");
        } else {
            // The ledger sees what was released, not what became of it.
            assert_eq!(names, [THE_DEVICE], "{failed:?}");
        }
    }
}

#[test]
fn a_neighbour_hides_no_device_that_keeps_memory() {
    let sim = Arc::new(sim(512 * MIB));
    let options = SuiteOptions { only: vec![THE_DEVICE.to_owned()], ..options(false) };
    let driver = Wrapped::<Sim, _>::with_hook(Arc::clone(&sim), Keeps::default());
    let results = beside_a_neighbour(&sim, || run(Arc::new(driver), &options));
    assert_eq!(failed(&results).len(), 1);
    assert_eq!(free(&*sim), 512 * MIB);
}

#[test]
fn a_case_that_falls_over_a_fault_is_a_result_and_leaves_nothing() {
    let only =
        ["work_in_flight_is_finished_before_it_is_saved", "copies_of_one_stream_happen_in_order"];
    let only: Vec<_> = only.map(str::to_owned).into();
    for operation in [Operation::Fill, Operation::Wait, Operation::Read, Operation::OpenStream] {
        let driver = Arc::new(Faulty::new(sim(256 * MIB)));
        let before = (free(&*driver), leaked_handles());
        driver.fail_from(operation, ErrorKind::Unknown);
        let options = SuiteOptions { only: only.clone(), ..options(false) };
        let results = run(Arc::clone(&driver), &options);
        let failed = failed(&results);
        assert_eq!(failed.len(), 2, "{operation}: {failed:?}");
        assert!(failed.iter().all(|(_, reason)| reason.contains("told to fail")), "{failed:?}");
        driver.clear();
        assert_eq!(free(&*driver), before.0, "{operation}");
        let skipped = results.iter().filter(|result| result.outcome == Outcome::Skipped);
        assert_eq!(skipped.count(), suite::cases().len() - 2);
        let again = run(driver, &options);
        assert!(again.iter().all(|result| result.outcome != Outcome::Failed), "{again:?}");
    }
}

#[test]
fn a_run_that_cannot_begin_says_why() {
    let begin = |change: &dyn Fn(&mut SuiteOptions)| {
        let mut options = options(true);
        change(&mut options);
        suite::run(Arc::new(sim(256 * MIB)), &options, &mut |result| panic!("{result:?}"))
            .expect_err("a refusal")
    };
    let small = begin(&|options| options.limit_bytes = 64 * MIB);
    assert_eq!((small.kind(), small.bytes()), (ErrorKind::InvalidArgument, Some(64 * MIB)));
    assert!(small.to_string().contains(&(120 * MIB).to_string()), "{small}");
    let absent = begin(&|options| options.devices = vec![Device(5)]);
    assert_eq!((absent.kind(), absent.device()), (ErrorKind::NotFound, Some(Device(5))));
    let blurred = begin(&|options| options.slack_bytes = 64 * MIB);
    assert_eq!(blurred.kind(), ErrorKind::InvalidArgument, "{blurred}");
    let misspelt = begin(&|options| options.only = vec!["no_such_case".to_owned()]);
    assert!(misspelt.to_string().contains("no_such_case"), "{misspelt}");
}
