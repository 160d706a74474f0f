//! Small C programs, compiled by the tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::kept::kept;

/// The C compiler.
#[must_use]
pub fn compiler() -> Command {
    Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

/// Compiles one of the sources in `c/`, which sees the headers there and `dormant.h`. The same one is
/// compiled once.
///
/// # Panics
/// With the compiler's words when that fails.
#[must_use]
pub fn program(source: &str, arguments: &[&str]) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (sources, header) = (here.join("c"), here.join("../crates/dormant-capi/include"));
    let mut command = compiler();
    command.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Werror", "-O1"]);
    command.arg("-I").arg(&header).arg(sources.join(source)).args(arguments);
    // Where a library is looked for says nothing of what is made.
    let arguments: Vec<_> = arguments.iter().filter(|word| !word.starts_with("-L")).collect();
    let mut texts = vec![text(&sources.join(source)), text(&header.join("dormant.h"))];
    for name in ["check.h", "gpu.h", "saver.h"] {
        texts.push(text(&sources.join(name)));
    }
    let ingredients = (command.get_program().to_owned(), arguments, texts);
    let name = source.trim_end_matches(".c");
    kept(name, ingredients, |to| {
        run(command.arg("-o").arg(to));
    })
}

fn text(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
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
