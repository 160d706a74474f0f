//! Parts of one unnamed file: a backup for each block of a pause, without a file each.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allocator_core::{Error, ErrorKind, Operation, Result};

use crate::file::UnnamedFile;
use crate::lane::STAGING_BYTES;
use crate::places::Places;
use crate::process;

/// Extents begin and end at multiples of this, in bytes: what reads and writes past the page
/// cache need on the disks in use.
pub const EXTENT_ALIGN_BYTES: u64 = 4096;

/// `bytes` rounded up to what an extent takes in its file; saturates.
#[must_use]
pub fn extent_bytes(bytes: u64) -> u64 {
    let most = u64::MAX - (EXTENT_ALIGN_BYTES - 1);
    bytes.checked_next_multiple_of(EXTENT_ALIGN_BYTES).unwrap_or(most)
}

/// An unnamed file that is handed out in parts. As its last parts go it is made shorter, but for what
/// it keeps: space that was written before is written quicker than new space (an ext4 file's new space has
/// to be marked as written, which cost a fifth).
#[derive(Debug)]
pub struct ExtentFile {
    file: UnnamedFile,
    directory: PathBuf,
    /// Which file system the directory was on.
    file_system: u64,
    keep_bytes: u64,
    layout: Mutex<Layout>,
}

#[derive(Debug)]
struct Layout {
    places: Places,
    /// The file's.
    length: u64,
}

fn file_system_of(directory: &Path) -> Result<u64> {
    std::fs::metadata(directory).map(|found| found.dev()).map_err(|error| {
        let text = format!("looking at {}: {error}", directory.display());
        Error::new(ErrorKind::Io, Operation::Engine, text)
    })
}

impl ExtentFile {
    /// Makes a file in `directory`, which is made if it is missing. It keeps `keep_bytes` of its space
    /// when its parts are gone.
    ///
    /// # Errors
    /// `Io`: no permission, a path that is no directory.
    pub fn create_in(directory: &Path, keep_bytes: u64) -> Result<Arc<Self>> {
        let file = UnnamedFile::create_in(directory)?;
        file.go_direct();
        Ok(Arc::new(Self {
            file,
            file_system: file_system_of(directory)?,
            directory: directory.to_owned(),
            keep_bytes,
            // The system counts offsets in signed numbers.
            layout: Mutex::new(Layout { places: Places::new(i64::MAX as u64), length: 0 }),
        }))
    }

    /// Whether its directory is still on the file system that the file is on, or is not there.
    #[must_use]
    pub fn is_at_home(&self) -> bool {
        file_system_of(&self.directory).map_or(true, |now| now == self.file_system)
    }

