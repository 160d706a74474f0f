//! Finding and starting the driver.

use std::process::Command;

use allocator_core::{Capabilities, Device, Driver, ErrorKind, Operation};
use dormant_cuda::Cuda;

use crate::fake::{Fake, compile};

#[test]
fn without_a_library_the_error_names_the_files_that_were_tried() {
    match Cuda::open() {
        Ok(cuda) => assert_eq!(cuda.info().backend, "cuda", "a machine with a driver"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NoDriver);
            assert_eq!(error.operation(), Operation::Open);
            assert!(error.to_string().contains("libcuda.so.1"), "{error}");
        }
    }
}

#[test]
fn a_path_that_is_not_there_is_named() {
    // SAFETY: there is no such file.
    let error = unsafe { Cuda::open_at("/nowhere/libcuda.so.1") }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoDriver);
    assert!(error.to_string().contains("/nowhere/libcuda.so.1"), "{error}");
}

#[test]
fn a_library_without_a_needed_symbol_is_refused_by_the_symbols_name() {
    let fake = Fake::build(&["WITHOUT_MAP"]);
    let error = fake.try_open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoDriver);
    assert!(error.to_string().contains("cuMemMap"), "{error}");
}

#[test]
fn a_library_that_is_no_driver_at_all_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("empty.c");
    std::fs::write(&source, "int nothing;").unwrap();
    let path = folder.path().join("stand_in.so");
    compile(&[source.to_str().unwrap()], &[], &path);
    // SAFETY: the file has no initialisers, and none of a driver's symbols.
    let error = unsafe { Cuda::open_at(&path) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoDriver);
    assert!(error.to_string().contains("cuInit"), "{error}");
}

#[test]
fn a_toolkits_stub_is_told_from_a_driver_and_named() {
    let fake = Fake::build(&[]);
    fake.set("init_result", 34);
    let error = fake.try_open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoDriver);
    assert_eq!(error.code(), Some(34));
    let text = error.to_string();
    assert!(text.contains("stub") && text.contains(fake.path().to_str().unwrap()), "{text}");
}

#[test]
fn a_driver_that_sees_no_device_is_no_driver() {
    let fake = Fake::build(&[]);
    fake.set("init_result", 100);
    let error = fake.try_open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoDriver);
    assert!(error.to_string().contains("no device"), "{error}");
}

#[test]
fn another_failure_to_start_has_its_own_kind_and_code() {
    let fake = Fake::build(&[]);
    fake.set("init_result", 999);
    let error = fake.try_open().unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Unknown, Some(999)));
    assert!(error.text().starts_with("cuInit: "), "{error}");
}

#[test]
fn the_environment_names_the_library() {
    let fake = Fake::build(&[]);
    let child = |path: &std::ffi::OsStr| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "open::child_opens_what_the_environment_names", "--ignored"])
            .env("DORMANT_CUDA_LIBRARY", path)
            .output()
            .unwrap()
    };
    let output = child(fake.path().as_os_str());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    let output = child("/nowhere/stand_in.so".as_ref());
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        text.contains("DORMANT_CUDA_LIBRARY") && text.contains("/nowhere/stand_in.so"),
        "{text}"
    );
}

#[test]
#[ignore = "run by the_environment_names_the_library in a process of its own"]
fn child_opens_what_the_environment_names() {
    let Some(path) = std::env::var_os("DORMANT_CUDA_LIBRARY") else { return };
    let cuda = Cuda::open().unwrap();
    assert_eq!(cuda.info().library.as_deref(), path.to_str());
}

#[test]
fn the_driver_says_what_it_is_without_a_context() {
    let fake = Fake::build(&[]);
    let cuda = fake.open();
    let info = cuda.info();
    assert_eq!((info.backend, info.version.as_str()), ("cuda", "12.4"));
    assert_eq!(info.library.as_deref(), fake.path().to_str());

    let devices = cuda.devices().unwrap();
    assert_eq!(devices.len(), 2);
    assert_eq!(devices[1].device, Device(1));
    assert_eq!(devices[1].name, "Stand-in GPU");
    assert_eq!(devices[1].total_bytes, 1 << 30);
    assert_eq!(cuda.granularity(Device(1)).unwrap().bytes(), 2 << 20);
    assert_eq!(
        cuda.capabilities(Device(0)).unwrap(),
        Capabilities::VIRTUAL_MEMORY | Capabilities::RDMA | Capabilities::POLLED_QUIESCE
    );
    assert_eq!(fake.get("retains"), 0);
    assert_eq!(fake.current(), 0);
}

#[test]
fn the_granularity_is_asked_with_the_properties_of_create() {
    let fake = Fake::build(&[]);
    let cuda = fake.open();
    let properties =
        || (0..8).map(|index| fake.get_at("last_properties", index)).collect::<Vec<_>>();
    cuda.granularity(Device(1)).unwrap();
    let asked = properties();
    let physical = cuda.create(Device(1), 2 << 20).unwrap();
    assert_eq!(properties(), asked);
    assert_eq!(asked[3], 1, "the device");
    cuda.release(physical).unwrap();
}

#[test]
fn a_device_that_is_not_there_is_not_found() {
    let fake = Fake::build(&[]);
    let cuda = fake.open();
    for error in [
        cuda.memory(Device(2)).unwrap_err(),
        cuda.granularity(Device(2)).unwrap_err(),
        cuda.capabilities(Device(2)).unwrap_err(),
        cuda.reserve(Device(2), 2 << 20).unwrap_err(),
        cuda.open_stream(Device(2)).unwrap_err(),
        cuda.enable_peer(Device(0), Device(2)).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.device(), Some(Device(2)));
    }
}

#[test]
fn a_device_without_virtual_memory_is_named_and_has_no_blocks() {
    let fake = Fake::build(&[]);
    fake.set("has_vmm", 0);
    let cuda = fake.open();
    assert_eq!(cuda.capabilities(Device(0)).unwrap(), Capabilities::POLLED_QUIESCE);
    for error in [
        cuda.granularity(Device(0)).unwrap_err(),
        cuda.reserve(Device(0), 2 << 20).unwrap_err(),
        cuda.create(Device(0), 2 << 20).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotSupported);
        let text = error.to_string();
        assert!(text.contains("VIRTUAL_MEMORY_MANAGEMENT") && text.contains("Stand-in"), "{text}");
    }
    assert_eq!(fake.get("retains"), 0);
}
