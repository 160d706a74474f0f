//! Forks while blocks sleep, and while a pause runs: an asynchronous checkpoint.

use dormant_tests::hooked::Hooked;

#[test]
fn a_forked_child_has_its_own_memory_and_leaves_its_parents_blocks_alone() {
    Hooked::everywhere().for_each(|hooked| hooked.run("forks.c", "while_paused"));
}

#[test]
fn a_fork_while_a_pause_copies_hangs_nobody() {
    for hooked in Hooked::everywhere() {
        hooked.run_with("forks.c", "during_a_pause", |command| {
            command.env("DORMANT_SIM_LINK", "16MiB");
        });
    }
}

#[test]
fn a_child_that_was_forked_before_the_first_call_is_a_process_like_any_other() {
    Hooked::everywhere().for_each(|hooked| hooked.run("forks.c", "before_the_first_call"));
}
