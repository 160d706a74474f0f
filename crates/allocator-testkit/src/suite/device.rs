//! Whether the device itself gets its memory back: by its own reading, whatever the driver and the
//! engine say.

use allocator_core::{Device, Driver};
use dormant_engine::{Allocation, PauseOptions, Policy, ResumeOptions};

use crate::Bench;
use crate::limited::{Limited, Reading};

/// So often a block is allocated, paused, resumed and freed, at the least.
const ROUNDS: usize = 9;

/// And so often at the most, where others move the reading all the time.
const MOST_ROUNDS: usize = 301;

/// The device's own free bytes in the steps of one round.
struct Round {
    before: u64,
    awake: u64,
    asleep: u64,
    resumed: u64,
    after: u64,
}

impl Round {
    /// A block of its own, so that memory which stays with a range goes at least with the block.
    fn of<D: Driver>(bench: &Bench<Limited<D>>, device: Device, bytes: u64) -> Self {
        let limited = bench.driver();
        // The engine looks at the device as well, and finds out if it keeps memory.
        limited.set_reading(Reading::Device);
        limited.reset().expect("the device's own reading");
        let free = || limited.inner().memory(device).expect("memory").free_bytes;
        let engine = &bench.engine;
        let allocation = Allocation::new(bytes, device).tag("back").policy(Policy::Discard);

        let before = free();
        let address = engine.allocate(&allocation).expect("allocation");
        let awake = free();
        engine.pause("back", &PauseOptions::default()).expect("pause");
        let asleep = free();
        engine.resume("back", &ResumeOptions::default()).expect("resume");
        let resumed = free();
        engine.free(address).expect("free");
        Self { before, awake, asleep, resumed, after: free() }
    }

    /// Twice what the sleep gave: more is free than before it, and than after it. What others take
    /// or free at a steady pace is in one as much as in the other, the other way round.
    fn twice_given(&self) -> i128 {
        2 * i128::from(self.asleep) - i128::from(self.awake) - i128::from(self.resumed)
    }
}

/// A quarter of what there is, so that there is room beside one that the device keeps.
fn block_bytes<D: Driver>(bench: &Bench<Limited<D>>, device: Device) -> u64 {
    let bytes = bench.driver().memory(device).expect("memory").total_bytes / 4;
    bytes - bytes % bench.driver().granularity(device).expect("granularity").bytes()
}

/// With nobody else on the device: each step, to the byte.
pub(super) fn every_round<D: Driver>(bench: &Bench<Limited<D>>) {
    for device in &bench.devices {
        let bytes = block_bytes(bench, *device);
        for round in 1..=ROUNDS {
            let Round { before, awake, asleep, resumed, after } = Round::of(bench, *device, bytes);
            let taken = before.saturating_sub(bytes);
            let steps = [
                ("allocated", awake, taken),
                ("paused", asleep, before),
                ("resumed", resumed, taken),
                ("freed", after, before),
            ];
            for (step, free, expected) in steps {
                assert!(
                    free.abs_diff(expected) <= bench.slack_bytes,
                    "device {device} reads {free} bytes as free, and not {expected}, after a block \
                     of {bytes} bytes was {step} in round {round}"
                );
            }
        }
    }
}

/// With others on the device, who take and free memory as they like: in the middle of all rounds, a
/// sleep gives what the block has, give or take a quarter. There are rounds until those around the
/// middle agree on that, three standard errors to each side.
pub(super) fn most_rounds<D: Driver>(bench: &Bench<Limited<D>>) {
    for device in &bench.devices {
        let bytes = block_bytes(bench, *device);
        let wanted = i128::from(bytes);
        let holds = |twice: i128| (twice - 2 * wanted).abs() <= wanted / 2;
        let mut given = Vec::new();
        let middle = loop {
            given.push(Round::of(bench, *device, bytes).twice_given());
            given.sort_unstable();
            let (rounds, middle) = (given.len(), given.len() / 2);
            let around = 3 * rounds.isqrt() / 2;
            if rounds < ROUNDS || rounds.is_multiple_of(2) || around > middle {
                continue;
            }
            let sides = [given[middle - around], given[middle + around]];
            let agreed = sides.map(holds) == [true; 2]
                || sides[1] < 2 * wanted - wanted / 2
                || sides[0] > 2 * wanted + wanted / 2;
            if agreed || rounds >= MOST_ROUNDS {
                break given[middle];
            }
        };
        assert!(
            holds(middle),
            "by its own reading, device {device} got {} bytes from a sleeping block of {bytes} (the \
             middle of {} rounds)",
            middle / 2,
            given.len()
        );
    }
}
