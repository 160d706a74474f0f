//! Reading the kernel's small text files. They are read as bytes, since a mount point may be any
//! bytes, and one odd line must not hide the others.

use std::path::{Path, PathBuf};

/// A file's bytes, or nothing where it cannot be read.
pub(super) fn read(path: &Path) -> Option<Vec<u8>> {
    std::fs::read(path).ok()
}

/// A path of the system as it lies below `root`.
pub(super) fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// The lines of a file.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
}

/// A number in decimal, with white space around it.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

/// The number beside `key` in a file of one key and value a line; a unit behind it is left out.
pub(super) fn value_of(text: &[u8], key: &[u8]) -> Option<u64> {
    lines(text).find_map(|line| {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        (words.next()? == key).then_some(())?;
        number(words.next()?)
    })
}
