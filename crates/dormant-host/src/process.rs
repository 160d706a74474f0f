//! What this process is: a forked child, one on its way out, and on how many CPUs.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static FORKED: AtomicBool = AtomicBool::new(false);
static EXITING: AtomicBool = AtomicBool::new(false);
static WATCH: Once = Once::new();

extern "C" fn in_the_child() {
    FORKED.store(true, Ordering::Relaxed);
}

extern "C" fn at_exit() {
    EXITING.store(true, Ordering::Relaxed);
}

/// Starts watching for forks and for the end of the process. A second time does nothing. Called
/// before the first device memory is taken.
pub fn watch() {
    WATCH.call_once(|| {
        // SAFETY: the handler only stores into an atomic, which is allowed in a child of a
        // threaded process; it is a plain function, so it outlives everything.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_the_child)) };
        // SAFETY: as above; the handler neither exits nor unwinds.
        let _ = unsafe { libc::atexit(at_exit) };
    });
}

/// Whether this process was forked from one that had called [`watch`]: device memory belongs to
/// the parent, and no driver may be called. Reads one atomic, so that it can come before any lock.
#[must_use]
pub fn is_forked_child() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Whether the process has begun to exit: libraries may be gone, drivers must be left alone.
#[must_use]
pub fn is_exiting() -> bool {
    EXITING.load(Ordering::Relaxed)
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
