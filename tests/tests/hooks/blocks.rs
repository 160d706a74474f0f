//! Blocks: sizes, frees from elsewhere, and what is not ours.

use dormant_tests::hooked::Hooked;

fn everywhere(case: &str) {
    Hooked::everywhere().for_each(|hooked| hooked.run("blocks.c", case));
}

#[test]
fn blocks_of_any_size_keep_their_first_and_last_byte() {
    everywhere("sizes");
}

#[test]
fn a_block_is_freed_by_a_thread_that_is_in_no_region() {
    everywhere("freed_elsewhere");
}

#[test]
fn outside_a_region_nothing_of_ours_is_called() {
    everywhere("outside");
}

#[test]
fn inside_a_region_bad_calls_and_foreign_blocks_get_the_runtimes_own_answer() {
    everywhere("inside");
}

#[test]
fn a_block_that_is_freed_while_paused_is_gone_and_a_second_free_is_the_runtimes() {
    everywhere("freed_while_paused");
}

#[test]
fn paused_memory_that_is_used_is_refused_by_the_runtime_and_comes_back_whole() {
    everywhere("used_while_paused");
}

#[test]
fn a_handle_for_other_processes_is_refused_for_our_memory_and_passes_for_others() {
    for hooked in Hooked::everywhere() {
        hooked.run_with("blocks.c", "shared", |command| {
            command.env("DORMANT_SIM_FAULTS", "bogus_ipc_handle");
        });
    }
}

#[test]
fn pointers_to_contents_on_disk_live_until_the_block_is_resumed() {
    everywhere("pointers_to_the_disk");
}

#[test]
fn what_is_freed_in_a_callback_is_freed() {
    everywhere("freed_in_a_callback");
}
