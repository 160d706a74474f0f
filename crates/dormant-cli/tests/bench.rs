//! Runs `dormant bench` on the simulated device.
#![cfg(feature = "sim")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails; helpers are tests too")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

const CASES: [&str; 11] = [
    "reclaim",
    "retain",
    "retain-prepared",
    "retain-first",
    "discard",
    "small",
    "two-devices",
    "disk",
    "host-memory",
    "latency",
    "ranks",
];

/// Little enough for a test.
const LITTLE: [&str; 6] = ["--size", "16MiB", "--blocks", "4MiB", "--cycles", "1"];

/// The program in a directory of its own, on a simulated device whatever the caller's environment says.
fn bench(directory: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dormant"));
    command.arg("bench").args(arguments).stdin(Stdio::null()).current_dir(directory);
    for name in ["DEVICES", "CAPACITY", "GRANULARITY", "LINK", "HELD_BACK", "FAULTS"] {
        command.env_remove(format!("DORMANT_SIM_{name}"));
    }
    command.env("DORMANT_BACKEND", "sim").envs(environment.iter().copied()).output().unwrap()
}

/// The same with few bytes, as JSON.
fn little(arguments: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, Value) {
    let directory = TempDir::new().unwrap();
    let arguments = [&LITTLE, arguments, &["--json"]].concat();
    let output = bench(directory.path(), &arguments, environment);
    assert_eq!(directory.path().read_dir().unwrap().count(), 0, "something was left behind");
    (output.status.code(), json(&output))
}

/// What `--json` printed: one line, one object.
fn json(output: &Output) -> Value {
    let text = str::from_utf8(&output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}{}", stderr(output));
    serde_json::from_str(text).unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The entries of one case.
fn entries<'a>(found: &'a Value, name: &str) -> Vec<&'a Value> {
    found["cases"].as_array().unwrap().iter().filter(|entry| entry["name"] == name).collect()
}

