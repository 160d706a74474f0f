//! The end of a process, and what dropping an engine leaks.

use std::sync::{Arc, OnceLock};

use allocator_core::{Operation, leaked_handles, leaked_ranges};
use dormant_engine::{Allocation, CaptureGuard, Engine, Policy, Selection};
use dormant_sim::Sim;

use crate::child::{at_its_end, in_its_own_process};
use crate::support::{
    GRANULE, ONE, ZERO, all_calls, engine_over, filled, pause, resume, small, until,
};

type Kept = (Arc<Sim>, Engine<Sim>);
static ENGINE: OnceLock<Kept> = OnceLock::new();

/// An engine that is never dropped, with active and sleeping blocks and its reaper at work.
fn process_wide(link: Option<u64>) -> &'static Kept {
    let kept = ENGINE.get_or_init(|| engine_over(small().link_bytes_per_second(link)));
    let (_, engine) = kept;
    for (tag, device) in [("awake", ZERO), ("asleep", ONE), ("asleep", ZERO)] {
        let allocation = Allocation::new(GRANULE, device).tag(tag).policy(Policy::Host);
        filled(engine, &allocation, GRANULE, 1);
    }
    pause(engine, Selection::All);
    resume(engine, "awake");
    kept
}

fn exit_now() {
    at_its_end();
    // SAFETY: the process ends as it would from the end of `main`; that is what is asked about.
    unsafe { libc::exit(0) };
}

in_its_own_process! {
    fn a_process_ends_quietly_with_live_and_sleeping_blocks() {
        process_wide(None);
    }

    fn a_process_ends_quietly_during_a_known_capture() {
        let (_, engine) = process_wide(None);
        let capture: CaptureGuard<'static, Sim> = engine.begin_capture();
        // Lives until the process ends.
        let _capture = std::mem::ManuallyDrop::new(capture);
    }

    fn a_process_ends_quietly_while_a_pause_is_copying() {
        let (sim, engine) = process_wide(Some(2 << 20));
        let slow = Allocation::new(4 << 20, ZERO).tag("slow").policy(Policy::Host);
        engine.allocate(&slow).unwrap();
        let reads = sim.calls(Operation::Read);
        std::thread::spawn(|| pause(engine, "slow"));
        until("the pause copies", || sim.calls(Operation::Read) > reads);
        exit_now();
    }

    fn a_buffer_that_is_dropped_while_the_process_exits_calls_no_driver() {
        static BUFFER: std::sync::Mutex<Option<dormant::Buffer<Sim>>> =
            std::sync::Mutex::new(None);
        static SIM: OnceLock<Arc<Sim>> = OnceLock::new();
        extern "C" fn late() {
            let sim = SIM.get().expect("set before");
            let calls = all_calls(sim);
            drop(BUFFER.lock().expect("nobody panicked").take());
            assert_eq!(all_calls(sim), calls, "a driver call at exit");
        }
        // Handlers run in reverse: this one is registered before the engine's own.
        // SAFETY: a plain function; a panic in it aborts, which the parent sees.
        assert_eq!(unsafe { libc::atexit(late) }, 0);
        let (sim, engine) = engine_over(small());
        SIM.set(Arc::clone(&sim)).unwrap();
        let engine = Arc::new(engine);
        let buffer = dormant::Buffer::new(&engine, &Allocation::new(GRANULE, ZERO)).unwrap();
        *BUFFER.lock().unwrap() = Some(buffer);
        exit_now();
    }

    fn a_dropped_engine_frees_no_block_and_counts_each_as_a_leak() {
        let (sim, engine) = engine_over(small());
        assert_eq!((leaked_ranges(), leaked_handles()), (0, 0));
        for tag in ["awake", "awake", "asleep"] {
            let allocation = Allocation::new(GRANULE, ZERO).tag(tag).policy(Policy::Host);
            filled(&engine, &allocation, GRANULE, 1);
        }
        pause(&engine, "asleep");
        let (unmaps, ranges) = (sim.calls(Operation::Unmap), sim.calls(Operation::Unreserve));
        drop(engine);
        // A sleeping block has a range and no handle.
        assert_eq!((leaked_ranges(), leaked_handles()), (3, 2));
        assert_eq!(sim.calls(Operation::Unmap), unmaps);
        assert_eq!(sim.calls(Operation::Unreserve), ranges);
        // The streams and their staging are closed in the background.
        until("the staging is closed", || sim.registrations() == 0);
    }
}
