//! Runs the program itself, on the simulated device.
#![cfg(feature = "sim")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails; helpers are tests too")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use std::process::{Command, Output, Stdio};

use serde_json::Value;

const MIB: u64 = 1 << 20;

/// The program on a simulated device of its own, whatever the caller's environment says.
fn dormant(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    command(arguments, environment).output().unwrap()
}

fn command(arguments: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dormant"));
    command.args(arguments).stdin(Stdio::null());
    for name in ["DEVICES", "CAPACITY", "GRANULARITY", "LINK", "FAULTS"] {
        command.env_remove(format!("DORMANT_SIM_{name}"));
    }
    command.env("DORMANT_BACKEND", "sim").envs(environment.iter().copied());
    command
}

/// What `--json` printed: one line, one object.
fn json(output: &Output) -> Value {
    let text = str::from_utf8(&output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(text).unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn bytes(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number of bytes"))
}

#[test]
fn the_demo_as_json_has_every_field_and_they_agree() {
    let output = dormant(&["demo", "--size", "24MiB", "--json"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    let found = json(&output);
    assert_eq!(found["ok"], true);
    assert_eq!(found["backend"], "sim");
    assert_eq!(found["device"]["ordinal"], 0);
    assert_eq!(found["problems"], Value::Array(Vec::new()));
    assert!(found.get("error").is_none());
    assert_eq!(found["build"]["version"], env!("CARGO_PKG_VERSION"));

    let freed = bytes(&found["pause"]["freed_bytes"]);
    let doomed = bytes(&found["freed_while_paused"]["bytes"]);
    assert_eq!(freed, 24 * MIB);
    assert!(doomed > 0);
    assert_eq!(bytes(&found["resume"]["mapped_bytes"]), freed - doomed);
    // The doomed blocks were saved as well, and never restored.
    let saved = bytes(&found["pause"]["saved_bytes"]);
    assert_eq!(bytes(&found["resume"]["restored_bytes"]), saved - doomed);
    assert!(found["pause"]["ms"].as_f64().unwrap() > 0.0);
    assert!(found["resume"]["ms"].as_f64().unwrap() > 0.0);

    // Weights and doomed are saved; the last of the weights is not a whole number of granules.
    let saved = bytes(&found["pause"]["saved_bytes"]);
    assert!(saved < 16 * MIB && !saved.is_multiple_of(8), "{saved}");
    let verified = bytes(&found["verified_bytes"]);
    assert!(verified < freed - doomed && verified > freed - doomed - 2 * MIB, "{verified}");

    let free = |step: &str| bytes(&found["free_bytes"][step]);
    assert_eq!(free("start"), free("end"));
    assert_eq!(free("start"), free("paused"));
    assert_eq!(free("paused") - free("active"), freed);
    assert_eq!(free("resumed") - free("active"), doomed);
}

#[test]
fn the_demo_for_people_shows_who_holds_what() {
    let output = dormant(&["demo", "--size", "24MiB"], &[]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    for word in ["weights", "kv_cache", "scratch", "doomed", "active", "paused", "freed", "OK:"] {
        assert!(text.contains(word), "no {word} in {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert_eq!(stderr(&output), "", "no progress bar where there is no terminal");
}

#[test]
fn without_a_size_the_demo_takes_no_more_than_half_of_the_device() {
    let output = dormant(&["demo", "--json"], &[("DORMANT_SIM_CAPACITY", "64MiB")]);
    let found = json(&output);
    assert_eq!(found["ok"], true, "{found}");
    assert_eq!(bytes(&found["pause"]["freed_bytes"]), 32 * MIB);
}

#[test]
fn the_demo_holds_with_another_granule_and_where_memory_stays_with_its_range() {
    for environment in [
        [("DORMANT_SIM_GRANULARITY", "64KiB")],
        [("DORMANT_SIM_FAULTS", "keep_until_unreserved")],
        [("DORMANT_SIM_FAULTS", "refuse_host_registration")],
    ] {
        let output = dormant(&["demo", "--size", "9MiB", "--json"], &environment);
        assert_eq!(output.status.code(), Some(0), "{environment:?}: {}", json(&output));
    }
}

#[test]
fn a_demo_that_loses_an_address_fails_and_says_so() {
    let faults = [("DORMANT_SIM_FAULTS", "address_lost")];
    let output = dormant(&["demo", "--size", "24MiB", "--json"], &faults);
    assert_eq!(output.status.code(), Some(1));
    let found = json(&output);
    assert_eq!(found["ok"], false);
    assert_eq!(found["error"]["kind"], "address_lost");
    let message = found["error"]["message"].as_str().unwrap();
    assert!(stderr(&output).contains(message));

    let output = dormant(&["demo", "--size", "24MiB"], &faults);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("FAILED"));
    assert!(stderr(&output).contains("address lost"));
}

#[test]
fn a_demo_that_is_too_large_is_refused_with_what_is_wanted_and_free() {
    let small = [("DORMANT_SIM_CAPACITY", "16MiB")];
    for (size, kind) in [("32MiB", "out_of_memory"), ("40GiB", "too_large")] {
        let output = dormant(&["demo", "--size", size, "--json"], &small);
        assert_eq!(output.status.code(), Some(1));
        let found = json(&output);
        assert_eq!((&found["ok"], &found["error"]["kind"]), (&false.into(), &kind.into()));
        let message = stderr(&output);
        for word in [&kind.replace('_', " "), "wanted", "free", "--size"] {
            assert!(message.contains(word), "no {word} in {message}");
        }
    }
}

#[test]
fn a_size_too_small_for_the_granule_is_refused_with_the_least_that_will_do() {
    let output = dormant(&["demo", "--size", "1MiB"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("the demo needs 8.00 MiB"), "{}", stderr(&output));
}

#[test]
fn a_wrong_command_line_exits_with_2() {
    for arguments in [
        ["demo", "--size", "12parsecs"],
        ["demo", "--size", "0"],
        ["demo", "--size", "1.5GiB"],
        ["demo", "--backend", "abacus"],
        ["demo", "--device", "first"],
        ["nap", "--size", "1GiB"],
    ] {
        let output = dormant(&arguments, &[]);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stdout(&output).is_empty());
        assert!(stderr(&output).starts_with("error: "), "{}", stderr(&output));
    }
}

#[test]
fn a_device_that_is_not_there_is_an_error_that_names_it() {
    let output = dormant(&["demo", "--device", "9"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("device 9"), "{}", stderr(&output));
}

/// The GPU backends of this build and the libraries that they look for.
fn gpus() -> Vec<(&'static str, &'static str)> {
    let all = [
        ("cuda", cfg!(feature = "cuda"), "libcuda.so.1"),
        ("hip", cfg!(feature = "hip"), "libamdhip64.so.7"),
    ];
    all.into_iter().filter(|gpu| gpu.1).map(|(name, _, library)| (name, library)).collect()
}

#[test]
fn without_a_driver_a_gpu_backend_is_an_error_that_names_the_library() {
    let found = json(&dormant(&["info", "--json"], &[]));
    let backends = found["backends"].as_array().unwrap();
    for (name, library) in gpus() {
        let info = backends.iter().find(|info| info["backend"] == name).unwrap();
        if info["available"] == true {
            eprintln!("SKIPPED: this machine has a driver for {name}");
            return;
        }
        let output = dormant(&["demo", "--backend", name, "--json"], &[]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(library), "{}", stderr(&output));
        assert_eq!(json(&output)["error"]["kind"], "no_driver");
    }
    // When nobody asks for a backend, the simulated device is taken, and the reason is given.
    let output = dormant(&["demo", "--size", "8MiB"], &[("DORMANT_BACKEND", "")]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    if !gpus().is_empty() {
        assert!(text.starts_with("Note: no GPU driver"), "{text}");
        // The note is wrapped to the width of the terminal.
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("simulated device"), "{text}");
        gpus().iter().for_each(|(_, library)| assert!(words.contains(library), "{text}"));
    }
}

#[test]
fn info_as_json_names_backends_devices_and_build() {
    let output = dormant(&["info", "--json"], &[("DORMANT_SIM_CAPACITY", "64MiB")]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let found = json(&output);
    assert_eq!(found["build"]["version"], env!("CARGO_PKG_VERSION"));
    let backends = found["backends"].as_array().unwrap();
    let sim = backends.iter().find(|backend| backend["backend"] == "sim").unwrap();
    assert_eq!(sim["available"], true);
    let devices = sim["devices"].as_array().unwrap();
    assert_eq!(devices.len(), 2);
    for device in devices {
        assert_eq!(bytes(&device["total_bytes"]), 64 * MIB);
        assert_eq!(bytes(&device["free_bytes"]), 64 * MIB);
        assert_eq!(bytes(&device["granularity_bytes"]), 2 * MIB);
        let capabilities = device["capabilities"].as_array().unwrap();
        assert!(capabilities.contains(&"virtual_memory".into()), "{device}");
    }
    for missing in backends.iter().filter(|backend| backend["available"] == false) {
        assert!(missing["error"]["kind"].is_string(), "{missing}");
    }
}

#[test]
fn info_for_people_and_the_version_name_the_build() {
    let info = dormant(&["info"], &[]);
    let version = dormant(&["--version"], &[]);
    let (info, version) = (stdout(&info), stdout(&version));
    assert_eq!(info.lines().next(), version.lines().next());
    assert!(version.starts_with(concat!("dormant ", env!("CARGO_PKG_VERSION"), ", commit ")));
    assert!(version.contains("sim"), "{version}");
    assert!(info.contains("sim: driver ") && info.contains("virtual_memory"), "{info}");
}

#[test]
fn a_closed_standard_output_is_no_panic_and_the_verdict_still_counts() {
    for (faults, status) in [("", 0), ("address_lost", 1)] {
        let mut child = command(&["demo", "--size", "8MiB"], &[("DORMANT_SIM_FAULTS", faults)])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
    }
}
