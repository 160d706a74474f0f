//! Finding and starting the runtime.

use std::process::Command;

use allocator_core::{Capabilities, Device, Driver, ErrorKind, Operation};
use dormant_hip::Hip;

use crate::fake::{Fake, compile};

#[test]
fn without_a_library_the_error_names_the_files_that_were_tried() {
    match Hip::open() {
        Ok(hip) => assert_eq!(hip.info().backend, "hip", "a machine with ROCm"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NoDriver);
            assert_eq!(error.operation(), Operation::Open);
            for name in ["libamdhip64.so.10", "libamdhip64.so.7", "libamdhip64.so.6"] {
                assert!(error.to_string().contains(name), "{error}");
            }
        }
    }
}

#[test]
fn a_path_that_is_not_there_is_named() {
    // SAFETY: there is no such file.
    let error = unsafe { Hip::open_at("/nowhere/libamdhip64.so.7") }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoDriver);
    assert!(error.to_string().contains("/nowhere/libamdhip64.so.7"), "{error}");
}

#[test]
fn a_library_without_a_needed_symbol_is_refused_by_the_symbols_name() {
    let fake = Fake::build(&["WITHOUT_MAP"]);
    let error = fake.try_open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoDriver);
    assert!(error.to_string().contains("hipMemMap"), "{error}");
}

#[test]
fn a_library_that_is_no_runtime_at_all_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("empty.c");
    std::fs::write(&source, "int nothing;").unwrap();
    let path = folder.path().join("stand_in.so");
    compile(&[source.to_str().unwrap()], &[], &path);
    // SAFETY: the file has no initialisers, and none of a runtime's symbols.
    let error = unsafe { Hip::open_at(&path) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoDriver);
    assert!(error.to_string().contains("hipInit"), "{error}");
}

#[test]
fn a_runtime_older_than_6_0_is_refused_and_its_version_named() {
    let fake = Fake::build(&[]);
    fake.set("version", 50_221_153);
    let error = fake.try_open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    let text = error.to_string();
    assert!(text.contains("5.2.21153") && text.contains("6.0"), "{text}");
    assert!(text.contains(fake.path().to_str().unwrap()), "{text}");
    for (number, version) in [(60_000_000, "6.0.0"), (100_143_512, "10.1.43512")] {
        fake.set("version", number);
        assert_eq!(fake.open().info().version, version);
    }
}

#[test]
fn a_runtime_that_sees_no_device_is_no_driver() {
    let fake = Fake::build(&[]);
    for (answer, code) in
        [("init_result", 100), ("init_result", 101), ("count_result", 100), ("count_result", 101)]
    {
        fake.set(answer, code);
        let error = fake.try_open().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoDriver);
        let text = error.to_string();
        assert!(text.contains("no device") && text.contains("HIP_VISIBLE_DEVICES"), "{text}");
        fake.set(answer, 0);
    }
}

#[test]
fn another_failure_to_start_has_its_own_kind_and_code() {
    let fake = Fake::build(&[]);
    fake.set("init_result", 999);
    let error = fake.try_open().unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Unknown, Some(999)));
    assert!(error.text().starts_with("hipInit: "), "{error}");
}

/// Runs a test of this program in a process with another environment.
pub(crate) fn child(test: &str, variables: &[(&str, &str)]) -> (bool, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    (output.status.success() && text.contains("1 passed"), text)
}

#[test]
fn the_environment_names_the_library() {
    let fake = Fake::build(&[]);
    let test = "open::child_opens_what_the_environment_names";
    let (well, text) = child(test, &[("DORMANT_HIP_LIBRARY", fake.path().to_str().unwrap())]);
    assert!(well, "{text}");
    let (well, text) = child(test, &[("DORMANT_HIP_LIBRARY", "/nowhere/stand_in.so")]);
    assert!(!well);
    assert!(
        text.contains("DORMANT_HIP_LIBRARY") && text.contains("/nowhere/stand_in.so"),
        "{text}"
    );
}

#[test]
#[ignore = "run by the_environment_names_the_library in a process of its own"]
fn child_opens_what_the_environment_names() {
    let Some(path) = std::env::var_os("DORMANT_HIP_LIBRARY") else { return };
    let hip = Hip::open().unwrap();
    assert_eq!(hip.info().library.as_deref(), path.to_str());
}

#[test]
fn the_runtime_says_what_it_is_without_using_a_device() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    let info = hip.info();
    assert_eq!((info.backend, info.version.as_str()), ("hip", "7.2.53211"));
    assert_eq!(info.library.as_deref(), fake.path().to_str());

    let devices = hip.devices().unwrap();
    assert_eq!(devices.len(), 2);
    assert_eq!(devices[1].device, Device(1));
    assert_eq!(devices[1].name, "Stand-in GPU");
    assert_eq!(devices[1].total_bytes, 1 << 30);
    assert_eq!(hip.granularity(Device(1)).unwrap().bytes(), 2 << 20);
    for count in ["readings", "reserves", "creates", "streams", "synchronizations"] {
        assert_eq!(fake.get(count), 0, "{count}");
    }
    assert_eq!(fake.current(), 0);
}

#[test]
fn the_granularity_is_asked_with_the_properties_of_create_on_the_device_it_is_about() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    let properties =
        || (0..8).map(|index| fake.get_at("last_properties", index)).collect::<Vec<_>>();
    hip.granularity(Device(1)).unwrap();
    assert_eq!(fake.get("last_device"), 1);
    let asked = properties();
    let physical = hip.create(Device(1), 2 << 20).unwrap();
    assert_eq!(properties(), asked);
    // Pinned, no handle type, device 1, nothing else.
    assert_eq!(asked, [1, 0, 1, 1, 0, 0, 0, 0]);
    hip.release(physical).unwrap();
}

#[test]
fn a_device_that_is_not_there_is_not_found() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    for error in [
        hip.memory(Device(2)).unwrap_err(),
        hip.granularity(Device(2)).unwrap_err(),
        hip.capabilities(Device(2)).unwrap_err(),
        hip.reserve(Device(2), 2 << 20).unwrap_err(),
        hip.open_stream(Device(2)).unwrap_err(),
        hip.quiesce(Device(2), allocator_core::Deadline::NEVER).unwrap_err(),
        hip.enable_peer(Device(0), Device(2)).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.device(), Some(Device(2)));
    }
}

#[test]
fn a_device_without_virtual_memory_is_named_and_has_no_blocks() {
    let fake = Fake::build(&[]);
    fake.set("has_vmm", 0);
    let hip = fake.open();
    assert_eq!(hip.capabilities(Device(0)).unwrap(), Capabilities::empty());
    for error in [
        hip.granularity(Device(0)).unwrap_err(),
        hip.reserve(Device(0), 2 << 20).unwrap_err(),
        hip.create(Device(0), 2 << 20).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotSupported);
        let text = error.to_string();
        assert!(text.contains("VirtualMemoryManagement") && text.contains("Stand-in"), "{text}");
    }
    assert_eq!(fake.get("reserves"), 0);
}
