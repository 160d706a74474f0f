//! What a build is: this program's own, and what other files say of themselves.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a build of dormant says of itself, as its note has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) schema: u32,
    pub(crate) version: String,
    pub(crate) commit: Option<String>,
    pub(crate) dirty: Option<bool>,
    pub(crate) source: Option<String>,
    pub(crate) features: Vec<String>,
    pub(crate) target: String,
    pub(crate) profile: String,
    pub(crate) rustc: String,
    pub(crate) guarantees: Vec<String>,
}

impl Identity {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub(crate) fn parse(json: &str) -> Result<Self, String> {
        let identity: Self = serde_json::from_str(json).map_err(|error| error.to_string())?;
        identity.hold()?;
        Ok(identity)
    }

    /// Whether it has a form that this program knows.
    ///
    /// # Errors
    /// It has not.
    pub(crate) fn hold(&self) -> Result<(), String> {
        // Fields are only ever added; another number would mean that some have another meaning.
        if self.schema != 1 {
            return Err(format!("it is of schema {}, and this program reads 1", self.schema));
        }
        let hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let whole = |commit: &str| matches!(commit.len(), 40 | 64) && hex(commit);
        match &self.commit {
            Some(commit) if !whole(commit) => Err(format!("`{commit}` is no whole commit")),
            _ => Ok(()),
        }
    }

    /// The commit, or what takes its place.
    fn commit(&self) -> &str {
        self.commit.as_deref().unwrap_or("unknown")
    }

    /// Which build it is, in a few words.
    pub(crate) fn build(&self) -> String {
        let changes = if self.dirty == Some(true) { " with changes" } else { "" };
        let source = self.source.as_deref().unwrap_or("unknown");
        let source = source.get(..19).unwrap_or(source);
        format!("{}, commit {}{changes}, sources {source}", self.version, self.commit())
    }

    /// Whether two files are of one build: of the same sources, whatever they were compiled for.
    pub(crate) fn same_build(&self, other: &Self) -> bool {
        let parts = |identity: &Self| {
            let Self { version, commit, dirty, source, .. } = identity.clone();
            (version, commit, dirty, source)
        };
        parts(self) == parts(other)
    }
}

impl Default for Identity {
    /// This program's.
    fn default() -> Self {
        let info = dormant::build_info();
        Self {
            schema: 1,
            version: info.version.to_owned(),
            commit: info.commit.map(str::to_owned),
            dirty: info.dirty,
            source: info.source.map(str::to_owned),
            features: info.features.iter().map(|&name| name.to_owned()).collect(),
            target: info.target.to_owned(),
            profile: info.profile.to_owned(),
            rustc: info.rustc.to_owned(),
            guarantees: info.guarantees.iter().map(|each| each.name.to_owned()).collect(),
        }
    }
}

/// The lines of `dormant inspect`.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changes = match self.dirty {
            Some(true) => ", with changes",
            Some(false) | None => "",
        };
        let list = |names: &[String]| match names {
            [] => "none".to_owned(),
            names => names.join(" "),
        };
        writeln!(f, "version:    {}", self.version)?;
        writeln!(f, "commit:     {}{changes}", self.commit())?;
        writeln!(f, "source:     {}", self.source.as_deref().unwrap_or("unknown"))?;
        writeln!(f, "backends:   {}", list(&self.features))?;
        writeln!(f, "target:     {}", self.target)?;
        writeln!(f, "profile:    {}", self.profile)?;
        writeln!(f, "compiler:   {}", self.rustc)?;
        write!(f, "guarantees: {}", list(&self.guarantees))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_says_the_same_as_the_code() {
        assert_eq!(Identity::parse(dormant::BuildInfo::json()), Ok(Identity::default()));
    }

    #[test]
    fn one_build_is_one_build_whatever_it_was_compiled_for() {
        let one = Identity::default();
        let mut other = Identity { features: Vec::new(), target: String::new(), ..one.clone() };
        assert!(one.same_build(&other));
        other.source = Some("sha256:of other sources".to_owned());
        assert!(!one.same_build(&other));
        assert!(other.build().contains("sha256:of other sou"), "{}", other.build());
    }

    #[test]
    fn another_schema_is_refused() {
        let text = dormant::BuildInfo::json().replacen("\"schema\":1", "\"schema\":2", 1);
        assert!(Identity::parse(&text).unwrap_err().contains("schema 2"));
    }

    #[test]
    fn a_part_of_a_commit_is_refused() {
        let whole = Identity { commit: Some("f05a".repeat(10)), ..Identity::default() };
        assert_eq!(whole.hold(), Ok(()));
        for part in ["", "f05a012", "F05A", &"f05a".repeat(11)] {
            let part = Identity { commit: Some(part.to_owned()), ..Identity::default() };
            assert!(part.hold().unwrap_err().contains("no whole commit"));
        }
    }

    #[test]
    fn a_field_that_is_not_known_yet_is_no_obstacle() {
        let text = dormant::BuildInfo::json().replacen('{', "{\"later\":[1],", 1);
        assert!(Identity::parse(&text).is_ok());
    }
}
