//! Every way in which a block's or a backing's transition can fail, over a driver that keeps
//! books of each handle and fails when told to.

mod attaching;
mod creating;
mod detaching;
mod dropping;
mod freeing;
mod giving_access;
#[path = "../mock/mod.rs"]
mod mock;
mod the_legal_way;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allocator_core::{
    AttachedBlock, Backing, Block, Device, ErrorKind, Mapped, Operation, PausedBlock, Remnant,
    Stuck, leaked_handles, leaked_ranges,
};
use mock::{GRANULE, Mock, granularity};

type Active = allocator_core::ActiveBlock<Mock>;
type Paused = PausedBlock<Mock, &'static str>;
type Attached = AttachedBlock<Mock, &'static str>;

const OWNER: Device = Device(0);
const PEER: Device = Device(1);
const PIECES: usize = 3;
const BYTES: u64 = 3 * GRANULE;
const STASH: &str = "the only copy";

/// The leak counters belong to the process, so one test at a time.
struct Leaks {
    ranges: u64,
    handles: u64,
    _turn: MutexGuard<'static, ()>,
}

impl Leaks {
    fn watch() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Self { ranges: leaked_ranges(), handles: leaked_handles(), _turn: turn }
    }

    /// Ranges and handles leaked since.
    fn since(&self) -> (u64, u64) {
        (leaked_ranges() - self.ranges, leaked_handles() - self.handles)
    }
}

fn fresh(driver: &Arc<Mock>) -> Paused {
    Block::reserve(driver, OWNER, BYTES - 1, granularity()).expect("reserve")
}

fn backing(driver: &Arc<Mock>) -> Backing<Mock> {
    Backing::create(driver, OWNER, BYTES, GRANULE).expect("create")
}

fn wake(block: Paused, driver: &Arc<Mock>) -> Attached {
    block.attach(backing(driver), [OWNER]).expect("attach")
}

fn active(driver: &Arc<Mock>) -> Active {
    wake(fresh(driver), driver).settle().0
}

fn paused(driver: &Arc<Mock>) -> Paused {
    active(driver).detach(Some(STASH), false).expect("detach")
}

fn attached(driver: &Arc<Mock>) -> Attached {
    wake(paused(driver), driver)
}

fn free_active(block: Active) {
    block.free::<()>().expect("free");
}

#[track_caller]
fn poisoned<B, K, X>(stuck: Stuck<B, K, X>) -> (Remnant<K>, allocator_core::Error) {
    match stuck {
        Stuck::Poisoned { remnant, error } => (remnant, error),
        Stuck::Unchanged { error, .. } => panic!("unchanged, not poisoned: {error}"),
    }
}

#[track_caller]
fn unchanged<B, K, X>(stuck: Stuck<B, K, X>) -> (B, X, allocator_core::Error) {
    match stuck {
        Stuck::Unchanged { block, spare, error } => (block, spare, error),
        Stuck::Poisoned { error, .. } => panic!("poisoned, not unchanged: {error}"),
    }
}
