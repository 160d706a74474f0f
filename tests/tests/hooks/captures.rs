//! Stream captures: what is refused, what is put off, and what ends one.

use dormant_tests::hooked::Hooked;

fn everywhere(case: &str) {
    Hooked::everywhere().for_each(|hooked| hooked.run("captures.c", case));
}

#[test]
fn during_a_capture_a_pause_is_refused_and_breaks_nothing() {
    everywhere("refuses_pauses");
}

#[test]
fn frees_of_active_blocks_are_put_off_until_the_last_capture_ends() {
    everywhere("puts_frees_off");
}

#[test]
fn a_capture_whose_beginning_failed_is_none() {
    everywhere("failed_beginning");
}

#[test]
fn a_broken_capture_is_over_when_it_is_ended() {
    everywhere("broken");
}

#[test]
fn a_capture_that_its_end_was_refused_goes_on() {
    everywhere("goes_on");
    everywhere("of_another_thread");
}

#[test]
fn a_capture_that_began_before_the_engine_was_opened_counts() {
    everywhere("before_the_engine");
}

#[test]
fn a_capture_into_a_graph_that_is_there_counts() {
    everywhere("into_a_graph");
}

#[test]
fn programs_that_are_built_for_streams_of_the_threads_own_are_seen_too() {
    for hooked in Hooked::everywhere() {
        let program = hooked.compile("captures.c", &["-DPER_THREAD"]);
        for case in ["refuses_pauses", "broken", "before_the_engine"] {
            let output = hooked.command(&program).arg(case).output().expect("a run");
            hooked.expect_well(case, &output);
        }
    }
}
