//! What a lane copies, and where to.

use std::marker::PhantomData;
use std::ptr::NonNull;

use allocator_core::{Error, ErrorKind, Operation, Result};
use smallvec::SmallVec;
use twox_hash::XxHash3_64;

use crate::extent::{EXTENT_ALIGN_BYTES, ExtentPart};
use crate::lane::{CHUNK_BYTES, STAGING_BYTES};

/// The most bytes that one job copies without staging.
pub const DIRECT_BYTES: usize = 16 << 20;

/// Jobs that a lane queues and waits for together. What is staged of them fits [`STAGING_BYTES`]
/// ([`staged_bytes`](SaveJob::staged_bytes)). An empty one ends the copying.
pub type Batch<J> = SmallVec<[J; 1]>;

/// A copy from the device: at most [`STAGING_BYTES`], [`DIRECT_BYTES`] without staging.
#[derive(Debug)]
pub struct SaveJob<'a, B> {
    /// Where from.
    pub block: &'a B,
    /// How many bytes into the block.
    pub offset: u64,
    /// Where to.
    pub into: Target<'a>,
    /// Where the bytes' [`checksum`] goes, if it is wanted.
    pub sum: Option<&'a mut u64>,
}

/// A copy to the device: at most [`STAGING_BYTES`], [`DIRECT_BYTES`] without staging.
#[derive(Debug)]
pub struct RestoreJob<'a, B> {
    /// Where to.
    pub block: &'a B,
    /// How many bytes into the block.
    pub offset: u64,
    /// Where from.
    pub from: Source<'a>,
    /// The [`checksum`] that the bytes had, if they are to be checked.
    pub sum: Option<u64>,
}

impl<B> SaveJob<'_, B> {
    /// How many bytes are copied.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.into.bytes()
    }

    /// How many bytes of staging memory it takes.
    #[must_use]
    pub fn staged_bytes(&self) -> usize {
        whole_sectors(self.into.staged_bytes())
    }
}

impl<B> RestoreJob<'_, B> {
    /// How many bytes are copied.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.from.bytes()
    }

    /// How many bytes of staging memory it takes.
    #[must_use]
    pub fn staged_bytes(&self) -> usize {
        whole_sectors(self.from.staged_bytes())
    }
}

/// A file is read and written in whole sectors, from a buffer that begins at one.
fn whole_sectors(bytes: usize) -> usize {
    let sector = usize::try_from(EXTENT_ALIGN_BYTES).unwrap_or(4096);
    bytes.checked_next_multiple_of(sector).unwrap_or(usize::MAX)
}

/// The hash that saved contents are compared by: XXH3, 64 bits. Against accidents, not forgery.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// Compares contents with the checksums of their chunks; with none of them, nothing.
///
/// # Errors
/// `ChecksumMismatch`, which names the bytes.
pub fn check_sums(contents: &[u8], sums: &[u64]) -> Result<()> {
    let mut offset = 0;
    contents.chunks(CHUNK_BYTES).zip(sums).try_for_each(|(chunk, sum)| {
        let at = offset;
        offset += chunk.len() as u64;
        check_sum(chunk, Some(*sum), at)
    })
}

/// Compares contents with the sum that they had.
fn check_sum(bytes: &[u8], sum: Option<u64>, offset: u64) -> Result<()> {
    if sum.is_none_or(|sum| sum == checksum(bytes)) {
        return Ok(());
    }
    let end = offset + bytes.len() as u64;
    let text =
        format!("the saved contents have changed in the bytes {offset} to {end} of the block");
    Err(Error::new(ErrorKind::ChecksumMismatch, Operation::Engine, text)
        .with_bytes(bytes.len() as u64))
}

