//! A request that contains what was answered before.

use std::sync::Arc;

use ropewalk_core::hash::NodeHash;
use ropewalk_store::derived::LinkKind;
use ropewalk_store::facts::{ExchangeNumber, HashKind, Key, KeyKind};
use ropewalk_store::store::KnownNode;

use crate::link::decide::{Case, FIRST_PROBE, Found, turn_after};
use crate::link::decision::{BranchKind, Decision, Method, Place, Why};
use crate::link::evidence::{Evidence, Known};
use crate::link::fact::{Fact, Sort};
use crate::link::fetch::CANDIDATES_MAX;

/// How many anchors are looked up at once.
const ANCHORS_MAX: usize = 16;

/// Shortest history, in characters, that links although no answer of it was recorded.
const HISTORY_CHARS_MIN: usize = 400;

/// What Claude Code puts in place of an answer that said nothing when it resumes a session.
const NO_ANSWER: &str = "No response requested.";

/// How much of an answer stands there, and who may have given it.
type Answered<'c> = (Method, Vec<&'c Arc<Fact>>);

impl Case<'_> {
    /// It names the answer, or an item of the answer, that it goes on from.
    pub(in crate::link) fn referenced(&self) -> Known<Found> {
        let me = &self.me.fact;
        let items = me.keys(KeyKind::Reference).map(|key| Key {
            kind: KeyKind::Item,
            hash: key.hash,
        });
        if let Some(parent) = self.answer_with(items)? {
            let mut decision = self.behind(Method::Reference, parent, BranchKind::Edit)?;
            let mut references = self.me.outline.references();
            decision.shared = references.next().map_or(0, |(at, _)| at as u32 + 1);
            return Ok(decision.into());
        }
        // The last one that it names was not recorded. One before it may have been.
        let references = self.me.outline.references();
        let (mut from, mut count) = (1, FIRST_PROBE);
        while from < references.len() {
            let probed = references.clone().skip(from).take(count);
            self.known
                .keys(probed.clone().map(|(_, key)| key), me.horizon())
                .map(drop)?;
            for (at, key) in probed {
                if let Some(parent) = self.answer_with([key])? {
                    let mut decision = self.behind(Method::Reference, parent, BranchKind::Edit)?;
                    decision.shared = at as u32 + 1;
                    return Ok(decision.into());
                }
            }
            from += count;
            count *= 2;
        }
        Ok(Found::nothing())
    }

    /// The answer with one of these items that was heard. The last one contains those before it.
    fn answer_with(&self, items: impl IntoIterator<Item = Key>) -> Known<Option<&Arc<Fact>>> {
        let named = self.known.keys(items, self.me.fact.horizon())?;
        let facts = self.known.facts(named.into_iter().flatten().copied())?;
        let fitting = facts.into_iter().filter(|fact| self.is_heard(fact));
        Ok(fitting.max_by(|a, b| (a.row.depth, a.order()).cmp(&(b.row.depth, b.order()))))
    }

    /// The deepest recorded answer on the chain. From its end, since most requests only add to the last answer.
    pub(in crate::link) fn prefix(&self) -> Known<Found> {
        let mut ends = self.me.outline.answer_ends();
        let mut probed: Vec<usize> = ends.by_ref().take(FIRST_PROBE).collect();
        let last = probed.first().copied();
        let mut rejected = Vec::new();
        while let Some(first) = probed.first() {
            self.probe(&probed, Some(*first) == last)?;
            for end in &probed {
                let Some((method, mut candidates)) = self.answers_ending_at(*end, &mut rejected)? else {
                    continue;
                };
                self.sort_by_likeness(&mut candidates);
                let parent = candidates[0];
                rejected.extend(candidates[1..].iter().map(|other| (other.number(), Why::LessAlike)));
                // Answers behind the match that are known elsewhere: the history was rewritten, not branched.
                if Some(*end) != last
                    && let Some(decision) = self.anchor_behind(*end + 1)?
                {
                    return Ok(Found {
                        decision: Some(decision),
                        rejected,
                    });
                }
                let mut decision = self.behind(method, parent, BranchKind::Edit)?;
                decision.shared = *end as u32 + 1;
                return Ok(Found {
                    decision: Some(decision),
                    rejected,
                });
            }
            probed = ends.by_ref().take(2 * probed.len()).collect();
        }
        Ok(Found {
            decision: None,
            rejected,
        })
    }

    /// It says that the last answer said nothing, and leaves it out: where that answer ended, its question did.
    pub(in crate::link) fn after_silence(&self) -> Known<Found> {
        let Some(at) = self.me.outline.silence() else {
            return Ok(Found::nothing());
        };
        let node = self.me.outline.steps()[at].node;
        let ends = self.known.nodes(&[node], self.me.fact.horizon())?;
        let silent = ends.into_iter().flatten().flat_map(|end| end.as_output.iter().copied());
        let mut silent: Vec<_> = self.known.facts(silent)?;
        silent.retain(|fact| {
            let is_empty = fact.row.input_node == node && !self.me.fact.is_of_other_session(fact);
            is_empty && self.is_heard(fact) && self.allows(fact).is_ok()
        });
        self.sort_by_likeness(&mut silent);
        let Some(parent) = silent.first() else {
            return Ok(Found::nothing());
        };
        let mut decision = self.behind(Method::Prefix, parent, BranchKind::Edit)?;
        decision.shared = at as u32 + 1;
        Ok(Found {
            decision: Some(decision),
            rejected: silent[1..]
                .iter()
                .map(|other| (other.number(), Why::LessAlike))
                .collect(),
        })
    }

    /// Asks for the nodes of several ends in one go. Behind the first ones, where most searches end, also for those of their
    /// questions: asked one by one, a long history of which nothing was recorded would be gone through again for each.
    fn probe(&self, ends: &[usize], is_first: bool) -> Known<()> {
        let outline = &self.me.outline;
        let nodes: Vec<NodeHash> = match is_first {
            true => ends.iter().map(|end| outline.steps()[*end].node).collect(),
            false => ends.iter().flat_map(|end| outline.nodes_around(*end)).collect(),
        };
        self.known.nodes(&nodes, self.me.fact.horizon()).map(drop)
    }

    /// Who may have given the answer that ends there: whole, else its beginning.
    fn answers_ending_at(&self, end: usize, rejected: &mut Vec<(ExchangeNumber, Why)>) -> Known<Option<Answered<'_>>> {
        let steps = self.me.outline.steps();
        let nodes = self.known.nodes(&[steps[end].node], self.me.fact.horizon())?;
        let Some(answer) = nodes[0] else { return Ok(None) };
        let mut whole = Vec::new();
        for fact in self.known.facts(answer.as_output.iter().copied())? {
            match self.allows(fact) {
                Ok(()) if self.is_heard(fact) => whole.push(fact),
                Ok(()) => {}
                Err(why) => rejected.push((fact.number(), why)),
            }
        }
        if answer.as_output.len() >= CANDIDATES_MAX {
            // Thousands gave this answer to these words. The session's own may be older than those that were looked at.
            let same = self
                .turns_of_session()?
                .into_iter()
                .filter(|fact| fact.row.output_node == Some(steps[end].node));
            whole.extend(same.filter(|fact| self.is_heard(fact)));
        }
        if !whole.is_empty() {
            return Ok(Some((Method::Prefix, whole)));
        }
        let begun = self.answers_begun(end, answer)?;
        Ok((!begun.is_empty()).then_some((Method::Partial, begun)))
    }

    /// Answers of which only the beginning is in the history: some of the blocks, or a part of the text.
    fn answers_begun(&self, end: usize, answer: &KnownNode) -> Known<Vec<&Arc<Fact>>> {
        let first = self.known.facts([answer.first])?;
        let by_block = first.into_iter().filter(|fact| {
            let is_in_answer = fact.row.depth as usize <= end && fact.number() != self.me.number();
            is_in_answer && self.allows(fact).is_ok() && self.is_heard(fact)
        });
        let begun: Vec<&Arc<Fact>> = by_block.collect();
        if !begun.is_empty() {
            return Ok(begun);
        }
        let start = self.me.outline.answer_start(end);
        let Some(text) = self.me.outline.answer_text(start).filter(|_| start == end) else {
            return Ok(begun);
        };
        let question = self.me.outline.question_of(end);
        let question = self.known.nodes(question.as_slice(), self.me.fact.horizon())?;
        let asked = question.into_iter().flatten();
        let asked = asked.flat_map(|node| node.as_input.iter().copied());
        let mut asked = self.known.facts(asked)?;
        asked.retain(|fact| fact.number() != self.me.number() && self.is_heard(fact) && self.allows(fact).is_ok());
        let answers = self.known.answers(asked.iter().map(|fact| fact.number()))?;
        let said = asked.into_iter().zip(answers);
        let said = said.filter(|(_, answer)| answer.starts_with(&*text) || answer.is_empty() && text == NO_ANSWER);
        Ok(said.map(|(fact, _)| fact).collect())
    }

    /// Whether an answer on the chain can have been heard: it had ended by then, as far as clocks can tell.
    pub(super) fn is_heard(&self, fact: &Fact) -> bool {
        let me = &self.me.fact;
        let had_ended = fact.ended().is_some_and(|ended| ended <= me.horizon());
        // What helper calls say is not said in the conversation; a token count ends where its request does.
        let is_said = fact.sort() != Sort::Auxiliary && fact.number() != me.number();
        is_said && had_ended && fact.row.at <= me.horizon()
    }

    /// The most alike first: session, agent type, system prompt, time.
    fn sort_by_likeness(&self, candidates: &mut [&Arc<Fact>]) {
        let me = &self.me.fact;
        let differs = |fact: &Fact, kind: HashKind| me.hash(kind) != fact.hash(kind);
        let rank = |fact: &Fact| {
            (
                !me.is_of_same_session(fact),
                differs(fact, HashKind::AgentType),
                differs(fact, HashKind::System),
            )
        };
        candidates.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| b.order().cmp(&a.order())));
    }

    /// A turn behind `parent`: on its branch if it is the first there.
    pub(super) fn behind(&self, method: Method, parent: &Fact, otherwise: BranchKind) -> Known<Decision> {
        let number = parent.number();
        let siblings = self.turns_after(number)?;
        let asked_the_same = siblings.iter().any(|sibling| {
            let (depth, input) = (sibling.row.depth as usize, &sibling.row.input_node);
            self.me.outline.begins_with(depth, input)
        });
        let kind = if asked_the_same {
            BranchKind::Regeneration
        } else {
            otherwise
        };
        let mut decision = turn_after(method, number, kind);
        if self.me.fact.is_of_other_session(parent) && self.me.fact.named_parent().is_none() {
            // A fork or a resume under a new id leaves the branch to the session that it was taken from.
            decision.place = Place::Beside(kind);
        }
        Ok(decision)
    }

    /// The requests that this one repeats and goes on from, the deepest first: their answers were left out.
    pub(in crate::link) fn requests_on_chain(&self) -> Known<Vec<(usize, &Arc<Fact>)>> {
        let steps = self.me.outline.steps();
        let questions = (0..steps.len()).rev().filter(|at| !steps[*at].is_answer);
        let questions: Vec<usize> = questions.take(8).collect();
        let nodes: Vec<NodeHash> = questions.iter().map(|at| steps[*at].node).collect();
        let mut found = Vec::new();
        for (at, node) in questions.iter().zip(self.known.nodes(&nodes, self.me.fact.horizon())?) {
            let asked = node.into_iter().flat_map(|node| node.as_input.iter().copied());
            for fact in self.before_me(asked)? {
                if fact.is_turn() && self.allows(fact).is_ok() && !self.me.fact.is_of_other_session(fact) {
                    found.push((*at, fact));
                }
            }
        }
        Ok(found)
    }

    /// A recorded answer on the chain, although the blocks before it differ.
    pub(in crate::link) fn anchored(&self) -> Known<Found> {
        Ok(Found {
            decision: self.anchor_behind(0)?,
            rejected: Vec::new(),
        })
    }

    fn anchor_behind(&self, from: usize) -> Known<Option<Decision>> {
        let anchors: Vec<(usize, Key)> = self.me.outline.anchors(from).take(ANCHORS_MAX).collect();
        let keys = anchors.iter().map(|(_, key)| *key);
        let found = self.known.keys(keys, self.me.fact.horizon())?;
        for ((at, _), numbers) in anchors.iter().zip(found) {
            let facts = self.known.facts(numbers.iter().copied())?;
            let heard = facts.into_iter().filter(|fact| {
                fact.number() != self.me.number() && fact.is_turn() && self.is_heard(fact) && self.allows(fact).is_ok()
            });
            let mut heard: Vec<_> = heard.collect();
            if heard.is_empty() {
                continue;
            }
            if !is_one_lineage(self.known, &heard)? {
                return Ok(None);
            }
            self.sort_by_likeness(&mut heard);
            let mut decision = self.behind(Method::Anchor, heard[0], BranchKind::Edit)?;
            decision.shared = *at as u32 + 1;
            decision.rewritten = Some((from as u32, *at as u32));
            return Ok(Some(decision));
        }
        Ok(None)
    }

    /// A history that was seen before, though none of its answers was recorded: recording was off when they were given.
    pub(in crate::link) fn history(&self) -> Known<Found> {
        let Some((at, fact)) = self.deepest_seen()?.filter(|(_, fact)| fact.is_turn()) else {
            return Ok(Found::nothing());
        };
        let me = &self.me.fact;
        let shared = at + 1;
        let refuse = |why| Found {
            decision: None,
            rejected: vec![(fact.number(), why)],
        };
        if let Err(why) = self.allows(fact) {
            return Ok(refuse(why));
        }
        if me.is_of_other_session(fact) {
            return Ok(refuse(Why::OtherSession));
        }
        let mut anchors = self.me.outline.anchors(0);
        let is_telling = anchors.any(|(anchor, _)| anchor <= at)
            && self.me.outline.chars(shared) >= HISTORY_CHARS_MIN
            && me.hash(HashKind::AgentType) == fact.hash(HashKind::AgentType);
        if !is_telling {
            return Ok(refuse(Why::OnlyAnOpening));
        }
        // What several conversations begin with is a template.
        let siblings = self.before_me(self.known.children(fact.number())?.iter().copied())?;
        for sibling in siblings {
            if self.known.link(sibling.number())?.decision.method == Method::History {
                return Ok(refuse(Why::Ambiguous));
            }
        }
        let kind = match self.me.outline.steps().get(shared) {
            Some(step) if step.is_answer => BranchKind::Regeneration,
            _ => BranchKind::Edit,
        };
        let place = if fact.row.input_node == self.me.outline.steps()[at].node {
            Place::After(kind)
        } else {
            Place::Beside(kind)
        };
        let mut decision = Decision::new(LinkKind::Turn, Method::History, place).behind(fact.number());
        decision.shared = shared as u32;
        Ok(decision.into())
    }

    /// The deepest block of the chain that an earlier request had, with that request.
    fn deepest_seen(&self) -> Known<Option<(usize, &Arc<Fact>)>> {
        let steps = self.me.outline.steps();
        let (mut seen, mut unseen) = (None, steps.len());
        let mut low = 0;
        // What was seen is closed under taking the predecessor.
        while low < unseen {
            let middle = low + (unseen - low) / 2;
            let node = self.known.nodes(&[steps[middle].node], self.me.fact.row.at)?;
            let first = node[0].map(|node| node.first);
            match self.before_me(first)?.first() {
                Some(fact) => {
                    seen = Some((middle, *fact));
                    low = middle + 1;
                }
                None => unseen = middle,
            }
        }
        Ok(seen)
    }
}

fn is_one_lineage(known: &Evidence, facts: &[&Arc<Fact>]) -> Known<bool> {
    let mut conversations = Vec::new();
    for fact in facts {
        let conversation = known.link(fact.number())?.conversation;
        if !conversations.contains(&conversation) {
            conversations.push(conversation);
        }
    }
    Ok(conversations.len() == 1)
}
