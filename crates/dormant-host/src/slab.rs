//! Memory that is kept: registered once, and handed out in pieces again and again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allocator_core::{Driver, Result};

use crate::mapping::Mapping;
use crate::piece::{Piece, whole_pages};
use crate::places::Places;
use crate::process;
use crate::registration::Registrar;

/// A stretch of host memory that is registered as one, so that no piece of it crosses the border of
/// two registrations. Pieces go back to it, and their pages stay.
#[derive(Debug)]
pub struct Slab {
    // In this order: what is registered is unregistered before it is unmapped.
    registrar: Registrar,
    mapping: Mapping,
    places: Mutex<Places>,
}

impl Slab {
    /// Maps a slab of `bytes`, in whole pages. No page is touched.
    ///
    /// # Errors
    /// As [`Mapping::new`].
    pub fn new(bytes: usize) -> Result<Arc<Self>> {
        let mapping = Mapping::new(bytes)?;
        let places = Mutex::new(Places::new(mapping.bytes() as u64));
        Ok(Arc::new(Self { registrar: Registrar::default(), mapping, places }))
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.mapping.bytes()
    }

    /// Whether no piece of it is in use.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.places().end() == 0
    }

    /// Takes a piece, which keeps the slab alive; `None` where it has no place for one. Old contents
    /// may be in it.
    #[must_use]
    pub fn take(self: &Arc<Self>, bytes: usize) -> Option<Piece> {
        let start = self.places().take(whole_pages(bytes) as u64)?;
        let offset = usize::try_from(start).ok()?;
        Some(Piece::of_slab(Arc::clone(self), offset, bytes))
    }

    /// Takes the piece at `offset` bytes, which is where a page begins, if that is free.
    #[must_use]
    pub fn take_at(self: &Arc<Self>, offset: usize, bytes: usize) -> Option<Piece> {
        let taken = self.places().take_at(offset as u64, whole_pages(bytes) as u64);
        taken.then(|| Piece::of_slab(Arc::clone(self), offset, bytes))
    }

    /// What of it is in use now, to try what would find a place.
    #[must_use]
    pub fn shadow(&self) -> Shadow {
        Shadow(self.places().clone())
    }

    /// Takes the pages from the system now, rather than at first touch. Contents stay. Where the
    /// system cannot (Linux before 5.14), they come at first touch all the same.
    pub fn populate(&self) {
        self.mapping.populate();
    }

    /// Registers it with a driver until it is dropped; a second time does nothing. Pieces may be in
    /// use meanwhile.
    ///
    /// # Errors
    /// The driver's, when it or the system refuses.
    pub fn register<D: Driver>(&self, driver: &Arc<D>) -> Result<()> {
        // SAFETY: the mapping is this slab's own; its pieces are registered as part of it alone
        // (`Piece::register`), and the registrar is dropped before the mapping.
        unsafe { self.registrar.register(driver, self.mapping.base(), self.mapping.bytes()) }
    }

    /// Whether it is registered.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.registrar.is_registered()
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Takes a piece's bytes back.
    pub(crate) fn give(&self, offset: usize, bytes: usize) {
        // In a forked child a thread that is not here may hold the lock.
        if !process::is_forked_child() {
            self.places().give(offset as u64, whole_pages(bytes) as u64);
        }
    }
}

/// The places of a slab at some moment, without its memory.
#[derive(Clone, Debug)]
pub struct Shadow(Places);

impl Shadow {
    /// As [`Slab::take`]; where the piece would begin.
    pub fn take(&mut self, bytes: usize) -> Option<usize> {
        let start = self.0.take(whole_pages(bytes) as u64)?;
        usize::try_from(start).ok()
    }

    /// As [`Slab::take_at`]; whether the piece would be had.
    pub fn take_at(&mut self, offset: usize, bytes: usize) -> bool {
        self.0.take_at(offset as u64, whole_pages(bytes) as u64)
    }
}

#[cfg(test)]
mod tests {
    use allocator_core::{ErrorKind, Operation};
    use dormant_sim::{Sim, SimConfig};

    use super::*;
    use crate::page_bytes;

    fn sim() -> Arc<Sim> {
        Arc::new(Sim::new(SimConfig::new().devices(1).capacity_bytes(16 << 20)).unwrap())
    }

    #[test]
    fn pieces_of_a_slab_do_not_overlap_go_back_and_keep_their_pages() {
        let page = page_bytes();
        let slab = Slab::new(4 * page).unwrap();
        let mut first = slab.take(page + 1).unwrap();
        let second = slab.take(2 * page).unwrap();
        assert!(slab.take(1).is_none(), "two pages and two pages");
        first.fill(1);
        assert!(second.iter().all(|byte| *byte == 0));
        let at = first.as_ptr();
        drop(first);
        let again = slab.take(2 * page).unwrap();
        assert_eq!(again.as_ptr(), at);
        assert_eq!(again[0], 1, "the pages were given back");
        assert!(!slab.is_idle());
        drop((again, second));
        assert!(slab.is_idle());
        assert!(slab.take(4 * page).is_some());
    }

    #[test]
    fn a_slab_is_registered_once_with_all_its_pieces_and_unregistered_at_its_end() {
        let sim = sim();
        let slab = Slab::new(8 * page_bytes()).unwrap();
        let piece = slab.take(100).unwrap();
        assert!(!piece.is_registered());
        piece.register(&sim).unwrap();
        slab.register(&sim).unwrap();
        assert!(piece.is_registered() && slab.take(1).unwrap().is_registered());
        assert_eq!(sim.registrations(), 1);
        assert_eq!(sim.calls(Operation::RegisterHost), 1);
        drop(slab);
        assert_eq!(sim.registrations(), 1, "a piece is in use");
        drop(piece);
        assert_eq!(sim.registrations(), 0);
    }

    #[test]
    fn a_refused_registration_leaves_the_memory_usable() {
        let sim = sim();
        let slab = Slab::new(page_bytes()).unwrap();
        slab.populate();
        sim.fail_nth(Operation::RegisterHost, 1, ErrorKind::HostMemory);
        assert_eq!(slab.register(&sim).unwrap_err().kind(), ErrorKind::HostMemory);
        assert!(!slab.is_registered());
        slab.take(1).unwrap().fill(1);
        slab.register(&sim).unwrap();
        assert!(slab.is_registered());
    }
}
