//! Memory that is retained: slabs, registered in the background or ahead of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use allocator_core::{Driver, Result};
use dormant_host::{Piece, Slab, process, whole_pages};

use super::Want;
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
    pub(super) fn bytes(&self) -> u64 {
        lock(&self.list).iter().map(|kept| kept.slab.bytes() as u64).sum()
    }

    pub(super) fn idle_bytes(&self) -> u64 {
        let list = lock(&self.list);
        let idle = list.iter().filter(|kept| kept.slab.is_idle());
        idle.map(|kept| kept.slab.bytes() as u64).sum()
    }

    /// To look for places in what there is.
    pub(super) fn fitting(&self) -> Fitting {
        let slabs = lock(&self.list).clone();
        Fitting { slabs, at: 0, too_large: usize::MAX }
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
            made.slabs.push(Arc::new(Kept { slab, serial, _charge: charge }));
            rest = &rest[count..];
        }
        let mut list = lock(&self.list);
        list.extend(made.slabs.iter().map(Arc::clone));
        // Another call may have made some at the same time.
        list.sort_by_key(|kept| kept.serial);
        Ok(made)
    }

    fn drop_where(&self, goes: impl Fn(&Kept) -> bool, most_bytes: u64) -> u64 {
        let mut gone = Vec::new();
        let mut bytes = 0;
        lock(&self.list).retain(|kept| {
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

    pub(super) fn unregistered(&self) -> Vec<Arc<Kept>> {
        let list = lock(&self.list);
        list.iter().filter(|kept| !kept.slab.is_registered()).map(Arc::clone).collect()
    }
}

/// Looks for places.
#[derive(Debug)]
pub(super) struct Fitting {
    slabs: Vec<Arc<Kept>>,
    /// Where the last place was.
    at: usize,
    /// Nothing of so many pages found a place, and nothing is given back meanwhile.
    too_large: usize,
}

impl Fitting {
    /// The very place where a backup was last time, if it is free.
    pub(super) fn take_home(&self, home: &Home, bytes: usize) -> Option<Piece> {
        let (serial, offset) = home.get()?;
        let place = self.slabs.binary_search_by_key(&serial, |kept| kept.serial).ok()?;
        self.slabs[place].slab.take_at(offset, bytes)
    }

    /// Any place, which becomes the backup's home. One slab is filled after the other.
    pub(super) fn take(&mut self, home: Option<&Home>, bytes: usize) -> Option<Piece> {
        if whole_pages(bytes) >= self.too_large {
            return None;
        }
        for step in 0..self.slabs.len() {
            let place = (self.at + step) % self.slabs.len();
            if let Some(piece) = self.slabs[place].slab.take(bytes) {
                self.at = place;
                if let Some(home) = home {
                    home.set(self.slabs[place].serial, piece.offset());
                }
                return Some(piece);
            }
        }
        self.too_large = whole_pages(bytes);
        None
    }
}

/// Where a block's backup was last time: the same blocks then find the same places in whatever order
/// they are paused, and nothing new is taken for them.
#[derive(Debug, Default)]
pub(crate) struct Home {
    /// The slab's serial number; zero for none.
    slab: AtomicU64,
    offset: AtomicUsize,
}

impl Home {
    fn get(&self) -> Option<(u64, usize)> {
        let slab = self.slab.load(Ordering::Relaxed);
        (slab > 0).then(|| (slab, self.offset.load(Ordering::Relaxed)))
    }

    fn set(&self, slab: u64, offset: usize) {
        self.offset.store(offset, Ordering::Relaxed);
        self.slab.store(slab, Ordering::Relaxed);
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
