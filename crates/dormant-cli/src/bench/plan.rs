//! How much is measured with.

use dormant::Granularity;

use crate::size::Bytes;

/// What is used where nothing is said.
pub(crate) const GPU_BYTES: u64 = 16 << 30;
pub(crate) const SIMULATED_BYTES: u64 = 256 << 20;
pub(crate) const BLOCK_BYTES: u64 = 64 << 20;

/// Processes of the case `ranks`.
pub(crate) const RANKS: u64 = 8;

/// Sizes of a run, in whole granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Of the larger cases: whole blocks.
    pub(crate) bytes: u64,
    pub(crate) block_bytes: u64,
    /// Of the case `discard`: whole blocks.
    pub(crate) discard_bytes: u64,
    pub(crate) granule_bytes: u64,
}

/// What there is to fit into, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Free on the device that has least.
    pub(crate) device_bytes: u64,
    pub(crate) host_bytes: u64,
}

impl Sizes {
    /// Fits what is wanted into two fifths of what is free on the device and on the host, and says
    /// what it took away.
    pub(crate) fn fit(
        wanted_bytes: u64,
        block_bytes: u64,
        granularity: Granularity,
        room: Room,
        notes: &mut Vec<String>,
    ) -> Self {
        let granule = granularity.bytes();
        let whole = |bytes: u64, unit: u64| (bytes / unit).max(1).saturating_mul(unit);
        let most = two_fifths(room.device_bytes).min(two_fifths(room.host_bytes));
        let fitting = whole(wanted_bytes.min(most), granule);
        // Rounded up, as a block's physical memory is.
        let asked = whole(block_bytes.saturating_add(granule - 1), granule);
        let block_bytes = asked.min(fitting);
        let bytes = whole(fitting, block_bytes);
        if wanted_bytes > most {
            notes.push(format!(
                "{} instead of {}: two fifths of what is free on the device ({}) and on the host ({})",
                Bytes(bytes),
                Bytes(wanted_bytes),
                Bytes(room.device_bytes),
                Bytes(room.host_bytes),
            ));
        }
        if block_bytes < asked {
            notes.push(format!("blocks of {}, since no more fits", Bytes(block_bytes)));
        }
        let most = two_fifths(room.device_bytes).saturating_mul(2).max(bytes);
        let discard_bytes = whole(wanted_bytes.saturating_mul(4).min(most), block_bytes);
        Self { bytes, block_bytes, discard_bytes, granule_bytes: granule }
    }

    /// Half of the size, in whole blocks.
    pub(crate) fn half_bytes(&self) -> u64 {
        (self.bytes / 2 / self.block_bytes).max(1) * self.block_bytes
    }

    /// What each of the ranks has, and the size of its blocks.
    pub(crate) fn rank_bytes(&self) -> (u64, u64) {
        let share = (self.bytes / RANKS / self.granule_bytes).max(1) * self.granule_bytes;
        let block = self.block_bytes.min(share);
        (share / block * block, block)
    }
}

fn two_fifths(bytes: u64) -> u64 {
    bytes / 5 * 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn fit(wanted: u64, block: u64, device: u64, host: u64) -> (Sizes, Vec<String>) {
        let mut notes = Vec::new();
        let granularity = Granularity::new(2 * MIB).unwrap();
        let room = Room { device_bytes: device, host_bytes: host };
        (Sizes::fit(wanted, block, granularity, room, &mut notes), notes)
    }

    #[test]
    fn what_fits_is_taken_as_it_is_asked_for() {
        let (sizes, notes) = fit(16 * GIB, 64 * MIB, 140 * GIB, 128 * GIB);
        assert!(notes.is_empty(), "{notes:?}");
        assert_eq!((sizes.bytes, sizes.block_bytes), (16 * GIB, 64 * MIB));
        assert_eq!((sizes.discard_bytes, sizes.half_bytes()), (64 * GIB, 8 * GIB));
        assert_eq!(sizes.rank_bytes(), (2 * GIB, 64 * MIB));
    }

    #[test]
    fn what_does_not_fit_is_cut_to_two_fifths_and_said() {
        let (sizes, notes) = fit(16 * GIB, 64 * MIB, 20 * GIB, 128 * GIB);
        assert_eq!((sizes.bytes, sizes.discard_bytes), (8 * GIB, 16 * GIB));
        assert!(notes[0].starts_with("8.00 GiB instead of 16.00 GiB"), "{notes:?}");
        let (sizes, _) = fit(16 * GIB, 64 * MIB, 140 * GIB, 10 * GIB);
        assert_eq!((sizes.bytes, sizes.discard_bytes), (4 * GIB, 64 * GIB));
    }

    #[test]
    fn sizes_are_whole_blocks_and_blocks_whole_granules_however_little_there_is() {
        let (sizes, notes) = fit(17 * MIB, 3 * MIB, GIB, GIB);
        assert_eq!((sizes.bytes, sizes.block_bytes), (16 * MIB, 4 * MIB));
        assert!(notes.is_empty(), "{notes:?}");
        assert_eq!(sizes.rank_bytes(), (2 * MIB, 2 * MIB));
        let (sizes, notes) = fit(16 * MIB, 64 * MIB, GIB, GIB);
        assert_eq!((sizes.bytes, sizes.block_bytes), (16 * MIB, 16 * MIB));
        assert_eq!(notes.len(), 1, "{notes:?}");
        let (sizes, _) = fit(1, 1, 0, 0);
        assert_eq!(
            (sizes.bytes, sizes.half_bytes(), sizes.discard_bytes),
            (2 * MIB, 2 * MIB, 2 * MIB)
        );
    }
}
