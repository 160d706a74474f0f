//! `dormant verify`: the suite inside the library file that is here, on the stand-ins, and what a record
//! of it proves.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use allocator_testkit::suite;
use dormant_tests::c::{self, said};
use dormant_tests::doubles::{Double, Folder, find_built};
use serde_json::Value;

mod check;

/// A small machine, on which the suite takes some seconds.
const MACHINE: [(&str, &str); 3] = [
    ("DORMANT_SIM_DEVICES", "2"),
    ("DORMANT_SIM_CAPACITY", "128MiB"),
    ("DORMANT_SIM_FAULTS", "stale_bytes"),
];

/// The program, of the same build as this test and the library.
fn program() -> PathBuf {
    let program = find_built("dormant", "dormant-cli");
    let output = Command::new(&program).args(["inspect", "--json"]).arg(&program).output();
    let said: Value = serde_json::from_slice(&output.expect("a run").stdout).expect("JSON");
    let source = dormant::build_info().source;
    assert_eq!(said["source"].as_str(), source, "it is old: cargo build -p dormant-cli makes it");
    program
}

fn library() -> PathBuf {
    find_built("libdormant_capi.so", "dormant-capi")
}

/// The program on a stand-in, which is found where a user would say that a driver is.
fn verify_on(double: Double, folder: &Folder) -> Command {
    let mut command = folder.command(program());
    let variable = match double {
        Double::Cuda => "DORMANT_CUDA_LIBRARY",
        Double::Hip => "DORMANT_HIP_LIBRARY",
    };
    let driver = folder.path().join(double.soname());
    command.arg("verify").env(variable, driver).env("DORMANT_LIBRARY", library()).envs(MACHINE);
    command.args(["--device", "0", "--device", "1", "--limit", "128MiB"]);
    command
}

fn record(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", said(output)))
}

fn identity() -> Value {
    let output = Command::new(program()).args(["inspect", "--json"]).arg(library()).output();
    serde_json::from_slice(&output.expect("a run").stdout).expect("JSON")
}

fn sha256(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().expect("sha256sum");
    String::from_utf8_lossy(&output.stdout).split(' ').next().expect("a hash").to_owned()
}

/// Only one case, where it is not the cases that count.
fn failures(record: &Value) -> String {
    let failures = record["failures"].as_array().expect("a list");
    failures.iter().map(|each| each.as_str().expect("text").to_owned() + "\n").collect()
}

#[test]
fn all_cases_pass_inside_the_library_on_each_vendors_stand_in() {
    for (double, backend, hip) in
        [(Double::Cuda, "cuda", ""), (Double::Hip, "hip", "7.0"), (Double::Hip, "hip", "7.2")]
    {
        let folder = Folder::new(&[double]);
        let to = folder.path().join("record.json");
        let mut command = verify_on(double, &folder);
        command.args(["--backend", backend, "--alone", "--json", "--json-to"]).arg(&to);
        command.args(["--expect", "free-while-paused", "--expect", "devices-apart"]);
        command.env("DORMANT_DOUBLE_HIP_VERSION", hip);
        let output = command.output().expect("a run");
        assert!(output.status.success(), "{}", said(&output));
        assert!(output.stderr.is_empty(), "{}", said(&output));

        let record = record(&output);
        assert_eq!(record["record"], "dormant-verify");
        assert_eq!(record["passed"], true);
        assert_eq!(record["backend"], backend);
        assert_eq!(record["driver"]["stand_in"], true);
        assert_eq!(record["devices"].as_array().map(Vec::len), Some(2));
        assert_eq!(record["library"]["identity"], identity());
        let file = library().canonicalize().expect("the library");
        assert_eq!(record["library"]["path"].as_str(), file.to_str());
        assert_eq!(record["library"]["sha256"], sha256(&file));
        assert_eq!(record["suite"]["alone"], true);

        let cases = record["suite"]["cases"].as_array().expect("a list");
        let names: Vec<_> = cases.iter().map(|case| case["case"].as_str().expect("text")).collect();
        let all: Vec<_> = suite::cases().iter().map(|case| case.name).collect();
        assert_eq!(names, all);
        assert!(cases.iter().all(|case| case["outcome"] == "passed"));
        let held = record["guarantees"].as_array().expect("a list");
        assert_eq!(held.len(), dormant::build_info().guarantees.len());
        assert!(held.iter().all(|each| each["held"] == true));
        assert_eq!(
            serde_json::from_str::<Value>(&fs::read_to_string(&to).expect("a file")).expect("JSON"),
            record
        );
    }
}

