//! The suite on the strictest store there is, and that it finds a store which breaks a promise.

use std::future::Future;
use std::sync::Arc;

use ropewalk_testkit::conformance::{
    arrival, as_of, bodies, derived, derived_damage, derived_pages, listing, look_ups, owners, projections, questions,
    recording, search, spawns, strange, upkeep,
};
use ropewalk_testkit::memory_store::MemoryStore;
use ropewalk_testkit::store_conformance;

use crate::faulty_store::{Fault, Faulty};

store_conformance!(in_memory, (MemoryStore::default(), ()));

/// The claim must fail on a store with that fault.
async fn fails<F>(fault: Fault, claim: fn(Arc<Faulty>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let inner = MemoryStore::default();
    let outcome = tokio::spawn(claim(Arc::new(Faulty { inner, fault }))).await;
    assert!(outcome.is_err_and(|error| error.is_panic()), "{fault:?} is not found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_broken_promise_is_found() {
    fails(Fault::BodyLosesAByte, bodies::a_conversation_comes_back_byte_for_byte).await;
    fails(Fault::BodyLosesAByte, bodies::odd_bodies_come_back_byte_for_byte).await;
    fails(
        Fault::BatchIsNotAtomic,
        recording::a_batch_with_a_missing_part_leaves_nothing,
    )
    .await;
    fails(Fault::RepetitionIsNew, recording::the_same_exchange_twice_is_one).await;
    fails(Fault::RepetitionIsNew, recording::a_late_beginning_changes_nothing).await;
    fails(
        Fault::RepetitionIsAnotherExchange,
        recording::the_same_exchange_twice_is_one,
    )
    .await;
    let conflict = recording::other_bytes_under_a_known_id_are_a_conflict_and_the_first_stays;
    fails(Fault::ConflictIsNotCounted, conflict).await;
    fails(
        Fault::EndIsForgotten,
        recording::a_begun_exchange_is_completed_by_its_end,
    )
    .await;
    fails(
        Fault::EndIsForgotten,
        recording::only_a_complete_answer_has_an_output_node,
    )
    .await;
    fails(Fault::EndIsForgotten, recording::a_row_says_what_was_handed_in).await;
    fails(Fault::EndIsForgotten, look_ups::a_cut_off_answer_is_known_but_no_output).await;
    fails(Fault::OwnersAreOne, owners::owners_share_and_see_nothing).await;
    fails(
        Fault::LookUpSeesTheFuture,
        as_of::look_ups_never_see_the_future_and_all_of_the_past,
    )
    .await;
    fails(
        Fault::LookUpSeesTheFuture,
        as_of::keys_of_answers_are_known_from_their_end,
    )
    .await;
    fails(Fault::RowsSeeTheFuture, as_of::rows_are_as_they_were).await;
    fails(Fault::NodesAreNotDeepest, look_ups::the_deepest_known_node_is_found).await;
    fails(
        Fault::NodesAreNotDeepest,
        look_ups::every_chain_and_key_is_answered_in_its_place,
    )
    .await;
    fails(
        Fault::KeysComeOldestFirst,
        look_ups::keys_find_their_exchanges_newest_first_and_limited,
    )
    .await;
    fails(
        Fault::LimitIsIgnored,
        look_ups::keys_find_their_exchanges_newest_first_and_limited,
    )
    .await;
    fails(
        Fault::LogRepeats,
        listing::a_reader_of_the_log_sees_every_exchange_once_while_four_write,
    )
    .await;
    fails(
        Fault::LogRepeats,
        listing::a_completed_exchange_comes_again_at_the_end_of_the_log,
    )
    .await;
    fails(Fault::PagesSkip, listing::exchanges_come_in_time_order_page_by_page).await;
    fails(Fault::NothingIsIndexed, search::words_are_found_wherever_they_were_said).await;
    fails(Fault::NothingIsIndexed, search::a_phrase_in_quotes_is_found_in_a_row).await;
    fails(
        Fault::NothingIsIndexed,
        search::what_a_begun_exchange_said_is_found_once_after_its_end,
    )
    .await;
    fails(Fault::NothingIsIndexed, strange::nul_surrogates_and_emoji_come_back).await;
    fails(Fault::FiltersAreIgnored, search::filters_narrow_a_search).await;
    fails(Fault::QuotesAreErrors, search::hostile_queries_are_answered).await;
    fails(Fault::EverythingIsKeptTwice, upkeep::figures_add_up).await;
    fails(Fault::FindingsAreMadeUp, upkeep::a_healthy_store_has_no_findings).await;
    fails(Fault::IdsAreCut, strange::an_id_beyond_the_bound_is_an_error).await;
    fails(
        Fault::NodesAreCountedTwice,
        arrival::any_order_of_arrival_gives_the_same,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_broken_promise_about_links_is_found() {
    fails(
        Fault::QuestionsHaveNoTime,
        questions::every_key_is_asked_at_its_own_time,
    )
    .await;
    fails(
        Fault::QuestionsHaveNoTime,
        questions::every_node_is_asked_at_its_own_time,
    )
    .await;
    fails(
        Fault::ChainsComeBackwards,
        questions::a_chain_comes_back_whole_or_not_at_all,
    )
    .await;
    fails(
        Fault::ChainsHaveNoLimit,
        questions::a_chain_comes_back_whole_or_not_at_all,
    )
    .await;
    fails(Fault::DepthIsForgotten, questions::a_row_says_how_deep_its_request_is).await;
    fails(
        Fault::ProjectionsAreForgotten,
        projections::hashes_and_keys_made_again_replace_the_old_ones,
    )
    .await;
    let by_time = spawns::spawns_are_found_by_their_exchange_and_by_their_time;
    fails(Fault::SpawnsAreForgotten, by_time).await;
    fails(Fault::LookUpSeesTheFuture, by_time).await;
    fails(
        Fault::EndIsForgotten,
        spawns::spawns_come_with_the_end_of_their_exchange,
    )
    .await;
    fails(Fault::OwnersAreOne, spawns::spawns_of_other_owners_are_not_seen).await;
    fails(Fault::NothingIsReplaced, derived::links_come_back_as_they_were_saved).await;
    fails(
        Fault::AnyVersionSaves,
        derived::a_save_on_top_of_another_state_changes_nothing,
    )
    .await;
    fails(Fault::AnyVersionSaves, derived::of_racing_savers_exactly_one_wins).await;
    fails(
        Fault::AliasesAreForgotten,
        derived::an_id_finds_its_conversation_wherever_it_went,
    )
    .await;
    fails(Fault::OwnersAreOne, derived::owners_never_see_each_others_links).await;
    fails(
        Fault::LinksComeByNumber,
        derived_pages::children_come_in_the_order_of_time,
    )
    .await;
    fails(Fault::LinkPagesSkip, derived_pages::a_conversation_is_read_page_by_page).await;
    fails(
        Fault::WantedIsForgotten,
        derived_pages::who_waits_for_a_hash_is_found_by_it,
    )
    .await;
    let newest_first = derived_pages::conversations_come_newest_first_page_by_page;
    fails(Fault::ConversationsComeOldestFirst, newest_first).await;
    let damage = derived_damage::a_check_finds_links_that_do_not_hold_together;
    fails(Fault::LinksAreNotChecked, damage).await;
}
