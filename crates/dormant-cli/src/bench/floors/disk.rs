//! Plain writes and reads of a file around the page cache, by a few threads. Shares no code with
//! the engine's own files.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{available_parallelism, scope};
use std::time::{Duration, Instant};

use dormant_host::Mapping;
use rustix::fs::OFlags;

use super::Disk;
use crate::bench::samples::Samples;

/// One write or read.
const CHUNK_BYTES: u64 = 4 << 20;

/// Sizes around the page cache are whole sectors.
const SECTOR_BYTES: u64 = 4096;

/// A disk wants several requests at once.
const FEWEST_THREADS: usize = 4;
const MOST_THREADS: usize = 16;

#[derive(Clone, Copy)]
enum Way {
    Write,
    Read,
}

pub(super) fn measure(directory: &Path, bytes: u64, cycles: u32) -> io::Result<Disk> {
    let bytes = bytes.next_multiple_of(SECTOR_BYTES);
    let threads =
        available_parallelism().map_or(1, usize::from).clamp(FEWEST_THREADS, MOST_THREADS);
    let (file, direct) = open(directory)?;
    // Where the file system cannot, the first cycle, which does not count, takes the space.
    let _ = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes);
    let mut buffers = (0..threads).map(|_| buffer()).collect::<io::Result<Vec<_>>>()?;
    let (mut write, mut read) = (Samples::default(), Samples::default());
    for cycle in 0..=cycles {
        let written = pass(&file, bytes, &mut buffers, Way::Write, direct)?;
        if !direct {
            let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        }
        let back = pass(&file, bytes, &mut buffers, Way::Read, direct)?;
        if cycle > 0 {
            write.push(written);
            read.push(back);
        }
    }
    Ok(Disk {
        directory: directory.display().to_string(),
        bytes,
        direct,
        threads,
        write_ms: write.summary(),
        read_ms: read.summary(),
    })
}

/// A file that has no name any more, and whether it goes around the page cache.
fn open(directory: &Path) -> io::Result<(File, bool)> {
    let path = directory.join(format!("dormant-bench-{}.floor", std::process::id()));
    let flags = i32::try_from(OFlags::DIRECT.bits()).unwrap_or(0);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let opened = match options.clone().custom_flags(flags).open(&path) {
        Ok(file) => Ok((file, true)),
        // Some file systems make the file and then refuse.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            let _ = std::fs::remove_file(&path);
            options.open(&path).map(|file| (file, false))
        }
        Err(error) => Err(error),
    }?;
    std::fs::remove_file(&path)?;
    Ok(opened)
}

/// Aligned memory for one thread, touched.
fn buffer() -> io::Result<Mapping> {
    let bytes = usize::try_from(CHUNK_BYTES).unwrap_or(usize::MAX);
    let mut buffer = Mapping::new(bytes).map_err(io::Error::other)?;
    // No file system makes a hole of it.
    buffer.as_mut_slice().iter_mut().zip((0..=u8::MAX).cycle()).for_each(|(to, from)| *to = from);
    Ok(buffer)
}

/// Goes over the whole file once.
fn pass(
    file: &File,
    bytes: u64,
    buffers: &mut [Mapping],
    way: Way,
    direct: bool,
) -> io::Result<Duration> {
    let next = AtomicU64::new(0);
    let begun = Instant::now();
    scope(|scope| {
        let workers: Vec<_> = buffers
            .iter_mut()
            .map(|buffer| {
                let next = &next;
                scope.spawn(move || work(file, bytes, buffer.as_mut_slice(), way, next))
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect::<io::Result<Vec<()>>>()
    })?;
    if matches!(way, Way::Write) && !direct {
        file.sync_data()?;
    }
    Ok(begun.elapsed())
}

fn work(file: &File, bytes: u64, buffer: &mut [u8], way: Way, next: &AtomicU64) -> io::Result<()> {
    loop {
        let offset = next.fetch_add(CHUNK_BYTES, Ordering::Relaxed);
        if offset >= bytes {
            return Ok(());
        }
        let length = usize::try_from(CHUNK_BYTES.min(bytes - offset)).unwrap_or(0);
        match way {
            Way::Write => file.write_all_at(&buffer[..length], offset)?,
            Way::Read => file.read_exact_at(&mut buffer[..length], offset)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_gone_over_both_ways_and_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let found = measure(directory.path(), 3 * CHUNK_BYTES + 1, 2).unwrap();
        assert_eq!(found.bytes, 3 * CHUNK_BYTES + SECTOR_BYTES);
        assert!(found.write_ms.min > 0.0 && found.read_ms.min > 0.0, "{found:?}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_is_not_there_is_an_error() {
        assert!(measure(Path::new("/no/such/directory"), CHUNK_BYTES, 1).is_err());
    }
}