    /// Whether it is in memory, as in a tmpfs.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.file.is_in_memory()
    }

    /// Whether its reads and writes go past the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    fn layout(&self) -> MutexGuard<'_, Layout> {
        self.layout.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long it is, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.layout().length
    }

    /// Whether no part of it is in use.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.layout().places.end() == 0
    }

    /// Gives space behind the last part back to the disk; returns how many bytes.
    pub fn trim(&self) -> u64 {
        self.cut(&mut self.layout(), 0)
    }

    /// Makes it no longer than it was at `bytes`, but for its parts: for who has made it longer in vain.
    pub fn cut_back(&self, bytes: u64) {
        self.cut(&mut self.layout(), bytes);
    }

    /// Makes it shorter, but for its parts and for what it keeps. Under the lock: nobody may take the
    /// bytes before they are cut off.
    fn cut(&self, layout: &mut Layout, keep_bytes: u64) -> u64 {
        let length = layout.places.end().max(keep_bytes.min(layout.length));
        // Parts that were taken last may not have their space yet.
        let cut = layout.length.saturating_sub(length);
        if cut > 0 && self.file.shrink(length).is_ok() {
            layout.length = length;
        }
        cut
    }

    /// Takes an extent of each of these sizes, in bytes, and makes sure of their space on the
    /// disk, where the file system can promise it.
    ///
    /// # Errors
    /// `Io` with the bytes that were wanted: a full disk, a quota, a limit. Nothing is taken then.
    pub fn take(self: &Arc<Self>, sizes: impl IntoIterator<Item = u64>) -> Result<Vec<Extent>> {
        let mut extents: Vec<Extent> = Vec::new();
        let (taken, grown) = {
            let mut layout = self.layout();
            let taken = sizes.into_iter().map(extent_bytes).try_for_each(|bytes| {
                let start = layout.places.take(bytes).ok_or_else(|| {
                    let text = "the backups together do not fit a file";
                    Error::new(ErrorKind::Io, Operation::Engine, text).with_bytes(bytes)
                })?;
                extents.push(Extent { file: Arc::clone(self), start, bytes });
                Ok(())
            });
            let (length, end) = (layout.length, layout.places.end());
            let mut grown = Ok(());
            if taken.is_ok() && end > length {
                grown = self.file.extend(length, end);
                layout.length = if grown.is_ok() { end } else { length };
            }
            (taken, grown)
        };
        // Dropped extents go back, which takes the lock again.
        taken
            .and(grown)
            .map(|()| extents)
            .map_err(|error| error.with_note(format_args!("in {}", self.directory.display())))
    }

    /// Waits until what was written is on the disk.
    ///
    /// # Errors
    /// `Io`: what was written may be lost.
    pub fn sync(&self) -> Result<()> {
        self.file.sync().map_err(|error| self.named(error))
    }

    fn named(&self, error: Error) -> Error {
        error.with_note(format_args!("in {}", self.directory.display()))
    }
}

/// Bytes of a file that nobody else has. They go back to it when this is dropped.
#[derive(Debug)]
pub struct Extent {
    file: Arc<ExtentFile>,
    start: u64,
    bytes: u64,
}

