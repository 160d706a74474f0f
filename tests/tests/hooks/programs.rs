//! Programs of all kinds under our preload files, other files in `LD_PRELOAD`, and runtimes that are
//! opened late or have no driver.

use std::fs;
use std::path::Path;
use std::process::Command;

use dormant_tests::c::{self, program, said};
use dormant_tests::doubles::find_built;
use dormant_tests::hooked::{Hooked, Preload, Runtime};

const STDBUF: &str = "/usr/libexec/coreutils/libstdbuf.so";

/// Values of `LD_PRELOAD` in the field: alone, among others, with colons and blanks.
fn preloads(ours: &Path, other: &Path) -> Vec<String> {
    let (ours, other) = (ours.display(), other.display());
    let mut values = vec![
        format!("{ours}"),
        format!("{other}:{ours}"),
        format!("{ours}:{other}"),
        format!("{ours} {other}"),
        format!("  {other}   {ours} "),
        format!(":{ours}: {other}:"),
    ];
    if Path::new(STDBUF).exists() {
        values.extend([format!("{ours}:{STDBUF}"), format!("{STDBUF} {ours}")]);
    }
    values
}

/// A library of somebody else's that stands in front of the same functions.
fn other_hook(hooked: &Hooked) -> std::path::PathBuf {
    let search = format!("-L{}", hooked.path().display());
    let mut arguments = vec![search.as_str(), "-shared", "-fPIC", "-ldl"];
    if hooked.runtime() == Runtime::Hip {
        arguments.push("-DFOR_HIP");
    }
    program("other_hook.c", &arguments)
}

#[test]
fn programs_without_a_gpu_run_under_any_preload() {
    for preload in [Preload::Library, Preload::Shim] {
        let hooked = Hooked::new(Runtime::Hip, preload);
        for value in preloads(&hooked.preloaded(), &other_hook(&hooked)) {
            let run = |program: &str, arguments: &[&str]| {
                let mut command = hooked.command(program);
                command.env("TMS_INIT_ENABLE", "1").env("LD_PRELOAD", &value);
                let output = command.args(arguments).output().expect("a run");
                let what = format!("{program} with LD_PRELOAD=`{value}`: {}", said(&output));
                assert!(output.status.success(), "{what}");
                (what, String::from_utf8_lossy(&output.stderr).into_owned())
            };
            for (program, arguments) in [
                ("/bin/true", &[][..]),
                ("python3", &["-c", "pass"]),
                ("sh", &["-c", "true | cat"]),
            ] {
                let (what, words) = run(program, arguments);
                assert!(words.is_empty(), "{what}");
            }
            // This one speaks on standard error.
            let (what, words) = run(&c::compiler().get_program().to_string_lossy(), &["-v"]);
            assert!(!words.contains("dormant") && !words.contains("ld.so"), "{what}");
        }
    }
}

#[test]
fn a_library_of_somebody_elses_before_and_after_ours_keeps_its_place() {
    for hooked in Hooked::everywhere() {
        let other = other_hook(&hooked);
        for value in preloads(&hooked.preloaded(), &other) {
            hooked.run_with("blocks.c", "freed_while_paused", |command| {
                command.env("LD_PRELOAD", value);
            });
        }
        for case in ["outside", "inside"] {
            hooked.run_with("blocks.c", case, |command| {
                let both = format!("{}:{}", hooked.preloaded().display(), other.display());
                command.env("LD_PRELOAD", both);
            });
        }
    }
}

#[test]
fn a_runtime_that_is_opened_late_and_for_one_library_alone_is_found() {
    for hooked in Hooked::everywhere() {
        let plugin = hooked.compile("plugin.c", &["-shared", "-fPIC"]);
        let mut arguments = vec!["-ldl"];
        if hooked.runtime() == Runtime::Hip {
            arguments.push("-DFOR_HIP");
        }
        for case in ["late", "twice"] {
            let mut command = hooked.command(program("local.c", &arguments));
            let output = command.arg(case).env("PLUGIN", &plugin).output().expect("a run");
            hooked.expect_well(case, &output);
        }
    }
}

#[test]
fn a_small_file_without_its_library_says_so_once_and_hands_calls_on() {
    for runtime in [Runtime::Cuda(13), Runtime::Hip] {
        let hooked = Hooked::new(runtime, Preload::Shim);
        fs::remove_file(hooked.library()).expect("no library");
        let mut command = hooked.command(hooked.compile("driverless.c", &[]));
        let output = command.arg("no_library").output().expect("a run");
        let words = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<_> = words.lines().collect();
        assert!(output.status.success(), "{}", said(&output));
        let line = "dormant: memory will not be pausable: libdormant.so is not at ";
        assert!(matches!(lines[..], [one] if one.starts_with(line)), "{}", said(&output));
        // One that is said to lie elsewhere is taken.
        hooked.run_with("blocks.c", "freed_while_paused", |command| {
            command.env("DORMANT_LIBRARY", find_built("libdormant_capi.so", "dormant-capi"));
        });
    }
}

#[test]
fn a_runtime_without_a_driver_gives_its_own_answer() {
    for preload in [Preload::Library, Preload::Shim] {
        let hooked = Hooked::new(Runtime::Cuda(12), preload);
        fs::remove_file(hooked.path().join("libcuda.so.1")).expect("no driver");
        hooked.run("driverless.c", "no_driver_at_all");
    }
}

#[test]
fn memory_that_could_not_be_made_pausable_makes_a_pause_fail() {
    for hooked in Hooked::everywhere() {
        hooked.run_with("driverless.c", "none_for_us", |command: &mut Command| {
            command.env("DORMANT_CUDA_LIBRARY", "/nowhere/libcuda.so.1");
            command.env("DORMANT_HIP_LIBRARY", "/nowhere/libamdhip64.so.7");
        });
    }
}
