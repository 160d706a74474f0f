//! What is to be copied, cut into jobs.

use allocator_core::{Device, Mapped};
use dormant_host::{
    CHUNK_BYTES, DIRECT_BYTES, ExtentPart, RestoreJob, STAGING_BYTES, SaveJob, Source, Target,
};

/// A copy that a worker can take.
pub(super) trait Job: Send {
    fn device(&self) -> Device;
    fn bytes(&self) -> u64;
    fn staged_bytes(&self) -> usize;
    fn load(&self) -> Load;
}

/// What a copy keeps busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Load {
    /// The link alone: memory that the device reads or writes itself.
    Link,
    /// A CPU too: staging, or a checksum.
    Cpu,
    /// A disk.
    Disk,
}

impl<B: Mapped + Sync> Job for SaveJob<'_, B> {
    fn device(&self) -> Device {
        self.block.device()
    }

    fn bytes(&self) -> u64 {
        self.bytes() as u64
    }

    fn staged_bytes(&self) -> usize {
        self.staged_bytes()
    }

    fn load(&self) -> Load {
        match self.into {
            Target::Disk(_) => Load::Disk,
            Target::Direct(_) if self.sum.is_none() => Load::Link,
            Target::Direct(_) | Target::Memory(_) => Load::Cpu,
        }
    }
}

impl<B: Mapped + Sync> Job for RestoreJob<'_, B> {
    fn device(&self) -> Device {
        self.block.device()
    }

    fn bytes(&self) -> u64 {
        // A fill moves nothing over the link; the device's memory is so much faster.
        let faster = if matches!(self.from, Source::Zeroes(_)) { 32 } else { 1 };
        self.bytes() / faster
    }

    fn staged_bytes(&self) -> usize {
        self.staged_bytes()
    }

    fn load(&self) -> Load {
        match self.from {
            Source::Disk(_) => Load::Disk,
            Source::Zeroes(_) => Load::Link,
            Source::Direct(_) if self.sum.is_none() => Load::Link,
            Source::Direct(_) | Source::Memory(_) => Load::Cpu,
        }
    }
}

/// Which way contents go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Save,
    Restore,
}

impl Direction {
    /// What the device reads or writes of memory at a time, in bytes. A copy to the device begins with a
    /// gap of some microseconds, so that fewer are quicker.
    pub(super) fn direct_bytes(self) -> usize {
        match self {
            Self::Save => DIRECT_BYTES / 2,
            Self::Restore => DIRECT_BYTES,
        }
    }

    /// What is staged at a time, in bytes.
    pub(super) fn staged_bytes(self) -> usize {
        match self {
            Self::Save => CHUNK_BYTES,
            Self::Restore => STAGING_BYTES,
        }
    }
}

/// How a copy goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// Whether the device reads or writes the memory itself.
    pub(crate) direct: bool,
    /// Bytes of one job.
    job_bytes: usize,
}

impl Way {
    /// By way of staging memory.
    pub(crate) fn staged(direction: Direction) -> Self {
        Self { direct: false, job_bytes: direction.staged_bytes() }
    }

    /// From or to memory that is `registered`, or not; with checksums, of one chunk each, or without.
    pub(crate) fn of(direction: Direction, registered: bool, summed: bool) -> Self {
        match (registered, summed) {
            (direct, true) => Self { direct, job_bytes: CHUNK_BYTES },
            (true, false) => Self { direct: true, job_bytes: direction.direct_bytes() },
            (false, false) => Self::staged(direction),
        }
    }

    /// From or to a file; likewise.
    pub(crate) fn of_disk(summed: bool) -> Self {
        let job_bytes = if summed { CHUNK_BYTES } else { STAGING_BYTES };
        Self { direct: false, job_bytes }
    }

    /// Bytes of one job.
    pub(crate) fn job_bytes(self) -> usize {
        self.job_bytes
    }

    /// How many jobs `bytes` come to.
    pub(crate) fn jobs(self, bytes: u64) -> usize {
        usize::try_from(bytes.div_ceil(self.job_bytes as u64)).unwrap_or(usize::MAX)
    }
}

/// How many checksums contents of this size have: one a chunk.
pub(crate) fn sums_of(bytes: u64) -> usize {
    usize::try_from(bytes.div_ceil(CHUNK_BYTES as u64)).unwrap_or(usize::MAX)
}

/// Cuts a copy from a block into jobs. `sums` is empty, or has a place for each chunk.
pub(crate) fn save_jobs<'a, B: Mapped>(
    block: &'a B,
    offset: u64,
    into: &'a mut [u8],
    way: Way,
    sums: &'a mut [u64],
) -> impl Iterator<Item = SaveJob<'a, B>> {
    let mut sums = sums.iter_mut();
    into.chunks_mut(way.job_bytes).enumerate().map(move |(index, into)| SaveJob {
        block,
        offset: offset + (index * way.job_bytes) as u64,
        into: if way.direct { Target::direct(into) } else { into.into() },
        sum: sums.next(),
    })
}

/// Cuts a copy to a block into jobs. `sums` is empty, or has one for each chunk.
pub(crate) fn restore_jobs<'a, B: Mapped>(
    block: &'a B,
    offset: u64,
    from: &'a [u8],
    way: Way,
    sums: &'a [u64],
) -> impl Iterator<Item = RestoreJob<'a, B>> {
    from.chunks(way.job_bytes).enumerate().map(move |(index, from)| RestoreJob {
        block,
        offset: offset + (index * way.job_bytes) as u64,
        from: if way.direct { Source::Direct(from) } else { from.into() },
        sum: sums.get(index).copied(),
    })
}

/// The jobs that save a block in these parts of a file. `sums` is empty, or has a place for each.
pub(crate) fn write_jobs<'a, B: Mapped>(
    block: &'a B,
    parts: impl Iterator<Item = ExtentPart<'a>>,
    sums: &'a mut [u64],
) -> impl Iterator<Item = SaveJob<'a, B>> {
    let mut sums = sums.iter_mut();
    parts.map(move |part| SaveJob {
        block,
        offset: part.offset(),
        into: Target::Disk(part),
        sum: sums.next(),
    })
}

/// The jobs that restore a block from these parts of a file. `sums` is empty, or has one for each.
pub(crate) fn read_jobs<'a, B: Mapped>(
    block: &'a B,
    parts: impl Iterator<Item = ExtentPart<'a>>,
    sums: &'a [u64],
) -> impl Iterator<Item = RestoreJob<'a, B>> {
    parts.enumerate().map(move |(index, part)| RestoreJob {
        block,
        offset: part.offset(),
        from: Source::Disk(part),
        sum: sums.get(index).copied(),
    })
}

/// The job that sets a block's bytes to zero.
pub(crate) fn zero_job<B: Mapped>(block: &B, bytes: u64) -> RestoreJob<'_, B> {
    RestoreJob { block, offset: 0, from: Source::Zeroes(bytes), sum: None }
}
