//! What a build promises, by stable names, and the conformance cases that hold it to each.
//!
//! A name stays once it is given, and means the same in every later build. A build without a name
//! does not give that guarantee: an older one, for which the promise was not made or not kept.

/// One promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Guarantee {
    /// Its name: small letters and hyphens.
    pub name: &'static str,
    /// What is promised, in one sentence.
    pub promise: &'static str,
    /// The conformance cases that have to pass for it.
    pub cases: &'static [&'static str],
}

/// The table, one entry a guarantee: its name, the promise, the cases.
macro_rules! guarantees {
    ($($name:literal: $promise:literal, [$($case:ident)*];)*) => {
        /// All that this build promises.
        pub const GUARANTEES: &[Guarantee] = &[$(
            Guarantee { name: $name, promise: $promise, cases: &[$(stringify!($case)),*] },
        )*];
    };
}

guarantees! {
    "address-for-life": "A block keeps its address, its id and its size for life.", [
        a_block_keeps_address_id_and_size_over_many_rounds
        detaching_gives_memory_back_and_keeps_the_address_out_of_reach
        reservations_do_not_overlap
        threads_reserve_at_once_and_no_ranges_overlap
        a_reservation_starts_on_a_granule_and_takes_no_memory
        addresses_given_back_are_reserved_and_mapped_again
        find_and_blocks_agree_at_addresses_inside_too
    ];
    "memory-given-back": "A pause gives the physical memory back to the device.", [
        a_pause_gives_the_memory_back_and_a_resume_takes_it_again
        creating_takes_memory_at_once_and_releasing_gives_it_back
        the_device_gets_its_memory_back
        a_pause_on_a_full_device_makes_room_for_another_tag
    ];
    "free-while-paused": "A paused block can be freed, and its memory is released once.", [
        a_block_freed_while_paused_gives_its_bytes_back_once
        a_paused_block_is_freed_from_another_thread
        a_backup_outlives_a_free_of_the_paused_block
    ];
    "free-from-any-thread": "A block is freed from any thread, also while others pause and resume.", [
        a_block_is_freed_from_another_thread_outside_its_region
        frees_race_pauses_and_no_block_is_lost
    ];
    "free-only-ours-once": "A second free, and one of foreign memory, is an error and frees nothing.", [
        a_second_free_and_a_foreign_address_are_not_found
        a_free_with_the_id_of_another_block_frees_nothing
    ];
    "work-in-flight-finishes": "Pause and free wait for work in flight, and lose none of its results.", [
        work_in_flight_is_finished_before_it_is_saved
        a_free_waits_for_work_in_flight
        copies_of_one_stream_happen_in_order
        two_streams_of_a_device_work_side_by_side
    ];
    "transactional-pause": "A pause that fails before it takes memory changes nothing.", [
        a_pause_with_no_time_works_or_changes_nothing
        backups_over_their_limit_are_refused_before_anything_is_touched
    ];
    "transactional-resume": "A resume is all or nothing, keeps every backup when it fails, and can be tried again.", [
        a_resume_without_room_changes_nothing_and_works_later
        a_resume_of_two_tags_is_all_or_nothing
        a_resume_waits_for_memory_that_comes_free
    ];
    "oom-returns": "Too little memory is an error to handle, and never ends the process.", [
        running_out_of_memory_leaves_a_paused_tag_asleep
        an_allocation_that_fails_leaves_nothing_behind
        more_than_the_device_has_is_too_large
        an_allocation_of_no_bytes_is_refused
    ];
    "host-backup-exact": "What is kept in host memory comes back byte for byte.", [
        host_keeps_every_byte_at_every_size
        a_block_of_many_chunks_keeps_every_byte_over_three_rounds
        a_second_pause_saves_the_newer_contents
        parts_of_a_block_are_read_and_written
        the_host_policy_given_at_pause_keeps_the_bytes_of_every_block
        bytes_behind_the_logical_size_are_neither_saved_nor_charged
        a_block_of_several_handles_holds_its_contents
        every_way_of_keeping_contents_works_in_one_call
    ];
    "retained-backup-exact": "What is kept in retained host memory comes back byte for byte, and stays as long as it is lent.", [
        retained_memory_keeps_every_byte_before_and_after_it_is_registered
        many_small_blocks_keep_their_own_bytes
        a_lease_of_retained_memory_is_not_written_over
    ];
    "disk-backup-exact": "What is kept on disk comes back byte for byte, and no file is left.", [
        a_disk_backup_comes_back_and_leaves_no_file
        a_disk_backup_is_lent_out_dropped_and_freed
    ];
    "zero-is-zero": "Memory of the policy zero reads as zero at first use and after every resume.", [
        zero_reads_as_zero_at_first_use_and_after_a_resume
        a_fill_of_a_part_leaves_the_rest
    ];
    "discard-is-usable": "Memory of the policy discard can be written again after a resume.", [
        discard_is_writable_again_after_a_resume
    ];
    "backup-readable": "A backup can be read while its block sleeps, and ends when it is given back or dropped.", [
        a_backup_is_readable_while_the_block_sleeps_and_outlives_the_resume
        a_dropped_backup_is_gone_and_the_block_still_wakes
        a_backup_can_be_registered_and_ends_so_when_it_is_given_back
        reading_a_paused_block_is_refused
    ];
    "plan-is-true": "The plan of a pause names what the pause then takes.", [
        a_plan_is_what_the_pause_comes_to
    ];
    "idempotent-transitions": "Pausing what is paused, resuming what is active and naming an unknown tag are no errors.", [
        pausing_the_paused_and_resuming_the_active_is_counted
        an_unknown_tag_is_no_error
        a_resume_of_no_tags_wakes_nobody
        resuming_everything_with_one_tag_active_works
        a_block_allocated_under_a_paused_tag_is_active
    ];
    "tags-apart": "Only the tags named are paused and resumed, in any order, and no tag gets another's memory.", [
        only_the_selected_tags_are_paused
        tags_are_resumed_in_any_order
        memory_of_one_tag_is_not_handed_out_under_another
        one_tag_may_hold_blocks_of_every_policy
        a_policy_given_at_pause_holds_for_the_blocks_of_that_pause_alone
    ];
    "regions-nest": "A region gives tag and policy, and leaving it brings the outer one back, on any thread.", [
        a_region_gives_tag_and_policy_and_the_outer_one_comes_back
        a_region_carried_to_another_thread_names_the_tag_there
    ];
    "devices-apart": "Blocks of several devices keep their own bytes.", [
        two_devices_keep_their_own_bytes
        an_unknown_device_is_refused_and_named
    ];
    "threads-safe": "Any number of threads allocate, use, pause and resume at once.", [
        allocations_race_pauses_and_every_block_is_usable
        transitions_from_many_threads_take_turns
        threads_read_and_write_blocks_of_their_own_at_once
    ];
    "captures-unbroken": "During a known graph capture a pause is refused, and frees wait for its end.", [
        a_pause_during_a_known_capture_is_refused_and_frees_wait_for_its_end
        the_last_capture_that_ends_frees_what_was_put_off
    ];
    "counts-true": "Reports and statistics name the blocks and bytes that there are.", [
        a_report_counts_blocks_bytes_and_tags
        stats_add_up_to_the_blocks_there_are
    ];
    "driver-rules": "The driver answers as the rules over it assume.", [
        a_device_offers_virtual_memory
        a_reservation_not_in_granules_is_refused
        a_creation_not_in_granules_is_refused
        physical_memory_of_the_wrong_size_comes_back_with_the_block
        registering_host_memory_twice_is_refused
    ];
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_words_with_hyphens_and_no_two_are_the_same() {
        let mut names = BTreeSet::new();
        for Guarantee { name, promise, cases } in GUARANTEES {
            assert!(name.bytes().all(|byte| byte == b'-' || byte.is_ascii_lowercase()), "{name}");
            assert!(promise.ends_with('.') && !cases.is_empty(), "{name}");
            assert!(names.insert(name), "{name} twice");
        }
    }
}
