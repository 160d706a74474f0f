//! What the processes of one user on this node hold, and are about to take, of host memory.
//!
//! Ranks that pause together all read the same headroom before any of them has touched a page. So each
//! says what it is about to take where the others can read it: in a small file of its own, which it
//! keeps locked. The system gives the lock up when the process ends, however it ends, and forked
//! children do not get the file, so that the claims of the dead are known as such; whoever meets one
//! removes it. While the claims are read and a new one is made, a further file is locked: the gate.
//! Nobody waits for it without end: where it does not open in time, a process goes on alone.
//!
//! The claims are per user, the limits are per cgroup: each claim names the groups that its process was
//! in when it joined, so that [`Others::within`] counts those that a limit holds for. A process sees no
//! groups above its mount. So a limit that only some see is not charged with those in it who do not; a
//! process that sees no group at all counts for every limit, and so does one in more than 16. Whoever
//! cannot use the directory, or has another one under its name, is not known of.

mod record;
#[cfg(test)]
mod tests;

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::headroom::{HeadroomSource, groups};
use crate::process::OwnFile;
use record::Record;

/// How long joining waits for the gate.
const JOIN_PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks at the gate.
const PAUSE: Duration = Duration::from_micros(500);
/// How many names of its own file a process tries.
const NAMES: usize = 1000;

/// Bytes of host memory of several processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Taken, pages that were not touched yet included.
    pub held_bytes: u64,
    /// What of that has not been touched yet, so that no reading of free memory shows it.
    pub pending_bytes: u64,
}

impl Claim {
    const fn plus(self, other: Self) -> Self {
        Self {
            held_bytes: self.held_bytes.saturating_add(other.held_bytes),
            pending_bytes: self.pending_bytes.saturating_add(other.pending_bytes),
        }
    }
}

/// This process's place among the claims. Dropping it takes the claim back.
#[derive(Debug)]
pub struct Claims {
    directory: PathBuf,
    name: PathBuf,
    file: OwnFile,
    gate: OwnFile,
    /// The threads of a process share its lock of the gate, so they keep each other out by this.
    threads: Mutex<()>,
}

/// While it lives nobody else changes what it claims by [`Claims::enter`].
#[derive(Debug)]
pub struct Entered<'a> {
    claims: &'a Claims,
    /// Given up after the gate, which `drop` opens.
    _threads: MutexGuard<'a, ()>,
}

/// What all other processes claimed when it was read.
#[derive(Clone, Debug, Default)]
pub struct Others {
    claims: Vec<Record>,
}

impl Claims {
    /// Joins those of this user: in `/dev/shm`, else in the directory for temporary files. Nothing
    /// where neither can be used, or what is there is not this user's own.
    #[must_use]
    pub fn join() -> Option<Self> {
        let user = rustix::process::geteuid().as_raw();
        [PathBuf::from("/dev/shm"), std::env::temp_dir()]
            .iter()
            .find_map(|above| Self::join_in(&above.join(format!("dormant-{user}"))))
    }

