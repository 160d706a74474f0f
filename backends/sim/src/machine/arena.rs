//! The physical memory of one device: an unnamed file in memory. A block is an extent of it, so
//! the number of file descriptors does not grow with the number of blocks.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{FallocateFlags, MemfdFlags};
use rustix::io::Errno;

use super::answer::{Answer, Code};

/// The file is sparse and far larger than any device, so that its extents never run out before
/// the device's memory does, however fragmented they are.
pub(crate) const ARENA_BYTES: u64 = 1 << 44;

/// Bytes that the system is asked for, or given back, at a time: the file is locked meanwhile.
const STEP_BYTES: u64 = 32 << 20;

#[derive(Debug)]
pub(crate) struct Arena {
    file: OwnedFd,
}

impl Arena {
    pub(crate) fn open() -> Answer<Self> {
        rustix::fs::memfd_create("dormant-sim", MemfdFlags::CLOEXEC)
            .map(|file| Self { file })
            .map_err(|_| Code::OperatingSystem.because("memfd_create failed"))
    }

    pub(crate) fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// Puts memory behind an extent. When it fails, none is there.
    pub(crate) fn populate(&self, at: u64, bytes: u64) -> Answer {
        for (start, step) in steps(at, bytes) {
            let filled =
                retry(|| rustix::fs::fallocate(&self.file, FallocateFlags::empty(), start, step));
            if filled.is_err() {
                self.punch(at, bytes);
                return Err(Code::OutOfMemory.because("the host has no memory to stand in for it"));
            }
        }
        Ok(())
    }

    /// Gives the memory behind an extent back to the system.
    pub(crate) fn punch(&self, at: u64, bytes: u64) {
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        for (start, step) in steps(at, bytes) {
            // A hole that could not be punched costs memory of the host, nothing else.
            let _ = retry(|| rustix::fs::fallocate(&self.file, mode, start, step));
        }
    }

    pub(crate) fn write(&self, at: u64, from: &[u8]) -> Result<(), Errno> {
        let mut done = 0;
        while let Some(rest) = from.get(done..).filter(|rest| !rest.is_empty()) {
            done += retry(|| rustix::io::pwrite(&self.file, rest, at + done as u64))?;
        }
        Ok(())
    }

    pub(crate) fn read(&self, at: u64, to: &mut [MaybeUninit<u8>]) -> Result<(), Errno> {
        let mut done = 0;
        while let Some(rest) = to.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let filled = retry(|| {
                rustix::io::pread(&self.file, &mut *rest, at + done as u64)
                    .map(|(filled, _)| filled.len())
            })?;
            if filled == 0 {
                return Err(Errno::IO);
            }
            done += filled;
        }
        Ok(())
    }

    /// Bytes of the host's memory that the file holds now.
    pub(crate) fn resident_bytes(&self) -> u64 {
        rustix::fs::fstat(&self.file)
            .ok()
            .and_then(|stat| u64::try_from(stat.st_blocks).ok())
            .map_or(0, |blocks| blocks * 512)
    }
}

fn steps(at: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..bytes.div_ceil(STEP_BYTES)).map(move |index| {
        let offset = index * STEP_BYTES;
        (at + offset, STEP_BYTES.min(bytes - offset))
    })
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_punched_extent_is_given_back_to_the_system() {
        let arena = Arena::open().unwrap();
        arena.populate(0, 40 << 20).unwrap();
        arena.populate(64 << 20, 4 << 20).unwrap();
        assert_eq!(arena.resident_bytes(), 44 << 20);
        arena.punch(0, 40 << 20);
        assert_eq!(arena.resident_bytes(), 4 << 20);
    }

    #[test]
    fn what_was_written_is_read() {
        let arena = Arena::open().unwrap();
        arena.populate(0, 4096).unwrap();
        arena.write(100, b"asleep").unwrap();
        let mut back = [MaybeUninit::new(0_u8); 8];
        arena.read(99, &mut back).unwrap();
        // Written by `read`, and initialised before it.
        let back = back.map(|byte| {
            // SAFETY: every byte was initialised when the array was made.
            unsafe { byte.assume_init() }
        });
        assert_eq!(&back, b"\0asleep\0");
    }
}
