//! Fetching what decisions need, for many at once.

use std::sync::Arc;

use bytes::Bytes;
use ropewalk_core::hash::sha256;
use ropewalk_core::json::Doc;
use ropewalk_core::model::Block;
use ropewalk_core::normalise::normalise;
use ropewalk_store::derived::{LinkRow, Links};
use ropewalk_store::facts::{ExchangeNumber, OwnerId};
use ropewalk_store::store::{Half, PAGE_MAX, Questions, Selection};
use ropewalk_store::{Micros, Store};
use ropewalk_wire::read_request;
use ropewalk_wire::response::decode_response;

use crate::detail::Kept;
use crate::link::LinkError;
use crate::link::decision::Linked;
use crate::link::evidence::{Evidence, Need};
use crate::link::fact::Fact;
use crate::link::maps::{HashMap, HashSet};
use crate::link::outline::Outline;

/// Candidates that a look-up gives, the newest. An opening may be shared by thousands; only the recent ones can matter.
pub(super) const CANDIDATES_MAX: usize = 64;

/// Exchanges whose children are asked for at once: few enough that a page nearly always holds all of them.
const PARENTS_MAX: usize = PAGE_MAX / 8;

/// Longest chain that is compared block by block.
const CHAIN_MAX: usize = 200_000;

/// One owner's store as it stood at a time.
#[derive(Debug)]
pub(super) struct Source<'s, S> {
    pub(super) store: &'s S,
    pub(super) owner: OwnerId,
    pub(super) as_of: Micros,
}

impl<S> Clone for Source<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Source<'_, S> {}

