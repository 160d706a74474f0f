//! Where the files of this process's memory cgroup are.
//!
//! `/proc/self/cgroup` names the group within its hierarchy. A mount may show only a part of that:
//! in a container it is often the container's own group, and `/proc/self/mountinfo` names it as
//! the mount's root. So the folder is the mount point, and what is left of the group's name behind
//! the mount's root.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use super::files::{below, lines, read};

/// Which of the two interfaces a hierarchy has. A hybrid system has both; memory is then under
/// version 1, and version 2 is without files for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

/// The folder of this process's group, and the mount that it is in.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) version: Version,
    pub(super) folder: PathBuf,
    pub(super) mount_point: PathBuf,
}

/// A mounted hierarchy that may have memory's files.
#[derive(Debug)]
struct Mount {
    version: Version,
    /// The group that is shown at the mount point.
    root: PathBuf,
    point: PathBuf,
}

/// Where this process's groups are: one for each version in use.
pub(super) fn places(root: &Path) -> Vec<Place> {
    let groups = read(&root.join("proc/self/cgroup")).unwrap_or_default();
    let mounts = read(&root.join("proc/self/mountinfo")).unwrap_or_default();
    let mounts: Vec<Mount> = lines(&mounts).filter_map(|line| mount(root, line)).collect();
    lines(&groups)
        .filter_map(group)
        .filter_map(|(version, path)| place(version, path, &mounts))
        .collect()
}

/// Reads `id:controllers:path`.
fn group(line: &[u8]) -> Option<(Version, &Path)> {
    let mut fields = line.splitn(3, |byte| *byte == b':');
    let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let path = Path::new(OsStr::from_bytes(path));
    if has(controllers, b"memory") {
        Some((Version::One, path))
    } else if id == b"0" && controllers.is_empty() {
        Some((Version::Two, path))
    } else {
        None
    }
}

/// Reads `id parent device root point options [tags...] - type source options`.
fn mount(system: &Path, line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let (root, point) = (fields.nth(3)?, fields.next()?);
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let version = match (fields.next()?, fields.nth(1)?) {
        (b"cgroup2", _) => Version::Two,
        (b"cgroup", options) if has(options, b"memory") => Version::One,
        _ => return None,
    };
    Some(Mount { version, root: unescape(root), point: below(system, &unescape(point)) })
}

fn place(version: Version, group: &Path, mounts: &[Mount]) -> Option<Place> {
    let mut fitting: Vec<&Mount> = mounts.iter().filter(|mount| mount.version == version).collect();
    // The mount that shows most comes first: it has the files of more groups around ours.
    fitting.sort_by_key(|mount| mount.root.components().count());
    let found = fitting.iter().find_map(|mount| Some((folder(group, mount)?, *mount)));
    // A name that no mount leads to is of another namespace: a container's own group is then what
    // is mounted.
    let (folder, mount) =
        found.or_else(|| fitting.first().map(|mount| (mount.point.clone(), *mount)))?;
    Some(Place { version, folder, mount_point: mount.point.clone() })
}

/// Where a mount shows the group, if it does.
fn folder(group: &Path, mount: &Mount) -> Option<PathBuf> {
    let rest = group.strip_prefix(&mount.root).ok()?;
    let mut folder = mount.point.clone();
    for part in rest.components() {
        // `..` stands for a group outside of the namespace, not for the folder above.
        let Component::Normal(name) = part else { return None };
        folder.push(name);
    }
    folder.is_dir().then_some(folder)
}

/// Whether a list with commas has this item.
fn has(list: &[u8], item: &[u8]) -> bool {
    list.split(|byte| *byte == b',').any(|one| one == item)
}

/// A path of mountinfo, where white space and backslashes are three octal digits: `\040`.
fn unescape(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        let escaped = behind.get(..3).filter(|_| *first == b'\\').and_then(octal);
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &behind[3..] } else { behind };
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}
