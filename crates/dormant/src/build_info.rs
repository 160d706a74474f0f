//! What this build is: version, commit, features. Baked in by the build script, which runs again
//! when any source of the workspace or the commit changes.

use std::fmt;

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
    /// The backends compiled in.
    pub features: &'static [&'static str],
    /// The target triple.
    pub target: &'static str,
    /// The cargo profile, `debug` or `release`; another profile goes by the one it inherits from.
    pub profile: &'static str,
}

const BUILD_INFO: BuildInfo = BuildInfo {
    version: env!("CARGO_PKG_VERSION"),
    commit: known(env!("DORMANT_BUILD_COMMIT")),
    dirty: flag(env!("DORMANT_BUILD_DIRTY")),
    features: &[
        #[cfg(feature = "cuda")]
        "cuda",
        #[cfg(feature = "hip")]
        "hip",
        #[cfg(feature = "sim")]
        "sim",
    ],
    target: env!("DORMANT_BUILD_TARGET"),
    profile: env!("DORMANT_BUILD_PROFILE"),
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

/// What this build is.
#[must_use]
pub const fn build_info() -> &'static BuildInfo {
    &BUILD_INFO
}

impl fmt::Display for BuildInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, commit, dirty, features, target, profile } = self;
        write!(f, "dormant {version}, commit {}", commit.unwrap_or("unknown"))?;
        if *dirty == Some(true) {
            f.write_str(" with changes")?;
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
    };

    #[test]
    fn a_build_says_in_one_line_what_it_is() {
        assert_eq!(
            KNOWN.to_string(),
            "dormant 1.2.3, commit 0123456789abcdef0123456789abcdef01234567, \
             backends cuda hip sim, x86_64-unknown-linux-gnu, release"
        );
        let dirty = BuildInfo { dirty: Some(true), ..KNOWN };
        assert!(dirty.to_string().contains("4567 with changes, "), "{dirty}");
    }

    #[test]
    fn what_is_unknown_is_called_so() {
        assert_eq!((known("unknown"), flag("unknown")), (None, None));
        assert_eq!((flag("true"), flag("false")), (Some(true), Some(false)));
        let unknown = BuildInfo { commit: None, dirty: None, ..KNOWN };
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
    }
}