impl<S: Store> Source<'_, S> {
    /// Adds what is needed to the evidence. What the evidence has already stays as it is.
    pub(super) async fn fetch(&self, needs: &HashSet<Need>, known: &mut Evidence) -> Result<(), LinkError> {
        let mut needs: HashSet<Need> = needs.iter().filter(|need| !known.has(need)).copied().collect();
        let asked_about = needs.iter().filter_map(|need| match need {
            Need::Fact(number) => Some(*number),
            _ => None,
        });
        let mut facts: Vec<ExchangeNumber> = asked_about.collect();
        facts.sort_unstable();
        if facts.len() <= CANDIDATES_MAX {
            // Whoever asks about an exchange asks next where it stands and who stands behind it.
            let places = facts
                .iter()
                .flat_map(|number| [Need::Link(*number), Need::Children(*number)]);
            needs.extend(places.filter(|need| !known.has(need)));
        }
        let needs = &needs;
        self.look_up(needs, known).await?;
        for fact in self.facts(&facts).await? {
            known.facts.insert(fact.number(), Some(Arc::new(fact)));
        }
        for number in facts {
            if !known.facts.contains_key(&number) {
                known.lacks_fact(number);
            }
        }
        self.links(needs, known).await?;
        for need in needs {
            match need {
                Need::Chain(number) => {
                    let chain = self.store.chain(self.owner, *number, CHAIN_MAX).await?;
                    known.chains.insert(*number, Arc::new(chain));
                }
                Need::Answer(number) => {
                    let text = self.answer_text(*number).await?;
                    known.bodies.keep_answer(*number, text.into());
                }
                Need::Request(number) => {
                    let hash = self.request_hash(*number).await?;
                    known.bodies.keep_request(*number, hash);
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn look_up(&self, needs: &HashSet<Need>, known: &mut Evidence) -> Result<(), LinkError> {
        let mut questions = Questions {
            limit: CANDIDATES_MAX,
            ..Questions::default()
        };
        for need in needs {
            match need {
                Need::Node(node) => questions.nodes.push(*node),
                Need::Key(key) => questions.keys.push(*key),
                Need::Spawns(number) => questions.spawns_of.push(*number),
                Need::SpawnsBetween(first, last) => questions.spawns_between.push((*first, *last)),
                Need::Wanting(hash) => questions.wanting.push(*hash),
                _ => {}
            }
        }
        let asks_nothing = questions.nodes.is_empty()
            && questions.keys.is_empty()
            && questions.spawns_of.is_empty()
            && questions.spawns_between.is_empty()
            && questions.wanting.is_empty();
        if asks_nothing {
            return Ok(());
        }
        let answers = self.store.look_up(self.owner, questions.clone(), self.as_of).await?;
        known.nodes.extend(questions.nodes.into_iter().zip(answers.nodes));
        known.keys.extend(questions.keys.into_iter().zip(answers.exchanges));
        known
            .spawns
            .extend(questions.spawns_of.into_iter().zip(answers.spawns_of));
        let between = questions.spawns_between.into_iter().zip(answers.spawns_between);
        known.spawns_between.extend(between);
        known.wanting.extend(questions.wanting.into_iter().zip(answers.wanting));
        Ok(())
    }

    pub(super) async fn facts(&self, numbers: &[ExchangeNumber]) -> Result<Vec<Fact>, LinkError> {
        let mut facts = Vec::with_capacity(numbers.len());
        for page in numbers.chunks(PAGE_MAX) {
            let rows = self
                .store
                .exchanges(self.owner, Selection::Numbers(page.to_vec()), self.as_of)
                .await?;
            facts.extend(rows.into_iter().map(Fact::new));
        }
        Ok(facts)
    }

    async fn links(&self, needs: &HashSet<Need>, known: &mut Evidence) -> Result<(), LinkError> {
        let (mut of, mut parents) = (Vec::new(), Vec::new());
        for need in needs {
            match need {
                Need::Link(number) => of.push(*number),
                Need::Children(number) => parents.push(*number),
                _ => {}
            }
        }
        of.sort_unstable();
        parents.sort_unstable();
        for page in of.chunks(PAGE_MAX) {
            for row in self.store.links(self.owner, Links::Of(page.to_vec())).await? {
                known.add_link(Linked::read(&row)?);
            }
        }
        for number in of {
            if !known.links.contains_key(&number) {
                known.lacks_link(number);
            }
        }
        for page in parents.chunks(PARENTS_MAX) {
            let rows = self.store.links(self.owner, Links::Children(page.to_vec())).await?;
            if rows.len() < PAGE_MAX {
                add_children(page, &rows, known)?;
                continue;
            }
            // Together they have more than a page holds.
            for parent in page {
                let rows = self.store.links(self.owner, Links::Children(vec![*parent])).await?;
                add_children(&[*parent], &rows, known)?;
            }
        }
        Ok(())
    }

    /// All links of a conversation behind a place in it.
    pub(super) async fn links_in(
        &self,
        conversation: ExchangeNumber,
        mut after: Option<(Micros, ExchangeNumber)>,
    ) -> Result<Vec<Linked>, LinkError> {
        let mut links = Vec::new();
        loop {
            let which = Links::InConversation {
                conversation,
                after,
                limit: PAGE_MAX,
            };
            let rows = self.store.links(self.owner, which).await?;
            for row in &rows {
                links.push(Linked::read(row)?);
            }
            let Some(last) = rows.last().filter(|_| rows.len() == PAGE_MAX) else {
                return Ok(links);
            };
            after = Some((last.at, last.exchange));
        }
    }

    /// A request's chain, read from its body.
    pub(super) async fn outline(&self, fact: &Fact) -> Result<Outline, LinkError> {
        let body = self.store.body(self.owner, fact.number(), Half::Request).await?;
        let read = body.and_then(|body| {
            let provider = Kept::of(&fact.row).provider(&fact.row)?;
            read_request(provider, &Bytes::from(body), None).ok()
        });
        Ok(read.map(|read| Outline::of(&read)).unwrap_or_default())
    }

    async fn answer_text(&self, number: ExchangeNumber) -> Result<String, LinkError> {
        let facts = self.facts(&[number]).await?;
        let body = self.store.body(self.owner, number, Half::Response).await?;
        let (Some(fact), Some(body)) = (facts.first(), body) else {
            return Ok(String::new());
        };
        let detail = Kept::of(&fact.row);
        let Some(provider) = detail.provider(&fact.row) else {
            return Ok(String::new());
        };
        let content_type = detail.response_headers.get("content-type").map(|value| &**value);
        let answer = decode_response(provider, fact.row.http_status.unwrap_or(200), content_type, &body);
        let text = answer.blocks.iter().find_map(|block| match block {
            Block::Text { text, .. } => Some(normalise(text).into_owned()),
            _ => None,
        });
        Ok(text.unwrap_or_default())
    }

    async fn request_hash(&self, number: ExchangeNumber) -> Result<[u8; 32], LinkError> {
        let body = self.store.body(self.owner, number, Half::Request).await?;
        let body = body.unwrap_or_default();
        Ok(sha256(&without_stream(&body)))
    }
}

fn add_children(parents: &[ExchangeNumber], rows: &[LinkRow], known: &mut Evidence) -> Result<(), LinkError> {
    let mut children: HashMap<ExchangeNumber, Vec<ExchangeNumber>> = HashMap::default();
    for row in rows {
        if let Some(parent) = row.parent {
            children.entry(parent).or_default().push(row.exchange);
        }
        if !known.links.contains_key(&row.exchange) {
            known.add_link(Linked::read(row)?);
        }
    }
    for parent in parents {
        let saved = children.remove(parent).unwrap_or_default();
        known.children.insert(*parent, known.with_decided(*parent, saved));
    }
    Ok(())
}

/// A request's members without `stream`, each as it was written.
fn without_stream(body: &[u8]) -> Vec<u8> {
    let Some(doc) = std::str::from_utf8(body)
        .ok()
        .and_then(|text| Doc::parse_str(text).ok())
    else {
        return body.to_vec();
    };
    let mut kept = Vec::with_capacity(body.len());
    for (name, value) in doc.root().members() {
        if !name.is("stream") {
            kept.extend_from_slice(name.raw().as_bytes());
            kept.push(0);
            kept.extend_from_slice(value.raw().as_bytes());
            kept.push(0);
        }
    }
    kept
}
