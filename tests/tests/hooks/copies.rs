//! Several of our files in one process are one; of two builds the second says so.

use std::fs;
use std::path::PathBuf;

use dormant_tests::c::said;
use dormant_tests::hooked::{Hooked, Preload, Runtime};

/// A byte copy of `libdormant.so` beside it.
fn copy(hooked: &Hooked) -> PathBuf {
    let copy = hooked.path().join("copy.so");
    fs::copy(hooked.library(), &copy).expect("a copy");
    copy
}

/// A copy whose build text is another.
fn other_build(hooked: &Hooked) -> PathBuf {
    let mut bytes = fs::read(hooked.library()).expect("the library");
    let (text, other) = (b", backends ", b" dormanT");
    let mut found = 0;
    for at in 0..bytes.len() - text.len() {
        if bytes[at..].starts_with(text) {
            bytes[at..at + other.len()].copy_from_slice(other);
            found += 1;
        }
    }
    assert_ne!(found, 0, "the build's text is not as this test knows it");
    let path = hooked.path().join("other_build.so");
    fs::write(&path, bytes).expect("another build");
    path
}

#[test]
fn what_one_file_allocates_a_second_pauses_and_a_third_reads() {
    for hooked in Hooked::everywhere() {
        let copy = copy(&hooked);
        hooked.run_with("copies.c", "three_files", |command| {
            command.env("COPY", copy).env("TORCH_SHIM", hooked.torch_shim());
        });
    }
}

#[test]
fn a_copy_that_is_opened_for_all_to_see_is_the_same_engine() {
    for hooked in Hooked::everywhere() {
        let copy = copy(&hooked);
        hooked.run_with("copies.c", "global_copy", |command| {
            command.env("COPY", copy);
        });
    }
}

#[test]
fn two_files_of_ours_in_one_preload_count_nothing_twice() {
    for hooked in Hooked::everywhere() {
        let second = match hooked.preload() {
            Preload::Library => copy(&hooked),
            Preload::Shim => hooked.library(),
        };
        hooked.run_with("copies.c", "chained", |command| {
            let both = format!("{}:{}", hooked.preloaded().display(), second.display());
            command.env("LD_PRELOAD", both);
        });
    }
}

#[test]
fn every_file_knows_whether_hooks_of_ours_are_in_place() {
    for hooked in Hooked::everywhere() {
        let copy = copy(&hooked);
        hooked.run_with("copies.c", "bound", |command| {
            command.env("COPY", copy);
        });
    }
}

#[test]
fn without_a_preload_torch_is_served_by_name() {
    for hooked in Hooked::both() {
        for file in [hooked.torch_shim(), hooked.library()] {
            hooked.run_with("copies.c", "torch_mode", |command| {
                command.env("TORCH_SHIM", file).env_remove("LD_PRELOAD");
            });
        }
    }
}

#[test]
fn copies_that_two_threads_open_at_once_are_one_engine() {
    for hooked in Hooked::both() {
        let copy = copy(&hooked);
        for _ in 0..5 {
            hooked.run_with("copies.c", "raced", |command| {
                command.env("COPY", &copy).env_remove("LD_PRELOAD");
            });
        }
    }
}

#[test]
fn another_build_answers_that_there_are_two_and_hooks_nothing() {
    for hooked in Hooked::everywhere() {
        let other = other_build(&hooked);
        hooked.run_with("copies.c", "two_builds", |command| {
            command.env("OTHER_BUILD", &other);
        });
        // One behind the other in the preload: each call passes both.
        for case in ["outside", "inside", "freed_while_paused"] {
            hooked.run_with("blocks.c", case, |command| {
                let both = format!("{}:{}", hooked.library().display(), other.display());
                command.env("LD_PRELOAD", both);
            });
        }
    }
}

#[test]
fn an_engine_that_comes_after_the_preloaded_file_is_found_and_another_build_is_not_bound() {
    for runtime in [Runtime::Cuda(12), Runtime::Hip] {
        let hooked = Hooked::new(runtime, Preload::Shim);
        let other = other_build(&hooked);
        hooked.run_with("copies.c", "bound_elsewhere", |command| {
            command.env("OTHER", other);
        });
        let late = hooked.path().join("late.so");
        fs::rename(hooked.library(), &late).expect("the library, out of the way");
        let mut command = hooked.command(hooked.compile("copies.c", &[]));
        let output = command.arg("late_engine").env("LATE", late).output().expect("a run");
        assert!(output.status.success(), "{}", said(&output));
        // That there was none is said once.
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(words.lines().count(), 1, "{}", said(&output));
    }
}
