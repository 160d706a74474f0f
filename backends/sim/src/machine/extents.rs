//! Which parts of a number line are free: physical memory in a device's arena, addresses in a
//! window.

use std::collections::{BTreeMap, BTreeSet};

/// Free extents, neighbours joined. Taking one is best fit, so that large extents stay whole.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    by_start: BTreeMap<u64, u64>,
    /// (length, start), so that the smallest that fits is found first.
    by_length: BTreeSet<(u64, u64)>,
}

impl Extents {
    /// Makes `[start, start + length)` free. It must not be free already.
    pub(crate) fn give(&mut self, start: u64, length: u64) {
        let (mut start, mut length) = (start, length);
        if let Some((&before, &before_length)) = self.by_start.range(..start).next_back()
            && before + before_length == start
        {
            self.remove(before, before_length);
            start = before;
            length += before_length;
        }
        let end = start + length;
        if let Some(&after_length) = self.by_start.get(&end) {
            self.remove(end, after_length);
            length += after_length;
        }
        self.insert(start, length);
    }

    /// Takes `length` at a multiple of `alignment` (a power of two), wherever there is room.
    pub(crate) fn take(&mut self, length: u64, alignment: u64) -> Option<u64> {
        let (found, start) = self.by_length.range((length, 0)..).find_map(|&(free, at)| {
            let start = at.checked_next_multiple_of(alignment)?;
            (start.checked_add(length)? <= at + free).then_some((at, start))
        })?;
        self.carve(found, start, length);
        Some(start)
    }

    /// Takes `length` at the first place from `cursor` on, else anywhere: so that what was just
    /// given back is not handed out at once.
    pub(crate) fn take_from(&mut self, cursor: u64, length: u64, alignment: u64) -> Option<u64> {
        /// Where much is fragmented, the search is not worth more.
        const TRIES: usize = 64;
        let around = self.by_start.range(..cursor).next_back();
        let found = around.into_iter().chain(self.by_start.range(cursor..).take(TRIES)).find_map(
            |(&at, &free)| {
                let start = at.max(cursor).checked_next_multiple_of(alignment)?;
                (start.checked_add(length)? <= at + free).then_some((at, start))
            },
        );
        match found {
            Some((found, start)) => {
                self.carve(found, start, length);
                Some(start)
            }
            None => self.take(length, alignment),
        }
    }

    /// Takes exactly `[start, start + length)`, if all of it is free.
    pub(crate) fn take_at(&mut self, start: u64, length: u64) -> bool {
        let Some((&found, &free)) = self.by_start.range(..=start).next_back() else {
            return false;
        };
        let fits = start.checked_add(length).is_some_and(|end| end <= found + free);
        if fits {
            self.carve(found, start, length);
        }
        fits
    }

    fn carve(&mut self, found: u64, start: u64, length: u64) {
        let Some(&free) = self.by_start.get(&found) else { return };
        self.remove(found, free);
        if start > found {
            self.insert(found, start - found);
        }
        let (end, free_end) = (start + length, found + free);
        if free_end > end {
            self.insert(end, free_end - end);
        }
    }

    fn insert(&mut self, start: u64, length: u64) {
        self.by_start.insert(start, length);
        self.by_length.insert((length, start));
    }

    fn remove(&mut self, start: u64, length: u64) {
        self.by_start.remove(&start);
        self.by_length.remove(&(length, start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(length: u64) -> Extents {
        let mut extents = Extents::default();
        extents.give(0, length);
        extents
    }

    #[test]
    fn neighbours_are_joined_on_both_sides() {
        let mut extents = line(30);
        assert_eq!([10, 10, 10].map(|n| extents.take(n, 1)), [Some(0), Some(10), Some(20)]);
        assert_eq!(extents.take(1, 1), None);
        extents.give(0, 10);
        extents.give(20, 10);
        assert_eq!(extents.take(20, 1), None);
        extents.give(10, 10);
        assert_eq!(extents.take(30, 1), Some(0));
    }

    #[test]
    fn the_smallest_extent_that_fits_is_taken() {
        let mut extents = line(100);
        assert!(extents.take_at(50, 10));
        assert!(extents.take_at(65, 5));
        // Free: 0..50, 60..65, 70..100.
        assert_eq!(extents.take(5, 1), Some(60));
        assert_eq!(extents.take(30, 1), Some(70));
        assert_eq!(extents.take(51, 1), None);
    }

    #[test]
    fn alignment_is_kept_and_the_rest_stays_free() {
        let mut extents = Extents::default();
        extents.give(3, 29);
        assert_eq!(extents.take(8, 16), Some(16));
        assert_eq!(extents.take(13, 1), Some(3));
        assert_eq!(extents.take(8, 1), Some(24));
        assert_eq!(extents.take(1, 1), None);
    }

    #[test]
    fn a_place_that_is_partly_taken_cannot_be_taken() {
        let mut extents = line(20);
        assert!(extents.take_at(5, 5));
        assert!(!extents.take_at(0, 6));
        assert!(!extents.take_at(9, 2));
        assert!(!extents.take_at(15, 6));
        assert!(extents.take_at(10, 10));
    }

    #[test]
    fn what_was_just_given_back_is_handed_out_last() {
        let mut extents = line(50);
        assert_eq!(extents.take_from(0, 10, 1), Some(0));
        extents.give(0, 10);
        assert_eq!(extents.take_from(10, 10, 1), Some(10));
        assert_eq!(extents.take_from(15, 10, 8), Some(24));
        assert_eq!(extents.take_from(34, 17, 1), None);
        assert_eq!(extents.take_from(34, 16, 1), Some(34));
        assert_eq!(extents.take_from(50, 10, 1), Some(0), "from the start, at the end");
    }

    #[test]
    fn a_hundred_thousand_extents_come_and_go() {
        let mut extents = line(200_000);
        let taken: Vec<u64> = (0..100_000).filter_map(|_| extents.take(2, 2)).collect();
        assert_eq!(taken.len(), 100_000);
        for at in taken.iter().step_by(2) {
            extents.give(*at, 2);
        }
        for at in taken.iter().skip(1).step_by(2) {
            extents.give(*at, 2);
        }
        assert_eq!(extents.take(200_000, 1), Some(0));
    }
}
