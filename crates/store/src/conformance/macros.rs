//! Turns the cases into tests.

/// Makes a test of each case of the [suite](crate::conformance), for one harness.
///
/// Takes an expression that makes a [`Harness`](crate::conformance::Harness); each test makes its
/// own. Two suites in one file go into two modules with `use super::*`.
#[macro_export]
macro_rules! conformance_suite {
    ($harness:expr) => {
        $crate::conformance_cases! { ($harness)
            acquire {
                a_free_name_is_granted_for_its_whole_ttl
                a_held_name_is_busy_and_says_for_how_long_and_by_whom
                a_busy_answer_changes_nothing
                a_lease_runs_until_the_instant_before_its_end_and_not_at_it
                another_client_sees_the_grant_and_its_end
                of_many_at_once_exactly_one_is_granted
                names_do_not_disturb_each_other
                fencing_tokens_grow_from_grant_to_grant
                fencing_tokens_grow_though_the_record_was_forgotten
                the_fencing_token_is_above_the_callers_floor
                a_floor_too_far_ahead_is_refused_and_changes_nothing
                a_proposed_fencing_token_is_taken_where_it_is_above
                a_proposed_fencing_token_that_is_not_above_is_answered_with_the_record
                a_proposed_fencing_token_below_the_floor_is_answered_with_the_floor
                a_proposed_fencing_token_too_far_ahead_is_refused
                a_request_is_carried_out_at_its_deadline_and_refused_after_it
            }
            renew {
                a_renewal_prolongs_the_lease_from_now
                a_renewal_never_moves_the_end_back
                a_renewal_in_the_instant_before_the_end_succeeds
                a_renewal_at_the_end_is_refused_and_brings_nothing_back
                a_renewal_by_another_token_changes_nothing
                a_renewal_of_a_released_lease_is_refused
                a_renewal_of_a_name_nobody_ever_took_is_refused
                a_renewal_after_somebody_else_took_it_is_refused
                a_batch_is_answered_in_order_and_a_lost_lease_harms_no_other
                an_empty_batch_has_no_answers
                the_largest_batch_is_renewed_whole
            }
            release {
                a_release_frees_the_name_for_everybody
                a_release_by_another_token_changes_nothing
                a_release_of_a_name_nobody_ever_took_says_expired
                a_release_in_the_instant_before_the_end_says_held
                a_release_at_the_end_says_expired_however_often
                a_release_after_somebody_else_took_it_says_so_and_harms_nobody
                a_late_release_of_one_attempt_never_frees_the_next
                the_fencing_token_outlives_the_lease
            }
            shorten {
                a_shortened_lease_ends_at_its_new_end
                shortening_never_prolongs
                shortening_by_another_token_changes_nothing
                shortening_an_ended_lease_is_refused
                a_shortened_lease_can_be_prolonged_again
            }
            exchange {
                the_lease_belongs_to_the_new_token_with_a_larger_fencing_token
                the_old_token_can_do_nothing_any_more
                a_second_exchange_of_the_same_token_is_refused
                an_exchange_never_moves_the_end_back
                an_ended_lease_is_not_exchanged
                a_released_lease_is_not_exchanged
                the_new_holder_says_of_itself_what_it_likes
                an_exchange_after_its_deadline_is_refused
                an_exchange_with_a_floor_too_far_ahead_is_refused
            }
            fence {
                a_larger_fencing_token_is_written_by_the_holder
                the_same_number_again_is_accepted_from_the_token_that_wrote_it
                the_same_number_is_refused_to_a_token_that_did_not_write_it
                a_smaller_number_is_refused_and_changes_nothing
                a_raise_by_another_token_changes_nothing
                a_raise_of_an_ended_lease_is_refused
                a_raise_too_far_ahead_is_refused
                the_next_grant_is_above_a_raised_fencing_token
            }
            heal {
                a_free_name_is_taken
                a_lease_that_is_there_stays_as_it_is
                a_name_that_somebody_else_holds_is_busy
                a_released_lease_is_not_healed
                a_lease_that_ended_here_is_taken_again
                the_fencing_token_comes_along_and_never_goes_back
                a_healed_fencing_token_too_far_ahead_is_refused
                a_heal_after_its_deadline_is_refused
            }
            force {
                a_held_name_is_freed_and_the_answer_says_from_whom
                a_free_name_stays_free
                the_old_holder_learns_that_it_lost_the_lock
                a_late_copy_of_the_acquire_does_not_take_it_back
            }
            inspect {
                a_name_that_nobody_took_is_free
                a_held_name_shows_its_holder
                an_ended_lease_shows_as_free
                looking_changes_nothing
            }
            list {
                an_empty_store_lists_nothing
                held_names_are_listed_with_their_holders_and_free_ones_are_not
                an_ended_lease_is_not_listed
                pages_together_are_complete
                a_prefix_is_bytes_and_no_pattern
                foreign_values_are_listed_as_what_they_are
            }
            sets {
                a_set_is_granted_whole_with_one_fencing_token
                one_busy_name_keeps_the_whole_set_free
                a_release_frees_the_whole_set
                a_set_with_a_lost_member_is_lost_and_nothing_of_it_is_prolonged
                a_release_of_a_set_with_a_lost_member_frees_the_rest
                a_set_is_renewed_shortened_and_exchanged_whole
                a_raise_writes_to_all_members_or_to_none
                the_largest_set_is_taken_and_a_larger_one_refused
                overlapping_sets_exclude_each_other
            }
            repeat {
                the_same_acquire_again_has_the_same_fencing_token_and_prolongs_nothing
                a_late_copy_of_an_acquire_whose_lease_was_released_is_refused
                a_late_copy_of_an_acquire_whose_lease_ended_is_refused
                a_late_copy_does_not_disturb_the_next_holder
                the_same_release_again_says_the_same
                a_released_token_is_forgotten_with_its_record
                the_same_renewal_again_changes_nothing_more
                the_same_shorten_again_changes_nothing_more
                the_same_exchange_again_has_the_same_fencing_token_and_prolongs_nothing
                a_late_copy_of_an_exchange_brings_no_lease_back
                a_copy_of_part_of_a_set_never_takes_the_rest_again
            }
            foreign {
                an_acquire_is_told_so
                a_set_with_a_foreign_value_is_not_taken
                renewals_and_shortenings_are_told_so
                a_release_says_taken
                an_exchange_and_a_heal_are_told_so
                a_raise_is_told_so
                an_inspection_shows_it_and_force_does_not_help
                a_foreign_value_over_a_lease_is_a_loss
            }
            limits {
                awkward_names_live_a_whole_life_and_are_different_locks
                every_byte_of_metadata_comes_back
                the_shortest_ttl_ends_when_it_should
                the_longest_ttl_lasts
                a_ttl_of_an_odd_number_of_milliseconds_is_kept_exactly
                every_retain_is_accepted
            }
            time {
                replies_carry_a_time_that_moves_with_the_store
                the_time_of_a_reply_explains_its_answer
                one_life_of_a_store_has_one_name
                a_lease_of_which_nothing_is_retained_still_lasts
            }
            runtimes {
                a_dropped_acquire_and_then_a_release_leave_the_name_free
                requests_reach_the_store_in_the_order_of_their_first_polls
                the_end_of_one_runtime_does_not_harm_another
                a_runtime_that_ends_in_the_middle_of_a_call_harms_nobody
                threads_with_their_own_runtimes_exclude_each_other
            }
            bounds {
                a_call_whose_last_moment_has_passed_fails_and_is_not_done
                a_call_without_a_last_moment_is_answered
                a_batch_of_too_many_is_refused_whole
                a_closed_client_says_so_to_each_verb
                a_store_says_what_it_is
            }
            line {
                places_are_served_in_the_order_of_their_arrival
                asking_again_keeps_the_place_and_never_doubles_it
                a_try_leaves_no_place_and_hears_how_many_wait
                a_withdrawn_place_is_gone_and_the_next_moves_up
                a_handed_lease_runs_for_its_claim_and_a_renewal_makes_it_the_ttl
                a_claim_is_never_longer_than_the_ttl
                asking_after_the_hand_over_is_answered_with_the_same_grant_and_prolongs_nothing
                a_name_that_is_free_goes_to_the_first_in_line_and_not_to_a_newcomer
                an_ended_lease_goes_to_the_first_in_line_whoever_asks
                the_release_of_an_ended_lease_passes_it_on
                the_first_in_line_takes_an_ended_lease_for_its_whole_ttl
                a_claim_that_ran_out_goes_to_the_next_and_its_waiter_is_refused
                a_barging_newcomer_takes_a_free_name_before_the_line
                a_barging_place_is_not_handed_the_lease_but_finds_it_free
                a_place_whose_waiter_was_not_heard_of_is_passed_over
                a_place_lasts_as_long_as_its_waiter_asks
                a_forced_release_passes_the_lease_on
                a_retired_token_gets_no_place
                a_request_for_a_place_after_its_deadline_is_refused
                the_floor_of_a_place_counts_at_the_hand_over
                a_floor_too_far_ahead_gets_no_place
                the_new_holder_is_shown_as_the_waiter_described_itself_last
                a_line_outlives_a_record_of_which_nothing_is_retained
                an_exchange_keeps_the_line
                a_release_gives_up_the_lease_and_the_place_of_one_token
                whoever_has_no_part_in_a_lease_leaves_its_line_alone
                of_many_waiters_at_once_each_is_served_once
                a_renewal_of_many_says_how_many_wait_for_each
            }
            sets_wait {
                a_set_waits_at_its_first_busy_name_and_holds_nothing
                at_its_turn_the_name_is_kept_for_the_set_and_then_all_are_granted
                a_set_moves_on_to_its_next_busy_name_and_passes_on_what_was_kept
                a_set_that_moves_on_leaves_a_free_name_to_those_behind_it
                a_set_that_moves_on_leaves_a_name_free_that_nobody_else_waits_for
                what_is_kept_for_a_set_that_does_not_come_goes_to_the_next
                a_set_whose_turn_ran_out_unseen_is_refused
                a_set_that_gives_up_passes_on_what_was_kept_for_it
                a_try_for_a_set_at_its_turn_keeps_the_turn
                a_waiting_set_is_told_its_turn_and_not_that_it_holds
            }
            ranges {
                a_grant_has_as_many_fencing_tokens_more_as_it_asked_for
                the_same_acquire_again_tells_the_same_range
                a_renewal_widens_the_range_without_a_gap
                a_grant_without_a_range_can_have_one_later
                a_range_has_a_largest_length
                a_hand_over_has_the_range_of_its_place
                an_exchange_ends_the_range
                a_set_has_no_range
            }
            revoke {
                a_request_for_a_lease_stands_until_its_end_and_ends_nothing
                the_holder_is_told_that_its_lease_is_wanted
                the_next_grant_is_not_revoked
                nobody_is_asked_for_a_free_name
                a_lease_that_nobody_renews_is_not_asked_for
                a_renewal_says_whether_the_lease_is_attended_from_then_on
                an_exchange_does_not_make_a_request_undone
                a_request_says_how_many_wait
                what_is_not_a_record_is_left_alone
            }
            together {
                readers_share_a_name_and_a_writer_is_alone
                a_share_that_ends_unrenewed_keeps_nobody_out
                a_writer_is_before_readers_that_came_later_and_they_come_in_one_batch
                a_share_is_renewed_shortened_and_released_by_itself
                a_copy_of_a_share_is_repeated_and_a_late_one_is_refused
                the_release_of_a_share_says_the_same_again
                a_writer_becomes_a_reader_under_the_same_number
                permits_are_as_many_as_the_limit_and_large_requests_keep_their_place
                another_limit_is_answered_with_the_one_that_is_kept
                the_limit_is_changed_for_those_who_come_and_those_who_hold
                holds_of_one_owner_have_one_number_and_mind_no_line
                a_latch_opens_with_its_last_step
                a_barrier_lets_all_parties_go_at_once
                a_party_that_gave_up_is_not_counted
                another_kind_of_lock_is_foreign_until_the_name_is_free
                an_inspection_shows_the_holders_and_a_contender_hears_how_many
                everybody_is_asked_back_and_forced_out
                a_share_is_adopted_with_a_larger_number
                metadata_and_listeners_belong_to_each_share
                many_shares_come_and_go
                a_handed_share_runs_for_its_claim
                what_is_left_of_a_crowd_is_a_free_name_with_its_number
            }
            wakeups {
                a_release_hands_the_lease_to_the_next_and_tells_it
                a_hand_over_says_which_question_of_the_waiter_it_answers
                only_the_one_whose_turn_it_is_hears_of_a_release
                the_holder_is_told_once_that_somebody_waits
                a_renewal_says_where_the_holder_listens_from_then_on
                whoever_is_first_in_line_is_told_of_a_nearer_end
                a_forced_release_tells_the_next
                a_place_that_does_not_insist_is_told_that_it_makes_sense_to_ask
                a_place_whose_listener_is_gone_is_passed_over_by_the_same_release
                listeners_of_one_client_hear_what_is_theirs_and_nothing_after_their_end
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    (($harness:expr) $($group:ident { $($case:ident)* })*) => {
        $($crate::conformance_group! { ($harness) $group { $($case)* } })*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_group {
    (($harness:expr) $group:ident { $($case:ident)* }) => {
        mod $group {
            #[allow(unused_imports)] // The expression may need nothing from outside.
            use super::*;

            $(
                #[test]
                fn $case() {
                    let harness = $harness;
                    $crate::rt::block_on($crate::conformance::$group::$case(&harness));
                }
            )*
        }
    };
}