impl Extent {
    /// How many bytes it takes in the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its first `bytes` bytes in parts of `part_bytes`, at most [`STAGING_BYTES`].
    pub fn parts(&self, bytes: u64, part_bytes: usize) -> impl Iterator<Item = ExtentPart<'_>> {
        let bytes = bytes.min(self.bytes);
        let part_bytes = part_bytes.clamp(1, STAGING_BYTES);
        (0..bytes).step_by(part_bytes).map(move |offset| {
            let left = usize::try_from(bytes - offset).unwrap_or(usize::MAX);
            ExtentPart { extent: self, offset, bytes: left.min(part_bytes) }
        })
    }

    /// Reads its first bytes, as many as `into` has: at best a multiple of
    /// [`EXTENT_ALIGN_BYTES`], at a whole page.
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` for more bytes than it has.
    pub fn read(&self, into: &mut [u8]) -> Result<()> {
        self.check(0, into.len())?;
        self.file.file.read_at(into, self.start).map_err(|error| self.file.named(error))
    }

    fn check(&self, offset: u64, bytes: usize) -> Result<()> {
        let end = offset.checked_add(bytes as u64);
        if end.is_some_and(|end| end <= self.bytes) {
            return Ok(());
        }
        let text = "a copy past the end of an extent";
        Err(Error::new(ErrorKind::InvalidArgument, Operation::Engine, text)
            .with_bytes(bytes as u64))
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        // The file is the parent's, and a thread that is not here may hold the lock.
        if process::is_forked_child() {
            return;
        }
        let mut layout = self.file.layout();
        layout.places.give(self.start, self.bytes);
        self.file.cut(&mut layout, self.file.keep_bytes);
    }
}

impl Drop for ExtentFile {
    fn drop(&mut self) {
        // A forked child may hold the file open for long; it is not the child's to cut.
        if !process::is_forked_child() {
            self.trim();
        }
    }
}

/// A part of an extent, no longer than a staging buffer.
#[derive(Clone, Copy, Debug)]
pub struct ExtentPart<'a> {
    extent: &'a Extent,
    offset: u64,
    bytes: usize,
}

impl ExtentPart<'_> {
    /// How many bytes into the extent it begins.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// How many bytes of contents it has.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many bytes are read and written for it: whole sectors.
    pub(crate) fn padded_bytes(&self) -> usize {
        usize::try_from(extent_bytes(self.bytes as u64)).unwrap_or(usize::MAX)
    }

    /// Writes the part and its padding.
    pub(crate) fn write(&self, from: &[u8]) -> Result<()> {
        self.extent.check(self.offset, from.len())?;
        let file = &self.extent.file;
        let at = self.extent.start + self.offset;
        file.file.write_at(from, at).map_err(|error| file.named(error))
    }

    /// Reads the part and its padding.
    pub(crate) fn read(&self, into: &mut [u8]) -> Result<()> {
        self.extent.check(self.offset, into.len())?;
        let file = &self.extent.file;
        let at = self.extent.start + self.offset;
        file.file.read_at(into, at).map_err(|error| file.named(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the last part ends, and what is free before it.
    fn used(file: &ExtentFile) -> (u64, Vec<(u64, u64)>) {
        let layout = file.layout();
        (layout.places.end(), layout.places.free())
    }

    #[test]
    fn extents_keep_their_own_bytes_and_the_file_ends_with_the_last() {
        let directory = tempfile::tempdir().unwrap();
        let file = ExtentFile::create_in(directory.path(), 0).unwrap();
        let sizes = [1, 4096, 4097, STAGING_BYTES as u64 + 1];
        let mut extents = file.take(sizes).unwrap();
        let mut memory = crate::Mapping::new(STAGING_BYTES).unwrap();
        for (seed, (extent, bytes)) in extents.iter().zip(sizes).enumerate() {
            for part in extent.parts(bytes, STAGING_BYTES) {
                let buffer = &mut memory.as_mut_slice()[..part.padded_bytes()];
                buffer.fill(u8::try_from(seed + 1).unwrap());
                part.write(buffer).unwrap();
            }
        }
        file.sync().unwrap();
        for (seed, (extent, bytes)) in extents.iter().zip(sizes).enumerate() {
            let mut pieces = crate::carve([usize::try_from(extent.bytes()).unwrap()]).unwrap();
            extent.read(&mut pieces[0]).unwrap();
            assert!(pieces[0].iter().all(|byte| usize::from(*byte) == seed + 1));
            let lengths: u64 =
                extent.parts(bytes, STAGING_BYTES).map(|part| part.bytes() as u64).sum();
            assert_eq!(lengths, bytes);
        }
        extents.pop();
        assert_eq!(file.layout().places.end(), 4096 * 4);
        extents.clear();
        assert_eq!(used(&file), (0, vec![]));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_disk_that_is_too_small_is_a_typed_error_and_leaves_others_alone() {
        let directory = tempfile::tempdir().unwrap();
        let file = ExtentFile::create_in(directory.path(), 0).unwrap();
        let kept = file.take([100]).unwrap();
        let error = file.take([4096, 1 << 61]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.text().contains(&directory.path().display().to_string()), "{error}");
        assert_eq!(used(&file), (4096, vec![]));
        assert_eq!(file.take([u64::MAX]).unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(used(&file), (4096, vec![]));
        assert_eq!(kept[0].read(&mut [0; 4097]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }

    #[test]
    fn a_file_keeps_as_much_as_it_may_and_gives_it_back_when_asked() {
        let directory = tempfile::tempdir().unwrap();
        let file = ExtentFile::create_in(directory.path(), 3 * 4096).unwrap();
        let extents = file.take([4096, 4096, 4096, 4096]).unwrap();
        assert_eq!(file.bytes(), 4 * 4096);
        drop(extents);
        assert!(file.is_idle());
        assert_eq!((file.bytes(), used(&file)), (3 * 4096, (0, vec![])));
        let one = file.take([4096]).unwrap();
        assert_eq!(file.bytes(), 3 * 4096);
        assert_eq!((file.trim(), file.bytes()), (2 * 4096, 4096));
        drop(one);
        assert_eq!((file.bytes(), file.trim(), file.bytes()), (4096, 4096, 0));
    }
}
