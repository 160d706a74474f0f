//! What a claim's file has in it: the two numbers of a [`Claim`], how many groups its process is in,
//! and their ids; all as little-endian numbers of 64 bits, and always as many.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::Claim;

/// How many groups are named at most.
pub(super) const GROUPS: usize = 16;
const NUMBERS: usize = 3 + GROUPS;

/// A whole claim.
#[derive(Clone, Debug)]
pub(super) struct Record([u64; NUMBERS]);

impl Record {
    pub(super) fn new(claim: Claim, groups: &[u64]) -> Self {
        let mut numbers = [0; NUMBERS];
        numbers[..3].copy_from_slice(&[claim.held_bytes, claim.pending_bytes, groups.len() as u64]);
        for (to, group) in numbers[3..].iter_mut().zip(groups) {
            *to = *group;
        }
        Self(numbers)
    }

    /// Nothing where the file is shorter, as of another version of this library.
    pub(super) fn read(file: &File) -> Option<Self> {
        let mut numbers = [[0; 8]; NUMBERS];
        file.read_exact_at(numbers.as_flattened_mut(), 0).ok()?;
        Some(Self(numbers.map(u64::from_le_bytes)))
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.map(u64::to_le_bytes).as_flattened().to_vec()
    }

    pub(super) const fn claim(&self) -> Claim {
        Claim { held_bytes: self.0[0], pending_bytes: self.0[1] }
    }

    /// Whether its process is in this group or below, or does not say so for certain.
    pub(super) fn may_be_in(&self, group: u64) -> bool {
        match usize::try_from(self.0[2]) {
            Ok(count @ 1..=GROUPS) => self.0[3..3 + count].contains(&group),
            _ => true,
        }
    }
}

/// The beginning of a record, which alone changes.
pub(super) fn claim_bytes(claim: Claim) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&claim.held_bytes.to_le_bytes());
    bytes[8..].copy_from_slice(&claim.pending_bytes.to_le_bytes());
    bytes
}
