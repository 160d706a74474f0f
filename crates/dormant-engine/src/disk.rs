//! Contents that are kept on disk: one unnamed file for each device and directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use allocator_core::{Device, Error, ErrorKind, Operation, Result};
use dormant_host::{Extent, ExtentFile, ExtentPart, check_sums};

use crate::stash::{Charge, Ledger};
use crate::sync::{Mutex, lock};

/// A block's contents in a file.
#[derive(Debug)]
pub(crate) struct DiskCopy {
    extent: Extent,
    bytes: u64,
    /// One a chunk, or none at all.
    sums: Box<[u64]>,
    _charge: Charge,
}

impl DiskCopy {
    /// How many bytes were saved.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many bytes of the file they take.
    pub(crate) fn extent_bytes(&self) -> u64 {
        self.extent.bytes()
    }

    /// The checksums of its chunks, if they were taken.
    pub(crate) fn sums(&self) -> &[u64] {
        &self.sums
    }

    /// Keeps the checksums that were taken.
    pub(crate) fn with_sums(mut self, sums: Vec<u64>) -> Self {
        self.sums = sums.into();
        self
    }

    /// The contents in parts of so many bytes.
    pub(crate) fn parts(&self, part_bytes: usize) -> impl Iterator<Item = ExtentPart<'_>> {
        self.extent.parts(self.bytes, part_bytes)
    }

    /// Reads the contents, and as much of the padding as there is room for.
    pub(crate) fn read(&self, into: &mut [u8]) -> Result<()> {
        self.extent.read(into)?;
        let contents = into.get(..usize::try_from(self.bytes).unwrap_or(usize::MAX));
        check_sums(contents.unwrap_or(into), &self.sums)
    }
}

/// What one block wants of the disk.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) device: Device,
    pub(crate) directory: &'a Path,
    pub(crate) bytes: u64,
}

/// Room for the blocks of one pause.
#[derive(Debug, Default)]
pub(crate) struct Space {
    /// In the order in which they were wanted.
    pub(crate) copies: Vec<DiskCopy>,
    /// Those that they are in.
    pub(crate) files: Vec<Arc<ExtentFile>>,
}

/// Waits until what was written to these files is on the disk.
pub(crate) fn sync(files: &[Arc<ExtentFile>]) -> Result<()> {
    files.iter().try_for_each(|file| file.sync())
}

/// Which file: of a device, in a directory.
type Key = (Device, PathBuf);

/// How long files were.
pub(crate) type Lengths = BTreeMap<Key, u64>;

/// The files that there are. Each lives as long as an extent of it, and those that keep space for the
/// next pause until they are trimmed.
#[derive(Debug)]
pub(crate) struct Disks {
    files: Mutex<BTreeMap<Key, Entry>>,
    ledger: Ledger,
    keep_bytes: u64,
}

#[derive(Debug)]
struct Entry {
    file: Weak<ExtentFile>,
    kept: Option<Arc<ExtentFile>>,
}

impl Disks {
    /// Files that each keep so many bytes of their space.
    pub(crate) fn new(keep_bytes: u64) -> Self {
        Self { files: Mutex::default(), ledger: Ledger::default(), keep_bytes }
    }

