//! `dormant inspect` as a user runs it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn inspect(file: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dormant"));
    command.arg("inspect").arg(file).args(more).output().expect("a run")
}

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_dormant"))
}

#[test]
fn the_program_says_of_its_file_what_it_says_of_itself() {
    let output = inspect(program(), &["--json"]);
    assert!(output.status.success(), "{output:?}");
    let read: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let info = Command::new(program()).args(["info", "--json"]).output().expect("a run");
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).expect("JSON");
    assert_eq!(read, info["build"]);
    assert_eq!(read["version"], env!("CARGO_PKG_VERSION"));
    let text = inspect(program(), &[]);
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(text.contains(&format!("version:    {}\n", env!("CARGO_PKG_VERSION"))), "{text}");
    assert!(text.contains("free-while-paused"), "{text}");
}

#[test]
fn a_file_without_a_note_and_no_file_are_errors_with_a_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("text");
    fs::write(&text, "no program").expect("a file");
    // The first bytes of a program, with all headers but no notes behind them.
    let cut = folder.path().join("cut");
    fs::write(&cut, &fs::read(program()).expect("the program")[..512]).expect("a file");
    for (file, why) in [
        (text.as_path(), "not a 64-bit ELF file"),
        (&cut, "not a whole ELF file"),
        (Path::new("/bin/sh"), "there is no note of its owner"),
        (&folder.path().join("missing"), "No such file"),
    ] {
        let output = inspect(file, &["--json"]);
        assert_eq!(output.status.code(), Some(1), "{}", file.display());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(why), "{said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_note_that_is_changed_is_not_believed_where_it_is_no_json() {
    let mut bytes = fs::read(program()).expect("the program");
    let start = b"{\"schema\":1,\"version\":";
    let places: Vec<_> =
        (0..bytes.len() - start.len()).filter(|at| bytes[*at..].starts_with(start)).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at] = b'[';
    }
    let folder = tempfile::tempdir().expect("a folder");
    let broken = folder.path().join("broken");
    fs::write(&broken, bytes).expect("a file");
    let output = inspect(&broken, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("its note: "));
}

#[test]
fn what_is_no_file_is_neither_waited_for_nor_read_to_its_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    for file in [pipe.as_path(), Path::new("/dev/zero"), folder.path()] {
        let mut command = Command::new("timeout");
        let output = command.args(["20", env!("CARGO_BIN_EXE_dormant"), "inspect"]).arg(file);
        let output = output.output().expect("a run");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("it is no file"), "{said}");
    }
}

#[test]
fn a_huge_file_is_not_read_into_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let huge = folder.path().join("huge");
    fs::copy(program(), &huge).expect("a copy");
    let file = fs::File::options().write(true).open(&huge).expect("the copy");
    file.set_len(1 << 36).expect("a file with a hole");
    assert!(inspect(&huge, &[]).status.success());
}
