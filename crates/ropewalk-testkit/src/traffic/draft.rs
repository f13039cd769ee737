//! Exchanges of one conversation, from the moment they are made up to the finished lines with their truth.

use ropewalk_wire::exchange::{ExchangeLine, Half};

use super::truth::{ByContent, Cause, Kind, Truth};
use super::write::time;
use super::{Recorded, Settings};
use crate::conversation::Random;

/// Exchanges of one conversation that their ids leave room for.
const EXCHANGES_MAX_LOG2: u32 = 20;

/// An exchange that took place, recorded or not. Others are named by their index in the conversation.
#[derive(Debug)]
pub(super) struct Draft {
    /// In true time; the recorder's clock adds `clock_ahead`.
    pub(super) at: i64,
    pub(super) ended: i64,
    pub(super) clock_ahead: i64,
    pub(super) is_recorded: bool,
    pub(super) agent: String,
    pub(super) branch: String,
    pub(super) kind: Kind,
    pub(super) cause: Cause,
    pub(super) parent: Option<usize>,
    /// Recorded exchanges of this conversation that content connects it with.
    pub(super) joins: Vec<usize>,
    pub(super) fits_several: bool,
    pub(super) has_end: bool,
    /// Tool calls that started agents, with the time of the call.
    pub(super) spawned: Vec<(String, i64)>,
    pub(super) path: &'static str,
    pub(super) request: Half,
    pub(super) response: Half,
    pub(super) status: u16,
    pub(super) is_cut_off: bool,
}

/// The recorded ones, each with the true time of its request.
pub(super) fn finish(settings: &Settings, number: u64, drafts: Vec<Draft>) -> Vec<(i64, Recorded)> {
    let decided = decided_by_content(&drafts);
    let id = |index: usize| {
        // Steps of this generator are a bijection, so different exchanges never share an id.
        let place = (number << EXCHANGES_MAX_LOG2 | index as u64) ^ settings.seed.rotate_left(40);
        format!("{:016x}", Random(place).next_u64())
    };
    let parents: Vec<Option<String>> = (0..drafts.len())
        .map(|index| recorded_parent(&drafts, index).map(id))
        .collect();
    let all = drafts.into_iter().zip(parents).zip(decided).enumerate();
    all.filter(|(_, ((draft, _), _))| draft.is_recorded)
        .map(|(index, ((draft, parent), by_content))| {
            let truth = Truth {
                id: id(index),
                conversation: format!("conversation-{number}"),
                agent: draft.agent.clone(),
                branch: draft.branch.clone(),
                kind: draft.kind,
                cause: draft.cause,
                parent,
                by_content,
            };
            let at = draft.at;
            let line = line(settings, number, id(index), draft);
            (at, Recorded { line, truth })
        })
        .collect()
}

fn recorded_parent(drafts: &[Draft], index: usize) -> Option<usize> {
    let mut parent = drafts[index].parent?;
    while !drafts[parent].is_recorded {
        parent = drafts[parent].parent?;
    }
    Some(parent)
}

/// The largest set of connected exchanges is the conversation as content knows it; the rest cannot be joined with it.
fn decided_by_content(drafts: &[Draft]) -> Vec<ByContent> {
    let mut group: Vec<usize> = (0..drafts.len()).collect();
    // Joins lead to earlier exchanges only, but to several, so groups may still meet later.
    for (index, draft) in drafts.iter().enumerate() {
        for &join in &draft.joins {
            let (one, other) = (group[index], group[join]);
            let meeting = group.iter_mut().filter(|member| **member == one);
            meeting.for_each(|member| *member = other);
        }
    }
    let mut sizes = vec![0_usize; drafts.len()];
    for (index, draft) in drafts.iter().enumerate() {
        sizes[group[index]] += usize::from(draft.is_recorded && draft.kind != Kind::Auxiliary);
    }
    // Among equals the first, which holds the earliest exchange.
    let largest = (0..drafts.len()).rev().max_by_key(|&index| sizes[index]);
    let of = |(index, draft): (usize, &Draft)| {
        if draft.fits_several {
            ByContent::FitsSeveral
        } else if Some(group[index]) == largest {
            ByContent::Decides
        } else {
            ByContent::CannotJoin
        }
    };
    drafts.iter().enumerate().map(of).collect()
}

fn line(settings: &Settings, number: u64, id: String, draft: Draft) -> ExchangeLine {
    let clock = |micros: i64| time(micros + draft.clock_ahead);
    let owner = (settings.owners > 1).then(|| format!("owner-{}", number % settings.owners));
    ExchangeLine {
        id,
        at: clock(draft.at),
        ended_at: draft.has_end.then(|| clock(draft.ended)),
        spawned_at: draft.spawned.iter().map(|(id, at)| (id.clone(), clock(*at))).collect(),
        owner,
        method: "POST".to_owned(),
        path: draft.path.to_owned(),
        request: draft.request,
        sent: None,
        response: Some(draft.response),
        status: Some(draft.status),
        cut_off: draft.is_cut_off,
        names: Default::default(),
    }
}