    /// Bytes of disk space that the files take.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.open_files().iter().map(|(_, file)| file.bytes()).sum()
    }

    /// Gives space that no contents are in back to the disk, where it lies behind those; returns how
    /// many bytes.
    pub(crate) fn trim(&self) -> u64 {
        let mut kept = Vec::new();
        for entry in lock(&self.files).values_mut() {
            kept.extend(entry.kept.take_if(|file| file.is_idle()));
            kept.extend(entry.file.upgrade());
        }
        let trimmed = kept.iter().map(|file| file.trim()).sum();
        // The last ones of a file close it, when nothing is locked.
        drop(kept);
        trimmed
    }

    /// How long each file is.
    pub(crate) fn mark(&self) -> Lengths {
        let files: Vec<_> = self.open_files();
        files.into_iter().map(|(key, file)| (key, file.bytes())).collect()
    }

    /// Makes the files as long as they were, but for what is in them.
    pub(crate) fn back_to(&self, lengths: &Lengths) {
        let mut gone = Vec::new();
        for (key, file) in self.open_files() {
            let before = lengths.get(&key).copied();
            file.cut_back(before.unwrap_or(0));
            if before.is_none() && file.is_idle() {
                let mut files = lock(&self.files);
                gone.extend(files.get_mut(&key).and_then(|entry| entry.kept.take()));
            }
        }
    }

    fn open_files(&self) -> Vec<(Key, Arc<ExtentFile>)> {
        let files = lock(&self.files);
        let open =
            files.iter().filter_map(|(key, entry)| Some((key.clone(), entry.file.upgrade()?)));
        open.collect()
    }

    /// Forgets files that are gone, or idle and no longer where their directory is.
    fn tidy(&self) {
        let mut gone = Vec::new();
        lock(&self.files).retain(|_, entry| {
            gone.extend(entry.kept.take_if(|file| file.is_idle() && !file.is_at_home()));
            entry.file.strong_count() > 0
        });
    }

    /// Bytes of files that contents take.
    pub(crate) fn charged_bytes(&self) -> u64 {
        self.ledger.charged_bytes()
    }

    /// Takes room for all of these, before anything is written. A failure takes nothing.
    pub(crate) fn take(&self, wanted: &[Wanted<'_>]) -> Result<Space> {
        self.tidy();
        let mut by_file = BTreeMap::<(Device, &Path), Vec<usize>>::new();
        for (index, one) in wanted.iter().enumerate() {
            by_file.entry((one.device, one.directory)).or_default().push(index);
        }
        let mut files = Vec::new();
        let mut copies: Vec<Option<DiskCopy>> = wanted.iter().map(|_| None).collect();
        for ((device, directory), indices) in by_file {
            let file = self.file(device, directory).map_err(|error| error.with_device(device))?;
            let sizes = || indices.iter().map(|index| wanted[*index].bytes);
            // What other files keep may be the very space that is missing.
            let extents = match file.take(sizes()) {
                Err(_) if self.trim() > 0 => file.take(sizes()),
                taken => taken,
            };
            let extents = extents.map_err(|error| error.with_device(device))?;
            files.push(file);
            for (index, extent) in indices.into_iter().zip(extents) {
                let bytes = wanted[index].bytes;
                let charge = self.charge(extent.bytes())?;
                let sums = Box::default();
                copies[index] = Some(DiskCopy { bytes, sums, _charge: charge, extent });
            }
        }
        Ok(Space { copies: copies.into_iter().flatten().collect(), files })
    }

    fn charge(&self, bytes: u64) -> Result<Charge> {
        self.ledger.charge(bytes, None).map_err(|_| {
            let text = "the backups on disk together do not fit a number";
            Error::new(ErrorKind::Io, Operation::Engine, text).with_bytes(bytes)
        })
    }

    /// The file for a directory, which is made if it is missing. A directory that is on another
    /// file system by now gets another file.
    fn file(&self, device: Device, directory: &Path) -> Result<Arc<ExtentFile>> {
        let directory = std::path::absolute(directory).map_err(|error| {
            let text = format!("the directory `{}`: {error}", directory.display());
            Error::new(ErrorKind::Io, Operation::Engine, text)
        })?;
        let key = (device, directory);
        let open = lock(&self.files).get(&key).and_then(|entry| entry.file.upgrade());
        if let Some(file) = open.filter(|file| file.is_at_home()) {
            return Ok(file);
        }
        let file = ExtentFile::create_in(&key.1, self.keep_bytes)?;
        let kept = (self.keep_bytes > 0).then(|| Arc::clone(&file));
        let before = lock(&self.files).insert(key, Entry { file: Arc::downgrade(&file), kept });
        drop(before);
        Ok(file)
    }
}
