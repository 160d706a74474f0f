//! Who hears of a panic while the suite runs. Alone in its process: there is one panic hook in it.

use std::panic;
use std::sync::{Arc, Mutex, PoisonError};

use allocator_core::{ErrorKind, Operation};
use allocator_testkit::Faulty;
use allocator_testkit::suite::{self, Outcome, SuiteOptions};
use dormant_sim::{Sim, SimConfig};

/// Three in one, since they would hear each other.
#[test]
fn the_programs_hook_hears_its_own_panics_and_no_case() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    panic::set_hook(Box::new(move |info| {
        let text = info.payload_as_str().unwrap_or_default().to_owned();
        hears.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }));
    let taken = || std::mem::take(&mut *heard.lock().unwrap_or_else(PoisonError::into_inner));
    let others = |text: &'static str| {
        std::thread::spawn(move || panic!("{text}")).join().expect_err("a panic");
    };

    let config = SimConfig::new().devices(1).capacity_bytes(256 << 20);
    let driver = Arc::new(Faulty::new(Sim::new(config).expect("a simulated machine")));
    let threads = "threads_read_and_write_blocks_of_their_own_at_once";
    let plain = "a_fill_of_a_part_leaves_the_rest";
    let options = SuiteOptions {
        limit_bytes: 128 << 20,
        only: [threads, plain].map(str::to_owned).into(),
        ..SuiteOptions::default()
    };

    // A panic in a thread of a case is the case's, and its reason; the next case runs.
    let mut results = Vec::new();
    driver.fail_from(Operation::SetAccess, ErrorKind::Unknown);
    suite::run(Arc::clone(&driver), &options, &mut |result| {
        if result.outcome == Outcome::Failed {
            results.push(result.clone());
            others("somebody else's");
        }
    })
    .expect("a run");
    let names: Vec<_> = results.iter().map(|result| result.case.name).collect();
    assert_eq!(names, [plain, threads]);
    for result in &results {
        let reason = result.reason.as_deref().unwrap_or_default();
        assert!(reason.contains("told to fail"), "{reason}");
        assert!(reason.contains(".rs:") && !reason.contains("src/"), "{reason}");
    }
    assert_eq!(taken(), ["somebody else's"; 2]);

    // Afterwards the program's hook is back.
    others("afterwards");
    assert_eq!(taken(), ["afterwards"]);

    // A panic of the caller's own comes through, and leaves the hook as it was.
    let told = panic::catch_unwind(panic::AssertUnwindSafe(|| {
        suite::run(Arc::clone(&driver), &options, &mut |_| panic!("told enough"))
    }));
    told.expect_err("the caller's panic");
    others("after that");
    assert_eq!(taken(), ["told enough", "after that"]);

    // A hook that was set meanwhile stays.
    let hears = Arc::clone(&heard);
    let mut hook = Some(move |_: &panic::PanicHookInfo<'_>| {
        let mut heard = hears.lock().unwrap_or_else(PoisonError::into_inner);
        heard.push("the newer hook".to_owned());
    });
    driver.clear();
    suite::run(driver, &options, &mut |_| {
        if let Some(hook) = hook.take() {
            panic::set_hook(Box::new(hook));
        }
    })
    .expect("a run");
    others("after all");
    assert_eq!(taken(), ["the newer hook"]);
    let _ = panic::take_hook();
}
