//! The command line of `dormant verify`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};
use dormant::Backend;

use crate::cli;
use crate::size::{self, Size};

const HELP: &str = "\
Runs the conformance suite inside libdormant.so, the file that `dormant run` would preload, on the \
device: half a minute on a GPU, at most --limit of its memory (and what the driver takes for a context). \
Others may use the device meanwhile.

Before that it holds the file's own note against this program and against what is expected; a file of \
another build is not loaded.

With --json it prints an evidence record: which file was loaded (path, SHA-256, commit, hash of the \
sources), on which device and driver, what each case gave. `dormant verify --check RECORD --commit SHA` \
says whether a record proves that commit.

In a container, /etc/dormant/image.json says which image it is, and DORMANT_IMAGE (or --image) its digest.

Exit status: 0 when everything held, 1 when something did not, 2 for a wrong command line.";

/// The longest time, in seconds.
const DAY: u64 = 24 * 60 * 60;

/// Arguments of `dormant verify`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct VerifyArgs {
    /// Use this backend and no other [default: DORMANT_BACKEND, else the GPU driver that is there].
    #[arg(long, value_parser = cli::backend_names())]
    pub(crate) backend: Option<Backend>,

    /// A device, as its driver counts; may be given twice, and one case takes two [default: 0].
    #[arg(long, value_name = "N")]
    pub(crate) device: Vec<u32>,

    /// The file libdormant.so [default: DORMANT_LIBRARY, else the installed one].
    #[arg(long, value_name = "PATH")]
    pub(crate) library: Option<PathBuf>,

    /// The most memory to take of each device.
    #[arg(long, value_parser = size::parse, default_value = "1GiB")]
    pub(crate) limit: Size,

    /// Nobody else uses the devices: what they read as free has to be right to the byte.
    #[arg(long)]
    pub(crate) alone: bool,

    /// How long to wait for the driver and its devices.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = value_parser!(u64).range(..=DAY))]
    wait: u64,

    /// How long the suite may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = value_parser!(u64).range(1..=DAY))]
    timeout: u64,

    /// The library has to be of this commit, without changes; at least 7 digits.
    #[arg(long, value_name = "SHA", value_parser = commit)]
    pub(crate) expect_commit: Option<String>,

    /// The library has to be of the sources with this hash.
    #[arg(long, value_name = "HASH", value_parser = hash)]
    pub(crate) expect_source: Option<String>,

    /// The library has to give this guarantee, and its cases have to pass; may be given several times.
    #[arg(long, value_name = "GUARANTEE")]
    pub(crate) expect: Vec<String>,

    /// The image that this runs in, for the record.
    #[arg(long, value_name = "NAME@DIGEST", value_parser = image)]
    pub(crate) image: Option<String>,

    /// The wheel that was installed over the image's own, for the record.
    #[arg(long, value_name = "FILE")]
    pub(crate) wheel: Option<PathBuf>,

    /// Write the record to this file as well.
    #[arg(long, value_name = "FILE")]
    pub(crate) json_to: Option<PathBuf>,

    /// Print the record instead of text.
    #[arg(long)]
    pub(crate) json: bool,

    /// Run nothing: say whether this record proves --commit, and every --expect.
    #[arg(long, value_name = "RECORD", requires = "commit", conflicts_with_all = RUNS)]
    pub(crate) check: Option<PathBuf>,

    /// The commit that the record has to be of; at least 7 digits.
    #[arg(long, value_name = "SHA", requires = "check", value_parser = commit)]
    pub(crate) commit: Option<String>,

    /// Take a record that was made on a stand-in or a simulated device too.
    #[arg(long, requires = "check")]
    pub(crate) allow_stand_in: bool,
}

/// What makes no sense where nothing is run.
const RUNS: [&str; 11] = [
    "backend",
    "device",
    "library",
    "alone",
    "expect_commit",
    "expect_source",
    "image",
    "wheel",
    "json_to",
    "json",
    "limit",
];

impl VerifyArgs {
    pub(crate) fn wait(&self) -> Duration {
        Duration::from_secs(self.wait)
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// The devices, by ordinal.
    pub(crate) fn devices(&self) -> Vec<u32> {
        match self.device.as_slice() {
            [] => vec![0],
            devices => devices.to_vec(),
        }
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
}

/// A commit, whole or the beginning of one.
fn commit(text: &str) -> Result<String, String> {
    if (7..=64).contains(&text.len()) && is_hex(text) {
        return Ok(text.to_owned());
    }
    Err("a commit is 7 or more of its hexadecimal digits, in small letters".to_owned())
}

fn hash(text: &str) -> Result<String, String> {
    match text.strip_prefix("sha256:") {
        Some(digits) if digits.len() == 64 && is_hex(digits) => Ok(text.to_owned()),
        _ => Err("a hash is `sha256:` and 64 hexadecimal digits".to_owned()),
    }
}

/// An image by its digest.
///
/// # Errors
/// It is named in another way.
pub(super) fn image(text: &str) -> Result<String, String> {
    match text.split_once('@') {
        Some((name, digest)) if !name.is_empty() && hash(digest).is_ok() => Ok(text.to_owned()),
        _ => Err("an image is NAME@sha256:DIGEST; a tag may have moved".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn a_commit_is_some_hexadecimal_digits() {
        assert!(commit("0123abc").is_ok());
        for wrong in ["", "0123ab", "0123ABC", "main123", &"0".repeat(65)] {
            assert!(commit(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_image_is_named_by_digest_and_not_by_tag() {
        assert!(image(&format!("registry.example/dormant@{DIGEST}")).is_ok());
        for wrong in ["dormant:latest", "dormant@latest", &format!("@{DIGEST}")] {
            assert!(image(wrong).is_err(), "{wrong}");
        }
        assert!(hash(DIGEST).is_ok() && hash("sha256:12").is_err());
    }
}
