//! Fall-backs: what works, but not as well as it could. Each is said once.

use std::collections::BTreeSet;

use crate::named::named;
use crate::sync::{Mutex, lock};

named! {
    "notice",
    /// Something that works less well than it could on this machine. The report of the first
    /// transition that met it says so; see [`Report::notices`](crate::Report::notices).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum Notice {
        /// The system gives no huge pages, so that first touch and giving back take longer.
        HugePagesOff = "huge_pages_off",
        /// Host memory could not be registered, so that copies are slower.
        RegistrationRefused = "registration_refused",
        /// The directory for contents on disk is in memory: nothing is gained over host memory.
        DiskInMemory = "disk_in_memory",
        /// The file system takes no direct reads and writes, so that contents go through the page
        /// cache.
        DiskBuffered = "disk_buffered",
    }
}

impl Notice {
    /// A sentence for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::HugePagesOff => {
                "the system gives no transparent huge pages: backups in host memory take longer"
            }
            Self::RegistrationRefused => {
                "host memory could not be registered with the driver: copies are slower"
            }
            Self::DiskInMemory => {
                "the directory for contents on disk is in memory (tmpfs): it takes host memory all \
                 the same"
            }
            Self::DiskBuffered => {
                "the file system takes no direct reads and writes: contents go through the page \
                 cache"
            }
        }
    }
}

/// What has been said.
#[derive(Debug, Default)]
pub(crate) struct Notices(Mutex<BTreeSet<Notice>>);

impl Notices {
    /// Those of `met` that have not been said yet.
    pub(crate) fn first_time(&self, met: impl IntoIterator<Item = Notice>) -> Vec<Notice> {
        let mut said = lock(&self.0);
        met.into_iter().filter(|notice| said.insert(*notice)).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_said_once() {
        let notices = Notices::default();
        assert_eq!(notices.first_time([Notice::DiskInMemory]), [Notice::DiskInMemory]);
        let both = [Notice::DiskInMemory, Notice::HugePagesOff];
        assert_eq!(notices.first_time(both), [Notice::HugePagesOff]);
        assert!(Notice::ALL.iter().all(|notice| !notice.text().is_empty()));
    }
}
