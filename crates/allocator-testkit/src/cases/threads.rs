//! Many threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use allocator_core::{Driver, ErrorKind};
use dormant_engine::{Allocation, PauseOptions, Policy, ResumeOptions, Selection, region};

use crate::Bench;
use crate::panics::spawn;

/// Sets a flag when it goes, also when a case fails: loops end, and the failure is seen.
struct Until<'a>(&'a AtomicBool);

impl Drop for Until<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Ownership is by address, never by thread or region.
pub fn a_block_is_freed_from_another_thread_outside_its_region<D: Driver>(bench: &Bench<D>) {
    let start = bench.free_bytes();
    let address = {
        let _region = region::enter(region::Settings::new("r", Policy::Host));
        let allocation = Allocation::new(bench.unit_bytes, bench.device);
        bench.engine.allocate(&allocation).expect("allocation")
    };
    std::thread::scope(|scope| {
        spawn(scope, || bench.engine.free(address).expect("free"));
    });
    bench.expect_free(start, "freed");
}

/// Each free is obeyed once, whatever a pause is doing.
pub fn frees_race_pauses_and_no_block_is_lost<D: Driver>(bench: &Bench<D>) {
    let start = bench.free_bytes();
    let bytes = bench.granularity.bytes();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let until = Until(&done);
        let pauser = spawn(scope, || {
            while !done.load(Ordering::Relaxed) {
                bench.engine.pause("race", &PauseOptions::default()).expect("pause");
                bench.engine.resume("race", &ResumeOptions::default()).expect("resume");
            }
        });
        let workers: Vec<_> = (0..3_u8)
            .map(|_| {
                spawn(scope, || {
                    for policy in [Policy::Host, Policy::Discard, Policy::Zero].repeat(8) {
                        let address = bench.allocate("race", policy, bytes);
                        bench.engine.free(address).expect("free");
                        let error = bench.engine.free(address).expect_err("freed already");
                        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.join().expect("no panic");
        }
        drop(until);
        pauser.join().expect("no panic");
    });
    bench.expect_free(start, "everything was freed");
}

/// A block is usable between its allocation and the next pause that its thread knows of.
pub fn allocations_race_pauses_and_every_block_is_usable<D: Driver>(bench: &Bench<D>) {
    let bytes = bench.granularity.bytes() + 3;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other = bench.filled("other", Policy::Host, bytes, 9);
        let until = Until(&done);
        let pauser = spawn(scope, || {
            while !done.load(Ordering::Relaxed) {
                bench.engine.pause("other", &PauseOptions::default()).expect("pause");
                bench.engine.resume("other", &ResumeOptions::default()).expect("resume");
                // Whoever waits for the turn to copy gets it now, and not by chance.
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        let workers: Vec<_> = (1..=3)
            .map(|seed| {
                spawn(scope, move || {
                    for _ in 0..8 {
                        let address = bench.filled("mine", Policy::Host, bytes, seed);
                        bench.expect_pattern(address, bytes, seed);
                        bench.engine.free(address).expect("free");
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.join().expect("no panic");
        }
        drop(until);
        pauser.join().expect("no panic");
        bench.expect_pattern(other, bytes, 9);
        bench.engine.free(other).expect("free");
    });
}

/// One at a time, none lost, none torn.
pub fn transitions_from_many_threads_take_turns<D: Driver>(bench: &Bench<D>) {
    let bytes = bench.unit_bytes;
    let a = bench.filled("a", Policy::Host, bytes, 1);
    let b = bench.filled("b", Policy::Host, bytes, 2);
    std::thread::scope(|scope| {
        for tag in ["a", "b", "a"] {
            spawn(scope, move || {
                for _ in 0..5 {
                    bench.engine.pause(tag, &PauseOptions::default()).expect("pause");
                    bench.engine.resume(tag, &ResumeOptions::default()).expect("resume");
                }
            });
        }
    });
    bench.engine.resume(Selection::All, &ResumeOptions::default()).expect("resume");
    bench.expect_pattern(a, bytes, 1);
    bench.expect_pattern(b, bytes, 2);
    bench.engine.free(a).expect("free");
    bench.engine.free(b).expect("free");
}

/// Waiting for the device would break the capture.
pub fn a_pause_during_a_known_capture_is_refused_and_frees_wait_for_its_end<D: Driver>(
    bench: &Bench<D>,
) {
    let start = bench.free_bytes();
    let bytes = bench.unit_bytes;
    let kept = bench.filled("w", Policy::Host, bytes, 1);
    let asleep = bench.filled("z", Policy::Host, bytes, 2);
    let freed = bench.filled("w", Policy::Host, bytes, 3);
    bench.engine.pause("z", &PauseOptions::default()).expect("pause");
    {
        let _capture = bench.engine.begin_capture();
        let soon = PauseOptions::default().timeout(Duration::from_millis(20));
        let error = bench.engine.pause("w", &soon).expect_err("a capture is going on");
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        bench.engine.free(freed).expect("free is put off");
        assert!(!bench.engine.owns(freed));
        assert_eq!(bench.engine.stats().deferred_frees, 1);
        bench.engine.resume("z", &ResumeOptions::default()).expect("a resume breaks no capture");
        let during = bench.allocate("w", Policy::Discard, bytes);
        bench.engine.free(during).expect("free is put off");
    }
    assert_eq!(bench.engine.stats().deferred_frees, 0);
    bench.engine.pause("w", &PauseOptions::default()).expect("pause");
    bench.engine.resume("w", &ResumeOptions::default()).expect("resume");
    bench.expect_pattern(kept, bytes, 1);
    bench.expect_pattern(asleep, bytes, 2);
    bench.engine.free(kept).expect("free");
    bench.engine.free(asleep).expect("free");
    bench.expect_free(start, "everything was freed");
}

/// Copies of one thread are not mixed with those of another.
pub fn threads_read_and_write_blocks_of_their_own_at_once<D: Driver>(bench: &Bench<D>) {
    let bytes = bench.granularity.bytes() + 7;
    std::thread::scope(|scope| {
        for seed in 1..=4_u8 {
            spawn(scope, move || {
                let address = bench.allocate("mine", Policy::Host, bytes);
                for round in 0..6 {
                    bench.write(address, bytes, seed + 10 * round);
                    bench.expect_pattern(address, bytes, seed + 10 * round);
                }
                bench.engine.free(address).expect("free");
            });
        }
    });
}

/// While it sleeps there is nothing to wait for.
pub fn a_paused_block_is_freed_from_another_thread<D: Driver>(bench: &Bench<D>) {
    let start = bench.free_bytes();
    let gone = bench.filled("w", Policy::Host, bench.unit_bytes, 1);
    let kept = bench.filled("w", Policy::Host, bench.unit_bytes, 2);
    bench.engine.pause("w", &PauseOptions::default()).expect("pause");
    let answers: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| spawn(scope, || bench.engine.free(gone))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
    for error in answers.into_iter().filter_map(Result::err) {
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
    let report = bench.engine.resume("w", &ResumeOptions::default()).expect("resume");
    assert_eq!(report.moved().blocks, 1);
    bench.expect_pattern(kept, bench.unit_bytes, 2);
    bench.engine.free(kept).expect("free");
    bench.expect_free(start, "freed");
}

/// A worker allocates as whoever gave it the work.
pub fn a_region_carried_to_another_thread_names_the_tag_there<D: Driver>(bench: &Bench<D>) {
    let here = Allocation::new(bench.unit_bytes, bench.device);
    let carried = {
        let _region = region::enter(region::Settings::new("carried", Policy::Zero));
        region::carry()
    };
    let [inside, outside] = std::thread::scope(|scope| {
        let thread = spawn(scope, || {
            let inside = {
                let _region = carried.enter();
                bench.engine.allocate(&here)
            };
            [inside, bench.engine.allocate(&here)].map(|answer| answer.expect("allocation"))
        });
        thread.join().expect("no panic")
    });
    for (address, tag, policy) in
        [(inside, "carried", Policy::Zero), (outside, "default", Policy::Discard)]
    {
        let info = bench.engine.find(address).expect("a block");
        assert_eq!((info.tag.as_str(), info.policy), (tag, policy));
        bench.engine.free(address).expect("free");
    }
}

/// Not the first that ends: the other would break.
pub fn the_last_capture_that_ends_frees_what_was_put_off<D: Driver>(bench: &Bench<D>) {
    let start = bench.free_bytes();
    let bytes = bench.granularity.round_up(bench.unit_bytes).expect("a size");
    let address = bench.allocate("w", Policy::Discard, bytes);
    let first = bench.engine.begin_capture();
    let second = bench.engine.begin_capture();
    bench.engine.free(address).expect("free is put off");
    let error = bench.engine.free(address).expect_err("freed already");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    drop(first);
    assert_eq!(bench.engine.stats().deferred_frees, 1);
    bench.expect_free(start - bytes, "during the second capture");
    drop(second);
    assert_eq!(bench.engine.stats().deferred_frees, 0);
    bench.expect_free(start, "after both captures");
}
