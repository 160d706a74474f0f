//! Files that no directory names.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use allocator_core::{Error, ErrorKind, Operation, Result};
use rustix::fs::{
    FallocateFlags, Mode, OFlags, fallocate, fcntl_getfl, fcntl_setfl, fdatasync, fstatfs,
    fstatvfs, ftruncate, open,
};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::process::OwnFile;

/// The least space that is asked for at a time when signals interrupt.
const SMALLEST_STEP: u64 = 64 << 20;

/// A file that is gone when it is closed, also after a crash: made without a name where the file
/// system can (`O_TMPFILE`), else unlinked at once. Forked children do not have it, so that none of
/// them keeps it alive; there everything fails.
#[derive(Debug)]
pub struct UnnamedFile {
    file: OwnFile,
    /// Whether reads and writes go past the page cache.
    direct: AtomicBool,
}

fn failed(what: &str, path: &Path, errno: impl std::fmt::Display) -> Error {
    let text = format!("{what} in {}: {errno}", path.display());
    Error::new(ErrorKind::Io, Operation::Engine, text)
}

impl UnnamedFile {
    /// Makes an empty file in `directory`, which is made if it is missing.
    ///
    /// # Errors
    /// `Io`: no permission, a path that is no directory.
    pub fn create_in(directory: &Path) -> Result<Self> {
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
        Ok(Self { file: OwnFile::new(File::from(file)), direct: AtomicBool::new(false) })
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

    /// From now on reads and writes go past the page cache, if the file system takes that;
    /// returns whether it does. The buffers, offsets and lengths must then be multiples of the
    /// disk's sector; where one is not, the file goes back to ordinary reads and writes.
    pub fn go_direct(&self) -> bool {
        let switched =
            self.file.get().and_then(|file| fcntl_setfl(file, fcntl_getfl(file)? | OFlags::DIRECT));
        self.direct.store(switched.is_ok(), Ordering::Relaxed);
        switched.is_ok()
    }

    /// Whether reads and writes go past the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed)
    }

