//! Memory that is retained: slabs, registered in the background or ahead of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use allocator_core::{Driver, Result};
use dormant_host::{Piece, Slab, process, whole_pages};

use super::Want;
use crate::stash::Charge;
use crate::sync::{Mutex, lock};

/// The least that one slab takes, where so much is wanted: several threads register several slabs,
/// and no registration holds the driver up for long.
const SLAB_BYTES: usize = 256 << 20;

/// A slab, and its place in the count of memory.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(super) slab: Arc<Slab>,
    pub(super) serial: u64,
    /// Whether its pages have been taken from the system, so that readings of free memory show it.
    touched: AtomicBool,
    _charge: Charge,
}

impl Kept {
    pub(super) fn touched(&self) {
        self.touched.store(true, Ordering::Relaxed);
    }

    fn is_untouched(&self) -> bool {
        !self.touched.load(Ordering::Relaxed)
    }

    fn bytes(&self) -> u64 {
        self.slab.bytes() as u64
    }
}

/// Whether nobody but the list has it: no piece is in use, nobody is registering it.
fn is_idle(kept: &Arc<Kept>) -> bool {
    Arc::strong_count(kept) == 1 && Arc::strong_count(&kept.slab) == 1
}

#[derive(Debug, Default)]
pub(super) struct Slabs {
    /// In the order of their serial numbers.
    list: Mutex<Vec<Arc<Kept>>>,
    /// The last serial number.
    made: AtomicU64,
}

/// New slabs, and the pieces of them that were wanted.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) slabs: Vec<Arc<Kept>>,
    pub(super) pieces: Vec<Piece>,
}

impl Slabs {
    fn sum(&self, of: impl Fn(&Arc<Kept>) -> bool) -> u64 {
        let list = lock(&self.list);
        list.iter().filter(|kept| of(kept)).map(|kept| kept.bytes()).sum()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.sum(|_| true)
    }

    /// Bytes that could be given back.
    pub(super) fn idle_bytes(&self) -> u64 {
        self.sum(is_idle)
    }

    /// Bytes that no backup is in, nor any place held.
    pub(super) fn unused_bytes(&self) -> u64 {
        self.sum(|kept| kept.slab.is_idle())
    }

    /// Bytes that no reading of free memory shows as taken.
    pub(super) fn untouched_bytes(&self) -> u64 {
        self.sum(|kept| kept.is_untouched())
    }

    pub(super) fn all(&self) -> Vec<Arc<Kept>> {
        lock(&self.list).clone()
    }

    /// Makes slabs that hold these backups side by side; `charge` pays for them. A failure makes
    /// nothing.
    pub(super) fn make(&self, wants: &[&Want<'_>], charge: &mut Charge) -> Result<Made> {
        let mut made = Made::default();
        let mut rest = wants;
        while !rest.is_empty() {
            let mut bytes = 0_usize;
            let mut count = 0;
            while let Some(want) = rest.get(count).filter(|_| bytes < SLAB_BYTES) {
                bytes = bytes.saturating_add(whole_pages(want.size()));
                count += 1;
            }
            let slab = Slab::new(bytes)?;
            let charge = charge.split(slab.bytes() as u64);
            let serial = self.made.fetch_add(1, Ordering::Relaxed) + 1;
            for want in &rest[..count] {
                let piece = slab.take(want.size());
                if let (Some(home), Some(piece)) = (want.home, &piece) {
                    home.set(serial, piece.offset());
                }
                made.pieces.extend(piece);
            }
            let touched = AtomicBool::new(false);
            made.slabs.push(Arc::new(Kept { slab, serial, touched, _charge: charge }));
            rest = &rest[count..];
        }
        lock(&self.list).extend(made.slabs.iter().map(Arc::clone));
        Ok(made)
    }

    fn drop_where(&self, goes: impl Fn(&Kept) -> bool, most_bytes: u64) -> u64 {
        let mut gone = Vec::new();
        let mut bytes = 0;
        lock(&self.list).retain(|kept| {
            let goes = bytes < most_bytes && is_idle(kept) && goes(kept);
            if goes {
                bytes += kept.bytes();
                gone.push(Arc::clone(kept));
            }
            !goes
        });
        // Unregistered and unmapped when nothing is locked.
        drop(gone);
        bytes
    }

    /// Drops idle slabs until at least `bytes` are gone; returns how many were.
    pub(super) fn drop_idle(&self, bytes: u64) -> u64 {
        self.drop_where(|_| true, bytes)
    }

    pub(super) fn mark(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    pub(super) fn drop_since(&self, mark: u64) {
        self.drop_where(|kept| kept.serial > mark, u64::MAX);
    }

    /// Takes these out of the list, whatever is in them.
    pub(super) fn drop_those(&self, slabs: &[Arc<Kept>]) {
        let is_one = |kept: &Arc<Kept>| slabs.iter().any(|slab| Arc::ptr_eq(slab, kept));
        lock(&self.list).retain(|kept| !is_one(kept));
    }

    /// Those that are not registered.
    pub(super) fn unregistered(&self) -> Vec<Arc<Kept>> {
        let mut all = self.all();
        all.retain(|kept| !kept.slab.is_registered());
        all
    }
}

/// Takes the pages of slabs that nobody has touched, by so many threads.
pub(super) fn populate(slabs: &[Arc<Kept>], threads: usize) {
    let untouched: Vec<_> = slabs.iter().filter(|kept| kept.is_untouched()).collect();
    share_out(untouched.len(), threads, |index| {
        untouched[index].slab.populate();
        untouched[index].touched();
        true
    });
}

/// Registers slabs by so many threads. Returns whether all of them are registered. Stops at the first
/// refusal, and when the process ends.
pub(super) fn register<D: Driver>(driver: &Arc<D>, slabs: &[Arc<Kept>], threads: usize) -> bool {
    share_out(slabs.len(), threads, |index| slabs[index].slab.register(driver).is_ok())
}

/// Does `work` for each index, by several threads; stops when it is answered false.
fn share_out(count: usize, threads: usize, work: impl Fn(usize) -> bool + Sync) -> bool {
    let next = AtomicUsize::new(0);
    let well = AtomicBool::new(true);
    let serve = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count || process::is_exiting() || !well.load(Ordering::Relaxed) {
                return;
            }
            if !work(index) {
                well.store(false, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            let _ = std::thread::Builder::new()
                .name("dormant-register".to_owned())
                .spawn_scoped(scope, serve);
        }
        serve();
    });
    well.into_inner()
}
