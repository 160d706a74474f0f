//! What a lane copies, and where to.

use allocator_core::Result;

use crate::extent::ExtentPart;

/// A copy from the device: at most [`CHUNK_BYTES`](crate::CHUNK_BYTES).
#[derive(Debug)]
pub struct SaveJob<'a, B> {
    /// Where from.
    pub block: &'a B,
    /// How many bytes into the block.
    pub offset: u64,
    /// Where to.
    pub into: Target<'a>,
}

/// A copy to the device: at most [`CHUNK_BYTES`](crate::CHUNK_BYTES).
#[derive(Debug)]
pub struct RestoreJob<'a, B> {
    /// Where to.
    pub block: &'a B,
    /// How many bytes into the block.
    pub offset: u64,
    /// Where from.
    pub from: Source<'a>,
}

/// Where bytes of a device go.
#[derive(Debug)]
pub enum Target<'a> {
    /// Host memory.
    Memory(&'a mut [u8]),
    /// A file.
    Disk(ExtentPart<'a>),
}

impl Target<'_> {
    /// How many bytes are copied.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Memory(memory) => memory.len(),
            Self::Disk(part) => part.bytes(),
        }
    }

    /// How many bytes of staging memory are looked at.
    pub(crate) fn staged_bytes(&self) -> usize {
        match self {
            Self::Memory(memory) => memory.len(),
            Self::Disk(part) => part.padded_bytes(),
        }
    }

    /// Takes the bytes from staging memory.
    pub(crate) fn take(self, staged: &[u8]) -> Result<()> {
        match self {
            Self::Memory(memory) => {
                memory.copy_from_slice(staged);
                Ok(())
            }
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
    /// Host memory.
    Memory(&'a [u8]),
    /// A file.
    Disk(ExtentPart<'a>),
}

impl Source<'_> {
    /// How many bytes are copied.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Memory(memory) => memory.len(),
            Self::Disk(part) => part.bytes(),
        }
    }

    /// How many bytes of staging memory are written.
    pub(crate) fn staged_bytes(&self) -> usize {
        match self {
            Self::Memory(memory) => memory.len(),
            Self::Disk(part) => part.padded_bytes(),
        }
    }

    /// Puts the bytes into staging memory.
    pub(crate) fn put(&self, staged: &mut [u8]) -> Result<()> {
        match self {
            Self::Memory(memory) => {
                staged.copy_from_slice(memory);
                Ok(())
            }
            Self::Disk(part) => part.read(staged),
        }
    }
}

impl<'a> From<&'a [u8]> for Source<'a> {
    fn from(memory: &'a [u8]) -> Self {
        Self::Memory(memory)
    }
}
