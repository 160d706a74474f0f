//! Sizes: everything physical comes in granules.

use std::num::NonZeroU64;

use crate::error::{Error, ErrorKind, Operation, Result};

/// The unit in which a device hands out physical memory and address ranges, in bytes.
/// 2 MiB on the CUDA devices seen; always asked, never assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Granularity(NonZeroU64);

impl Granularity {
    /// A granularity of `bytes`.
    ///
    /// # Errors
    /// `InvalidArgument` when `bytes` is zero or not a power of two.
    pub fn new(bytes: u64) -> Result<Self> {
        match NonZeroU64::new(bytes) {
            Some(some) if some.is_power_of_two() => Ok(Self(some)),
            _ => Err(Error::new(
                ErrorKind::InvalidArgument,
                Operation::Granularity,
                "a granularity is a power of two",
            )
            .with_bytes(bytes)),
        }
    }

    /// The granule in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0.get()
    }

    /// `bytes` rounded up to whole granules.
    ///
    /// # Errors
    /// `InvalidArgument` for zero bytes; `TooLarge` when the sum does not fit an address.
    pub fn round_up(self, bytes: u64) -> Result<u64> {
        if bytes == 0 {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                Operation::Granularity,
                "a block of no bytes",
            ));
        }
        bytes.checked_next_multiple_of(self.bytes()).ok_or_else(|| {
            Error::new(
                ErrorKind::TooLarge,
                Operation::Granularity,
                "the size does not fit an address once rounded to the granularity",
            )
            .with_bytes(bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn sizes_round_up_to_whole_granules() {
        let granularity = Granularity::new(2 * MIB).unwrap();
        for (bytes, rounded) in [
            (1, 2 * MIB),
            (6912, 2 * MIB),
            (2 * MIB - 1, 2 * MIB),
            (2 * MIB, 2 * MIB),
            (2 * MIB + 1, 4 * MIB),
            (3 * MIB, 4 * MIB),
        ] {
            assert_eq!(granularity.round_up(bytes).unwrap(), rounded);
        }
    }

    #[test]
    fn zero_bytes_and_overflow_are_typed_errors() {
        let granularity = Granularity::new(2 * MIB).unwrap();
        assert_eq!(granularity.round_up(0).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(granularity.round_up(u64::MAX).unwrap_err().kind(), ErrorKind::TooLarge);
    }

    #[test]
    fn a_granularity_is_a_power_of_two() {
        for bytes in [0, 3, 3 * MIB] {
            assert_eq!(Granularity::new(bytes).unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
    }
}
