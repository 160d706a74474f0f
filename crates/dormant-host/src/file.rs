//! Files that no directory names.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use allocator_core::{Error, ErrorKind, Operation, Result};
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, open};
use rustix::io::Errno;

/// A file that is gone when it is closed, also after a crash: made without a name where the file
/// system can (`O_TMPFILE`), else unlinked at once.
#[derive(Debug)]
pub struct UnnamedFile {
    file: File,
    bytes: u64,
}

fn failed(what: &str, path: &Path, errno: impl std::fmt::Display) -> Error {
    let text = format!("{what} in {}: {errno}", path.display());
    Error::new(ErrorKind::Io, Operation::Engine, text)
}

impl UnnamedFile {
    /// Makes a file of `bytes` in `directory` and makes sure of its space. The directory is made
    /// if it is missing.
    ///
    /// # Errors
    /// `Io`: no permission, a full disk (nothing is left then), a path that is no directory.
    pub fn create_in(directory: &Path, bytes: u64) -> Result<Self> {
        std::fs::create_dir_all(directory)
            .map_err(|error| failed("making the directory", directory, error))?;
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = match open(directory, flags | OFlags::TMPFILE, mode) {
            Ok(file) => file,
            // File systems that know no O_TMPFILE answer with one of these.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
                Self::named_then_unlinked(directory, flags, mode)?
            }
            Err(errno) => return Err(failed("making a file", directory, errno)),
        };
        if bytes > 0 {
            match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
                Ok(()) => {}
                // No space can be promised here; writing will tell.
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                Err(errno) => {
                    return Err(failed("taking space", directory, errno).with_bytes(bytes));
                }
            }
        }
        Ok(Self { file: File::from(file), bytes })
    }

    fn named_then_unlinked(
        directory: &Path,
        flags: OFlags,
        mode: Mode,
    ) -> Result<std::os::fd::OwnedFd> {
        for attempt in 0..100_u32 {
            let name = directory.join(format!(".dormant-{}-{attempt}", std::process::id()));
            match open(&name, flags | OFlags::CREATE | OFlags::EXCL, mode) {
                Ok(file) => {
                    std::fs::remove_file(&name)
                        .map_err(|error| failed("unlinking a file", directory, error))?;
                    return Ok(file);
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed("making a file", directory, errno)),
            }
        }
        Err(failed("making a file", directory, "every name is taken"))
    }

    /// The size it was made with, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes all of `from` at `offset` bytes.
    ///
    /// # Errors
    /// `Io`.
    pub fn write_at(&self, from: &[u8], offset: u64) -> Result<()> {
        self.file.write_all_at(from, offset).map_err(|error| {
            Error::new(ErrorKind::Io, Operation::Engine, format!("writing a backup: {error}"))
                .with_bytes(from.len() as u64)
        })
    }

    /// Reads all of `into` from `offset` bytes.
    ///
    /// # Errors
    /// `Io`, also when the file is shorter.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        let bytes = into.len() as u64;
        self.file.read_exact_at(into, offset).map_err(|error| {
            Error::new(ErrorKind::Io, Operation::Engine, format!("reading a backup: {error}"))
                .with_bytes(bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_bytes_and_leaves_no_name() {
        let directory = tempfile::tempdir().unwrap();
        let deep = directory.path().join("made/when/missing");
        let file = UnnamedFile::create_in(&deep, 1 << 20).unwrap();
        file.write_at(&[7; 4096], 8192).unwrap();
        let mut read = [0; 4096];
        file.read_at(&mut read, 8192).unwrap();
        assert_eq!(read, [7; 4096]);
        assert_eq!(std::fs::read_dir(&deep).unwrap().count(), 0);
        assert_eq!(file.read_at(&mut read, 1 << 20).unwrap_err().kind(), ErrorKind::Io);
    }

    #[test]
    fn a_file_without_tmpfile_support_is_unlinked_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let made = UnnamedFile::named_then_unlinked(directory.path(), flags, Mode::RUSR).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        drop(made);
    }

    #[test]
    fn no_room_and_no_directory_are_typed_errors() {
        let directory = tempfile::tempdir().unwrap();
        let error = UnnamedFile::create_in(directory.path(), 1 << 60).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        let blocked = directory.path().join("file");
        std::fs::write(&blocked, "").unwrap();
        assert_eq!(UnnamedFile::create_in(&blocked, 1).unwrap_err().kind(), ErrorKind::Io);
    }
}
