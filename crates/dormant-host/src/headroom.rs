//! How much more host memory this process can take.
//!
//! Two things end it, and [`Headroom::read`] answers for whichever is nearer:
//!
//! - **The process's cgroup**, which is what limits a container, and every group around it. Going
//!   over `memory.max` (`memory.limit_in_bytes` in version 1) is no error that an allocation could
//!   return: the pages are handed out when they are touched, and the kernel then sends SIGKILL. So
//!   it has to be asked before. Going over `memory.high` kills nobody, but slows the process down
//!   until it hardly moves; it counts as a limit here.
//! - **The machine**, by `MemAvailable`. Swap does not count, and neither do reserved huge pages.
//!
//! What a group uses includes the page cache: every file that its processes read or wrote. The
//! kernel gives the cache back before it kills anybody, so it counts as free, as it does in
//! `MemAvailable`: the inactive part, and the active one (what was read more than once, as a
//! checkpoint that every rank loads). That includes dirty pages, which are written to disk first: a
//! group whose memory is full of freshly written files has its whole headroom.
//!
//! The reading is a snapshot: others in the group and on the machine take memory as well. Limits
//! of groups that are not visible from inside a container are not known under version 2; under
//! version 1 the kernel names the least of them, which is used. What cannot be read is skipped.
//! NUMA placement is not looked at.

mod cgroup;
mod files;
mod mounts;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;

pub use cgroup::CgroupLimit;

/// How many bytes of host memory this process can still take, and what ends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headroom {
    /// The bytes that can still be taken.
    pub bytes: u64,
    /// What is reached first.
    pub source: HeadroomSource,
}

/// What is reached first when a process takes more and more host memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadroomSource {
    /// A limit of the process's cgroup, or of one around it.
    Cgroup(CgroupLimit),
    /// The machine's memory.
    Machine {
        /// All memory of the machine in bytes; zero where that is not known.
        total_bytes: u64,
    },
}

/// What this process's group for memory and the visible ones around it are known by, with or without
/// limits, from its own outwards. See [`CgroupLimit::id`].
#[must_use]
pub fn groups() -> Vec<u64> {
    cgroup::groups(Path::new("/"))
}

impl Headroom {
    /// Reads the headroom of this process: a few small files. Nothing where neither the machine's
    /// memory nor any limit is known.
    #[must_use]
    pub fn read() -> Option<Self> {
        Self::read_at(Path::new("/"))
    }

    /// Reads it from a system whose `/proc` and cgroup file systems lie below `root`.
    #[must_use]
    pub fn read_at(root: &Path) -> Option<Self> {
        // The first of equals is returned, which is the group nearest to the process.
        Self::read_all_at(root).into_iter().min_by_key(|headroom| headroom.bytes)
    }

    /// What is left of each limit that holds for this process, the nearest group's first, and of the
    /// machine's memory, which is last: others may have [claimed](crate::Claims) more of one than of
    /// another.
    #[must_use]
    pub fn read_all() -> Vec<Self> {
        Self::read_all_at(Path::new("/"))
    }

    /// Reads them from a system whose `/proc` and cgroup file systems lie below `root`.
    #[must_use]
    pub fn read_all_at(root: &Path) -> Vec<Self> {
        let groups = cgroup::limits(root).into_iter().map(Self::of_a_group);
        groups.chain(Self::of_the_machine(root)).collect()
    }

    fn of_a_group(limit: CgroupLimit) -> Self {
        Self { bytes: limit.headroom_bytes(), source: HeadroomSource::Cgroup(limit) }
    }

    fn of_the_machine(root: &Path) -> Option<Self> {
        let text = files::read(&root.join("proc/meminfo"))?;
        let bytes = |key: &[u8]| files::value_of(&text, key).map(|kib| kib.saturating_mul(1024));
        let source = HeadroomSource::Machine { total_bytes: bytes(b"MemTotal:").unwrap_or(0) };
        Some(Self { bytes: bytes(b"MemAvailable:")?, source })
    }
}

impl fmt::Display for Headroom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of host memory can still be taken: {}", Size(self.bytes), self.source)
    }
}

impl fmt::Display for HeadroomSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cgroup(limit) => limit.fmt(f),
            Self::Machine { total_bytes: 0 } => f.write_str("the machine has no more available"),
            Self::Machine { total_bytes } => {
                write!(f, "the machine has no more available of its {}", Size(*total_bytes))
            }
        }
    }
}

/// Bytes to read: `1.25 GiB`.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        match units.into_iter().find(|(_, unit)| self.0 >= *unit) {
            // In hundredths and rounded down: nobody is to be told of more than there is.
            Some((name, unit)) => {
                let hundredths = u128::from(self.0) * 100 / u128::from(unit);
                write!(f, "{}.{:02} {name}", hundredths / 100, hundredths % 100)
            }
            None => write!(f, "{} B", self.0),
        }
    }
}
