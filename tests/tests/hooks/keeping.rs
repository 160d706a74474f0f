//! Host memory that is retained or goes back, plans, checksums and notices, through the C interface.

use crate::interface::{run, run_with};

#[test]
fn memory_is_retained_where_a_region_says_so_and_goes_at_a_trim() {
    run("keeping.c", "retained");
}

#[test]
fn a_region_says_how_backups_are_held_and_checked_wherever_it_is_taken() {
    run("keeping.c", "regions");
}

#[test]
fn what_was_prepared_is_used_by_the_pause() {
    run("keeping.c", "prepared");
    run("keeping.c", "prepared_otherwise");
}

#[test]
fn disk_space_is_kept_for_the_next_pause_as_far_as_the_setting_says() {
    run("keeping.c", "disk_kept");
    run("keeping.c", "disk_given_back");
}

#[test]
fn a_plan_says_what_a_pause_would_free_save_and_lack() {
    run("keeping.c", "planned");
}

#[test]
fn saved_contents_that_have_changed_refuse_the_resume_until_they_are_what_they_were() {
    run("keeping.c", "checked");
}

#[test]
fn what_works_less_well_is_said_once() {
    run("keeping.c", "noticed");
}

#[test]
fn a_registration_that_is_refused_is_said_once() {
    run_with("keeping.c", "refused", &[("DORMANT_SIM_FAULTS", "refuse_host_registration")]);
}

#[test]
fn how_memory_is_held_and_checked_can_be_configured() {
    run("keeping.c", "configured");
}
