//! Prompts that recur, with the places that vary.
//!
//! Each prompt is compared with the templates so far that it looks like, by the bands of its sketch (MinHash over pairs of words), and
//! joins the first that it fits: what both say in the same order stays, what differs becomes a place (`pattern`). So the work grows
//! with the prompts, not with their pairs.

mod pattern;

use std::collections::{HashMap, HashSet};

use ropewalk_core::model::Role;
use ropewalk_store::Store;
use ropewalk_store::facts::ExchangeNumber;
use serde::Serialize;
use utoipa::ToSchema;

use super::words::{combined, mixed, words};
use crate::view::{Result, View, uuid_text};
use pattern::{Pattern, tokens};

/// Words of a prompt that are compared, the first.
const WORDS_MAX: usize = 256;

/// A prompt with fewer words is no template of anything.
const WORDS_MIN: usize = 3;

/// Prompts that are remembered before it is known whether they recur; behind that new ones only join.
const TEMPLATES_MAX: usize = 200_000;

/// Prompts of a template that are kept, to show what its places hold.
const SAMPLES_MAX: usize = 16;

/// Values of a place that are shown.
const VALUES_MAX: usize = 5;

/// Characters of a value or of a fixed stretch that are shown.
const CHARS_MAX: usize = 2_000;
const VALUE_CHARS_MAX: usize = 80;

/// The sketch: so many bands of so many rows. Two prompts with a third of their pairs of words in common meet with a probability of
/// 0.9, with two thirds of them always.
const BANDS: usize = 20;
const ROWS: usize = 2;

/// Templates that share a band; a band that more have tells nothing.
const BAND_MAX: usize = 64;

/// Templates that a prompt is compared with, those that share most bands.
const COMPARED_MAX: usize = 6;

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Conversations that are looked at, the newest.
    pub conversations_max: usize,
    /// How often a prompt must have been said.
    pub times_min: usize,
    /// Templates that are given, those that were said most.
    pub given_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            conversations_max: 100_000,
            times_min: 3,
            given_max: 20,
        }
    }
}

#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct Templates {
    pub v: u32,
    pub conversations: usize,
    /// Whether all conversations and all prompts of them were looked at.
    pub is_all: bool,
    pub prompts: usize,
    /// Those that recur, most often first.
    pub templates: Vec<Template>,
    pub templates_left_out: usize,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Template {
    pub times: usize,
    /// How often it opened a conversation.
    pub openings: usize,
    pub conversations: usize,
    /// The words that stay, with `{1}`, `{2}`, … where they vary.
    pub text: String,
    /// What stood there, in order.
    pub places: Vec<Variable>,
    /// Where it was said, the newest first.
    pub examples: Vec<String>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Variable {
    /// Some of the values; an empty one is nothing.
    pub values: Vec<String>,
    /// Different ones among those that were kept.
    pub different: usize,
}

impl<S: Store> View<'_, S> {
    /// Prompts that recur.
    pub async fn templates(&self, settings: &Settings) -> Result<Templates> {
        let mut miner = Miner::default();
        let (mut conversations, mut before, mut is_all) = (0, None, true);
        'all: while let Some((page, cursor)) = self.roots_before(before).await? {
            before = Some(cursor);
            for root in page {
                if conversations == settings.conversations_max {
                    is_all = false;
                    break 'all;
                }
                conversations += 1;
                let passages = self.passages(root).await?;
                let prompts = passages.iter().filter(|passage| passage.role == Role::User);
                for (at, prompt) in prompts.enumerate() {
                    miner.add(root.0, at == 0, &prompt.text);
                }
            }
        }
        let (templates, templates_left_out) = miner.recurring(settings);
        let mut shown = Vec::with_capacity(templates.len());
        for mined in templates {
            let mut examples = Vec::new();
            for root in &mined.examples {
                let row = self.find_conversation_row(ExchangeNumber(*root)).await?;
                examples.extend(row.map(|row| uuid_text(&row.id)));
            }
            shown.push(mined.shown(examples));
        }
        Ok(Templates {
            v: 1,
            conversations,
            is_all: is_all && !miner.is_full,
            prompts: miner.prompts,
            templates: shown,
            templates_left_out,
        })
    }
}

/// What is known of one template.
#[derive(Debug)]
struct Mined {
    pattern: Pattern,
    samples: Vec<Vec<Box<str>>>,
    times: usize,
    openings: usize,
    conversations: usize,
    last_conversation: i64,
    examples: Vec<i64>,
}

impl Mined {
    fn count(&mut self, conversation: i64, is_opening: bool) {
        self.times += 1;
        self.openings += usize::from(is_opening);
        if self.last_conversation != conversation {
            self.last_conversation = conversation;
            self.conversations += 1;
            if self.examples.len() < VALUES_MAX {
                self.examples.push(conversation);
            }
        }
    }

