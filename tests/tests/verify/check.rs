//! What a record proves.

use std::fs;
use std::process::{Command, Output};
use std::sync::OnceLock;

use dormant_tests::c::said;
use dormant_tests::doubles::{Double, Folder};
use serde_json::{Value, json};

use crate::{program, record, verify_on};

const COMMIT: &str = "f05a0123456789abcdef0123456789abcdef0123";
const OTHER: &str = "b558b558b558b558b558b558b558b558b558b558";

/// A record of a run that passed, as if of a clean build of `COMMIT` on a GPU.
fn good() -> Value {
    static RECORD: OnceLock<Value> = OnceLock::new();
    let made = RECORD.get_or_init(|| {
        let folder = Folder::new(&[Double::Cuda]);
        let mut command = verify_on(Double::Cuda, &folder);
        record(&command.args(["--backend", "cuda", "--json"]).output().expect("a run"))
    });
    let mut record = made.clone();
    record["library"]["identity"]["commit"] = json!(COMMIT);
    record["library"]["identity"]["dirty"] = json!(false);
    record["driver"]["stand_in"] = json!(false);
    record
}

fn check_text(text: &str, more: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("record.json");
    fs::write(&file, text).expect("a record");
    let mut command = Command::new(program());
    command.args(["verify", "--check"]).arg(&file).args(more).output().expect("a run")
}

/// What is said against a record of which one thing was changed.
fn against(commit: &str, more: &[&str], change: impl FnOnce(&mut Value)) -> String {
    let mut record = good();
    change(&mut record);
    let output = check_text(&record.to_string(), &[&["--commit", commit], more].concat());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(output.stdout.is_empty(), "{}", said(&output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_record_of_the_commit_proves_it_whole_or_by_its_first_digits() {
    for commit in [COMMIT, &COMMIT[..8]] {
        let more = ["--commit", commit, "--expect", "free-while-paused"];
        let output = check_text(&good().to_string(), &more);
        assert!(output.status.success(), "{}", said(&output));
    }
}

#[test]
fn a_record_of_another_build_is_refused_and_both_are_named() {
    let said = against(OTHER, &[], |_| ());
    assert!(
        said.contains("this run tested a build of f05a01234567, not of b558b558b558"),
        "{said}"
    );
    let said = against(COMMIT, &[], |record| record["library"]["identity"]["dirty"] = json!(true));
    assert!(said.contains("with changes"), "{said}");
    let said = against(COMMIT, &[], |record| record["library"]["identity"]["commit"] = json!(null));
    assert!(said.contains("unknown commit"), "{said}");
    let said = against(COMMIT, &[], |record| record["library"] = json!(null));
    assert!(said.contains("no library"), "{said}");
}

#[test]
fn a_record_that_shows_less_than_is_asked_for_is_refused() {
    let said = against(COMMIT, &["--expect", "time-travel"], |_| ());
    assert!(said.contains("guarantee time-travel"), "{said}");
    let said = against(COMMIT, &[], |record| {
        record["passed"] = json!(false);
        record["failures"] = json!(["case a: b"]);
    });
    assert!(said.contains("did not pass") && said.contains("case a: b"), "{said}");
    let said = against(COMMIT, &[], |record| record["suite"]["cases"] = json!([]));
    assert!(said.contains("no case was run"), "{said}");
    let said = against(COMMIT, &[], |record| {
        record["suite"]["cases"][0]["outcome"] = json!("failed");
    });
    assert!(said.contains("names what failed"), "{said}");
}

#[test]
fn a_record_of_a_stand_in_is_taken_only_where_that_is_said() {
    let stand_in = |record: &mut Value| record["driver"]["stand_in"] = json!(true);
    let said = against(COMMIT, &[], stand_in);
    assert!(said.contains("on no GPU"), "{said}");
    let mut record = good();
    stand_in(&mut record);
    let output = check_text(&record.to_string(), &["--commit", COMMIT, "--allow-stand-in"]);
    assert!(output.status.success(), "{}", crate::said(&output));
}

#[test]
fn what_is_no_record_is_an_error() {
    let other = good().to_string().replace("dormant-verify", "dormant-bench0");
    for (text, why) in
        [("{}", "no record"), ("", "no record"), (&other, "a record `dormant-bench0`")]
    {
        let output = check_text(text, &["--commit", COMMIT]);
        assert_eq!(output.status.code(), Some(1));
        assert!(said(&output).contains(why), "{}", said(&output));
    }
    // Without a commit to hold it against, and with options of a run.
    for more in [&[][..], &["--commit", COMMIT, "--alone"], &["--commit", "main"]] {
        assert_eq!(check_text("{}", more).status.code(), Some(2), "{more:?}");
    }
}

#[test]
fn a_record_that_contradicts_itself_is_refused() {
    let expected = ["--expect", "free-while-paused"];
    let said = against(COMMIT, &[], |record| record["guarantees"][0]["held"] = json!(false));
    assert!(said.contains("names what failed"), "{said}");
    let said = against(COMMIT, &expected, |record| {
        record["library"]["identity"]["guarantees"] = json!([]);
    });
    assert!(said.contains("guarantee free-while-paused"), "{said}");
    let said = against(COMMIT, &expected, |record| {
        let other = json!({"guarantee": "free-while-paused", "held": null});
        record["guarantees"].as_array_mut().expect("a list").push(other);
    });
    assert!(said.contains("guarantee free-while-paused"), "{said}");
    let said = against(COMMIT, &[], |record| record["devices"] = json!([]));
    assert!(said.contains("on no device"), "{said}");
    let said = against(COMMIT, &[], |record| record["backend"] = json!("sim"));
    assert!(said.contains("on no GPU"), "{said}");
    let short = |record: &mut Value| {
        record["library"]["identity"]["commit"] = json!(&COMMIT[..7]);
    };
    let said = against(&COMMIT[..7], &[], short);
    assert!(said.contains("no whole commit"), "{said}");
}
