//! Exclusive parts of one mapping: a backup for each block of a pause, without a mapping each.

use std::fmt::Debug;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use allocator_core::{Driver, Error, ErrorKind, Operation, Result};

use crate::mapping::{Mapping, huge_page_bytes, page_bytes};
use crate::process;

/// Bytes of host memory that nobody else has. Its pages go back to the system when it is dropped,
/// the address space when the last piece of its mapping is.
#[derive(Debug)]
pub struct Piece {
    mapping: Arc<Mapping>,
    offset: usize,
    /// What was asked for.
    bytes: usize,
    /// The pages' [`Registration`] with some driver.
    registration: Mutex<Option<Box<dyn Debug + Send>>>,
}

impl Piece {
    fn at(&self) -> NonNull<u8> {
        // SAFETY: `carve` keeps offset and length within the mapping.
        unsafe { self.mapping.base().add(self.offset) }
    }
}

/// A piece's pages, registered with a driver.
#[derive(Debug)]
struct Registration<D: Driver> {
    driver: Arc<D>,
    start: NonNull<u8>,
}

// SAFETY: the address is only handed to the driver, which may be called from any thread.
unsafe impl<D: Driver> Send for Registration<D> {}

impl<D: Driver> Drop for Registration<D> {
    fn drop(&mut self) {
        if process::is_forked_child() || process::is_exiting() {
            return;
        }
        // SAFETY: it was registered once, by the piece, which is still there; nothing of ours copies
        // to or from it any more, and a copy that somebody else has queued is waited for by the
        // driver. A refusal leaves pages pinned, which nobody can help.
        let _ = unsafe { self.driver.unregister_host(self.start) };
    }
}

impl Piece {
    /// Registers the pages with a driver, so that its devices copy to and from them at full speed, until
    /// the piece is dropped. A second time does nothing.
    ///
    /// # Errors
    /// The driver's, when it or the system refuses.
    pub fn register<D: Driver>(&self, driver: &Arc<D>) -> Result<()> {
        let mut registration = self.registration.lock().unwrap_or_else(PoisonError::into_inner);
        if registration.is_some() {
            return Ok(());
        }
        let start = self.at();
        // SAFETY: these pages are the piece's own, and stay mapped as long as it lives; it registers
        // them once, and unregisters them before it gives them back.
        unsafe { driver.register_host(start, whole_pages(self.bytes) as u64) }?;
        *registration = Some(Box::new(Registration { driver: Arc::clone(driver), start }));
        Ok(())
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are mapped as long as the mapping is held, initialised to zero by the
        // system, and no other piece overlaps them; `&self` keeps `deref_mut` out.
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
        drop(self.registration.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        // The last piece takes the whole mapping with it; in a forked child the pages are not ours.
        if Arc::strong_count(&self.mapping) == 1 || process::is_forked_child() {
            return;
        }
        // SAFETY: the pages are this piece's own (pieces are whole pages), no reference into it
        // can be alive here, and copies into it end before its owner lets go of it.
        unsafe { self.mapping.discard(self.offset, whole_pages(self.bytes)) };
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
    Ok(places
        .into_iter()
        .zip(sizes)
        .map(|(offset, bytes)| Piece {
            mapping: Arc::clone(&mapping),
            offset,
            bytes,
            registration: Mutex::default(),
        })
        .collect())
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