    fn shown(&self, examples: Vec<String>) -> Template {
        let places = self.pattern.places(&self.samples).into_iter().map(|values| {
            let different: HashSet<&String> = values.iter().collect();
            let mut met = HashSet::new();
            let some = values.iter().filter(|value| met.insert(*value)).take(VALUES_MAX);
            Variable {
                values: some
                    .map(|value| value.chars().take(VALUE_CHARS_MAX).collect())
                    .collect(),
                different: different.len(),
            }
        });
        Template {
            times: self.times,
            openings: self.openings,
            conversations: self.conversations,
            text: self.pattern.text().chars().take(CHARS_MAX).collect(),
            places: places.collect(),
            examples,
        }
    }
}

/// Puts prompts to templates, one after the other.
#[derive(Debug, Default)]
pub struct Miner {
    mined: Vec<Mined>,
    /// Templates by the whole text of a prompt.
    exact: HashMap<u64, u32>,
    bands: HashMap<u64, Vec<u32>>,
    prompts: usize,
    is_full: bool,
}

impl Miner {
    /// Adds a prompt and gives the number of its template; `None` for one that is too short to tell.
    pub fn add(&mut self, conversation: i64, is_opening: bool, prompt: &str) -> Option<usize> {
        let tokens = tokens(prompt, WORDS_MAX);
        if tokens.len() < WORDS_MIN {
            return None;
        }
        self.prompts += 1;
        let spoken = words(prompt);
        let whole = combined(&spoken);
        let known = self.exact.get(&whole).copied();
        let found = known.or_else(|| self.join(&tokens, &spoken));
        let at = match found {
            Some(at) => at,
            None if self.mined.len() >= TEMPLATES_MAX => {
                self.is_full = true;
                return None;
            }
            None => self.begin(&tokens, &spoken),
        };
        self.exact.insert(whole, at);
        let mined = &mut self.mined[at as usize];
        if known.is_none() && mined.samples.len() < SAMPLES_MAX {
            mined.samples.push(tokens.iter().map(|token| (*token).into()).collect());
        }
        mined.count(conversation, is_opening);
        Some(at as usize)
    }

    /// The template that a prompt fits, which then is what both say.
    fn join(&mut self, tokens: &[&str], spoken: &[u64]) -> Option<u32> {
        let mut shared: HashMap<u32, usize> = HashMap::new();
        for band in bands(spoken) {
            let templates = self.bands.get(&band).into_iter().flatten();
            templates.for_each(|template| *shared.entry(*template).or_default() += 1);
        }
        let mut candidates: Vec<(usize, u32)> = shared.into_iter().map(|(at, bands)| (bands, at)).collect();
        candidates.sort_unstable_by_key(|(bands, at)| (std::cmp::Reverse(*bands), *at));
        for (_, at) in candidates.into_iter().take(COMPARED_MAX) {
            let mined = &mut self.mined[at as usize];
            if let Some(joined) = mined.pattern.joined(tokens) {
                mined.pattern = joined;
                return Some(at);
            }
        }
        None
    }

    fn begin(&mut self, tokens: &[&str], spoken: &[u64]) -> u32 {
        let at = self.mined.len() as u32;
        for band in bands(spoken) {
            let templates = self.bands.entry(band).or_default();
            if templates.len() < BAND_MAX {
                templates.push(at);
            }
        }
        self.mined.push(Mined {
            pattern: Pattern::of(tokens),
            samples: Vec::new(),
            times: 0,
            openings: 0,
            conversations: 0,
            last_conversation: i64::MIN,
            examples: Vec::new(),
        });
        at
    }

    /// Those that were said often enough, most often first, and how many are left out.
    fn recurring(&self, settings: &Settings) -> (Vec<&Mined>, usize) {
        let mut recurring: Vec<&Mined> = self
            .mined
            .iter()
            .filter(|mined| mined.times >= settings.times_min)
            .collect();
        recurring.sort_by_key(|mined| std::cmp::Reverse((mined.times, mined.conversations)));
        let left_out = recurring.len().saturating_sub(settings.given_max);
        recurring.truncate(settings.given_max);
        (recurring, left_out)
    }
}

/// The bands of a prompt's sketch.
fn bands(spoken: &[u64]) -> impl Iterator<Item = u64> {
    let spoken = &spoken[..spoken.len().min(WORDS_MAX)];
    let mut least = [u64::MAX; BANDS * ROWS];
    for pair in spoken.windows(2) {
        let pair = combined(pair);
        for (row, least) in (0..).zip(&mut least) {
            *least = mixed(pair ^ mixed(row)).min(*least);
        }
    }
    let bands: Vec<u64> = least
        .chunks(ROWS)
        .collect::<Vec<_>>()
        .iter()
        .map(|rows| combined(rows))
        .collect();
    (0_u64..).zip(bands).map(|(band, rows)| mixed(rows ^ mixed(band)))
}
