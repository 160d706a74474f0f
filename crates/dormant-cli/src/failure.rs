//! Why a command could not do its work.

use std::fmt;

use dormant::ErrorKind;
use serde::Serialize;

/// An error of the library, or of the command in the same form.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Failure {
    #[serde(serialize_with = "as_name")]
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
}

fn as_name<S: serde::Serializer>(kind: &ErrorKind, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(kind.name())
}

impl From<dormant::Error> for Failure {
    fn from(error: dormant::Error) -> Self {
        Self { kind: error.kind(), message: error.to_string() }
    }
}

impl From<dormant::core::Error> for Failure {
    fn from(error: dormant::core::Error) -> Self {
        Self { kind: error.kind(), message: error.to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
