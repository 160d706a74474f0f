//! Which parts of a range are in use: of a file, or of memory that is kept.

use std::collections::BTreeMap;

/// Takes parts of a range that may grow up to a limit, the first place that is large enough.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    end: u64,
    limit: u64,
    /// Start and length of what is free. None touches another one, or the end.
    free: BTreeMap<u64, u64>,
}

impl Places {
    /// A range that is empty, and never longer than `limit` bytes.
    pub(crate) fn new(limit: u64) -> Self {
        Self { end: 0, limit, free: BTreeMap::new() }
    }

    /// Where the last part ends; zero when nothing is in use.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The first place that is large enough, else the end. Nothing where that is past the limit.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<u64> {
        let found = self.free.iter().find(|(_, length)| **length >= bytes);
        if let Some((start, length)) = found.map(|(start, length)| (*start, *length)) {
            self.free.remove(&start);
            if length > bytes {
                self.free.insert(start + bytes, length - bytes);
            }
            return Some(start);
        }
        let start = self.end;
        self.end = start.checked_add(bytes).filter(|end| *end <= self.limit)?;
        Some(start)
    }

    /// Takes just this part, if it is free.
    pub(crate) fn take_at(&mut self, start: u64, bytes: u64) -> bool {
        let Some(end) = start.checked_add(bytes).filter(|end| *end <= self.limit) else {
            return false;
        };
        if start >= self.end {
            if start > self.end {
                self.free.insert(self.end, start - self.end);
            }
            self.end = end;
            return true;
        }
        let hole = self.free.range(..=start).next_back().map(|(at, length)| (*at, *length));
        let Some((at, length)) = hole.filter(|(at, length)| at + length >= end) else {
            return false;
        };
        self.free.remove(&at);
        if start > at {
            self.free.insert(at, start - at);
        }
        if at + length > end {
            self.free.insert(end, at + length - end);
        }
        true
    }

    /// Takes a part back.
    pub(crate) fn give(&mut self, mut start: u64, mut bytes: u64) {
        let before = self.free.range(..start).next_back().map(|(start, length)| (*start, *length));
        if let Some((at, length)) = before.filter(|(at, length)| at + length == start) {
            self.free.remove(&at);
            (start, bytes) = (at, bytes + length);
        }
        if let Some(length) = self.free.remove(&(start + bytes)) {
            bytes += length;
        }
        if start + bytes == self.end {
            self.end = start;
        } else {
            self.free.insert(start, bytes);
        }
    }

    #[cfg(test)]
    pub(crate) fn free(&self) -> Vec<(u64, u64)> {
        self.free.iter().map(|(start, length)| (*start, *length)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_can_be_taken_where_it_was() {
        let mut places = Places::new(100);
        assert!(places.take_at(20, 10));
        assert_eq!((places.end(), places.free()), (30, vec![(0, 20)]));
        assert!(!places.take_at(25, 10) && !places.take_at(15, 10) && !places.take_at(95, 6));
        assert!(places.take_at(5, 10));
        assert_eq!(places.free(), [(0, 5), (15, 5)]);
        assert!(places.take_at(0, 5) && places.take_at(15, 5) && places.take_at(90, 10));
        assert_eq!((places.end(), places.free()), (100, vec![(30, 60)]));
        assert_eq!(places.take(60), Some(30));
        assert_eq!(places.free(), []);
        places.give(20, 10);
        assert!(places.take_at(20, 10) && !places.take_at(20, 10));
    }

    #[test]
    fn freed_parts_join_and_are_used_again_and_the_tail_is_cut_off() {
        let mut places = Places::new(1000);
        let starts: Vec<_> = (0..4).map(|_| places.take(10).unwrap()).collect();
        assert_eq!(starts, [0, 10, 20, 30]);
        places.give(0, 10);
        places.give(20, 10);
        assert_eq!((places.end(), places.free()), (40, vec![(0, 10), (20, 10)]));
        assert_eq!(places.take(7), Some(0));
        assert_eq!(places.take(20), Some(40));
        places.give(10, 10);
        assert_eq!((places.end(), places.free()), (60, vec![(7, 23)]));
        places.give(30, 10);
        places.give(40, 20);
        assert_eq!((places.end(), places.free()), (7, vec![]));
        places.give(0, 7);
        assert_eq!((places.end(), places.free()), (0, vec![]));
        assert_eq!(places.take(u64::MAX), None);
        assert_eq!((places.take(1001), places.take(1000), places.take(1)), (None, Some(0), None));
    }
}