#[test]
fn beside_others_all_cases_pass_on_a_runtime_with_every_fault() {
    let folder = Folder::new(&[Double::Hip]);
    let mut command = verify_on(Double::Hip, &folder);
    command.args(["--backend", "hip", "--json"]).env("DORMANT_DOUBLE_HIP_VERSION", "7.2");
    command.env(
        "DORMANT_SIM_FAULTS",
        "stale_bytes,no_joined_unmap,no_joined_access,early_release_keeps_range,host_access_needed",
    );
    let output = command.output().expect("a run");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(record(&output)["suite"]["alone"], false);
}

#[test]
fn a_driver_that_gives_no_memory_back_is_found_out_and_the_case_is_named() {
    let folder = Folder::new(&[Double::Cuda]);
    let mut command = verify_on(Double::Cuda, &folder);
    command.args(["--backend", "cuda", "--json"]);
    // Room for all that it keeps.
    command.env("DORMANT_SIM_FAULTS", "keep_until_unreserved").env("DORMANT_SIM_CAPACITY", "4GiB");
    let output = command.output().expect("a run");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(output.stderr.is_empty(), "{}", said(&output));
    let record = record(&output);
    assert_eq!(record["passed"], false);
    let failures = failures(&record);
    assert!(failures.contains("case the_device_gets_its_memory_back: "), "{failures}");
    let held = record["guarantees"].as_array().expect("a list");
    let of = |name| held.iter().find(|each| each["guarantee"] == name).expect("a guarantee");
    assert_eq!(of("memory-given-back")["held"], false);
    assert_eq!(of("host-backup-exact")["held"], true);
}

