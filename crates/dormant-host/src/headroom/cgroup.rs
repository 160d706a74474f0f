//! The limits of this process's cgroup and of the groups around it.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Size;
use super::files::{number, read, value_of};
use super::mounts::{Place, Version, places};

/// A limit from here on is none: version 1 shows "no limit" as the largest whole page.
const NO_LIMIT_BYTES: u64 = 1 << 62;

/// A limit on the memory of a cgroup, and what is used of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupLimit {
    /// The group's folder in the cgroup file system.
    pub folder: PathBuf,
    /// What this group, and no other one of the machine, is known by: its folder's inode number.
    /// Nothing where that cannot be read, and for a limit of a group that is not visible.
    pub id: Option<u64>,
    /// The name of the limit: that of its file, such as `memory.max`, or of its line in
    /// `memory.stat`.
    pub name: &'static str,
    /// What the group may use.
    pub limit_bytes: u64,
    /// What the group uses, with its page cache.
    pub current_bytes: u64,
    /// What of that the kernel gives back before the limit does harm: page cache, inactive or
    /// active, dirty or not. Zero where it is not known.
    pub reclaimable_bytes: u64,
}

impl CgroupLimit {
    /// What can still be taken before the limit is reached.
    #[must_use]
    pub const fn headroom_bytes(&self) -> u64 {
        let kept = self.current_bytes.saturating_sub(self.reclaimable_bytes);
        self.limit_bytes.saturating_sub(kept)
    }

    /// Whether going over it slows the group down instead of killing a process in it.
    #[must_use]
    pub fn only_slows(&self) -> bool {
        self.name == HIGH
    }
}

impl fmt::Display for CgroupLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slowly = if self.only_slows() { " before it is slowed down" } else { "" };
        write!(
            f,
            "the container (cgroup {}) may use {}{slowly} ({}), and uses {}, of which {} of page \
             cache can be given back",
            self.folder.display(),
            Size(self.limit_bytes),
            self.name,
            Size(self.current_bytes),
            Size(self.reclaimable_bytes),
        )
    }
}

const HIGH: &str = "memory.high";

/// The files of one version of the interface.
struct Names {
    /// Files with a limit, and the file with what counts against it.
    limits: &'static [(&'static str, &'static str)],
    /// In `memory.stat`, for the group and all groups in it.
    cache: [&'static [u8]; 2],
}

impl Version {
    const fn names(self) -> Names {
        match self {
            Self::One => Names {
                limits: &[
                    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
                    // Memory and swap together: where some is swapped out, less memory is left.
                    ("memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"),
                ],
                cache: [b"total_inactive_file", b"total_active_file"],
            },
            Self::Two => Names {
                limits: &[("memory.max", "memory.current"), (HIGH, "memory.current")],
                cache: [b"inactive_file", b"active_file"],
            },
        }
    }
}

/// All limits that hold for this process, from its own group outwards.
pub(super) fn limits(root: &Path) -> Vec<CgroupLimit> {
    places(root).iter().flat_map(limits_from).collect()
}

/// The ids of this process's group for memory and of the visible ones around it.
pub(super) fn groups(root: &Path) -> Vec<u64> {
    let mut places = places(root);
    // Beside version 1 there is no memory in version 2, whose numbers are of another system.
    if places.iter().any(|place| place.version == Version::One) {
        places.retain(|place| place.version == Version::One);
    }
    places.iter().flat_map(around).filter_map(id).collect()
}

fn id(folder: &Path) -> Option<u64> {
    Some(std::fs::metadata(folder).ok()?.ino())
}

/// The folders of a group and of those around it, as far as the mount shows them.
fn around(place: &Place) -> impl Iterator<Item = &Path> {
    place.folder.ancestors().take_while(|at| at.starts_with(&place.mount_point))
}

fn limits_from(place: &Place) -> Vec<CgroupLimit> {
    let names = place.version.names();
    let mut limits: Vec<CgroupLimit> =
        around(place).flat_map(|folder| limits_of(folder, &names)).collect();
    if place.version == Version::One {
        limits.extend(limit_from_outside(&place.mount_point, &names));
    }
    limits
}

fn limits_of(folder: &Path, names: &Names) -> Vec<CgroupLimit> {
    let known = |(limit, usage): &(&'static str, &str)| {
        let limit_bytes = limited(number(&read(&folder.join(limit))?)?)?;
        limit_with_usage(folder, limit, limit_bytes, usage, names)
    };
    names.limits.iter().filter_map(known).collect()
}

/// The least limit of the groups above the mount, which version 1 names in each group's statistics.
/// What those groups use is not known, but it is no less than what the mounted one does.
fn limit_from_outside(folder: &Path, names: &Names) -> Option<CgroupLimit> {
    const KEY: &str = "hierarchical_memory_limit";
    let stat = read(&folder.join("memory.stat"))?;
    let limit_bytes = limited(value_of(&stat, KEY.as_bytes())?)?;
    // The mounted group's own limit is among those that this is the least of.
    let own = read(&folder.join("memory.limit_in_bytes")).and_then(|text| number(&text));
    if own.is_some_and(|own| own <= limit_bytes) {
        return None;
    }
    let limit = limit_with_usage(folder, KEY, limit_bytes, "memory.usage_in_bytes", names)?;
    Some(CgroupLimit { id: None, ..limit })
}

fn limit_with_usage(
    folder: &Path,
    name: &'static str,
    limit_bytes: u64,
    usage: &str,
    names: &Names,
) -> Option<CgroupLimit> {
    let current_bytes = number(&read(&folder.join(usage))?)?;
    let stat = read(&folder.join("memory.stat")).unwrap_or_default();
    Some(CgroupLimit {
        folder: folder.to_owned(),
        id: id(folder),
        name,
        limit_bytes,
        current_bytes,
        reclaimable_bytes: names
            .cache
            .iter()
            .filter_map(|name| value_of(&stat, name))
            .fold(0, u64::saturating_add),
    })
}

/// Leaves out what stands for no limit. (The `max` of version 2 is no number, and never got here.)
fn limited(bytes: u64) -> Option<u64> {
    (bytes < NO_LIMIT_BYTES).then_some(bytes)
}