/// Where bytes of a device go.
#[derive(Debug)]
pub enum Target<'a> {
    /// Host memory, by way of staging memory.
    Memory(&'a mut [u8]),
    /// Host memory, which the device writes itself.
    Direct(DirectTarget<'a>),
    /// A file.
    Disk(ExtentPart<'a>),
}

/// Host memory that a device writes, borrowed exclusively while it does.
#[derive(Debug)]
pub struct DirectTarget<'a> {
    start: NonNull<u8>,
    bytes: usize,
    memory: PhantomData<&'a mut [u8]>,
}

// SAFETY: it stands for an exclusive borrow of bytes, which is `Send`.
unsafe impl Send for DirectTarget<'_> {}

impl DirectTarget<'_> {
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl<'a> Target<'a> {
    /// Memory that the device writes itself: at best registered, and in one registration.
    #[must_use]
    pub fn direct(memory: &'a mut [u8]) -> Self {
        let bytes = memory.len();
        let start = NonNull::from(memory).cast();
        Self::Direct(DirectTarget { start, bytes, memory: PhantomData })
    }

    /// How many bytes are copied.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Memory(memory) => memory.len(),
            Self::Direct(memory) => memory.bytes,
            Self::Disk(part) => part.bytes(),
        }
    }

    pub(crate) fn most_bytes(&self) -> usize {
        if matches!(self, Self::Direct(_)) { DIRECT_BYTES } else { STAGING_BYTES }
    }

    /// How many bytes of staging memory are looked at.
    pub(crate) fn staged_bytes(&self) -> usize {
        match self {
            Self::Memory(memory) => memory.len(),
            Self::Direct(_) => 0,
            Self::Disk(part) => part.padded_bytes(),
        }
    }

    /// Takes the bytes from staging memory, and their checksum where it is wanted. The device has
    /// written them by now.
    pub(crate) fn take(self, staged: &[u8], sum: Option<&mut u64>) -> Result<()> {
        if let Some(sum) = sum {
            *sum = match &self {
                // SAFETY: the memory is borrowed exclusively by this value, is initialised, and the
                // copy into it has ended.
                Self::Direct(memory) => checksum(unsafe {
                    std::slice::from_raw_parts(memory.start.as_ptr(), memory.bytes)
                }),
                Self::Memory(_) | Self::Disk(_) => checksum(&staged[..self.bytes()]),
            };
        }
        match self {
            Self::Memory(memory) => {
                memory.copy_from_slice(staged);
                Ok(())
            }
            Self::Direct(_) => Ok(()),
            Self::Disk(part) => part.write(staged),
        }
    }
}

impl<'a> From<&'a mut [u8]> for Target<'a> {
    fn from(memory: &'a mut [u8]) -> Self {
        Self::Memory(memory)
    }
}

/// Where bytes for a device come from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// Host memory, by way of staging memory.
    Memory(&'a [u8]),
    /// Host memory, which the device reads itself: at best registered, and in one registration.
    Direct(&'a [u8]),
    /// A file.
    Disk(ExtentPart<'a>),
    /// Nowhere: so many bytes are set to zero. There is no limit to their number.
    Zeroes(u64),
}

impl Source<'_> {
    /// How many bytes are copied.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Memory(memory) | Self::Direct(memory) => memory.len() as u64,
            Self::Disk(part) => part.bytes() as u64,
            Self::Zeroes(bytes) => *bytes,
        }
    }

    pub(crate) fn most_bytes(&self) -> u64 {
        match self {
            Self::Memory(_) | Self::Disk(_) => STAGING_BYTES as u64,
            Self::Direct(_) => DIRECT_BYTES as u64,
            Self::Zeroes(_) => u64::MAX,
        }
    }

    /// How many bytes of staging memory are written.
    pub(crate) fn staged_bytes(&self) -> usize {
        match self {
            Self::Memory(memory) => memory.len(),
            Self::Direct(_) | Self::Zeroes(_) => 0,
            Self::Disk(part) => part.padded_bytes(),
        }
    }

    /// Puts the bytes into staging memory, if they go by way of it, and compares them with their
    /// checksum.
    pub(crate) fn put(&self, staged: &mut [u8], sum: Option<u64>, offset: u64) -> Result<()> {
        match self {
            Self::Memory(memory) => staged.copy_from_slice(memory),
            Self::Direct(memory) => return check_sum(memory, sum, offset),
            Self::Disk(part) => {
                part.read(staged)?;
                return check_sum(&staged[..part.bytes()], sum, offset);
            }
            Self::Zeroes(_) => return Ok(()),
        }
        check_sum(staged, sum, offset)
    }
}

impl<'a> From<&'a [u8]> for Source<'a> {
    fn from(memory: &'a [u8]) -> Self {
        Self::Memory(memory)
    }
}
