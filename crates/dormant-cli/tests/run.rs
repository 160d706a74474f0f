//! `dormant run`: what the program that it starts gets, and what is answered.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails; helpers are tests too")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Shows what the program got. `ld.so` complains of a library that is an empty file, and goes on.
const SHOW: &str =
    r#"echo "$LD_PRELOAD|$DORMANT_LIBRARY|$DORMANT_ENABLE|$DORMANT_TAG|$DORMANT_POLICY""#;

fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dormant"));
    command.arg("run").args(arguments).stdin(Stdio::null());
    for name in ["LD_PRELOAD", "DORMANT_LIBRARY", "DORMANT_ENABLE", "DORMANT_TAG", "DORMANT_POLICY"]
    {
        command.env_remove(name);
    }
    command.envs(environment.iter().copied()).output().unwrap()
}

fn library() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libdormant.so");
    fs::write(&path, "").unwrap();
    (folder, path)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn stdout(output: &Output) -> &str {
    str::from_utf8(&output.stdout).unwrap().trim_end()
}

fn stderr(output: &Output) -> &str {
    str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn the_library_comes_first_and_what_was_preloaded_stays() {
    let (_folder, library) = library();
    let library = text(&library);
    let environment = [("DORMANT_LIBRARY", library), ("LD_PRELOAD", "libm.so.6 libc.so.6")];
    let output = run(&["--", "sh", "-c", SHOW], &environment);
    assert_eq!(stdout(&output), format!("{library}:libm.so.6:libc.so.6|{library}|||"));
    let output = run(&["--library", library, "sh", "-c", SHOW], &[]);
    assert_eq!(stdout(&output), format!("{library}|{library}|||"), "the -- may be left out");
}

#[test]
fn all_and_its_tag_and_policy_reach_the_program() {
    let (_folder, library) = library();
    let library = text(&library);
    let options = ["--library", library, "--all", "--tag", "weights", "--policy", "host"];
    let output = run(&[&options[..], &["--", "sh", "-c", SHOW]].concat(), &[]);
    assert_eq!(stdout(&output), format!("{library}|{library}|1|weights|host"));
    for wrong in [["--tag", "weights"], ["--policy", "host"]] {
        let output = run(&[&wrong[..], &["--library", library, "true"]].concat(), &[]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("--all"), "{}", stderr(&output));
    }
}

#[test]
fn arguments_and_the_exit_status_pass_through() {
    let (_folder, library) = library();
    let environment = [("DORMANT_LIBRARY", text(&library))];
    let script = r#"echo "$@"; exit 42"#;
    let output = run(&["sh", "-c", script, "name", "--json", "--", "-x"], &environment);
    assert_eq!(stdout(&output), "--json -- -x");
    assert_eq!(output.status.code(), Some(42));
}

#[test]
fn a_program_that_is_missing_or_cannot_be_run_is_answered_as_by_a_shell() {
    let (_folder, library) = library();
    let environment = [("DORMANT_LIBRARY", text(&library))];
    let output = run(&["no-such-program"], &environment);
    assert_eq!(output.status.code(), Some(127));
    assert!(stderr(&output).starts_with("dormant: no-such-program cannot be run: "));
    let output = run(&[text(&library)], &environment);
    assert_eq!(output.status.code(), Some(126), "{}", stderr(&output));
}

#[test]
fn without_a_library_nothing_is_started_and_the_places_are_listed() {
    // A program of its own, in a folder where cargo has left no library.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("bin/dormant");
    fs::create_dir(folder.path().join("bin")).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_dormant"), &program).unwrap();
    let mut command = Command::new(&program);
    command.args(["run", "echo", "started"]).env_remove("DORMANT_LIBRARY");
    let output = command.output().unwrap();
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), ""));
    for place in [
        "bin/libdormant.so",
        "lib/libdormant.so",
        "lib/python*/site-packages/dormant/_lib/libdormant.so",
    ] {
        assert!(stderr(&output).contains(place), "no {place} in {}", stderr(&output));
    }
    // And where there is one, in a Python package of the same prefix, it is found.
    let library = folder.path().join("lib/python3.12/site-packages/dormant/_lib/libdormant.so");
    fs::create_dir_all(library.parent().unwrap()).unwrap();
    fs::write(&library, "").unwrap();
    let output = command.env_remove("LD_PRELOAD").output().unwrap();
    assert_eq!(stdout(&output), "started", "{}", stderr(&output));
    let output = run(&["true"], &[("DORMANT_LIBRARY", "/nowhere/libdormant.so")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("DORMANT_LIBRARY names /nowhere/libdormant.so"));
}
