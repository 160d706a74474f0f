//! C programs that are linked to a runtime, in a child process.

use std::process::Command;

use dormant_tests::c::{program, run, said};
use dormant_tests::doubles::{Double, Folder};

#[test]
fn a_program_linked_to_either_runtime_runs_on_the_stand_ins() {
    for version in [12, 13] {
        let folder = Folder::new(&[Double::Cuda]).with_cudart(version);
        let library = format!("-l:libcudart.so.{version}");
        let search = format!("-L{}", folder.path().display());
        let program = program("runtime.c", &[&search, &library]);
        let needed = run(Command::new("readelf").arg("-V").arg(&program));
        let needed = String::from_utf8_lossy(&needed.stdout).into_owned();
        assert!(needed.contains(&format!("Name: libcudart.so.{version}")), "{needed}");

        let report = folder.path().join("report");
        let mut child = folder.command(&program);
        child.env("DORMANT_SIM_DEVICES", "2").env("DORMANT_SIM_CAPACITY", "64MiB");
        let output = run(child.env("DORMANT_DOUBLE_REPORT", &report));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "all is well\n");
        assert!(output.stderr.is_empty(), "{}", said(&output));
        let report = std::fs::read_to_string(report).expect("a report at the end");
        for line in ["cuMemAlloc_v2 1", "cuMemFree_v2 2", "contexts 1", "contexts_made 1"] {
            assert!(report.lines().any(|found| found == line), "{line} is not in\n{report}");
        }
    }
}

#[test]
fn a_program_without_a_driver_is_told_so() {
    let folder = Folder::new(&[]).with_cudart(12);
    let search = format!("-L{}", folder.path().display());
    let program = program("runtime.c", &[&search, "-l:libcudart.so.12"]);
    let output = folder.command(&program).output().expect("a run");
    // cudaErrorInsufficientDriver.
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("35"), "{}", said(&output));
}

#[test]
fn a_configuration_that_cannot_be_is_said_on_stderr() {
    let folder = Folder::new(&[Double::Cuda]).with_cudart(12);
    let search = format!("-L{}", folder.path().display());
    let program = program("runtime.c", &[&search, "-l:libcudart.so.12"]);
    let mut child = folder.command(&program);
    let output = child.env("DORMANT_SIM_CAPACITY", "lots").output().expect("a run");
    assert!(!output.status.success());
    let said = said(&output);
    assert!(said.contains("stand-in driver:") && said.contains("DORMANT_SIM_CAPACITY"), "{said}");
}
