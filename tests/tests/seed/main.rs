//! The failure that this project grew from, without a GPU: a block that is freed while it is paused
//! had its handle released twice, and the job ended with `CUresult error: 1`
//! (torch_memory_saver's issue 92).
//!
//! A C program that is linked to the CUDA runtime, or to HIP, runs case F1 on the stand-ins, under
//! `LD_PRELOAD` of ours, or of a published saver's library. Where the package index cannot be
//! reached the tests of those are skips that are seen.

use std::io::Write;
use std::path::Path;
use std::process::Output;

use dormant_tests::c::{program, said};
use dormant_tests::doubles::{Double, Folder};
use dormant_tests::hooked::{Hooked, Preload, Runtime};
use dormant_tests::peer::{fetch, preload_library};

/// What the case said under a version's libraries for the two runtimes; nothing when it is skipped.
fn under(test: &str, version: &str) -> Vec<(bool, String)> {
    let wheel = tempfile::tempdir().expect("a temporary folder");
    if let Err(why) = fetch(version, wheel.path()) {
        // Past the test harness's capture: a skip is to be seen.
        let why = why.trim().lines().last().unwrap_or_default();
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: torch_memory_saver {version}: {why}");
        return Vec::new();
    }
    let outputs = [12, 13].map(|cuda| run_with(&preload_library(wheel.path(), cuda), cuda));
    outputs.map(|output| (output.status.success(), said(&output))).into()
}

fn run_with(library: &Path, cuda: u32) -> Output {
    let folder = Folder::new(&[Double::Cuda]).with_cudart(cuda);
    let search = format!("-L{}", folder.path().display());
    let runtime = format!("-l:libcudart.so.{cuda}");
    let program = program("seed.c", &[&search, &runtime, "-ldl"]);
    let mut child = folder.command(program);
    child.env("LD_PRELOAD", library);
    child.env("DORMANT_SIM_DEVICES", "1").env("DORMANT_SIM_CAPACITY", "64MiB");
    // As the real driver, which lets a second unmap pass: it is the second release that ends it.
    child.env("DORMANT_SIM_STRICT", "0");
    child.output().expect("a run")
}

#[test]
fn under_0_0_9_post1_a_free_while_paused_ends_the_process() {
    let test = "under_0_0_9_post1_a_free_while_paused_ends_the_process";
    for (success, said) in under(test, "0.0.9.post1") {
        assert!(!success, "{said}");
        assert!(said.contains("CUresult error: 1 (invalid argument)"), "{said}");
        assert!(said.contains("func=free"), "{said}");
        assert!(said.contains("free A") && !said.contains("resume"), "{said}");
    }
}

#[test]
fn under_0_0_10_it_works() {
    for (success, said) in under("under_0_0_10_it_works", "0.0.10") {
        assert!(success && said.contains("all is well"), "{said}");
    }
}

#[test]
fn under_ours_it_works() {
    for runtime in [Runtime::Cuda(12), Runtime::Cuda(13), Runtime::Hip] {
        for preload in [Preload::Library, Preload::Shim] {
            let hooked = Hooked::new(runtime, preload);
            let program = hooked.compile("seed.c", &[]);
            // A runtime that keeps memory with its address, and two that do not.
            for hip in ["7.0", "7.2", "7.2-patched"] {
                let mut child = hooked.command(&program);
                child.env("DORMANT_DOUBLE_HIP_VERSION", hip);
                hooked.expect_well(hip, &child.output().expect("a run"));
                if runtime != Runtime::Hip {
                    break;
                }
            }
        }
    }
}