    /// Joins those in a directory, which is made if it is missing. Nothing, too, where others keep the
    /// gate locked for two seconds.
    #[must_use]
    pub fn join_in(directory: &Path) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let _ = DirBuilder::new().mode(0o700).create(directory);
        let found = std::fs::symlink_metadata(directory).ok()?;
        if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
            return None;
        }
        let gate = options().create(true).truncate(false).open(directory.join("gate")).ok()?;
        let gate = OwnFile::new(gate);
        // Until the claim is written whole, nobody may take its file for one that was left.
        lock(gate.get().ok()?, Instant::now(), JOIN_PATIENCE)?;
        let next = || {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            directory.join(format!("{}-{count}", std::process::id()))
        };
        let (name, file) = std::iter::repeat_with(next).take(NAMES).find_map(own_file)?;
        let directory = directory.to_owned();
        // From here on a failure removes the file.
        let claims = Self { directory, name, file, gate, threads: Mutex::new(()) };
        let record = Record::new(Claim::default(), &groups());
        claims.file.get().ok()?.write_all_at(&record.bytes(), 0).ok()?;
        claims.gate.get().ok()?.unlock().ok()?;
        Some(claims)
    }

    /// Keeps the others out, and the other threads of this process, to look at what they claim and to
    /// claim something oneself. They only do the same, but any of them may have been stopped. So
    /// after `patience` this is nothing, and so it is in a forked child.
    #[must_use]
    pub fn enter(&self, patience: Duration) -> Option<Entered<'_>> {
        let gate = self.gate.get().ok()?;
        let begun = Instant::now();
        let threads = retry(begun, patience, || match self.threads.try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        })?;
        lock(gate, begun, patience)?;
        Some(Entered { claims: self, _threads: threads })
    }

    /// Says what this process claims now. Whoever claims more than before has [entered](Self::enter).
    pub fn say(&self, claim: Claim) {
        if let Ok(file) = self.file.get() {
            let _ = file.write_all_at(&record::claim_bytes(claim), 0);
        }
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// Tries until there is an answer, or the patience since `begun` has ended.
fn retry<T>(
    begun: Instant,
    patience: Duration,
    mut attempt: impl FnMut() -> Option<T>,
) -> Option<T> {
    loop {
        if let Some(answer) = attempt() {
            return Some(answer);
        }
        let left = patience.checked_sub(begun.elapsed()).filter(|left| !left.is_zero())?;
        std::thread::sleep(left.min(PAUSE));
    }
}

fn lock(gate: &File, begun: Instant, patience: Duration) -> Option<()> {
    retry(begun, patience, || match gate.try_lock() {
        Err(TryLockError::WouldBlock) => None,
        locked => Some(locked.ok()),
    })
    .flatten()
}

/// A locked file of this name: a new one, or one that a process which has ended has left. Nothing where
/// it is somebody's: process numbers are unique in one container only. Called in the gate.
fn own_file(name: PathBuf) -> Option<(PathBuf, OwnFile)> {
    let file = match options().create_new(true).open(&name) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => options().open(&name),
        made => made,
    };
    let file = OwnFile::new(file.ok()?);
    file.get().ok()?.try_lock().ok()?;
    // Whoever takes a claim back removes its file and then gives up the lock, without the gate.
    let has_name = file.get().ok()?.metadata().ok()?.nlink() > 0;
    has_name.then_some((name, file))
}

impl Entered<'_> {
    /// What all other processes claim. Removes what the dead have left.
    #[must_use]
    pub fn others(&self) -> Others {
        let mut others = Others::default();
        let Ok(names) = std::fs::read_dir(&self.claims.directory) else { return others };
        // A forked child is not in the gate; its parent is.
        for entry in names.flatten().filter(|_| self.claims.gate.is_own()) {
            let path = entry.path();
            if path == self.claims.name || entry.file_name() == "gate" {
                continue;
            }
            let Ok(file) = File::open(&path) else { continue };
            match file.try_lock_shared() {
                Err(TryLockError::WouldBlock) => others.claims.extend(Record::read(&file)),
                // Its process has ended.
                Ok(()) => drop(std::fs::remove_file(&path)),
                Err(TryLockError::Error(_)) => {}
            }
        }
        others
    }
}

impl Others {
    /// What of them is charged against a limit: the claims of the processes in its group or below. All
    /// of them for the machine's memory, and for a group without an [id](crate::CgroupLimit::id).
    #[must_use]
    pub fn within(&self, source: &HeadroomSource) -> Claim {
        let id = match source {
            HeadroomSource::Cgroup(limit) => limit.id,
            HeadroomSource::Machine { .. } => None,
        };
        let inside = self.claims.iter().filter(|one| id.is_none_or(|id| one.may_be_in(id)));
        inside.fold(Claim::default(), |sum, one| sum.plus(one.claim()))
    }
}

impl FromIterator<Claim> for Others {
    /// Claims of processes whose groups are not known.
    fn from_iter<I: IntoIterator<Item = Claim>>(claims: I) -> Self {
        Self { claims: claims.into_iter().map(|claim| Record::new(claim, &[])).collect() }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        // In a forked child the lock is the parent's.
        if let Ok(gate) = self.claims.gate.get() {
            let _ = gate.unlock();
        }
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        // In a forked child it is the parent's.
        if self.file.is_own() {
            let _ = std::fs::remove_file(&self.name);
        }
    }
}
