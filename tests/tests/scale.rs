//! Bookkeeping grows with the number of blocks, and not faster.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use allocator_testkit::null::Null;
use dormant_engine::{
    Address, Allocation, Config, Device, Engine, PauseOptions, ResumeOptions, Selection,
};

/// One measurement at a time, and how much longer four times as many blocks may take: the same
/// four times, with room for a loaded machine, but not the sixteen of a quadratic cost.
static ALONE: Mutex<()> = Mutex::new(());
const MOST: u32 = 12;

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn engine_of(blocks: usize) -> (Engine<Null>, Vec<Address>) {
    let engine = Engine::new(Arc::new(Null::default()), Config::default());
    let tags = ["a", "b", "c", "d"];
    let addresses = (0..blocks)
        .map(|index| {
            let allocation = Allocation::new(1, Device(0)).tag(tags[index % tags.len()]);
            engine.allocate(&allocation).expect("there is always room")
        })
        .collect();
    (engine, addresses)
}

/// The shortest of a few tries, which is what a loaded machine leaves comparable.
fn shortest(mut work: impl FnMut()) -> Duration {
    let time = |_| {
        let begun = Instant::now();
        work();
        begun.elapsed()
    };
    (0..5).map(time).min().unwrap_or_default()
}

fn transition(engine: &Engine<Null>, selection: &Selection, blocks: u64) {
    let paused = engine.pause(selection.clone(), &PauseOptions::default()).expect("pause");
    assert_eq!(paused.moved().blocks, blocks);
    let resumed = engine.resume(selection.clone(), &ResumeOptions::default()).expect("resume");
    assert_eq!(resumed.moved().blocks, blocks);
}

#[test]
fn the_time_of_a_transition_grows_no_faster_than_its_blocks() {
    let _alone = alone();
    let time = |blocks: usize| {
        let (engine, _) = engine_of(blocks);
        shortest(|| transition(&engine, &Selection::All, blocks as u64))
    };
    let (small, large) = (time(25_000), time(100_000));
    assert!(large < small * MOST, "25,000 blocks: {small:?}; 100,000 blocks: {large:?}");
}

#[test]
fn the_time_of_a_small_tag_does_not_grow_with_the_blocks_of_others() {
    let _alone = alone();
    let time = |others: usize| {
        let (engine, _) = engine_of(others);
        for _ in 0..1000 {
            let allocation = Allocation::new(1, Device(0)).tag("small");
            engine.allocate(&allocation).expect("there is always room");
        }
        shortest(|| transition(&engine, &"small".into(), 1000))
    };
    let (few, many) = (time(1_000), time(100_000));
    assert!(many < few * MOST, "among 1,000: {few:?}; among 100,000: {many:?}");
}

#[test]
fn the_time_of_frees_grows_no_faster_than_their_number() {
    let _alone = alone();
    let time = |blocks: usize| {
        let tries = (0..3).map(|_| {
            let (engine, addresses) = engine_of(blocks);
            let begun = Instant::now();
            addresses.iter().for_each(|address| engine.free(*address).expect("free"));
            begun.elapsed()
        });
        tries.min().unwrap_or_default()
    };
    let (small, large) = (time(25_000), time(100_000));
    assert!(large < small * MOST, "25,000 blocks: {small:?}; 100,000 blocks: {large:?}");
}
