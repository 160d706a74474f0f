//! What this build is, for JSON.

use dormant::BuildInfo;
use serde::Serialize;

/// [`BuildInfo`] for JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Build {
    version: &'static str,
    commit: Option<&'static str>,
    dirty: Option<bool>,
    features: &'static [&'static str],
    target: &'static str,
    profile: &'static str,
}

impl Default for Build {
    /// This build.
    fn default() -> Self {
        let BuildInfo { version, commit, dirty, features, target, profile, .. } =
            *dormant::build_info();
        Self { version, commit, dirty, features, target, profile }
    }
}
