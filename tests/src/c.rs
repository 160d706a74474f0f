//! Small C programs, compiled by the tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The C compiler.
#[must_use]
pub fn compiler() -> Command {
    Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

/// Compiles one of the sources in `c/` to a program in `folder`.
///
/// # Panics
/// With the compiler's words when that fails.
#[must_use]
pub fn program(source: &str, folder: &Path, link: &[&str]) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("c").join(source);
    let to = folder.join(source).with_extension("");
    let mut command = compiler();
    command.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Werror", "-O1"]);
    command.arg(from).arg("-o").arg(&to).args(link);
    run(&mut command);
    to
}

/// Runs a command that is to succeed.
///
/// # Panics
/// With the command and all that it said when it does not.
pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    output
}

/// All that a command said.
#[must_use]
pub fn said(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