#[test]
fn with_one_device_what_takes_two_is_not_tried_and_no_failure() {
    let folder = Folder::new(&[Double::Cuda]);
    let run = |expect: &[&str]| {
        let mut command = folder.command(program());
        command.env("DORMANT_CUDA_LIBRARY", folder.path().join(Double::Cuda.soname()));
        command.env("DORMANT_LIBRARY", library()).envs(MACHINE).arg("verify");
        command.args(["--backend", "cuda", "--limit", "128MiB", "--json"]).args(expect);
        command.output().expect("a run")
    };
    let output = run(&[]);
    assert!(output.status.success(), "{}", said(&output));
    let found = record(&output);
    let held = found["guarantees"].as_array().expect("a list");
    let untried: Vec<_> = held.iter().filter(|each| each["held"] != true).collect();
    assert_eq!(untried, [&serde_json::json!({"guarantee": "devices-apart", "held": null})]);
    let output = run(&["--expect", "devices-apart"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(failures(&record(&output)).contains("devices-apart did not hold, or was not tried"));
}

#[test]
fn what_is_expected_and_not_so_fails_and_is_named() {
    let folder = Folder::new(&[Double::Cuda]);
    let mut command = verify_on(Double::Cuda, &folder);
    let other = "b558b558b558b558b558b558b558b558b558b558";
    let hash = format!("sha256:{}", "0".repeat(64));
    command.args(["--backend", "cuda", "--expect-commit", other, "--expect-source", &hash]);
    command.args(["--expect", "time-travel"]);
    let output = command.output().expect("a run");
    assert_eq!(output.status.code(), Some(1));
    let said = said(&output);
    for words in ["not of b558b558b558", &hash, "guarantee time-travel", "not verified"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

/// The bytes of the library with another text of the same length in its note.
fn library_with(from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = fs::read(library()).expect("the library");
    let places: Vec<_> = (0..bytes.len() - from.len())
        .filter(|at| bytes[*at..].starts_with(from.as_bytes()))
        .collect();
    assert!(!places.is_empty(), "{from} is not in the file");
    for at in places {
        bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
    }
    bytes
}

#[test]
fn a_library_of_another_build_is_not_loaded_and_both_are_named() {
    let source = identity()["source"].as_str().expect("a hash").to_owned();
    let other = format!("sha256:{}", "f05a".repeat(16));
    let folder = Folder::new(&[Double::Cuda]);
    let stale = folder.path().join("libdormant.so");
    fs::write(&stale, library_with(&source, &other)).expect("a stale library");
    let mut command = verify_on(Double::Cuda, &folder);
    command.args(["--backend", "cuda", "--json", "--library"]).arg(&stale);
    let output = command.output().expect("a run");
    assert_eq!(output.status.code(), Some(1));
    let record = record(&output);
    let failures = failures(&record);
    assert!(failures.contains("another build than this program, and is not loaded"), "{failures}");
    assert!(failures.contains(&other[..19]) && failures.contains(&source[..19]), "{failures}");
    assert_eq!(record["library"]["identity"]["source"], other);
    assert_eq!(record["suite"]["cases"], Value::Array(Vec::new()));
}

#[test]
fn a_library_that_was_there_first_is_noticed() {
    let folder = Folder::new(&[Double::Cuda]);
    let first = folder.path().join("first.so");
    fs::copy(library(), &first).expect("a copy");
    let mut command = verify_on(Double::Cuda, &folder);
    command.args(["--backend", "cuda", "--json"]).env("LD_PRELOAD", &first);
    let output = command.output().expect("a run");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let failures = failures(&record(&output));
    let answers = format!("{} answers", first.canonicalize().expect("a path").display());
    assert!(failures.contains(&answers), "{failures}");
}

#[test]
fn files_that_are_no_library_of_ours_are_refused_with_a_record() {
    let folder = Folder::new(&[Double::Cuda]);
    let missing = folder.path().join("missing.so");
    let foreign = folder.path().join(Double::Cuda.soname());
    for (file, why) in [(&missing, "there is no such file"), (&foreign, "no note of its owner")] {
        let mut command = verify_on(Double::Cuda, &folder);
        let output = command.args(["--json", "--library"]).arg(file).output().expect("a run");
        assert_eq!(output.status.code(), Some(1));
        let failures = failures(&record(&output));
        assert!(failures.contains(why), "{failures}");
    }
}

#[test]
fn a_driver_that_comes_late_is_waited_for_and_one_that_does_not_come_is_an_error() {
    let folder = Folder::new(&[Double::Cuda]);
    let late = folder.path().join("late");
    let mut command = verify_on(Double::Cuda, &folder);
    command.args(["--backend", "cuda"]).env("DORMANT_CUDA_LIBRARY", &late);
    let output = command.args(["--wait", "0"]).output().expect("a run");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("late"), "{}", said(&output));

    let mut command = verify_on(Double::Cuda, &folder);
    command.args(["--backend", "cuda", "--wait", "60"]).env("DORMANT_CUDA_LIBRARY", &late);
    let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = child.spawn().expect("a child");
    std::thread::sleep(Duration::from_millis(1500));
    symlink(folder.path().join(Double::Cuda.soname()), &late).expect("the driver");
    let output = child.wait_with_output().expect("an end");
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("waiting up to 60 s for the driver: "), "{}", said(&output));
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let folder = Folder::new(&[Double::Cuda]);
    let mut command = verify_on(Double::Cuda, &folder);
    command.args(["--backend", "cuda", "--wait", "0"]).env("DORMANT_SIM_DEVICES", "1");
    let output = command.output().expect("a run");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("there is no device 1"), "{}", said(&output));
}

#[test]
fn a_suite_that_does_not_end_is_ended_and_says_where_it_was() {
    let folder = Folder::new(&[Double::Cuda]);
    let mut command = verify_on(Double::Cuda, &folder);
    // A link that is so slow that no case with contents ends.
    command.args(["--backend", "cuda", "--json", "--timeout", "2"]).env("DORMANT_SIM_LINK", "1KiB");
    let output = command.output().expect("a run");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let failures = failures(&record(&output));
    assert!(failures.contains("did not end in 2 s; it hangs after "), "{failures}");
}

#[test]
fn a_wheel_and_an_image_are_named_in_the_record() {
    let folder = Folder::new(&[Double::Cuda]);
    let wheel = folder.path().join("dormant-1.whl");
    fs::write(&wheel, "abc").expect("a file");
    let image = format!("registry.example/dormant-cuda@sha256:{}", "ab".repeat(32));
    let mut command = verify_on(Double::Cuda, &folder);
    // No library: the record is of what was tried.
    command.args(["--json", "--library", "missing.so", "--image", &image, "--wheel"]).arg(&wheel);
    let record = record(&command.output().expect("a run"));
    assert_eq!(record["image"]["name"], image);
    assert_eq!(record["overlay"]["wheel"], "dormant-1.whl");
    assert_eq!(record["overlay"]["sha256"], sha256(&wheel));
    let mut command = verify_on(Double::Cuda, &folder);
    let output = command.args(["--image", "dormant-cuda:latest"]).output().expect("a run");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let mut command = verify_on(Double::Cuda, &folder);
    command.arg("--json").env("DORMANT_IMAGE", "dormant-cuda:latest");
    let failures = failures(&crate::record(&command.output().expect("a run")));
    assert!(
        failures.contains("DORMANT_IMAGE is `dormant-cuda:latest`: an image is "),
        "{failures}"
    );
}

#[test]
fn a_run_that_is_ended_leaves_no_older_record() {
    let folder = Folder::new(&[Double::Cuda]);
    let to = folder.path().join("record.json");
    fs::write(&to, "an older one").expect("a file");
    let mut command = verify_on(Double::Cuda, &folder);
    command.args(["--wait", "60", "--json-to"]).arg(&to).env("DORMANT_CUDA_LIBRARY", "/nowhere");
    let said = command.args(["--backend", "cuda"]).stderr(std::process::Stdio::piped()).spawn();
    let mut child = said.expect("a child");
    // It has begun once it says that it waits.
    let mut line = String::new();
    let stderr = child.stderr.take().expect("a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stderr), &mut line).expect("a line");
    child.kill().expect("its end");
    child.wait().expect("its end");
    let left: Value = serde_json::from_slice(&fs::read(&to).expect("a file")).expect("JSON");
    assert_eq!(left["passed"], false, "{line}");
    assert_eq!(left["failures"][0], "this run did not come to its end");
}

#[test]
fn what_the_environment_says_of_the_programs_memory_is_not_the_suites() {
    let folder = Folder::new(&[Double::Cuda]);
    let mut command = verify_on(Double::Cuda, &folder);
    command.args(["--backend", "cuda"]).env("DORMANT_ENABLE", "1");
    let output = command.env("DORMANT_POLICY", "host").env("DORMANT_TAG", "mine").output();
    let output = output.expect("a run");
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn times_that_no_clock_reaches_are_a_wrong_command_line() {
    for option in ["--wait", "--timeout"] {
        let mut command = Command::new(program());
        let output = command.args(["verify", option, &u64::MAX.to_string()]).output();
        let output = output.expect("a run");
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    }
}

#[test]
fn a_run_from_c_is_refused_during_a_capture_and_inside_another() {
    let folder = Folder::new(&[Double::Cuda]);
    let program = c::program("verify.c", &["-ldl"]);
    // A run that waits for itself would wait for ever.
    let mut command = folder.command(Path::new("timeout"));
    command.arg("60").arg(program).arg(library()).envs(MACHINE);
    command.env("DORMANT_CUDA_LIBRARY", folder.path().join(Double::Cuda.soname()));
    let output = command.output().expect("a run");
    assert!(output.status.success(), "{}", said(&output));
}
