//! Ends of a process that has blocks, in use and asleep.

use dormant_tests::hooked::Hooked;

fn everywhere(case: &str) {
    Hooked::everywhere().for_each(|hooked| hooked.run("exits.c", case));
}

#[test]
fn a_program_ends_with_blocks_in_use_and_asleep() {
    everywhere("from_main");
    everywhere("at_once");
    everywhere("quickly");
}

#[test]
fn handlers_at_exit_may_free_and_allocate() {
    everywhere("handlers");
    everywhere("handlers_that_are_registered_late");
    everywhere("destructors");
}

#[test]
fn handlers_at_exit_are_answered_without_a_word() {
    everywhere("questions");
}

#[test]
fn what_a_thread_frees_at_its_very_end_is_freed() {
    everywhere("of_a_thread");
}

#[test]
fn threads_that_run_on_at_exit_do_no_harm() {
    everywhere("threads_that_run_on");
}

#[test]
fn a_program_may_end_while_a_pause_is_copying() {
    for hooked in Hooked::everywhere() {
        hooked.run_with("exits.c", "during_a_pause", |command| {
            command.env("DORMANT_SIM_LINK", "4MiB");
        });
    }
}
