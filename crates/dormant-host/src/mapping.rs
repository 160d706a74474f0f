//! Owned anonymous mappings.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::OnceLock;

use allocator_core::{Error, ErrorKind, Operation, Result};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::process;

/// The system's page size in bytes: read, never assumed (4 KiB, 16 KiB and 64 KiB are in use).
#[must_use]
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// The size of a transparent huge page in bytes: 2 MiB on most systems, 512 MiB on kernels with
/// 64 KiB pages. 2 MiB where the system does not say.
#[must_use]
pub fn huge_page_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .filter(|bytes: &usize| bytes.is_power_of_two())
            .unwrap_or(2 << 20)
    })
}

/// Whether the system gives transparent huge pages to memory that asks for them.
#[must_use]
pub fn huge_pages_are_on() -> bool {
    let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    enabled.is_ok_and(|text| !text.contains("[never]")) && !process::has_huge_pages_disabled()
}

/// Anonymous memory of this process, page-aligned (huge-page-aligned where it is large enough),
/// zeroed by the system at first touch, and unmapped when dropped.
///
/// Before its first touch it is marked for huge pages and left out of forked children (a fork
/// would otherwise copy registered pages) and of core dumps. In a forked child it is not there:
/// dropping one does nothing, reading one faults.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is plain memory owned by this value; nothing about it is tied to a thread.
unsafe impl Send for Mapping {}
// SAFETY: shared access hands out no references, only the address; exclusive access is by `&mut`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes`, rounded up to whole pages.
    ///
    /// # Errors
    /// `HostMemory` when the system refuses; `InvalidArgument` for no bytes.
    pub fn new(bytes: usize) -> Result<Self> {
        let refused = |text: String| {
            Error::new(ErrorKind::HostMemory, Operation::Engine, text).with_bytes(bytes as u64)
        };
        if bytes == 0 {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                Operation::Engine,
                "a mapping of no bytes",
            ));
        }
        process::watch();
        let align = if bytes >= huge_page_bytes() { huge_page_bytes() } else { page_bytes() };
        let slack = align - page_bytes();
        let (rounded, reserved) = bytes
            .checked_next_multiple_of(page_bytes())
            .and_then(|rounded| Some((rounded, rounded.checked_add(slack)?)))
            .ok_or_else(|| refused("the size does not fit an address".to_owned()))?;
        // SAFETY: no address is asked for, so no existing mapping can be replaced.
        let mapped = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                reserved,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        };
        let start = mapped.map_err(|errno| refused(format!("mapping host memory: {errno}")))?;
        let start = start.cast::<u8>();
        let head = start.align_offset(align);
        let tail = slack - head;
        if head > 0 {
            // SAFETY: these pages were mapped just now and nobody knows them.
            let _ = unsafe { munmap(start.cast(), head) };
        }
        let aligned = start.wrapping_add(head);
        if tail > 0 {
            // SAFETY: as above; they lie behind the bytes that are kept.
            let _ = unsafe { munmap(aligned.wrapping_add(rounded).cast(), tail) };
        }
        let base = NonNull::new(aligned)
            .ok_or_else(|| refused("the system mapped address zero".to_owned()))?;
        let mapping = Self { base, bytes: rounded };
        // Each is advice: a kernel that does not know it serves the memory all the same.
        for advice in [Advice::LinuxHugepage, Advice::LinuxDontFork, Advice::LinuxDontDump] {
            let _ = mapping.advise(0, rounded, advice);
        }
        Ok(mapping)
    }

    /// The first address.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The length in bytes, in whole pages.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// All of it.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is readable and writable for its whole length, initialised (to
        // zero, by the system), and borrowed exclusively through `self`.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.bytes) }
    }

    fn advise(&self, offset: usize, bytes: usize, advice: Advice) -> rustix::io::Result<()> {
        let at = self.base.as_ptr().wrapping_add(offset).cast::<c_void>();
        // SAFETY: the pages are this mapping's own. `LinuxDontNeed` is asked for through
        // `discard` alone, whose caller owns the bytes; the others do not change contents.
        unsafe { madvise(at, bytes, advice) }
    }

    /// Takes the pages from the system now, rather than at first touch; contents stay. Does nothing
    /// where the system cannot.
    pub(crate) fn populate(&self) {
        let _ = self.advise(0, self.bytes, Advice::LinuxPopulateWrite);
    }

    /// Gives whole pages back to the system; they read as zero afterwards.
    ///
    /// # Safety
    /// Nobody holds a reference into these bytes, no copy is queued on them, and both numbers are
    /// multiples of the page size within the mapping.
    pub(crate) unsafe fn discard(&self, offset: usize, bytes: usize) {
        let _ = self.advise(offset, bytes, Advice::LinuxDontNeed);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if process::is_forked_child() {
            return; // The child did not inherit the pages; what is there now is its own.
        }
        // SAFETY: the pages are this mapping's own, since this process is the one that mapped
        // them, and no reference into them outlives it.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The `VmFlags` of the mapping that starts at `base`, as the kernel prints them.
    fn vm_flags(base: usize) -> String {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in smaps.lines() {
            if let Some((range, _)) = line.split_once(' ')
                && let Some((low, high)) = range.split_once('-')
                && let (Ok(low), Ok(high)) =
                    (usize::from_str_radix(low, 16), usize::from_str_radix(high, 16))
            {
                inside = (low..high).contains(&base);
            }
            if inside && let Some(flags) = line.strip_prefix("VmFlags:") {
                return flags.to_owned();
            }
        }
        String::new()
    }

    #[test]
    fn a_mapping_is_left_out_of_forks_and_dumps_and_wants_huge_pages() {
        let mapping = Mapping::new(8 << 20).unwrap();
        let flags = vm_flags(mapping.base().as_ptr() as usize);
        for flag in ["dc", "dd"] {
            assert!(flags.split_whitespace().any(|have| have == flag), "{flag} in {flags}");
        }
        if std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            assert!(flags.contains("hg"), "hg in {flags}");
        }
    }

    #[test]
    fn a_mapping_is_aligned_zeroed_and_writable_to_its_last_byte() {
        let mut mapping = Mapping::new(huge_page_bytes() + 1).unwrap();
        assert_eq!(mapping.base().as_ptr() as usize % huge_page_bytes(), 0);
        assert_eq!(mapping.bytes(), huge_page_bytes() + page_bytes());
        let slice = mapping.as_mut_slice();
        assert!(slice.iter().all(|byte| *byte == 0));
        *slice.last_mut().unwrap() = 7;
    }

    #[test]
    fn sizes_that_cannot_be_are_typed_errors() {
        assert_eq!(Mapping::new(0).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(Mapping::new(usize::MAX).unwrap_err().kind(), ErrorKind::HostMemory);
        assert_eq!(Mapping::new(1 << 62).unwrap_err().kind(), ErrorKind::HostMemory);
    }
}
