//! The suite on the strictest store there is, and that it finds a store which breaks a promise.

use std::future::Future;
use std::sync::Arc;

use ropewalk_store::facts::{ExchangeNumber, Micros, NewExchange, OwnerId, Position};
use ropewalk_store::store::{
    Answers, Depth, ExchangeRow, Finding, Half, Hit, ID_MAX, Outcome, Questions, Recorded, Result, SearchLag,
    SearchQuery, Selection, Severity, Stats, Store, StoreError,
};
use ropewalk_testkit::conformance::{
    arrival, as_of, bodies, listing, look_ups, owners, recording, search, strange, upkeep,
};
use ropewalk_testkit::memory_store::MemoryStore;
use ropewalk_testkit::store_conformance;

store_conformance!(in_memory, (MemoryStore::default(), ()));

/// A promise that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    BodyLosesAByte,
    BatchIsNotAtomic,
    RepetitionIsNew,
    RepetitionIsAnotherExchange,
    ConflictIsNotCounted,
    EndIsForgotten,
    OwnersAreOne,
    LookUpSeesTheFuture,
    RowsSeeTheFuture,
    NodesAreNotDeepest,
    KeysComeOldestFirst,
    LimitIsIgnored,
    LogRepeats,
    PagesSkip,
    NothingIsIndexed,
    FiltersAreIgnored,
    QuotesAreErrors,
    EverythingIsKeptTwice,
    FindingsAreMadeUp,
    IdsAreCut,
    NodesAreCountedTwice,
}

struct Faulty {
    inner: MemoryStore,
    fault: Fault,
}

impl Faulty {
    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn read_as(&self, owner: OwnerId) -> OwnerId {
        if self.has(Fault::OwnersAreOne) {
            OwnerId(1)
        } else {
            owner
        }
    }

    fn spoil(&self, exchange: &mut NewExchange) {
        if self.has(Fault::RepetitionIsAnotherExchange) {
            exchange.id += &format!("{:?}", std::time::Instant::now());
        }
        if self.has(Fault::IdsAreCut) {
            exchange.id.truncate(ID_MAX);
        }
        if self.has(Fault::EndIsForgotten) {
            exchange.response = None;
            exchange.answer_chain.clear();
        }
    }
}

impl Store for Faulty {
    async fn owner(&self, name: &str) -> Result<OwnerId> {
        self.inner.owner(name).await
    }

    async fn record(&self, owner: OwnerId, mut batch: Vec<NewExchange>) -> Result<Vec<Recorded>> {
        batch.iter_mut().for_each(|exchange| self.spoil(exchange));
        if self.has(Fault::BatchIsNotAtomic) {
            let mut recorded = Vec::new();
            for exchange in batch {
                recorded.extend(self.inner.record(owner, vec![exchange]).await?);
            }
            return Ok(recorded);
        }
        let mut recorded = self.inner.record(owner, batch).await?;
        if self.has(Fault::RepetitionIsNew) {
            recorded.iter_mut().for_each(|recorded| recorded.outcome = Outcome::New);
        }
        Ok(recorded)
    }

    async fn look_up(&self, owner: OwnerId, mut questions: Questions, as_of: Micros) -> Result<Answers> {
        if self.has(Fault::LimitIsIgnored) {
            questions.limit = usize::MAX;
        }
        if self.has(Fault::NodesAreNotDeepest) {
            for chain in &mut questions.chains {
                chain.pop();
            }
        }
        let as_of = if self.has(Fault::LookUpSeesTheFuture) {
            Micros::MAX
        } else {
            as_of
        };
        let mut answers = self.inner.look_up(self.read_as(owner), questions, as_of).await?;
        if self.has(Fault::KeysComeOldestFirst) {
            answers.exchanges.iter_mut().for_each(|found| found.reverse());
        }
        Ok(answers)
    }

    async fn exchanges(&self, owner: OwnerId, mut selection: Selection, as_of: Micros) -> Result<Vec<ExchangeRow>> {
        let as_of = if self.has(Fault::RowsSeeTheFuture) {
            Micros::MAX
        } else {
            as_of
        };
        match &mut selection {
            Selection::Log { after, .. } if self.has(Fault::LogRepeats) => *after = Position(after.0 - 1),
            // Skips one rather than repeating it: a claim that pages to the end must come to an end.
            Selection::Since {
                after: Some((_, number)),
                ..
            } if self.has(Fault::PagesSkip) => number.0 += 1,
            _ => {}
        }
        self.inner.exchanges(self.read_as(owner), selection, as_of).await
    }

    async fn body(&self, owner: OwnerId, exchange: ExchangeNumber, half: Half) -> Result<Option<Vec<u8>>> {
        let mut body = self.inner.body(self.read_as(owner), exchange, half).await?;
        if self.has(Fault::BodyLosesAByte) {
            body = body.map(|bytes| bytes[..bytes.len().saturating_sub(1)].to_vec());
        }
        Ok(body)
    }

    async fn search(&self, owner: OwnerId, mut query: SearchQuery) -> Result<Vec<Hit>> {
        if self.has(Fault::QuotesAreErrors) && query.text.matches('"').count() % 2 == 1 {
            return Err(StoreError::Stopped);
        }
        if self.has(Fault::FiltersAreIgnored) {
            (query.source, query.model, query.since) = (None, None, None);
        }
        self.inner.search(self.read_as(owner), query).await
    }

    async fn index_texts(&self, limit: usize) -> Result<SearchLag> {
        if self.has(Fault::NothingIsIndexed) {
            return Ok(SearchLag::default());
        }
        self.inner.index_texts(limit).await
    }

    async fn stats(&self, owner: OwnerId) -> Result<Stats> {
        let mut stats = self.inner.stats(owner).await?;
        match self.fault {
            Fault::ConflictIsNotCounted => stats.conflicts = 0,
            Fault::EverythingIsKeptTwice => stats.part_bytes = stats.bytes_in * 2,
            Fault::NodesAreCountedTwice => stats.nodes += owner.0 as u64,
            _ => {}
        }
        Ok(stats)
    }

    async fn check(&self, owner: OwnerId, depth: Depth) -> Result<Vec<Finding>> {
        let mut findings = self.inner.check(owner, depth).await?;
        if self.has(Fault::FindingsAreMadeUp) {
            findings.push(Finding {
                severity: Severity::Warning,
                rule: "made-up",
                what: String::new(),
            });
        }
        Ok(findings)
    }
}

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
