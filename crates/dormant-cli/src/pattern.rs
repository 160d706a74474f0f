//! Contents that no other block and no other place in the block has, and what differs from them.

use std::fmt;
use std::panic::resume_unwind;
use std::thread::{available_parallelism, scope};

/// The most threads that work on one buffer.
const MOST_THREADS: usize = 16;

/// No thread is started for less.
const LEAST_BYTES: usize = 1 << 20;

const WORD_BYTES: usize = size_of::<u64>();

/// What a block is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// A pattern that depends on the seed and on the position in the block.
    Pattern { seed: u64 },
    /// Nothing but zeroes.
    Zero,
}

impl Contents {
    /// The word at `index`, counted from the block's start.
    fn word(self, index: u64) -> [u8; WORD_BYTES] {
        match self {
            Self::Zero => [0; WORD_BYTES],
            Self::Pattern { seed } => {
                let mut word = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed;
                word ^= word >> 29;
                word = word.wrapping_mul(0xbf58_476d_1ce4_e5b9);
                word ^= word >> 32;
                word.to_le_bytes()
            }
        }
    }

    /// Fills `bytes`, which lie `offset` bytes into the block; a whole number of words.
    pub(crate) fn fill(self, offset: u64, bytes: &mut [u8]) {
        let size = piece_bytes(bytes.len());
        in_parallel(bytes.chunks_mut(size), size, |start, piece| {
            self.fill_piece(offset + start, piece);
        });
    }

    fn fill_piece(self, offset: u64, bytes: &mut [u8]) {
        let mut index = offset / WORD_BYTES as u64;
        let (words, tail) = bytes.as_chunks_mut::<WORD_BYTES>();
        for word in words {
            *word = self.word(index);
            index += 1;
        }
        let last = self.word(index);
        tail.copy_from_slice(&last[..tail.len()]);
    }

    /// The first byte that is not what it should be. As for [`fill`](Self::fill).
    pub(crate) fn difference(self, offset: u64, bytes: &[u8]) -> Option<Difference> {
        let size = piece_bytes(bytes.len());
        let found = in_parallel(bytes.chunks(size), size, |start, piece| {
            self.difference_in_piece(offset + start, piece)
        });
        found.into_iter().flatten().next()
    }

    fn difference_in_piece(self, offset: u64, bytes: &[u8]) -> Option<Difference> {
        let first = offset / WORD_BYTES as u64;
        let (words, tail) = bytes.as_chunks::<WORD_BYTES>();
        let wrong = (first..).zip(words).find(|(index, word)| **word != self.word(*index));
        if let Some((index, word)) = wrong {
            return compare(index, word, self.word(index));
        }
        let index = first + words.len() as u64;
        compare(index, tail, self.word(index))
    }
}

fn compare(index: u64, found: &[u8], expected: [u8; WORD_BYTES]) -> Option<Difference> {
    let start = index * WORD_BYTES as u64;
    (start..)
        .zip(found.iter().zip(expected))
        .find(|(_, (found, expected))| **found != *expected)
        .map(|(offset, (found, expected))| Difference { offset, found: *found, expected })
}

/// A byte that is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Its place in the block.
    pub(crate) offset: u64,
    pub(crate) found: u8,
    pub(crate) expected: u8,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, found, expected } = self;
        write!(f, "byte {offset} is {found:#04x}, not {expected:#04x}")
    }
}

/// How large a piece of a buffer is for one thread: a whole number of words.
fn piece_bytes(length: usize) -> usize {
    let threads = available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    length.div_ceil(threads).max(LEAST_BYTES).next_multiple_of(WORD_BYTES)
}

/// Works on pieces of a buffer, each on a thread of its own; `work` is told how far into the
/// buffer its piece lies. The answers are in the order of the pieces.
fn in_parallel<P: Send, T: Send>(
    pieces: impl Iterator<Item = P>,
    piece_bytes: usize,
    work: impl Fn(u64, P) -> T + Sync,
) -> Vec<T> {
    let mut pieces = (0_u64..).step_by(piece_bytes).zip(pieces);
    let Some((_, own)) = pieces.next() else { return Vec::new() };
    let work = &work;
    scope(|scope| {
        let others: Vec<_> =
            pieces.map(|(start, piece)| scope.spawn(move || work(start, piece))).collect();
        let mut answers = vec![work(0, own)];
        for other in others {
            answers.push(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        answers
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: usize = 3 * LEAST_BYTES + 3;

    fn filled(seed: u64, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        Contents::Pattern { seed }.fill(offset, &mut bytes);
        bytes
    }

    #[test]
    fn a_pattern_is_the_same_each_time_and_in_whatever_pieces_it_is_made() {
        let whole = filled(7, 0, LENGTH);
        assert_eq!(whole, filled(7, 0, LENGTH));
        let cut = LEAST_BYTES + 40;
        assert_eq!(whole[..cut], filled(7, 0, cut));
        assert_eq!(whole[cut..], filled(7, cut as u64, LENGTH - cut));
    }

    #[test]
    fn a_pattern_depends_on_the_block_and_on_the_position() {
        let mut words: Vec<_> = [(7, 0), (7, 4096), (8, 0), (8, 4096)]
            .into_iter()
            .flat_map(|(seed, offset)| filled(seed, offset, 4096).as_chunks::<8>().0.to_vec())
            .collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 4 * 512, "no word comes twice");
    }

    #[test]
    fn a_single_flipped_byte_is_found_and_its_position_is_named() {
        let contents = Contents::Pattern { seed: 7 };
        let offset = 4096;
        let mut bytes = filled(7, offset, LENGTH);
        assert_eq!(contents.difference(offset, &bytes), None);
        for at in [0, 1, 7, 8, LEAST_BYTES - 1, LEAST_BYTES, 2 * LEAST_BYTES + 5, LENGTH - 1] {
            let expected = bytes[at];
            bytes[at] ^= 0x10;
            let difference = contents.difference(offset, &bytes).unwrap();
            let position = offset + at as u64;
            assert_eq!(
                difference,
                Difference { offset: position, found: expected ^ 0x10, expected }
            );
            assert!(difference.to_string().starts_with(&format!("byte {position} is 0x")));
            bytes[at] = expected;
        }
    }

    #[test]
    fn of_several_wrong_bytes_the_first_is_named() {
        let mut bytes = vec![0; LENGTH];
        assert_eq!(Contents::Zero.difference(0, &bytes), None);
        for at in [LENGTH - 2, 2 * LEAST_BYTES, 1234] {
            bytes[at] = 1;
            let difference = Contents::Zero.difference(0, &bytes).unwrap();
            assert_eq!(difference, Difference { offset: at as u64, found: 1, expected: 0 });
        }
    }
}
