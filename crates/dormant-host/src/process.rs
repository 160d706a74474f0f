//! What this process is: a forked child, one on its way out, and on how many CPUs. Which of its open
//! files its children do not get.

use std::fs::File;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use rustix::io::Errno;

/// How many forks lie between this process and the one that had called [`watch`].
static FORKS: AtomicU32 = AtomicU32::new(0);
/// The descriptors of every [`OwnFile`]. A table of fixed size, since a forked child reads it before
/// it may take any lock.
static OWN_FILES: [AtomicI32; 256] = [const { AtomicI32::new(NO_FILE) }; 256];
const NO_FILE: i32 = -1;
static EXITING: AtomicBool = AtomicBool::new(false);
static WATCH: Once = Once::new();

extern "C" fn in_the_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    for slot in &OWN_FILES {
        let number = slot.swap(NO_FILE, Ordering::SeqCst);
        if number != NO_FILE {
            // SAFETY: what is in the table is open, and nobody uses it any more: its `OwnFile` knows
            // that it is the parent's. Closing is allowed in a child of a threaded process.
            let _ = unsafe { libc::close(number) };
        }
    }
}

extern "C" fn at_exit() {
    EXITING.store(true, Ordering::Relaxed);
}

/// Starts watching for forks and for the end of the process. A second time does nothing. Called
/// before the first device memory is taken.
pub fn watch() {
    WATCH.call_once(|| {
        // SAFETY: the handler only changes atomics and closes files, which is allowed in a child of
        // a threaded process; it is a plain function, so it outlives everything.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_the_child)) };
        // SAFETY: the handler stores into an atomic, and neither exits nor unwinds.
        let _ = unsafe { libc::atexit(at_exit) };
    });
}

/// Whether this process was forked from one that had called [`watch`]: device memory belongs to
/// the parent, and no driver may be called. Reads one atomic, so that it can come before any lock.
#[must_use]
pub fn is_forked_child() -> bool {
    FORKS.load(Ordering::Relaxed) != 0
}

/// Whether the process has begun to exit: libraries may be gone, drivers must be left alone.
#[must_use]
pub fn is_exiting() -> bool {
    EXITING.load(Ordering::Relaxed)
}

/// An open file that a forked child does not get: it is closed there at once. A child would else
/// keep what belongs to the open file, its locks and its disk space, for as long as it lives, however
/// its parent ends. (Programs that are executed get none of this process's files anyway.)
///
/// Three ways remain: a fork in the instant between the opening of the file and [`OwnFile::new`], or
/// between the two halves of a drop; one past the C library's `fork`; and more files than the table
/// has places.
#[derive(Debug)]
pub(crate) struct OwnFile {
    file: Option<File>,
    slot: Option<&'static AtomicI32>,
    /// Those before it was opened.
    forks: u32,
}

impl OwnFile {
    /// To be called right after the file has been opened.
    pub(crate) fn new(file: File) -> Self {
        watch();
        let number = file.as_raw_fd();
        let slot = OWN_FILES.iter().find(|slot| {
            slot.compare_exchange(NO_FILE, number, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        });
        Self { file: Some(file), slot, forks: FORKS.load(Ordering::Relaxed) }
    }

    /// Whether this process has opened it, and not one that it was forked from.
    pub(crate) fn is_own(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }

    /// The file.
    ///
    /// # Errors
    /// `BADF` in a forked child of the process that has opened it.
    pub(crate) fn get(&self) -> rustix::io::Result<&File> {
        self.file.as_ref().filter(|_| self.is_own()).ok_or(Errno::BADF)
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        if !self.is_own() {
            // It is closed already, and its number may be somebody else's by now.
            let _ = file.into_raw_fd();
            return;
        }
        // First: a child must not close whatever gets the number next.
        if let Some(slot) = self.slot {
            slot.store(NO_FILE, Ordering::SeqCst);
        }
        drop(file);
    }
}

/// Whether huge pages have been switched off for this process (`PR_SET_THP_DISABLE`), by itself or
/// by whoever started it.
pub(crate) fn has_huge_pages_disabled() -> bool {
    // SAFETY: this question takes no pointers; its unused arguments have to be zero.
    unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1 }
}

/// How many CPUs the calling thread may run on now: its affinity, not the machine's count.
#[must_use]
pub fn cpus() -> usize {
    rustix::thread::sched_getaffinity(None)
        .map_or(1, |set| usize::try_from(set.count()).unwrap_or(1))
        .max(1)
}

#[cfg(test)]
pub(crate) mod tests;
