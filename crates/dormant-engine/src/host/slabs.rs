//! Memory that is retained: slabs, registered in the background or ahead of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use allocator_core::{Driver, Result};
use dormant_host::{Piece, Slab, process};

use crate::stash::Charge;
use crate::sync::{Mutex, lock};

/// The least that one slab takes, where so much is wanted: several threads register several slabs,
/// and each registration holds the driver up for some tens of milliseconds (an H200's takes 57 ms for
/// 256 MiB).
const SLAB_BYTES: usize = 256 << 20;

/// A slab, and its place in the count of memory.
#[derive(Debug)]
pub(crate) struct Kept {
    slab: Arc<Slab>,
    serial: u64,
    _charge: Charge,
}

#[derive(Debug, Default)]
struct List {
    /// In the order in which they were made.
    slabs: Vec<Arc<Kept>>,
    made: u64,
}

#[derive(Debug, Default)]
pub(super) struct Slabs {
    list: Mutex<List>,
}

/// New slabs, and the pieces of them that were wanted.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) slabs: Vec<Arc<Kept>>,
    pub(super) pieces: Vec<Piece>,
}

impl Slabs {
    pub(super) fn bytes(&self) -> u64 {
        lock(&self.list).slabs.iter().map(|kept| kept.slab.bytes() as u64).sum()
    }

    pub(super) fn idle_bytes(&self) -> u64 {
        let list = lock(&self.list);
        let idle = list.slabs.iter().filter(|kept| kept.slab.is_idle());
        idle.map(|kept| kept.slab.bytes() as u64).sum()
    }

    /// To look for places in what there is.
    pub(super) fn fitting(&self) -> Fitting {
        let slabs = lock(&self.list).slabs.iter().map(|kept| Arc::clone(&kept.slab)).collect();
        Fitting { slabs, at: 0, too_large: usize::MAX }
    }

    /// Makes slabs that hold pieces of these sizes, in whole pages, side by side; `charge` pays for
    /// them. A failure makes nothing.
    pub(super) fn make(&self, sizes: &[usize], charge: &mut Charge) -> Result<Made> {
        let mut made = Made::default();
        let mut rest = sizes;
        while !rest.is_empty() {
            let mut bytes = 0_usize;
            let mut count = 0;
            while let Some(size) = rest.get(count).filter(|_| bytes < SLAB_BYTES) {
                bytes = bytes.saturating_add(*size);
                count += 1;
            }
            let slab = Slab::new(bytes)?;
            made.pieces.extend(rest[..count].iter().filter_map(|size| slab.take(*size)));
            let charge = charge.split(slab.bytes() as u64);
            made.slabs.push(Arc::new(Kept { slab, serial: 0, _charge: charge }));
            rest = &rest[count..];
        }
        let mut list = lock(&self.list);
        for kept in &mut made.slabs {
            list.made += 1;
            if let Some(kept) = Arc::get_mut(kept) {
                kept.serial = list.made;
            }
            list.slabs.push(Arc::clone(kept));
        }
        Ok(made)
    }

    fn drop_where(&self, goes: impl Fn(&Kept) -> bool, most_bytes: u64) -> u64 {
        let mut gone = Vec::new();
        let mut bytes = 0;
        lock(&self.list).slabs.retain(|kept| {
            let goes = bytes < most_bytes && kept.slab.is_idle() && goes(kept);
            if goes {
                bytes += kept.slab.bytes() as u64;
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

    pub(super) fn trim(&self) -> u64 {
        self.drop_idle(u64::MAX)
    }

    pub(super) fn mark(&self) -> u64 {
        lock(&self.list).made
    }

    pub(super) fn drop_since(&self, mark: u64) {
        self.drop_where(|kept| kept.serial > mark, u64::MAX);
    }

    /// Takes these out of the list, whatever is in them.
    pub(super) fn drop_those(&self, slabs: &[Arc<Kept>]) {
        let is_one = |kept: &Arc<Kept>| slabs.iter().any(|slab| Arc::ptr_eq(slab, kept));
        lock(&self.list).slabs.retain(|kept| !is_one(kept));
    }

    pub(super) fn unregistered(&self) -> Vec<Arc<Kept>> {
        let list = lock(&self.list);
        list.slabs.iter().filter(|kept| !kept.slab.is_registered()).map(Arc::clone).collect()
    }
}

/// Looks for places, in the order of slabs: the same wants find the same places each time.
#[derive(Debug)]
pub(super) struct Fitting {
    slabs: Vec<Arc<Slab>>,
    /// Where the last place was.
    at: usize,
    /// Nothing of this size found a place, and nothing is given back meanwhile.
    too_large: usize,
}

impl Fitting {
    pub(super) fn take(&mut self, bytes: usize) -> Option<Piece> {
        if bytes >= self.too_large {
            return None;
        }
        let (before, from) = self.slabs.split_at(self.at.min(self.slabs.len()));
        let order = from.iter().chain(before).enumerate();
        for (step, slab) in order {
            if let Some(piece) = slab.take(bytes) {
                self.at = (self.at + step) % self.slabs.len();
                return Some(piece);
            }
        }
        self.too_large = bytes;
        None
    }
}

/// Registers slabs by so many threads; with `populate` their pages are taken first. Returns whether
/// all of them are registered. Stops at the first refusal, and when the process ends.
pub(super) fn register<D: Driver>(
    driver: &Arc<D>,
    slabs: &[Arc<Kept>],
    threads: usize,
    populate: bool,
) -> bool {
    if populate {
        share_out(slabs.len(), threads, |index| {
            slabs[index].slab.populate();
            true
        });
    }
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
