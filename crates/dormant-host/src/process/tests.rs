//! Forked children, and files that they do not keep open.

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
