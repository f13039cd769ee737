//! What every store must do, as tests that take any store.
//!
//! Each claim is one async function in the module of its theme; [`crate::store_conformance`] makes one test of each. Every
//! claim works with owners of its own, so that all of them may share one database. [`cases`] has what they record.
//!
//! Themes: [`bodies`] (bytes come back), [`recording`] (once, whole or not at all), [`owners`] (nothing is shared),
//! [`look_ups`] and [`as_of`] (what linking asks), [`listing`] (rows and the log), [`search`], [`upkeep`] (figures and
//! checks), [`strange`] (hostile input), [`arrival`] (order does not matter), [`questions`] (each with its own time),
//! [`spawns`] (calls that start agents), [`projections`] (hashes and keys made again), [`logs`] (what logs tell), [`names`] (what
//! people type, and what was sent for it), [`forgetting`] (what is gone, and stays), [`derived`],
//! [`derived_pages`] and [`derived_damage`] (what linking concluded), [`courses`] (how long conversations go on).

pub mod arrival;
pub mod as_of;
pub mod bodies;
pub mod cases;
pub mod courses;
pub mod derived;
pub mod derived_damage;
pub mod derived_pages;
pub mod forgetting;
pub mod listing;
pub mod logs;
pub mod look_ups;
pub mod names;
pub mod owners;
pub mod projections;
pub mod questions;
pub mod recording;
pub mod search;
pub mod spawns;
pub mod strange;
pub mod upkeep;

