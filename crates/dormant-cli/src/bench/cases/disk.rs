//! Backups on disk, against plain writes and reads of a file in the same directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dormant::{ErrorKind, HostMode};
use tempfile::TempDir;

use super::{Bench, cycles};
use crate::bench::bed::Layout;
use crate::bench::case::Case;
use crate::bench::figure::Figure;
use crate::bench::outcome::Found;
use crate::failure::Failure;
use crate::size::Bytes;

/// The share of the plain rate that we must reach.
const RATE: f64 = 0.95;

/// Where contents go. Taken away at the end, if it was made for this.
enum Place {
    Named(PathBuf),
    Made(TempDir),
}

impl Place {
    fn path(&self) -> &Path {
        match self {
            Self::Named(path) => path,
            Self::Made(directory) => directory.path(),
        }
    }
}

pub(super) fn disk(bench: &mut Bench) -> Result<Found, Failure> {
    let place = match &bench.disk_directory {
        Some(path) => {
            std::fs::create_dir_all(path).map_err(|error| failed(path, &error))?;
            Place::Named(path.clone())
        }
        None => match tempfile::Builder::new().prefix("dormant-bench-").tempdir_in(".") {
            Ok(directory) => Place::Made(directory),
            Err(error) => {
                let why = format!("nothing can be written here ({error}); --disk-dir says where");
                return Ok(Found::Skipped(why));
            }
        },
    };
    let directory =
        std::path::absolute(place.path()).map_err(|error| failed(place.path(), &error))?;
    let block_bytes = bench.sizes.block_bytes;
    let wanted = bench.sizes.half_bytes();
    let room = room_bytes(&directory).map_err(|error| failed(&directory, &error))?;
    // A disk that is filled to the brim is slow, and somebody else's as well.
    let bytes = wanted.min(room / 2 / block_bytes * block_bytes);
    let place_text = directory.display();
    if bytes == 0 {
        let why = format!("{place_text} has {} left, which is too little", Bytes(room));
        return Ok(Found::Skipped(why));
    }
    let cut = if bytes < wanted { ", half of what is free" } else { "" };
    bench.notes.push(format!("disk: {} in {place_text}{cut}", Bytes(bytes)));
    bench.progress.say("disk, plain writes and reads");
    let floor = bench.floors.disk(&directory, bytes, bench.cycles)?;
    bench.progress.say("disk:");
    let layout =
        Layout { bytes, directory: Some(Arc::from(directory)), ..bench.layout(Case::Disk) };
    let found = cycles::measure(bench, Case::Disk, HostMode::Reclaim, &layout)?;
    let figures = vec![
        Figure::times("pause", &found.pause).floor("disk", floor.down).limit(floor.down / RATE),
        Figure::times("resume", &found.resume).floor("disk", floor.up).limit(floor.up / RATE),
    ];
    Ok(Found::Measured { layout, figures })
}

fn room_bytes(directory: &Path) -> std::io::Result<u64> {
    let facts = rustix::fs::statvfs(directory)?;
    Ok(facts.f_bavail.saturating_mul(facts.f_frsize))
}

fn failed(directory: &Path, error: &std::io::Error) -> Failure {
    Failure { kind: ErrorKind::Io, message: format!("{}: {error}", directory.display()) }
}
