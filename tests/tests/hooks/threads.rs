//! Threads that allocate and free in regions and outside, while another pauses and resumes.

use dormant_tests::hooked::Hooked;

#[test]
fn eight_threads_keep_their_contents_while_a_ninth_pauses_and_resumes() {
    for hooked in Hooked::everywhere() {
        hooked.run_with("churn.c", "churn", |command| {
            command.env("DORMANT_SIM_GRANULARITY", "64KiB");
        });
    }
}