#[test]
fn every_case_is_measured_and_has_its_floors_and_limits() {
    let (status, found) = little(&["--backend", "sim"], &[]);
    assert_eq!(status, Some(0), "{found}");
    assert_eq!(found["ok"], true);
    assert_eq!(found["problems"], Value::Array(Vec::new()));
    assert_eq!(found["build"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(found["machine"]["backend"], "sim");
    assert!(found["machine"]["cpus"].as_u64().unwrap() > 0);
    assert_eq!(found["settings"]["size_bytes"], 16 * MIB);
    assert_eq!(found["settings"]["block_bytes"], 4 * MIB);
    for name in CASES {
        let entries = entries(&found, name);
        assert!(!entries.is_empty(), "{name}");
        for entry in entries {
            assert!(entry.get("skipped").is_none(), "{entry}");
            assert!(entry["size_bytes"].is_u64() && entry["block_bytes"].is_u64(), "{entry}");
            let unit = if entry["measured"]["median_ms"].is_f64() { "ms" } else { "bytes" };
            let measured = |what: &str| entry["measured"][format!("{what}_{unit}")].as_f64();
            assert!(measured("min") <= measured("median"), "{entry}");
            assert!(measured("median") <= measured("max"), "{entry}");
            if entry["figure"] != "prepare" {
                assert!(entry[format!("limit_{unit}")].as_f64().unwrap() > 0.0, "{entry}");
                assert!(entry["ratio"].as_f64().is_some(), "{entry}");
            }
            assert!(entry.get("verdict").is_none(), "a verdict without a link: {entry}");
        }
    }
    for floor in ["copy", "calls", "disk"] {
        assert!(!found["floors"][floor].as_array().unwrap().is_empty(), "{floor}");
    }
    let [pause, resume] = entries(&found, "reclaim")[..] else { panic!("{found}") };
    assert_eq!((&pause["figure"], &resume["figure"]), (&"pause".into(), &"resume".into()));
    assert!(pause["stretch_ms"].as_f64() < pause["limit_ms"].as_f64());
    assert_eq!(entries(&found, "discard")[0]["size_bytes"], 64 * MIB);
    assert_eq!(entries(&found, "small")[0]["blocks"], 4);
    let peak = entries(&found, "host-memory")[0];
    assert_eq!(peak["floors"]["backup_bytes"], 16 * MIB);
    assert!(peak["measured"]["median_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn the_limit_of_a_figure_is_made_of_its_floors() {
    let (_, found) = little(&["--case", "reclaim,retain"], &[]);
    for (name, copies) in [("reclaim", [1.7, 1.1]), ("retain", [1.05, 1.05])] {
        for (entry, copies) in entries(&found, name).into_iter().zip(copies) {
            let value = |of: &Value| of.as_f64().unwrap();
            let (copy, calls) =
                (value(&entry["floors"]["copy_ms"]), value(&entry["floors"]["calls_ms"]));
            let limit = copies * copy + 1.15 * calls;
            assert!((value(&entry["limit_ms"]) - limit).abs() < 1e-6, "{entry}");
            let ratio = value(&entry["measured"]["median_ms"]) / limit;
            assert!((value(&entry["ratio"]) - ratio).abs() < 1e-6, "{entry}");
        }
    }
}

#[test]
fn the_table_for_people_names_case_floors_and_why_there_is_no_verdict() {
    let directory = TempDir::new().unwrap();
    let arguments = [&LITTLE[..], &["--case", "reclaim", "--case", "discard"]].concat();
    let output = bench(directory.path(), &arguments, &[]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    for word in ["reclaim", "discard", "pause", "resume", "copy ", "calls ", "limit", "ratio"] {
        assert!(text.contains(word), "no {word} in {text}");
    }
    assert!(text.contains("no link to be measured against"), "{text}");
    assert!(!text.contains("retain") && !text.contains("NOT MET"), "{text}");
    assert_eq!(stderr(&output), "", "no progress where there is no terminal");
}

#[test]
fn json_goes_to_a_file_beside_the_table() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--case", "discard", "--size", "8MiB", "--blocks", "2MiB", "--cycles", "1"];
    let run = |file: &str| {
        let all = [&arguments[..], &["--json-to", file]].concat();
        bench(directory.path(), &all, &[])
    };
    let output = run("found.json");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("discard"));
    let text = std::fs::read(directory.path().join("found.json")).unwrap();
    let found: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(entries(&found, "discard").len(), 2);
    let output = run("no/such/directory.json");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no/such/directory.json"), "{}", stderr(&output));
}

#[test]
fn a_policy_limits_the_cases_and_a_named_directory_is_made_and_left_empty() {
    let directory = TempDir::new().unwrap();
    let wanted = directory.path().join("deep/down");
    let arguments =
        [&LITTLE[..], &["--json", "--policy", "disk", "--disk-dir", wanted.to_str().unwrap()]]
            .concat();
    let output = bench(directory.path(), &arguments, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let found = json(&output);
    assert!(found["cases"].as_array().unwrap().iter().all(|entry| entry["name"] == "disk"));
    let floor = &found["floors"]["disk"][0];
    assert_eq!(
        (&floor["directory"], &floor["bytes"]),
        (&wanted.to_str().unwrap().into(), &(8 * MIB).into())
    );
    assert_eq!(wanted.read_dir().unwrap().count(), 0);
}

#[test]
fn two_devices_are_skipped_where_one_is_named_and_the_others_run_on_that_one() {
    let (status, found) = little(&["--device", "1", "--case", "two-devices,discard"], &[]);
    assert_eq!(status, Some(0));
    let skipped = entries(&found, "two-devices")[0]["skipped"].as_str().unwrap();
    assert!(skipped.contains("one device"), "{skipped}");
    assert_eq!(found["floors"]["calls"][0]["device"], 1);
    assert_eq!(found["settings"]["devices"], serde_json::json!([1]));
}

#[test]
fn what_does_not_fit_is_made_smaller_and_said() {
    let directory = TempDir::new().unwrap();
    let small = [("DORMANT_SIM_CAPACITY", "40MiB")];
    let output = bench(directory.path(), &["--case", "reclaim", "--cycles", "1", "--json"], &small);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let found = json(&output);
    assert_eq!(found["settings"]["size_bytes"], 16 * MIB);
    let notes = found["notes"].to_string();
    assert!(notes.contains("16.00 MiB instead of 256.00 MiB"), "{notes}");
}

#[test]
fn a_driver_that_keeps_memory_with_the_range_can_be_measured() {
    let keeps = [("DORMANT_SIM_FAULTS", "keep_until_unreserved")];
    let (status, found) = little(&["--case", "reclaim,discard"], &keeps);
    assert_eq!(status, Some(0), "{found}");
}

#[test]
fn a_case_that_fails_is_named_with_its_error_and_the_others_go_on() {
    let lost = [("DORMANT_SIM_FAULTS", "refuse_host_registration")];
    let directory = TempDir::new().unwrap();
    let arguments = [&LITTLE[..], &["--case", "reclaim,discard", "--json"]].concat();
    let output = bench(directory.path(), &arguments, &lost);
    assert_eq!(output.status.code(), Some(1));
    let found = json(&output);
    assert_eq!(found["ok"], false);
    let message = entries(&found, "reclaim")[0]["error"]["message"].as_str().unwrap();
    assert!(stderr(&output).contains(&format!("reclaim: {message}")), "{}", stderr(&output));
    assert_eq!(entries(&found, "discard").len(), 2);

    let lost = [("DORMANT_SIM_FAULTS", "address_lost")];
    let (status, found) = little(&["--case", "discard"], &lost);
    assert_eq!((status, &found["ok"]), (Some(1), &false.into()));
    assert_eq!(entries(&found, "discard")[0]["error"]["kind"], "address_lost");
}

#[test]
fn a_rank_that_fails_is_an_error_of_the_case() {
    let full = [("DORMANT_SIM_FAULTS", "refuse_host_registration")];
    let (status, found) = little(&["--case", "ranks"], &full);
    assert_eq!(status, Some(1), "{found}");
    let message = entries(&found, "ranks")[0]["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("a rank: ") && message.contains("registered"), "{message}");
}

#[test]
fn a_device_that_is_not_there_is_an_error_that_names_it() {
    let (status, found) = little(&["--device", "9"], &[]);
    assert_eq!(status, Some(1));
    assert_eq!(found["error"]["kind"], "not_found");
    assert!(found["error"]["message"].as_str().unwrap().contains("no device 9"), "{found}");
}

#[test]
fn a_wrong_command_line_exits_with_2() {
    let directory = TempDir::new().unwrap();
    for arguments in [
        &["--case", "nap"][..],
        &["--cycles", "0"],
        &["--size", "0"],
        &["--blocks", "many"],
        &["--policy", "zero"],
        &["--case", "disk", "--policy", "host"],
        &["--device", "first"],
        &["--backend", "abacus"],
    ] {
        let output = bench(directory.path(), arguments, &[]);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stdout(&output).is_empty());
        assert!(stderr(&output).starts_with("error: "), "{}", stderr(&output));
    }
}

#[test]
fn help_explains_the_floors_and_keeps_the_ranks_to_itself() {
    let directory = TempDir::new().unwrap();
    let help = stdout(&bench(directory.path(), &["--help"], &[]));
    for word in ["copy", "calls", "disk", "retain-prepared", "16 CPUs", "Exit status"] {
        assert!(help.contains(word), "no {word} in {help}");
    }
    let all = Command::new(env!("CARGO_BIN_EXE_dormant")).arg("--help").output().unwrap();
    assert!(stdout(&all).contains("bench") && !stdout(&all).contains("bench-rank"));
}
