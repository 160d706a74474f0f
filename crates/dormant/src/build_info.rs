//! What this build is: version, commit, source-tree hash, features, guarantees. They cannot go stale:
//! what bakes them in runs again when any source of the workspace or the commit changes.
//!
//! A file that has this crate in it has the same as an ELF note, which `dormant inspect` reads
//! without loading the file.

use std::fmt;

use dormant_identity::{GUARANTEES, IDENTITY, Identity};

pub use dormant_identity::Guarantee;

/// What this build is. Its `Display` is one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildInfo {
    /// The package's version.
    pub version: &'static str,
    /// The commit that it was built from. `None` where that is unknown: git could not be asked,
    /// or the sources did not lie in a repository of their own.
    pub commit: Option<&'static str>,
    /// Whether the sources differed from the commit. `None` where the commit is unknown.
    pub dirty: Option<bool>,
    /// The hash of the source tree, as `sha256:` and 64 hexadecimal digits. `None` where the
    /// workspace was not there, as in a package from a registry.
    pub source: Option<&'static str>,
    /// The backends compiled in.
    pub features: &'static [&'static str],
    /// The target triple.
    pub target: &'static str,
    /// The cargo profile, `debug` or `release`; another profile goes by the one it inherits from.
    pub profile: &'static str,
    /// The compiler, as it calls itself.
    pub rustc: &'static str,
    /// What this build promises, each tied to conformance cases.
    pub guarantees: &'static [Guarantee],
}

const FEATURES: &[&str] = &[
    #[cfg(feature = "cuda")]
    "cuda",
    #[cfg(feature = "hip")]
    "hip",
    #[cfg(feature = "sim")]
    "sim",
];

dormant_identity::note!(FEATURES, GUARANTEES);

const BUILD_INFO: BuildInfo = {
    let Identity { version, commit, dirty, source, target, profile, rustc, .. } = IDENTITY;
    let (features, guarantees) = (FEATURES, GUARANTEES);
    BuildInfo { version, commit, dirty, source, features, target, profile, rustc, guarantees }
};

/// What this build is.
#[must_use]
pub const fn build_info() -> &'static BuildInfo {
    &BUILD_INFO
}

impl BuildInfo {
    /// The same as one JSON object, as the file's note has it; guarantees by their names.
    #[must_use]
    pub fn json() -> &'static str {
        NOTE.json()
    }
}

impl fmt::Display for BuildInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, commit, dirty, features, target, profile, .. } = self;
        write!(f, "dormant {version}, commit {}", commit.unwrap_or("unknown"))?;
        if *dirty == Some(true) {
            f.write_str(" with changes")?;
        }
        // Without a clean commit it is the sources that tell two builds apart.
        let hash = self.source.and_then(|hash| hash.get(..15)).filter(|_| *dirty != Some(false));
        if let Some(hash) = hash {
            write!(f, " (source {hash})")?;
        }
        write!(f, ", backends {}, {target}, {profile}", features.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: BuildInfo = BuildInfo {
        version: "1.2.3",
        commit: Some("0123456789abcdef0123456789abcdef01234567"),
        dirty: Some(false),
        features: &["cuda", "hip", "sim"],
        target: "x86_64-unknown-linux-gnu",
        profile: "release",
        ..BUILD_INFO
    };

    #[test]
    fn a_build_says_in_one_line_what_it_is() {
        assert_eq!(
            KNOWN.to_string(),
            "dormant 1.2.3, commit 0123456789abcdef0123456789abcdef01234567, \
             backends cuda hip sim, x86_64-unknown-linux-gnu, release"
        );
        let source = "sha256:89abcdef0123456789abcdef0123456789abcdef0123456789abcdef01234567";
        let dirty = BuildInfo { dirty: Some(true), source: Some(source), ..KNOWN };
        let said = dirty.to_string();
        assert!(said.contains("4567 with changes (source sha256:89abcdef), "), "{said}");
    }

    #[test]
    fn what_is_unknown_is_called_so() {
        let unknown = BuildInfo { commit: None, dirty: None, source: None, ..KNOWN };
        assert!(unknown.to_string().contains("commit unknown, "), "{unknown}");
    }

    #[test]
    fn this_build_names_its_version_and_backends_and_never_half_a_commit() {
        let info = build_info();
        assert_eq!(info.version, env!("CARGO_PKG_VERSION"));
        assert_eq!(info.commit.is_some(), info.dirty.is_some());
        assert!(info.commit.is_none_or(|commit| matches!(commit.len(), 40 | 64)));
        assert_eq!(info.features.contains(&"cuda"), cfg!(feature = "cuda"));
        assert_eq!(info.features.contains(&"hip"), cfg!(feature = "hip"));
        assert_eq!(info.features.contains(&"sim"), cfg!(feature = "sim"));
        assert!(!info.to_string().contains('\n'));
        assert!(BuildInfo::json().contains(&format!("\"version\":\"{}\"", info.version)));
    }
}
