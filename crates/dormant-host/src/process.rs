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
pub(crate) mod tests {
    use super::*;

    /// A forked child. It is killed when this is dropped.
    pub(crate) struct Forked(Option<libc::pid_t>);

    impl Forked {
        /// Runs something in a forked child, which then exits.
        pub(crate) fn run(run: impl FnOnce() -> bool) -> Self {
            watch();
            // SAFETY: the child runs no code of the test harness, and leaves by `_exit`. The C
            // library's allocator works in a child of a threaded process.
            let number = unsafe { libc::fork() };
            if number == 0 {
                let run = std::panic::AssertUnwindSafe(run);
                let good = std::panic::catch_unwind(run).unwrap_or(false);
                // SAFETY: ends the process, without its exit handlers.
                unsafe { libc::_exit(i32::from(!good)) };
            }
            assert!(number > 0);
            Self(Some(number))
        }

        /// A child of somebody else, to be killed.
        pub(crate) fn other(number: i32) -> Self {
            Self(Some(number))
        }

        /// Waits for its end; whether it returned true.
        pub(crate) fn was_good(mut self) -> bool {
            let number = self.0.take().unwrap();
            let mut status = -1;
            // SAFETY: waits for our own child; `status` lives.
            let waited = unsafe { libc::waitpid(number, &raw mut status, 0) };
            assert_eq!(waited, number);
            status == 0
        }
    }

    impl Drop for Forked {
        fn drop(&mut self) {
            let Some(number) = self.0 else { return };
            // SAFETY: a child of this test, that nobody has waited for, or its child.
            let _ = unsafe { libc::kill(number, libc::SIGKILL) };
            // SAFETY: no status is asked for. Fails for the child of a child.
            let _ = unsafe { libc::waitpid(number, std::ptr::null_mut(), 0) };
        }
    }

    /// Sleeps until it is killed, or the test must have failed.
    pub(crate) fn sleep() -> bool {
        std::thread::sleep(std::time::Duration::from_secs(20));
        false
    }

    fn is_open(number: i32) -> bool {
        // SAFETY: only asks for the flags of a number, which need not be an open file.
        unsafe { libc::fcntl(number, libc::F_GETFD) != -1 }
    }

    /// An open file of this number, or of the next that is free.
    fn file_of_number(number: i32) -> std::os::fd::OwnedFd {
        rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), number).unwrap()
    }

    #[test]
    fn a_forked_child_has_closed_the_files_of_its_parent_and_leaves_their_numbers_alone() {
        let own = OwnFile::new(tempfile::tempfile().unwrap());
        let number = own.get().unwrap().as_raw_fd();
        let mut own = Some(own);
        let child = Forked::run(|| {
            let closed = !is_open(number);
            let mine = own.take().unwrap();
            let refused = !mine.is_own() && mine.get().is_err();
            // Its number goes to another file, which the drop must not close.
            let other = file_of_number(number);
            let same = other.as_raw_fd() == number;
            drop(mine);
            // A file of the child's own is closed in its child in turn.
            let next = OwnFile::new(tempfile::tempfile().unwrap());
            let next_number = next.get().unwrap().as_raw_fd();
            let below = Forked::run(|| !is_open(next_number)).was_good();
            closed && refused && same && is_open(number) && below && next.is_own()
        });
        assert!(child.was_good());
        assert!(is_open(number) && own.unwrap().is_own());
    }

    #[test]
    fn a_number_that_has_become_another_files_is_not_closed() {
        // In a child, where no other thread takes the number.
        let child = Forked::run(|| {
            let own = OwnFile::new(tempfile::tempfile().unwrap());
            let number = own.get().unwrap().as_raw_fd();
            drop(own);
            let other = file_of_number(number);
            let below = Forked::run(|| is_open(number)).was_good();
            below && other.as_raw_fd() == number
        });
        assert!(child.was_good());
    }

    #[test]
    fn a_file_that_has_no_place_in_the_table_is_left_alone() {
        let child = Forked::run(|| {
            let fill: Vec<OwnFile> =
                (0..OWN_FILES.len()).map(|_| OwnFile::new(tempfile::tempfile().unwrap())).collect();
            let last = OwnFile::new(tempfile::tempfile().unwrap());
            let number = last.get().unwrap().as_raw_fd();
            let mut last = Some(last);
            let below = Forked::run(|| {
                let refused = last.as_ref().unwrap().get().is_err();
                drop(last.take());
                refused && is_open(number)
            });
            below.was_good() && fill.iter().all(OwnFile::is_own)
        });
        assert!(child.was_good());
    }
}
