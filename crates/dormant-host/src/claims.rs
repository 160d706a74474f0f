//! What the processes of one user on this node hold, and are about to take, of host memory.
//!
//! Ranks that pause together all read the same headroom before any of them has touched a page. So each
//! says what it is about to take where the others can read it: in a small file of its own, which it
//! keeps locked. The system gives the lock up when the process ends, however it ends, so that the
//! claims of the dead are known as such; whoever meets one removes it.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of host memory of several processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Taken, pages that were not touched yet included.
    pub held_bytes: u64,
    /// What of that has not been touched yet, so that no reading of free memory shows it.
    pub pending_bytes: u64,
}

/// This process's place among the claims. Dropping it takes the claim back.
#[derive(Debug)]
pub struct Claims {
    directory: PathBuf,
    name: PathBuf,
    file: File,
    gate: File,
}

/// While it lives no other process changes what it claims by [`Claims::enter`].
#[derive(Debug)]
pub struct Entered<'a> {
    claims: &'a Claims,
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

    /// Joins those in a directory, which is made if it is missing.
    #[must_use]
    pub fn join_in(directory: &Path) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let _ = DirBuilder::new().mode(0o700).create(directory);
        let found = std::fs::symlink_metadata(directory).ok()?;
        if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
            return None;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        let gate =
            options.clone().create(true).truncate(false).open(directory.join("gate")).ok()?;
        gate.lock().ok()?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = directory.join(format!("{}-{count}", std::process::id()));
        // A process of this number that has ended may have left one.
        let _ = std::fs::remove_file(&name);
        let file = options.create_new(true).open(&name).ok()?;
        file.try_lock().ok()?;
        let claims = Self { directory: directory.to_owned(), name, file, gate };
        claims.write(Claim::default()).ok()?;
        let _ = claims.gate.unlock();
        Some(claims)
    }

    /// Keeps the others out, to look at what they claim and to claim something oneself. Waits for
    /// them; they only do the same.
    #[must_use]
    pub fn enter(&self) -> Option<Entered<'_>> {
        self.gate.lock().ok()?;
        Some(Entered { claims: self })
    }

    /// Says what this process claims now. Whoever claims more than before has [entered](Self::enter).
    pub fn say(&self, claim: Claim) {
        let _ = self.write(claim);
    }

    fn write(&self, claim: Claim) -> std::io::Result<()> {
        let numbers = [claim.held_bytes, claim.pending_bytes].map(u64::to_le_bytes);
        self.file.write_all_at(numbers.as_flattened(), 0)
    }
}

impl Entered<'_> {
    /// What all other processes claim.
    #[must_use]
    pub fn others(&self) -> Claim {
        let mut sum = Claim::default();
        let Ok(names) = std::fs::read_dir(&self.claims.directory) else { return sum };
        for entry in names.flatten() {
            let path = entry.path();
            if path == self.claims.name || entry.file_name() == "gate" {
                continue;
            }
            let Ok(file) = File::open(&path) else { continue };
            if !matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
                // Its process has ended.
                let _ = std::fs::remove_file(&path);
                continue;
            }
            let mut numbers = [[0; 8]; 2];
            if file.read_exact_at(numbers.as_flattened_mut(), 0).is_ok() {
                let [held, pending] = numbers.map(u64::from_le_bytes);
                sum.held_bytes = sum.held_bytes.saturating_add(held);
                sum.pending_bytes = sum.pending_bytes.saturating_add(pending);
            }
        }
        sum
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let _ = self.claims.gate.unlock();
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        // In a forked child it is the parent's.
        if !crate::process::is_forked_child() {
            let _ = std::fs::remove_file(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Claim = Claim { held_bytes: 5, pending_bytes: 3 };

    fn others(claims: &Claims) -> Claim {
        claims.enter().unwrap().others()
    }

    #[test]
    fn claims_of_others_add_up_and_end_when_they_are_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let [first, second, third] =
            [(); 3].map(|()| Claims::join_in(&directory.path().join("claims")).unwrap());
        assert_eq!(others(&first), Claim::default());
        first.say(ONE);
        second.say(Claim { held_bytes: u64::MAX - 1, pending_bytes: 1 });
        assert_eq!(others(&first), Claim { held_bytes: u64::MAX - 1, pending_bytes: 1 });
        assert_eq!(others(&third), Claim { held_bytes: u64::MAX, pending_bytes: 4 });
        drop(second);
        assert_eq!(others(&third), ONE);
    }

    #[test]
    fn what_the_dead_have_left_does_not_count_and_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let claims = Claims::join_in(directory.path()).unwrap();
        let left = directory.path().join("123456789-0");
        std::fs::write(&left, [1; 16]).unwrap();
        assert_eq!(others(&claims), Claim::default());
        assert!(!left.exists());
        // Nor does a file of another process that has this one's number.
        let name = claims.name.clone();
        drop(claims);
        std::fs::write(&name, "left").unwrap();
        assert!(Claims::join_in(directory.path()).is_some());
    }

    #[test]
    fn a_directory_that_cannot_be_used_is_no_claim() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(Claims::join_in(&file).is_none());
        assert!(Claims::join_in(&file.join("below")).is_none());
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/dev/shm", &link).unwrap();
        assert!(Claims::join_in(&link).is_none());
    }
}
