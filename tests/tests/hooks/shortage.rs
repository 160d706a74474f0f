//! Memory that is short, and the thread as the real call leaves it.

use dormant_tests::c::said;
use dormant_tests::hooked::Hooked;

fn everywhere(case: &str) {
    Hooked::everywhere().for_each(|hooked| hooked.run("shortage.c", case));
}

#[test]
fn a_region_that_is_out_of_memory_is_told_so_by_the_runtimes_own_error_and_works_after_a_free() {
    everywhere("out_of_memory");
}

#[test]
fn for_torch_an_allocation_that_cannot_be_is_null() {
    everywhere("torch_out_of_memory");
}

#[test]
fn a_margin_refuses_allocations_in_one_line_and_never_a_resume() {
    for hooked in Hooked::everywhere() {
        let mut command = hooked.command(hooked.compile("shortage.c", &[]));
        command.arg("margin").env("DORMANT_SIM_CAPACITY", "66MiB");
        let output = command.output().expect("a run");
        let words = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<_> = words.lines().collect();
        assert!(output.status.success(), "{}", said(&output));
        assert!(
            matches!(lines[..], [line] if line.starts_with("dormant: ") && line.contains("margin")),
            "{}",
            said(&output)
        );
    }
}

#[test]
fn a_context_is_current_on_a_fresh_thread_after_an_allocation_of_ours() {
    everywhere("a_context_is_current");
    everywhere("the_first_call");
}

#[test]
fn a_context_that_was_taken_away_is_current_again() {
    everywhere("a_context_that_was_taken_away");
}

#[test]
fn memory_is_the_current_devices_and_no_call_changes_which_that_is() {
    for hooked in Hooked::everywhere() {
        hooked.run_with("shortage.c", "the_current_device", |command| {
            command.env("DORMANT_SIM_DEVICES", "2");
        });
    }
}

#[test]
fn memory_of_another_vendors_engine_is_refused() {
    for hooked in Hooked::everywhere() {
        hooked.run_with("shortage.c", "another_vendors_engine", |command| {
            command.env("DORMANT_BACKEND", "sim");
        });
    }
}
