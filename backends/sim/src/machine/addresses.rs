//! Addresses: windows of the process's address space in which nothing can be touched until
//! memory is mapped there. The only place that maps and unmaps.

use std::ffi::c_void;
use std::os::fd::OwnedFd;
use std::ptr;

use allocator_core::Access;
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

use super::extents::Extents;

/// Addresses are taken from the system in windows of at least this size; they cost no memory.
const WINDOW_BYTES: u64 = 4 << 30;

/// The machine's own pool of addresses. A freed range stays in it, so that a hint is honoured
/// whatever else the process maps meanwhile. It is handed out again as late as can be, so that
/// a stale pointer faults.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    windows: Vec<(u64, u64)>,
    free: Extents,
    /// The end of the last range handed out.
    cursor: u64,
}

impl Addresses {
    /// Takes a range: at the hint if that is free, else anywhere.
    pub(crate) fn take(&mut self, bytes: u64, alignment: u64, hint: u64) -> Option<u64> {
        if hint != 0 && hint.is_multiple_of(alignment) && self.free.take_at(hint, bytes) {
            return Some(hint);
        }
        let at = match self.free.take_from(self.cursor, bytes, alignment) {
            Some(at) => at,
            None => {
                let least = bytes.checked_add(alignment)?;
                let (at, length) =
                    open_window(least.max(WINDOW_BYTES)).or_else(|_| open_window(least)).ok()?;
                self.windows.push((at, length));
                self.free.give(at, length);
                self.free.take(bytes, alignment)?
            }
        };
        self.cursor = at + bytes;
        Some(at)
    }

    /// Puts a range back that [`take`](Self::take) handed out.
    pub(crate) fn give(&mut self, at: u64, bytes: u64) {
        self.free.give(at, bytes);
    }

    /// Maps an extent of `file` at addresses taken from this pool. Nobody may touch it yet.
    pub(crate) fn map(
        &self,
        at: u64,
        bytes: u64,
        file: &OwnedFd,
        offset: u64,
    ) -> Result<(), Errno> {
        self.expect_inside(at, bytes)?;
        // SAFETY: MAP_FIXED replaces whatever is at these addresses; they lie in a window of this
        // pool (checked above), which nothing but this pool maps into, and the new mapping can
        // not be read or written yet.
        unsafe {
            rustix::mm::mmap(
                pointer(at),
                length(bytes),
                ProtFlags::empty(),
                MapFlags::SHARED | MapFlags::FIXED,
                file,
                offset,
            )
        }
        .map(|_| ())
    }

    /// Lets the CPU use mapped memory as the devices may together.
    pub(crate) fn protect(&self, at: u64, bytes: u64, access: Access) -> Result<(), Errno> {
        self.expect_inside(at, bytes)?;
        let mut flags = MprotectFlags::empty();
        flags.set(MprotectFlags::READ, access.intersects(Access::READ | Access::WRITE));
        flags.set(MprotectFlags::WRITE, access.contains(Access::WRITE));
        // SAFETY: the addresses lie in a window of this pool (checked above), so the protection of
        // no Rust object changes: memory in a window is only reached through raw pointers.
        unsafe { rustix::mm::mprotect(pointer(at), length(bytes), flags) }
    }

    /// Takes mappings away; the addresses stay reserved, and fault.
    pub(crate) fn unmap(&self, at: u64, bytes: u64) -> Result<(), Errno> {
        self.expect_inside(at, bytes)?;
        // SAFETY: MAP_FIXED replaces what is at these addresses; they lie in a window of this pool
        // (checked above), where no Rust object lives.
        unsafe {
            rustix::mm::mmap_anonymous(
                pointer(at),
                length(bytes),
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED,
            )
        }
        .map(|_| ())
    }

    fn expect_inside(&self, at: u64, bytes: u64) -> Result<(), Errno> {
        let end = at.checked_add(bytes).ok_or(Errno::INVAL)?;
        // Ranges may span two windows that happen to lie side by side.
        let mut reached = at;
        while reached < end {
            let window = self
                .windows
                .iter()
                .find(|&&(start, length)| start <= reached && reached < start + length);
            let &(start, length) = window.ok_or(Errno::INVAL)?;
            reached = start + length;
        }
        Ok(())
    }
}

impl Drop for Addresses {
    fn drop(&mut self) {
        for &(at, bytes) in &self.windows {
            // SAFETY: the window was mapped by `open_window` and is unmapped once, here; the
            // machine is gone, and with it the right to use its addresses.
            let _ = unsafe { rustix::mm::munmap(pointer(at), length(bytes)) };
        }
    }
}

fn open_window(bytes: u64) -> Result<(u64, u64), Errno> {
    // SAFETY: a null address lets the system choose one where nothing is mapped.
    let at = unsafe {
        rustix::mm::mmap_anonymous(
            ptr::null_mut(),
            length(bytes),
            ProtFlags::empty(),
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    }?;
    Ok((at.expose_provenance() as u64, bytes))
}

fn pointer(at: u64) -> *mut c_void {
    ptr::with_exposed_provenance_mut(length(at))
}

/// Sizes and addresses fit: all of them are bounded by what the system handed out. One that does
/// not, on a small machine, becomes one that the system refuses.
pub(crate) fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_range_is_handed_out_again_at_its_hint() {
        let mut addresses = Addresses::default();
        let first = addresses.take(1 << 20, 1 << 16, 0).unwrap();
        let second = addresses.take(1 << 20, 1 << 16, first).unwrap();
        assert_ne!(first, second);
        addresses.give(first, 1 << 20);
        assert_eq!(addresses.take(1 << 20, 1 << 16, first), Some(first));
    }

    #[test]
    fn a_range_larger_than_a_window_gets_one_of_its_own() {
        let mut addresses = Addresses::default();
        let at = addresses.take(16 << 30, 1 << 30, 0).unwrap();
        assert!(at.is_multiple_of(1 << 30));
    }

    #[test]
    fn nothing_outside_the_windows_is_ever_changed() {
        let addresses = Addresses::default();
        assert_eq!(addresses.unmap(4096, 4096), Err(Errno::INVAL));
        assert_eq!(addresses.protect(4096, 4096, Access::READ), Err(Errno::INVAL));
    }
}
