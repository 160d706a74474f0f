//! Exclusive parts of one mapping: a backup for each block of a pause, without a mapping each.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use allocator_core::{Error, ErrorKind, Operation, Result};

use crate::mapping::{Mapping, huge_page_bytes, page_bytes};

/// Bytes of host memory that nobody else has. Its pages go back to the system when it is dropped,
/// the address space when the last piece of its mapping is.
#[derive(Debug)]
pub struct Piece {
    mapping: Arc<Mapping>,
    offset: usize,
    /// What was asked for.
    bytes: usize,
}

impl Piece {
    fn at(&self) -> NonNull<u8> {
        // SAFETY: `carve` keeps offset and length within the mapping.
        unsafe { self.mapping.base().add(self.offset) }
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
        if Arc::strong_count(&self.mapping) == 1 {
            return; // The whole mapping goes.
        }
        let whole_pages = self.bytes.next_multiple_of(page_bytes());
        // SAFETY: the pages are this piece's own (pieces start on page borders), no reference
        // into it can be alive here, and copies into it end before its owner lets go of it.
        unsafe { self.mapping.discard(self.offset, whole_pages) };
    }
}

/// Maps memory once and cuts it into pieces of these sizes, in order. Pieces start on page
/// borders, large ones on huge-page borders.
///
/// # Errors
/// `HostMemory` when the system refuses or the sum does not fit an address.
pub fn carve(sizes: impl IntoIterator<Item = usize>) -> Result<Vec<Piece>> {
    let mut places = Vec::new();
    let mut end = 0_usize;
    for bytes in sizes {
        let huge = huge_page_bytes();
        let align = if bytes >= huge { huge } else { page_bytes() };
        let place = end.checked_next_multiple_of(align);
        let next = place.and_then(|place| place.checked_add(bytes));
        let (Some(place), Some(next)) = (place, next) else {
            return Err(Error::new(
                ErrorKind::HostMemory,
                Operation::Engine,
                "the backups together do not fit an address",
            ));
        };
        places.push((place, bytes));
        end = next;
    }
    if end == 0 {
        return Ok(Vec::new());
    }
    let mapping = Arc::new(Mapping::new(end)?);
    Ok(places
        .into_iter()
        .map(|(offset, bytes)| Piece { mapping: Arc::clone(&mapping), offset, bytes })
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
    fn nothing_to_carve_maps_nothing_and_too_much_is_a_typed_error() {
        assert!(carve([]).unwrap().is_empty());
        let error = carve([usize::MAX / 2, usize::MAX / 2 + 4096]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::HostMemory);
    }
}
