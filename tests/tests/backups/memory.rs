//! What cycles take of host memory: nothing more than the first one did.

use allocator_core::Operation;
use dormant_engine::{Engine, HostMode, Selection};
use dormant_sim::Sim;

use crate::support::{expect_pattern, filled, pause, resume, until};
use crate::{MIB, engine, host};

/// Private memory of this process in bytes; what stands for the device is shared memory.
fn resident() -> u64 {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").expect("smaps_rollup");
    let line = rollup.lines().find(|line| line.starts_with("Anonymous:")).expect("a line");
    let kib = line.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    kib.expect("a number") << 10
}

fn cycle(engine: &Engine<Sim>) -> (u64, u64) {
    pause(engine, Selection::All);
    let asleep = resident();
    resume(engine, Selection::All);
    until("the backups are gone", || engine.stats().host_backup_bytes == 0);
    (asleep, resident())
}

crate::child::in_its_own_process! {
    fn reclaimed_memory_is_gone_after_every_resume() {
        let engine = engine(HostMode::Reclaim, |_| ());
        let blocks: Vec<_> = (1..=10)
            .map(|seed| (filled(&engine, &host("w", 16 * MIB), 16 * MIB, seed), seed))
            .collect();
        let (asleep, first) = cycle(&engine);
        assert!(asleep > first + 150 * MIB, "{asleep} asleep, {first} awake");
        for _ in 0..20 {
            let (asleep, awake) = cycle(&engine);
            assert!(awake < first + 16 * MIB, "{awake} after the first one's {first}");
            assert!(asleep < first + 160 * MIB + 64 * MIB, "{asleep} asleep");
        }
        for (address, seed) in blocks {
            expect_pattern(&engine, address, 16 * MIB, seed);
        }
    }

    fn retained_memory_is_taken_once() {
        let engine = engine(HostMode::Retain, |_| ());
        let blocks: Vec<_> = (1..=10)
            .map(|seed| (filled(&engine, &host("w", 16 * MIB), 16 * MIB, seed), seed))
            .collect();
        let (_, first) = cycle(&engine);
        until("it is registered", || engine.driver().registered_bytes() >= 160 * MIB);
        let registered = engine.driver().calls(Operation::RegisterHost);
        for _ in 0..20 {
            let (asleep, awake) = cycle(&engine);
            assert!(awake < first + 16 * MIB && asleep < first + 16 * MIB, "{awake} {asleep} {first}");
            assert_eq!(engine.stats().host_retained_bytes, 160 * MIB);
        }
        // Two lanes may have been opened beside those of the first cycle.
        assert!(engine.driver().calls(Operation::RegisterHost) <= registered + 2);
        for (address, seed) in blocks {
            expect_pattern(&engine, address, 16 * MIB, seed);
        }
    }
}
