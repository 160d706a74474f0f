//! Access of one device to another's blocks follows the program's own calls.

use dormant_tests::hooked::Hooked;

fn everywhere(case: &str) {
    for hooked in Hooked::everywhere() {
        hooked.run_with("peers.c", case, |command| {
            command.env("DORMANT_SIM_DEVICES", "3").env("DORMANT_SIM_CAPACITY", "32MiB");
        });
    }
}

#[test]
fn access_that_the_program_gives_is_for_blocks_that_are_there_that_sleep_and_that_come() {
    everywhere("before_and_after_allocation");
}

#[test]
fn access_that_was_given_before_the_engine_was_opened_counts() {
    everywhere("before_the_engine");
}

#[test]
fn what_the_runtime_refuses_changes_nothing() {
    everywhere("refusals");
}

#[test]
fn a_peer_that_a_region_names_keeps_its_access() {
    everywhere("named_by_the_region");
}