/// Expands to a module with one test per claim. `$make` gives a pair: a fresh store, and whatever must live as long as it
/// (a temporary folder, a server, or `()`); it may await. The crate that uses this needs tokio.
///
/// ```ignore
/// store_conformance!(in_memory, (MemoryStore::default(), ()));
/// ```
#[macro_export]
macro_rules! store_conformance {
    ($name:ident, $make:expr) => {
        mod $name {
            #[allow(unused_imports, reason = "the expression may need what stands around the call")]
            use super::*;
            $crate::store_conformance!(@theme $make, bodies: [
                a_conversation_comes_back_byte_for_byte,
                a_part_is_found_by_its_name,
                the_end_of_a_body_is_read_as_it_stands_in_the_whole,
                bodies_that_are_asked_for_together_are_those_of_each,
                odd_bodies_come_back_byte_for_byte,
                a_memo_of_the_turn_before_saves_parts_and_changes_no_byte,
            ]);
            $crate::store_conformance!(@theme $make, recording: [
                the_same_exchange_twice_is_one,
                a_begun_exchange_is_completed_by_its_end,
                a_late_beginning_changes_nothing,
                other_bytes_under_a_known_id_are_a_conflict_and_the_first_stays,
                a_batch_with_a_missing_part_leaves_nothing,
                a_row_says_what_was_handed_in,
                only_a_complete_answer_has_an_output_node,
            ]);
            $crate::store_conformance!(@theme $make, owners: [
                an_owner_is_made_once,
                an_owner_is_found_by_name_without_being_made,
                owners_share_and_see_nothing,
                a_part_of_another_owner_is_missing,
            ]);
            $crate::store_conformance!(@theme $make, look_ups: [
                the_deepest_known_node_is_found,
                every_chain_and_key_is_answered_in_its_place,
                keys_find_their_exchanges_newest_first_and_limited,
                every_hash_finds_its_exchanges,
                the_beginning_of_a_hash_finds_its_exchanges,
                a_cut_off_answer_is_known_but_no_output,
                what_many_share_is_found_by_its_time_as_more_come,
            ]);
            $crate::store_conformance!(@theme $make, as_of: [
                look_ups_never_see_the_future_and_all_of_the_past,
                what_is_left_is_looked_up_as_if_nothing_else_had_been_there,
                rows_are_as_they_were,
                keys_of_answers_are_known_from_their_end,
            ]);
            $crate::store_conformance!(@theme $make, listing: [
                exchanges_are_found_by_number_and_by_id,
                exchanges_come_in_time_order_page_by_page,
                a_reader_of_the_log_sees_every_exchange_once_while_four_write,
                a_completed_exchange_comes_again_at_the_end_of_the_log,
            ]);
            $crate::store_conformance!(@theme $make, search: [
                words_are_found_wherever_they_were_said,
                filters_narrow_a_search,
                a_phrase_in_quotes_is_found_in_a_row,
                what_a_begun_exchange_said_is_found_once_after_its_end,
                hostile_queries_are_answered,
            ]);
            $crate::store_conformance!(@theme $make, upkeep: [
                figures_add_up,
                a_healthy_store_has_no_findings,
                two_thousand_messages_are_kept_once,
            ]);
            $crate::store_conformance!(@theme $make, strange: [
                nul_surrogates_and_emoji_come_back,
                an_id_is_kept_exactly_or_refused,
                an_id_beyond_the_bound_is_an_error,
            ]);
            $crate::store_conformance!(@theme $make, arrival: [
                any_order_of_arrival_gives_the_same,
                racing_recorders_of_the_same_exchanges_agree,
            ]);
            $crate::store_conformance!(@theme $make, questions: [
                every_key_is_asked_at_its_own_time,
                every_node_is_asked_at_its_own_time,
                a_chain_comes_back_whole_or_not_at_all,
                a_row_says_how_deep_its_request_is,
            ]);
            $crate::store_conformance!(@theme $make, projections: [
                hashes_and_keys_made_again_replace_the_old_ones,
                a_message_that_follows_another_keeps_its_own_hashes,
                only_what_was_looked_at_is_given_other_hashes,
            ]);
            $crate::store_conformance!(@theme $make, spawns: [
                spawns_are_found_by_their_exchange_and_by_their_time,
                spawns_come_with_the_end_of_their_exchange,
                spawns_of_other_owners_are_not_seen,
            ]);
            $crate::store_conformance!(@theme $make, logs: [
                whoever_passed_a_call_on_outranks_a_log_in_any_order,
                of_two_logs_the_fuller_then_the_older_one_stays,
                a_call_that_is_told_anew_comes_again_in_the_log_and_is_found_as_it_is_now,
                two_who_passed_a_call_on_saw_two,
                answers_that_share_an_id_with_many_are_calls_of_their_own,
                racing_tellers_of_a_call_make_one_exchange,
                records_come_back_page_by_page_and_are_replaced_by_session,
                files_are_known_as_they_were_last_read,
            ]);
            $crate::store_conformance!(@theme $make, names: [
                a_name_belongs_to_who_had_it_first,
                names_are_found_wherever_their_exchanges_went,
                names_are_completed_from_their_beginning,
                a_message_has_the_short_hash_that_was_free,
                what_is_pinned_stays,
                what_was_sent_in_a_requests_place_comes_back,
                owners_never_see_each_others_names,
            ]);
            $crate::store_conformance!(@theme $make, forgetting: [
                what_is_forgotten_is_gone_and_what_others_use_stays,
                what_is_forgotten_does_not_come_back,
                a_hole_keeps_its_row_and_the_decision_that_linked_it,
                names_links_and_pins_go_with_their_exchanges,
                recording_goes_on_while_conversations_are_forgotten,
                a_sweep_of_a_store_without_waste_finds_nothing,
                keys_and_ids_of_the_forgotten_find_nothing,
            ]);
            $crate::store_conformance!(@theme $make, derived: [
                links_come_back_as_they_were_saved,
                a_save_on_top_of_another_state_changes_nothing,
                of_racing_savers_exactly_one_wins,
                an_id_finds_its_conversation_wherever_it_went,
                owners_never_see_each_others_links,
            ]);
            $crate::store_conformance!(@theme $make, courses: [
                a_course_is_kept_by_whoever_read_what_is_there,
                a_course_goes_with_what_it_was_read_from,
            ]);
            $crate::store_conformance!(@theme $make, derived_damage: [
                a_check_finds_links_that_do_not_hold_together,
            ]);
            $crate::store_conformance!(@theme $make, derived_pages: [
                children_come_in_the_order_of_time,
                a_conversation_is_read_page_by_page,
                who_waits_for_a_hash_is_found_by_it,
                conversations_come_newest_first_page_by_page,
                no_answer_is_longer_than_a_page,
            ]);
        }
    };
    (@theme $make:expr, $theme:ident: [$($claim:ident,)*]) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $claim() {
                let (store, _alive) = $make;
                $crate::conformance::$theme::$claim(std::sync::Arc::new(store)).await;
            }
        )*
    };
}
