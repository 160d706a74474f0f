//! Exclusive parts of a mapping or a slab: a backup for each block of a pause, without a mapping each.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use allocator_core::{Driver, Error, ErrorKind, Operation, Result};

use crate::mapping::{Mapping, huge_page_bytes, page_bytes};
use crate::process;
use crate::registration::Registrar;
use crate::slab::Slab;

/// Bytes of host memory that nobody else has. When it is dropped they go back: to the slab that they
/// are a piece of; else the pages to the system, and the address space when the last piece of its
/// mapping goes.
#[derive(Debug)]
pub struct Piece {
    // In this order: what is registered is unregistered before it is unmapped.
    registrar: Registrar,
    home: Home,
    offset: usize,
    /// What was asked for.
    bytes: usize,
}

/// What a piece is a piece of.
#[derive(Debug)]
enum Home {
    /// Of memory that goes back to the system.
    Mapping(Arc<Mapping>),
    /// Of memory that is kept.
    Slab(Arc<Slab>),
}

impl Piece {
    fn carved(mapping: Arc<Mapping>, offset: usize, bytes: usize) -> Self {
        Self { registrar: Registrar::default(), home: Home::Mapping(mapping), offset, bytes }
    }

    /// A place that the slab has taken for it.
    pub(crate) fn of_slab(slab: Arc<Slab>, offset: usize, bytes: usize) -> Self {
        Self { registrar: Registrar::default(), home: Home::Slab(slab), offset, bytes }
    }

    fn at(&self) -> NonNull<u8> {
        let mapping = match &self.home {
            Home::Mapping(mapping) => mapping,
            Home::Slab(slab) => slab.mapping(),
        };
        // SAFETY: `carve` and `Slab::take` keep offset and length within the mapping.
        unsafe { mapping.base().add(self.offset) }
    }

    /// Registers the pages with a driver, so that its devices copy to and from them at full speed, until
    /// the piece is dropped; with a piece of a slab the whole slab. A second time does nothing.
    ///
    /// # Errors
    /// The driver's, when it or the system refuses.
    pub fn register<D: Driver>(&self, driver: &Arc<D>) -> Result<()> {
        match &self.home {
            // SAFETY: these pages are the piece's own, and stay mapped as long as it lives, which is
            // longer than its registrar does.
            Home::Mapping(_) => unsafe {
                self.registrar.register(driver, self.at(), whole_pages(self.bytes))
            },
            Home::Slab(slab) => slab.register(driver),
        }
    }

    /// Whether its pages are registered.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        match &self.home {
            Home::Mapping(_) => self.registrar.is_registered(),
            Home::Slab(slab) => slab.is_registered(),
        }
    }

    /// How many bytes into its mapping or slab it begins.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// What it takes of its mapping or slab, in bytes: whole pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        whole_pages(self.bytes)
    }

    /// Whether it is a piece of a slab: its pages stay when it is dropped.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        matches!(self.home, Home::Slab(_))
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are mapped as long as the mapping is held, initialised (to zero by
        // the system, or by the last piece there), and no other piece overlaps them; `&self` keeps `deref_mut` out.
        unsafe { std::slice::from_raw_parts(self.at().as_ptr(), self.bytes) }
    }
}

impl DerefMut for Piece {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.at().as_ptr(), self.bytes) }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.registrar.unregister();
        match &self.home {
            Home::Slab(slab) => slab.give(self.offset, self.bytes),
            // The last piece takes the whole mapping with it; in a forked child the pages are not ours.
            Home::Mapping(mapping)
                if Arc::strong_count(mapping) > 1 && !process::is_forked_child() =>
            {
                // SAFETY: the pages are this piece's own (pieces are whole pages), no reference into
                // it can be alive here, and copies into it end before its owner lets go of it.
                unsafe { mapping.discard(self.offset, whole_pages(self.bytes)) };
            }
            Home::Mapping(_) => {}
        }
    }
}

