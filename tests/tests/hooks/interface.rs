//! The C interface by itself: programs that are linked to nothing and open the library, on the
//! simulated device.

use dormant_tests::c::{program, said};
use dormant_tests::doubles::{Folder, find_built};

pub(crate) fn run(source: &str, case: &str) {
    run_with(source, case, &[]);
}

pub(crate) fn run_with(source: &str, case: &str, environment: &[(&str, &str)]) {
    let folder = Folder::new(&[]);
    let mut command = folder.command(program(source, &["-pthread", "-ldl"]));
    command.env("TEST_LIBRARY", find_built("libdormant_capi.so", "dormant-capi"));
    command.env("DORMANT_BACKEND", "sim").env("DORMANT_SIM_DEVICES", "1");
    command.env("DORMANT_SIM_CAPACITY", "64MiB").env("LOCAL_WORLD_SIZE", "4");
    command.envs(environment.iter().copied());
    let output = command.arg(case).output().expect("a run");
    let what = format!("{case}: {}", said(&output));
    assert!(output.status.success() && output.stderr.is_empty(), "{what}");
    assert_eq!(output.stdout, b"all is well\n", "{what}");
}

#[test]
fn structs_are_written_no_further_than_their_size_says() {
    run("interface.c", "written_structs");
}

#[test]
fn a_transition_with_a_wrong_struct_for_its_report_does_nothing() {
    run("interface.c", "refused_before_anything");
}

#[test]
fn what_a_smaller_struct_leaves_out_is_as_if_nothing_was_said() {
    run("interface.c", "read_structs");
}

#[test]
fn null_is_refused_or_means_what_it_says_in_every_argument() {
    run("interface.c", "nulls");
}

#[test]
fn values_that_make_no_sense_are_refused() {
    run("interface.c", "wrong_values");
}

#[test]
fn the_last_error_is_the_threads_and_stays_until_the_next() {
    run("interface.c", "errors");
}

#[test]
fn settings_are_chosen_before_the_first_use_and_refused_after() {
    run("lending.c", "settings");
}

#[test]
fn reports_and_counts_come_in_sum_and_in_parts() {
    run("lending.c", "reports");
}

#[test]
fn a_backup_on_loan_outlives_a_resume_and_a_free() {
    run("lending.c", "lease");
}

#[test]
fn backups_can_be_dropped_by_tag() {
    run("lending.c", "dropped");
}

#[test]
fn a_region_is_carried_to_another_thread_with_all_it_says() {
    run("lending.c", "carried");
}

#[test]
fn torch_has_a_pair_of_functions_for_each_set_of_settings() {
    run("lending.c", "torch");
}

#[test]
fn bytes_are_read_and_written_inside_blocks() {
    run("lending.c", "copies");
}

#[test]
fn captures_by_number_are_like_those_that_hooks_see() {
    run("lending.c", "captures");
}
