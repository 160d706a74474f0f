//! What a build of dormant is, and the note by which a file says so without being loaded.
//!
//! The build script reads the commit from git, hashes the source tree, and runs again whenever any
//! source of the workspace or the commit changes. So what is baked in cannot go stale; what cannot
//! be known is `None`, never a guess.
//!
//! The note is an ELF note of the owner `dormant`, type 1, in the section `.note.dormant`, which the
//! loader maps with the file (a `PT_NOTE` segment). Its content is one JSON object.

pub mod guarantees;
pub mod note;
mod text;

pub use guarantees::{GUARANTEES, Guarantee};

/// What identifies a build, but for what is compiled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// The workspace's version.
    pub version: &'static str,
    /// The commit that it was built from. `None` where that is unknown: git could not be asked,
    /// or the sources did not lie in a repository of their own.
    pub commit: Option<&'static str>,
    /// Whether the sources differed from the commit. `None` where the commit is unknown.
    pub dirty: Option<bool>,
    /// The hash of the source tree, as `sha256:` and 64 hexadecimal digits. `None` where the
    /// workspace was not there, as in a package from a registry.
    pub source: Option<&'static str>,
    /// The target triple.
    pub target: &'static str,
    /// The cargo profile, `debug` or `release`; another profile goes by the one it inherits from.
    pub profile: &'static str,
    /// The compiler, as it calls itself.
    pub rustc: &'static str,
}

/// This build's.
pub const IDENTITY: Identity = Identity {
    version: env!("CARGO_PKG_VERSION"),
    commit: known(env!("DORMANT_BUILD_COMMIT")),
    dirty: flag(env!("DORMANT_BUILD_DIRTY")),
    source: known(env!("DORMANT_BUILD_SOURCE")),
    target: env!("DORMANT_BUILD_TARGET"),
    profile: env!("DORMANT_BUILD_PROFILE"),
    rustc: env!("DORMANT_BUILD_RUSTC"),
};

const fn known(text: &'static str) -> Option<&'static str> {
    match text.as_bytes() {
        b"unknown" => None,
        _ => Some(text),
    }
}

const fn flag(text: &str) -> Option<bool> {
    match text.as_bytes() {
        b"true" => Some(true),
        b"false" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_called_so() {
        assert_eq!((known("unknown"), flag("unknown")), (None, None));
        assert_eq!((flag("true"), flag("false")), (Some(true), Some(false)));
    }

    #[test]
    fn this_build_names_its_version_and_never_half_a_commit() {
        assert_eq!(IDENTITY.version, env!("CARGO_PKG_VERSION"));
        assert_eq!(IDENTITY.commit.is_some(), IDENTITY.dirty.is_some());
        assert!(IDENTITY.commit.is_none_or(|commit| matches!(commit.len(), 40 | 64)));
        assert!(IDENTITY.source.is_none_or(|hash| hash.len() == 71 && hash.starts_with("sha256:")));
        assert!(IDENTITY.rustc.starts_with("rustc "), "{}", IDENTITY.rustc);
    }
}