/// `bytes` in whole pages: what a piece of this size takes. The largest number of whole pages
/// where the sum does not fit.
#[must_use]
pub fn whole_pages(bytes: usize) -> usize {
    bytes.checked_next_multiple_of(page_bytes()).unwrap_or(usize::MAX - (page_bytes() - 1))
}

/// Maps memory once and cuts it into pieces of these sizes, returned in their order. Each piece is
/// whole pages, and there is nothing between two; those that are whole huge pages lie together,
/// each on huge pages of its own.
///
/// # Errors
/// `HostMemory` when the system refuses or the sum does not fit an address; `InvalidArgument` for
/// a piece of no bytes.
pub fn carve(sizes: impl IntoIterator<Item = usize>) -> Result<Vec<Piece>> {
    let sizes: Vec<_> = sizes.into_iter().collect();
    let mut places = vec![0; sizes.len()];
    let mut end = 0_usize;
    for huge in [true, false] {
        for (place, bytes) in places.iter_mut().zip(&sizes) {
            if (bytes % huge_page_bytes() == 0) == huge {
                *place = end;
                end = end.checked_add(whole_pages(*bytes)).ok_or_else(|| {
                    Error::new(
                        ErrorKind::HostMemory,
                        Operation::Engine,
                        "the backups together do not fit an address",
                    )
                })?;
            }
        }
    }
    if sizes.is_empty() {
        return Ok(Vec::new());
    }
    if sizes.contains(&0) {
        let text = "a piece of no bytes";
        return Err(Error::new(ErrorKind::InvalidArgument, Operation::Engine, text));
    }
    let mapping = Arc::new(Mapping::new(end)?);
    let pieces = places.into_iter().zip(sizes);
    Ok(pieces.map(|(offset, bytes)| Piece::carved(Arc::clone(&mapping), offset, bytes)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_do_not_overlap_and_keep_what_was_written() {
        let sizes = [1, 4096, 6912, 2 << 20, 3 << 20, 5];
        let mut pieces = carve(sizes).unwrap();
        for (index, piece) in pieces.iter_mut().enumerate() {
            piece.fill(u8::try_from(index + 1).unwrap());
        }
        for (index, (piece, bytes)) in pieces.iter().zip(sizes).enumerate() {
            assert_eq!(piece.len(), bytes);
            assert!(piece.iter().all(|byte| usize::from(*byte) == index + 1));
        }
    }

    #[test]
    fn a_dropped_piece_gives_its_pages_back_while_others_live() {
        let mut pieces = carve([64 << 20, 4096]).unwrap();
        pieces[0].fill(1);
        pieces[1].fill(2);
        let resident = || {
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * page_bytes()
        };
        let before = resident();
        drop(pieces.remove(0));
        assert!(before - resident() > 48 << 20, "pages were kept");
        assert!(pieces[0].iter().all(|byte| *byte == 2));
    }

    #[test]
    fn pieces_are_whole_pages_side_by_side_and_huge_ones_lie_on_huge_pages() {
        let huge = huge_page_bytes();
        let pieces = carve([5, huge, huge + 1, 2 * huge, page_bytes()]).unwrap();
        let starts: Vec<_> = pieces.iter().map(|piece| piece.as_ptr() as usize).collect();
        let base = starts[1];
        assert_eq!(base % huge, 0);
        let page = page_bytes();
        let expected = [3 * huge, 0, 3 * huge + page, huge, 4 * huge + 2 * page];
        assert_eq!(starts, expected.map(|offset| base + offset));
    }

    #[test]
    fn nothing_to_carve_maps_nothing_and_too_much_is_a_typed_error() {
        assert!(carve([]).unwrap().is_empty());
        let error = carve([usize::MAX / 2, usize::MAX / 2 + 4096]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::HostMemory);
        assert_eq!(carve([usize::MAX]).unwrap_err().kind(), ErrorKind::HostMemory);
        assert_eq!(carve([1, 0]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}
