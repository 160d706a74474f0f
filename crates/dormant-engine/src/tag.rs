//! Tags: the names under which blocks are paused and resumed.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// The name of a group of blocks. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(Arc<str>);

impl Tag {
    /// The tag of memory that was given none.
    #[must_use]
    pub fn default_tag() -> Self {
        Self::from("default")
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Tag {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<String> for Tag {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl From<&Tag> for Tag {
    fn from(tag: &Tag) -> Self {
        tag.clone()
    }
}

impl Borrow<str> for Tag {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which tags a pause or a resume is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Every tag.
    All,
    /// These, in this order. A tag with no blocks is no error.
    Tags(Vec<Tag>),
}

impl Selection {
    /// These tags, in this order.
    pub fn tags<T: Into<Tag>>(tags: impl IntoIterator<Item = T>) -> Self {
        Self::Tags(tags.into_iter().map(Into::into).collect())
    }

    pub(crate) fn names(&self, tag: &Tag) -> bool {
        match self {
            Self::All => true,
            Self::Tags(tags) => tags.contains(tag),
        }
    }
}

impl<T: Into<Tag>> From<T> for Selection {
    fn from(tag: T) -> Self {
        Self::Tags(vec![tag.into()])
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all tags"),
            Self::Tags(tags) if tags.is_empty() => f.write_str("no tags"),
            Self::Tags(tags) => {
                let names: Vec<_> = tags.iter().map(|tag| format!("`{tag}`")).collect();
                f.write_str(&names.join(", "))
            }
        }
    }
}
