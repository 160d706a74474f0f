//! Regions, raw switches in them, and leaving early.

use dormant_tests::hooked::Hooked;

fn everywhere(case: &str) {
    Hooked::everywhere().for_each(|hooked| hooked.run("regions.c", case));
}

#[test]
fn a_pause_or_resume_with_nothing_to_do_does_nothing() {
    everywhere("nothing_to_do");
}

#[test]
fn switches_that_are_put_back_past_an_exception_leave_the_outer_tag_and_policy() {
    everywhere("switches_raise");
}

#[test]
fn regions_that_are_left_past_an_exception_leave_the_outer_tag_and_policy() {
    everywhere("regions_raise");
}

#[test]
fn a_region_that_is_left_first_takes_along_those_inside_it() {
    everywhere("left_early");
}

#[test]
fn raw_switches_hold_until_their_region_is_left() {
    everywhere("switched_inside");
}
