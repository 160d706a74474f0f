//! The evidence record: what was run, of which build, on what, and what came out.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::identity::Identity;
use crate::verify::args;

/// What says that a file is one.
pub(crate) const RECORD: &str = "dormant-verify";

/// Fields are only ever added; another number means that some have another meaning.
pub(crate) const SCHEMA: u32 = 1;

/// What an image says of itself.
const IMAGE_FILE: &str = "/etc/dormant/image.json";

/// The variable with the image's name and digest.
const IMAGE_VARIABLE: &str = "DORMANT_IMAGE";

/// A record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) record: String,
    pub(crate) schema: u32,
    pub(crate) passed: bool,
    /// When it began, in UTC.
    pub(crate) begun: String,
    pub(crate) seconds: f64,
    /// The library that was loaded, or was to be.
    pub(crate) library: Option<BuiltFile>,
    pub(crate) program: Option<BuiltFile>,
    pub(crate) backend: Option<String>,
    pub(crate) driver: Option<DriverFacts>,
    pub(crate) devices: Vec<DeviceFacts>,
    pub(crate) image: Option<Image>,
    pub(crate) overlay: Option<Overlay>,
    pub(crate) host: Host,
    pub(crate) suite: Suite,
    pub(crate) guarantees: Vec<Held>,
    pub(crate) expected: Expected,
    /// Why it did not pass.
    pub(crate) failures: Vec<String>,
}

/// A file of ours.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BuiltFile {
    pub(crate) path: PathBuf,
    pub(crate) sha256: String,
    pub(crate) identity: Option<Identity>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DriverFacts {
    pub(crate) version: String,
    pub(crate) library: Option<String>,
    /// Whether it is a stand-in or the simulated device, and no hardware.
    pub(crate) stand_in: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DeviceFacts {
    pub(crate) ordinal: u32,
    pub(crate) name: String,
    pub(crate) total_bytes: u64,
    pub(crate) pci_address: Option<String>,
}

/// The image that it ran in. Fields that later images have are kept.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Image {
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) variant: Option<String>,
    #[serde(default)]
    pub(crate) base: Option<String>,
    #[serde(default)]
    pub(crate) inputs: Option<String>,
    #[serde(flatten)]
    pub(crate) more: BTreeMap<String, serde_json::Value>,
}

/// A wheel that was installed over the image's own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Overlay {
    pub(crate) wheel: String,
    pub(crate) sha256: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Host {
    pub(crate) kernel: String,
    pub(crate) machine: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Suite {
    pub(crate) alone: bool,
    pub(crate) limit_bytes: u64,
    pub(crate) cases: Vec<Case>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Case {
    pub(crate) case: String,
    pub(crate) area: String,
    pub(crate) outcome: Outcome,
    pub(crate) ms: u64,
    pub(crate) reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// Whether a guarantee held: all its cases passed. `None` where none failed and not all were run: some
/// take two devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    pub(crate) guarantee: String,
    pub(crate) held: Option<bool>,
}

/// What was asked for on the command line.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Expected {
    pub(crate) commit: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) guarantees: Vec<String>,
}

impl Host {
    /// This one.
    pub(crate) fn here() -> Self {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            kernel: format!("Linux {}", release.trim()),
            machine: std::env::consts::ARCH.to_owned(),
        }
    }
}

impl Image {
    /// The image that this process is in, as far as it is known.
    ///
    /// # Errors
    /// There is a file about it that makes no sense, or the variable does not.
    pub(crate) fn here(named: Option<&str>) -> Result<Option<Self>, String> {
        let name = match named {
            Some(name) => Some(name.to_owned()),
            None => Self::of_variable()?,
        };
        match fs::read_to_string(IMAGE_FILE) {
            Ok(text) => Self::parse(&text, name).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(name.map(|name| Self { name: Some(name), ..Self::default() }))
            }
            Err(error) => Err(format!("{IMAGE_FILE}: {error}")),
        }
    }

    /// The image's name in the environment, which is held to the form of the one on the command line.
    fn of_variable() -> Result<Option<String>, String> {
        let Some(name) = std::env::var_os(IMAGE_VARIABLE).filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let name = name.to_string_lossy();
        let named = args::image(&name).map(Some);
        named.map_err(|why| format!("{IMAGE_VARIABLE} is `{name}`: {why}"))
    }

    fn parse(text: &str, name: Option<String>) -> Result<Self, String> {
        let mut image: Self =
            serde_json::from_str(text).map_err(|error| format!("{IMAGE_FILE}: {error}"))?;
        // A file cannot know the digest of the image that it is in.
        image.name = name;
        Ok(image)
    }
}

/// The SHA-256 of a file, in hexadecimal digits.
///
/// # Errors
/// It cannot be read.
pub(crate) fn sha256(path: &Path) -> Result<String, String> {
    let read = |path| {
        let mut hash = Sha256::new();
        io::copy(&mut fs::File::open(path)?, &mut hash)?;
        Ok(hash.finalize())
    };
    let hash = read(path).map_err(|error: io::Error| format!("{}: {error}", path.display()))?;
    Ok(hash.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_hash_is_that_of_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("abc");
        fs::write(&file, "abc").unwrap();
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(&file).unwrap(), hash);
        assert!(sha256(folder.path()).is_err());
    }

    #[test]
    fn what_an_image_says_is_kept_and_its_name_comes_from_outside() {
        let text = r#"{"variant":"cuda-13.0","backend":"cuda","name":"a tag"}"#;
        let image = Image::parse(text, Some("name@sha256:00".to_owned())).unwrap();
        assert_eq!(image.variant.as_deref(), Some("cuda-13.0"));
        assert_eq!(image.name.as_deref(), Some("name@sha256:00"));
        assert_eq!(image.more["backend"], "cuda");
        assert_eq!(Image::parse(text, None).unwrap().name, None);
        assert!(Image::parse("[]", None).is_err());
    }
}
