//! What happens to the contents of a block while it sleeps.

use crate::named::named;

named! {
    "policy",
    /// What a pause does with the contents.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum Policy {
        /// Undefined after a resume. The cheapest.
        #[default]
        Discard = "discard",
        /// Zero at first use and after every resume, by an explicit fill. Nothing is promised about
        /// the released memory itself.
        Zero = "zero",
        /// Copied to host memory at pause and back at resume. How that memory is held:
        /// [`HostMode`].
        Host = "host",
        /// Written to a file at pause and read back at resume. The file has no name and is gone with
        /// the process. Its directory: [`Allocation::directory`](crate::Allocation::directory), else
        /// [`Config::disk_directory`](crate::Config::disk_directory).
        Disk = "disk",
    }
}

named! {
    "host mode",
    /// How the host memory of backups is held.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum HostMode {
        /// [`Retain`](Self::Retain) while this process's share of the host's memory allows it, else
        /// [`Reclaim`](Self::Reclaim). The report says which it was, and why.
        #[default]
        Auto = "auto",
        /// Registered memory, which is kept for the next pause: the device copies to and from it at
        /// the link's full speed, without a CPU's help. It is the process's until
        /// [`Engine::trim`](crate::Engine::trim), and at most
        /// [`Config::retain_limit_bytes`](crate::Config::retain_limit_bytes).
        Retain = "retain",
        /// Pageable memory, which goes back to the system after the resume.
        Reclaim = "reclaim",
    }
}

named! {
    "checksum",
    /// Whether saved contents are checked when they come back.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum Checksum {
        /// They are not.
        #[default]
        Off = "off",
        /// Every byte: a hash (XXH3, 64 bits) of each chunk is taken at pause and compared at resume.
        /// It guards against accidents, not against forgery.
        Full = "full",
    }
}

#[cfg(test)]
mod tests {
    use allocator_core::ErrorKind;

    use super::*;

    #[test]
    fn every_choice_is_read_back_from_its_name_and_others_are_refused() {
        for policy in Policy::ALL {
            assert_eq!(policy.name().parse::<Policy>().unwrap(), *policy);
        }
        for mode in HostMode::ALL {
            assert_eq!(mode.name().parse::<HostMode>().unwrap(), *mode);
        }
        assert_eq!("full".parse::<Checksum>().unwrap(), Checksum::Full);
        let error = "disc".parse::<Policy>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.text().contains("discard, zero, host, disk"), "{error}");
    }
}
