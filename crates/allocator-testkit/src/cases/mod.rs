//! The cases, by area. Their names are the same for every backend.

pub mod contents;
pub mod disk;
pub mod keeping;
pub mod mapping;
pub mod memory;
pub mod pausing;
pub mod reserve;
pub mod threads;

/// Hands the list of all cases to a macro: `for_each_case!([some_macro] something)` becomes
/// `some_macro! { { something } area { case case } area { case } }`.
#[macro_export]
#[doc(hidden)]
macro_rules! for_each_case {
    ([$($call:tt)*] $($with:tt)*) => {
        $($call)*! { { $($with)* }
            reserve {
                a_reservation_starts_on_a_granule_and_takes_no_memory
                reservations_do_not_overlap
                a_reservation_not_in_granules_is_refused
                an_unknown_device_is_refused_and_named
                threads_reserve_at_once_and_no_ranges_overlap
            }
            mapping {
                a_device_offers_virtual_memory
                creating_takes_memory_at_once_and_releasing_gives_it_back
                a_creation_not_in_granules_is_refused
                a_block_of_several_handles_holds_its_contents
                detaching_gives_memory_back_and_keeps_the_address_out_of_reach
                physical_memory_of_the_wrong_size_comes_back_with_the_block
                copies_of_one_stream_happen_in_order
                registering_host_memory_twice_is_refused
                addresses_given_back_are_reserved_and_mapped_again
                a_fill_of_a_part_leaves_the_rest
                two_streams_of_a_device_work_side_by_side
            }
            contents {
                host_keeps_every_byte_at_every_size
                zero_reads_as_zero_at_first_use_and_after_a_resume
                discard_is_writable_again_after_a_resume
                one_tag_may_hold_blocks_of_every_policy
                a_policy_given_at_pause_holds_for_the_blocks_of_that_pause_alone
                a_backup_is_readable_while_the_block_sleeps_and_outlives_the_resume
                a_dropped_backup_is_gone_and_the_block_still_wakes
                parts_of_a_block_are_read_and_written
                a_block_of_many_chunks_keeps_every_byte_over_three_rounds
                a_second_pause_saves_the_newer_contents
                bytes_behind_the_logical_size_are_neither_saved_nor_charged
                the_host_policy_given_at_pause_keeps_the_bytes_of_every_block
                a_backup_outlives_a_free_of_the_paused_block
                a_backup_can_be_registered_and_ends_so_when_it_is_given_back
            }
            disk {
                a_disk_backup_comes_back_and_leaves_no_file
                a_disk_backup_is_lent_out_dropped_and_freed
            }
            keeping {
                retained_memory_keeps_every_byte_before_and_after_it_is_registered
                many_small_blocks_keep_their_own_bytes
                every_way_of_keeping_contents_works_in_one_call
                a_lease_of_retained_memory_is_not_written_over
                a_plan_is_what_the_pause_comes_to
            }
            pausing {
                a_pause_gives_the_memory_back_and_a_resume_takes_it_again
                a_block_freed_while_paused_gives_its_bytes_back_once
                pausing_the_paused_and_resuming_the_active_is_counted
                an_unknown_tag_is_no_error
                only_the_selected_tags_are_paused
                a_block_allocated_under_a_paused_tag_is_active
                resuming_everything_with_one_tag_active_works
                tags_are_resumed_in_any_order
                a_second_free_and_a_foreign_address_are_not_found
                reading_a_paused_block_is_refused
                a_region_gives_tag_and_policy_and_the_outer_one_comes_back
                memory_of_one_tag_is_not_handed_out_under_another
                work_in_flight_is_finished_before_it_is_saved
                a_free_waits_for_work_in_flight
                two_devices_keep_their_own_bytes
                a_report_counts_blocks_bytes_and_tags
                a_resume_of_no_tags_wakes_nobody
                find_and_blocks_agree_at_addresses_inside_too
                stats_add_up_to_the_blocks_there_are
                a_free_with_the_id_of_another_block_frees_nothing
                a_pause_with_no_time_works_or_changes_nothing
                a_block_keeps_address_id_and_size_over_many_rounds
            }
            memory {
                a_resume_without_room_changes_nothing_and_works_later
                a_resume_of_two_tags_is_all_or_nothing
                a_resume_waits_for_memory_that_comes_free
                more_than_the_device_has_is_too_large
                an_allocation_that_fails_leaves_nothing_behind
                an_allocation_of_no_bytes_is_refused
                backups_over_their_limit_are_refused_before_anything_is_touched
                running_out_of_memory_leaves_a_paused_tag_asleep
                a_pause_on_a_full_device_makes_room_for_another_tag
            }
            threads {
                a_block_is_freed_from_another_thread_outside_its_region
                frees_race_pauses_and_no_block_is_lost
                allocations_race_pauses_and_every_block_is_usable
                transitions_from_many_threads_take_turns
                a_pause_during_a_known_capture_is_refused_and_frees_wait_for_its_end
                threads_read_and_write_blocks_of_their_own_at_once
                a_paused_block_is_freed_from_another_thread
                a_region_carried_to_another_thread_names_the_tag_there
                the_last_capture_that_ends_frees_what_was_put_off
            }
        }
    };
}
