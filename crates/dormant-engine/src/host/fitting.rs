//! Finding places for backups in what is retained.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use dormant_host::{Piece, Shadow, Slab, whole_pages};

use super::Want;
use super::slabs::Kept;
use crate::sync::{Mutex, lock};

/// Where a block's backup was last time: the same blocks then find the same places in whatever order
/// they are paused, and nothing new is taken for them.
#[derive(Debug, Default)]
pub(crate) struct Home {
    /// The slab's serial number; zero for none.
    slab: AtomicU64,
    offset: AtomicUsize,
    /// Prepared for its next backup, and held for it.
    reserved: Mutex<Option<Piece>>,
}

impl Home {
    fn get(&self) -> Option<(u64, usize)> {
        let slab = self.slab.load(Ordering::Relaxed);
        (slab > 0).then(|| (slab, self.offset.load(Ordering::Relaxed)))
    }

    pub(super) fn set(&self, slab: u64, offset: usize) {
        self.offset.store(offset, Ordering::Relaxed);
        self.slab.store(slab, Ordering::Relaxed);
    }

    pub(super) fn reserve(&self, piece: Piece) {
        *lock(&self.reserved) = Some(piece);
    }

    /// Gives up what was held for it.
    pub(super) fn release(&self) -> Option<Piece> {
        lock(&self.reserved).take()
    }

    fn has_reserved(&self) -> bool {
        lock(&self.reserved).is_some()
    }
}

/// A slab as far as places are concerned: the memory itself, or a shadow to try things on.
pub(super) trait Shelf {
    type Piece;
    fn take(&mut self, bytes: usize) -> Option<(Self::Piece, usize)>;
    fn take_at(&mut self, offset: usize, bytes: usize) -> Option<Self::Piece>;
    /// What is held for a home.
    fn reserved(home: &Home) -> Option<Self::Piece>;
    /// Whether a new place becomes a backup's home.
    const SETTLES: bool;
}

impl Shelf for Arc<Slab> {
    type Piece = Piece;
    const SETTLES: bool = true;

    fn take(&mut self, bytes: usize) -> Option<(Piece, usize)> {
        let piece = Slab::take(self, bytes)?;
        let offset = piece.offset();
        Some((piece, offset))
    }

    fn take_at(&mut self, offset: usize, bytes: usize) -> Option<Piece> {
        Slab::take_at(self, offset, bytes)
    }

    fn reserved(home: &Home) -> Option<Piece> {
        home.release()
    }
}

impl Shelf for Shadow {
    type Piece = ();
    const SETTLES: bool = false;

    fn take(&mut self, bytes: usize) -> Option<((), usize)> {
        Self::take(self, bytes).map(|offset| ((), offset))
    }

    fn take_at(&mut self, offset: usize, bytes: usize) -> Option<()> {
        Self::take_at(self, offset, bytes).then_some(())
    }

    fn reserved(home: &Home) -> Option<()> {
        home.has_reserved().then_some(())
    }
}

/// What was found for some wants.
#[derive(Debug)]
pub(super) struct Found<P> {
    /// A place for each want that may be retained and fits.
    pub(super) pieces: Vec<Option<P>>,
    /// Those that may be retained and do not fit.
    pub(super) missing: Vec<usize>,
    /// Those that may not.
    pub(super) others: Vec<usize>,
}

/// Looks for places: where each backup was last time, then anywhere, one slab after the other.
pub(super) fn find<S: Shelf>(
    slabs: &[Arc<Kept>],
    shelf: impl Fn(&Kept) -> S,
    wants: &[Want<'_>],
) -> Found<S::Piece> {
    let mut shelves: Vec<_> = slabs.iter().map(|kept| shelf(kept)).collect();
    let mut found = Found { pieces: Vec::new(), missing: Vec::new(), others: Vec::new() };
    for want in wants {
        let home = want.home.filter(|_| want.may_stay());
        let piece = home.and_then(|home| {
            S::reserved(home).or_else(|| {
                let (serial, offset) = home.get()?;
                let place = slabs.binary_search_by_key(&serial, |kept| kept.serial).ok()?;
                shelves[place].take_at(offset, want.size())
            })
        });
        found.pieces.push(piece);
    }
    // Where the last place was; and so many pages found none, and nothing is given back meanwhile.
    let (mut at, mut too_large) = (0, usize::MAX);
    for (index, want) in wants.iter().enumerate() {
        if !want.may_stay() {
            found.others.push(index);
            continue;
        }
        if found.pieces[index].is_some() {
            continue;
        }
        let pages = whole_pages(want.size());
        let count = shelves.len();
        let steps = if pages < too_large { count } else { 0 };
        let place = (0..steps).map(|step| (at + step) % count).find_map(|place| {
            shelves[place].take(want.size()).map(|(piece, offset)| (place, piece, offset))
        });
        let Some((place, piece, offset)) = place else {
            too_large = too_large.min(pages);
            found.missing.push(index);
            continue;
        };
        at = place;
        if let Some(home) = want.home.filter(|_| S::SETTLES) {
            home.set(slabs[place].serial, offset);
        }
        found.pieces[index] = Some(piece);
    }
    found
}
