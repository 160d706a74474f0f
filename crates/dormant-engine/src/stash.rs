//! What a paused block remembers of its contents.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use allocator_core::Device;
use dormant_host::Piece;

use crate::disk::DiskCopy;
use crate::host::{Charges, Room};
use crate::policy::Policy;

/// What was done with the contents at pause. A block without a stash wakes with undefined
/// contents.
#[derive(Clone, Debug)]
pub(crate) enum Stash {
    /// Nothing is kept, nothing is promised.
    Discarded,
    /// Nothing is kept; zero at resume.
    Zeroed,
    /// A copy in host memory.
    Host(Arc<HostCopy>),
    /// A copy in a file.
    Disk(Arc<DiskCopy>),
}

impl Stash {
    pub(crate) fn policy(&self) -> Policy {
        match self {
            Self::Discarded => Policy::Discard,
            Self::Zeroed => Policy::Zero,
            Self::Host(_) => Policy::Host,
            Self::Disk(_) => Policy::Disk,
        }
    }

    pub(crate) fn saved_bytes(&self) -> u64 {
        match self {
            Self::Host(copy) => copy.bytes().len() as u64,
            Self::Disk(copy) => copy.bytes(),
            Self::Discarded | Self::Zeroed => 0,
        }
    }
}

/// Host memory that holds contents, and its place in the count of such memory.
#[derive(Debug)]
pub(crate) struct HostCopy {
    piece: Piece,
    /// The length of the contents; behind them there may be padding.
    bytes: usize,
    /// One a chunk, or none at all.
    sums: Box<[u64]>,
    _charges: Charges,
}

impl HostCopy {
    pub(crate) fn new(room: Room, bytes: u64, sums: Vec<u64>) -> Self {
        let Room { piece, charges } = room;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(piece.len());
        Self { piece, bytes, sums: sums.into(), _charges: charges }
    }

    /// The checksums of its chunks, if they were taken.
    pub(crate) fn sums(&self) -> &[u64] {
        &self.sums
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.piece[..self.bytes]
    }

    pub(crate) fn piece(&self) -> &Piece {
        &self.piece
    }
}

/// The count of host memory, or of disk space, that backups take.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<AtomicU64>);

impl Ledger {
    pub(crate) fn charged_bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Charges `bytes`, unless that would go over `limit`; then says what is charged already.
    pub(crate) fn charge(&self, bytes: u64, limit: Option<u64>) -> Result<Charge, u64> {
        let limit = limit.unwrap_or(u64::MAX);
        self.0
            .try_update(Ordering::Relaxed, Ordering::Relaxed, |charged| {
                charged.checked_add(bytes).filter(|sum| *sum <= limit)
            })
            .map(|_| Charge { ledger: self.clone(), bytes })
    }
}

/// Bytes charged; given back when dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    ledger: Ledger,
    bytes: u64,
}

impl Charge {
    /// Takes a part off, to go with one block.
    pub(crate) fn split(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { ledger: self.ledger.clone(), bytes }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.ledger.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The saved contents of a paused block, lent out in host memory: the bytes live as long as this does, also when
/// the block is resumed or freed meanwhile. After the resume they are an old copy.
#[derive(Clone, Debug)]
pub struct Backup {
    pub(crate) copy: Arc<HostCopy>,
    pub(crate) device: Device,
}

impl Backup {
    /// The device that the block is on.
    #[must_use]
    pub fn device(&self) -> Device {
        self.device
    }
}

impl Deref for Backup {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.copy.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_refuses_what_goes_over_its_limit_and_counts_back() {
        let ledger = Ledger::default();
        let mut charge = ledger.charge(100, Some(150)).unwrap();
        assert_eq!(ledger.charge(51, Some(150)).unwrap_err(), 100);
        assert!(ledger.charge(u64::MAX, None).is_err());
        let part = charge.split(40);
        drop(charge);
        assert_eq!(ledger.charged_bytes(), 40);
        drop(part);
        assert_eq!(ledger.charged_bytes(), 0);
    }
}