    /// Whether its file system is in memory: tmpfs or ramfs.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        // As linux/magic.h numbers them.
        const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
        self.file.get().and_then(fstatfs).is_ok_and(|stat| {
            u64::try_from(stat.f_type).is_ok_and(|kind| IN_MEMORY.contains(&kind))
        })
    }

    fn go_buffered(&self) {
        let _ =
            self.file.get().and_then(|file| fcntl_setfl(file, fcntl_getfl(file)? - OFlags::DIRECT));
        self.direct.store(false, Ordering::Relaxed);
    }

    /// Runs a read or write, and once more through the page cache where the disk will not have
    /// it directly.
    fn or_buffered<T>(&self, mut run: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
        // Asked before: another thread may go back to ordinary reads and writes meanwhile.
        let direct = self.direct.load(Ordering::Relaxed);
        match run() {
            Err(error)
                if direct
                    && matches!(
                        Errno::from_io_error(&error),
                        Some(Errno::INVAL | Errno::OPNOTSUPP)
                    ) =>
            {
                self.go_buffered();
                run()
            }
            result => result,
        }
    }

    /// Makes the file longer, from `from` bytes, which is its end, to `to` bytes, and makes sure
    /// of the space. Where the file system cannot promise space, writing will tell.
    ///
    /// # Errors
    /// `Io` with the bytes that were wanted and how many are free: a full disk, a quota, a limit of
    /// the process. The file is then as long as before.
    pub fn extend(&self, from: u64, to: u64) -> Result<()> {
        self.take_space(from, to).map_err(|errno| {
            let _ = self.file.get().and_then(|file| ftruncate(file, from));
            let wanted = to.saturating_sub(from);
            let mut text = format!("taking {wanted} bytes of disk space: {errno}");
            if let Some(free) = self.free_bytes() {
                text += &format!("; {free} bytes are free there");
            }
            Error::new(ErrorKind::Io, Operation::Engine, text).with_bytes(wanted)
        })
    }

    fn take_space(&self, from: u64, to: u64) -> rustix::io::Result<()> {
        // Going past it would be a signal that ends the process.
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| to > limit) {
            return Err(Errno::FBIG);
        }
        let file = self.file.get()?;
        let (mut at, mut step) = (from, to.saturating_sub(from));
        while at < to {
            let bytes = step.min(to - at);
            match fallocate(file, FallocateFlags::empty(), at, bytes) {
                Ok(()) => at += bytes,
                // Some file systems give back at a signal what they have: take less at a time.
                Err(Errno::INTR) => step = (step / 2).max(SMALLEST_STEP),
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return ftruncate(file, to),
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Gives everything from `to` bytes on back to the disk.
    ///
    /// # Errors
    /// `Io`.
    pub fn shrink(&self, to: u64) -> Result<()> {
        self.file.get().and_then(|file| ftruncate(file, to)).map_err(|errno| {
            Error::new(ErrorKind::Io, Operation::Engine, format!("shrinking a backup: {errno}"))
        })
    }

    /// Waits until what was written is on the disk; a write past the page cache is.
    ///
    /// # Errors
    /// `Io`: what was written may be lost.
    pub fn sync(&self) -> Result<()> {
        if self.direct.load(Ordering::Relaxed) {
            return Ok(());
        }
        rustix::io::retry_on_intr(|| fdatasync(self.file.get()?)).map_err(|errno| {
            Error::new(ErrorKind::Io, Operation::Engine, format!("writing a backup: {errno}"))
        })
    }

    /// Bytes of its file system that are free for this process, where that is known.
    #[must_use]
    pub fn free_bytes(&self) -> Option<u64> {
        let stat = self.file.get().and_then(fstatvfs).ok()?;
        stat.f_bavail.checked_mul(stat.f_frsize)
    }

    /// Writes all of `from` at `offset` bytes.
    ///
    /// # Errors
    /// `Io`.
    pub fn write_at(&self, from: &[u8], offset: u64) -> Result<()> {
        self.or_buffered(|| self.file.get()?.write_all_at(from, offset)).map_err(|error| {
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
        self.or_buffered(|| self.file.get()?.read_exact_at(into, offset)).map_err(|error| {
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
        let file = UnnamedFile::create_in(&deep).unwrap();
        file.extend(0, 1 << 20).unwrap();
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
        let file = UnnamedFile::create_in(directory.path()).unwrap();
        file.extend(0, 4096).unwrap();
        let error = file.extend(4096, 1 << 60).unwrap_err();
        assert_eq!((error.kind(), error.bytes()), (ErrorKind::Io, Some((1 << 60) - 4096)));
        assert!(error.text().contains("bytes are free"), "{error}");
        assert_eq!(file.file.get().unwrap().metadata().unwrap().len(), 4096);
        let blocked = directory.path().join("file");
        std::fs::write(&blocked, "").unwrap();
        assert_eq!(UnnamedFile::create_in(&blocked).unwrap_err().kind(), ErrorKind::Io);
    }

    #[test]
    fn an_unaligned_buffer_makes_a_direct_file_an_ordinary_one() {
        let directory = tempfile::tempdir().unwrap();
        let file = UnnamedFile::create_in(directory.path()).unwrap();
        file.go_direct();
        file.write_at(b"abc", 1).unwrap();
        let mut read = [0; 3];
        file.read_at(&mut read, 1).unwrap();
        assert_eq!(&read, b"abc");
        file.sync().unwrap();
    }

    #[test]
    fn what_is_cut_off_cannot_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let file = UnnamedFile::create_in(directory.path()).unwrap();
        file.extend(0, 8192).unwrap();
        file.shrink(4096).unwrap();
        let error = file.read_at(&mut [0; 4096], 4096).unwrap_err();
        assert_eq!((error.kind(), error.bytes()), (ErrorKind::Io, Some(4096)));
        file.shrink(0).unwrap();
    }

    #[test]
    fn a_forked_child_has_no_part_in_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = UnnamedFile::create_in(directory.path()).unwrap();
        file.extend(0, 4096).unwrap();
        let child = crate::process::tests::Forked::run(|| {
            let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            let mut open = links.filter_map(|link| std::fs::read_link(link.path()).ok());
            let has = open.any(|path| path.starts_with(directory.path()));
            !has && file.shrink(0).is_err() && file.write_at(b"x", 0).is_err()
        });
        assert!(child.was_good());
        file.read_at(&mut [0; 4096], 0).unwrap();
    }
}
