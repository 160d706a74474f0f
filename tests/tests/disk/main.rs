//! Contents that are kept on disk: where the files are, that nothing is left of them, and what
//! becomes of a disk that is full or a file that cannot be read.

use std::path::{Path, PathBuf};

use dormant_engine::{Address, Allocation, Device, Engine, Policy};
use dormant_sim::Sim;

#[path = "../rules/child.rs"]
mod child;
#[path = "../support/mod.rs"]
mod support;

mod failures;
mod mounts;
mod places;
mod processes;

/// A block of the policy `disk`, filled with the pattern of `seed`.
fn filled(
    engine: &Engine<Sim>,
    tag: &str,
    device: Device,
    bytes: u64,
    seed: u8,
    directory: &Path,
) -> Address {
    let allocation = Allocation::new(bytes, device).tag(tag).policy(Policy::Disk);
    support::filled(engine, &allocation.directory(directory), bytes, seed)
}

/// The open files of a process that are or were in `directory`, as names to open them by.
fn open_files(process: &str, directory: &Path) -> Vec<PathBuf> {
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).expect("descriptors");
    descriptors
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|name| std::fs::read_link(name).is_ok_and(|file| file.starts_with(directory)))
        .collect()
}

/// Names in a directory.
fn names_in(directory: &Path) -> usize {
    std::fs::read_dir(directory).expect("a directory").count()
}
