//! What two prompts have in common, and each thing that may stand in the way of reading the second where the first was kept.

use std::collections::BTreeSet;

use ropewalk_wire::prompt::limits::{AUTOMATIC_SECONDS_MAX, LOOKBACK_BLOCKS};
use ropewalk_wire::prompt::{Caching, Lifetime, Part, Place, Prompt, Section};

use super::money::total_input;
use super::rules::{Cause, CauseKind, Difference, Turn};
use crate::detail::word;

/// Characters that are shown around the first that differs: so many before it, so many from it on.
const SHOWN_BEFORE: usize = 40;
const SHOWN_BEHIND: usize = 80;

/// Tokens of the first parts, in proportion to their bytes.
pub(crate) fn estimate(prompt: &Prompt, parts: usize, tokens: u64) -> u64 {
    proportion(prompt.weight_of_first(parts), prompt.weight(), tokens)
}

/// As many of the tokens as some bytes are of all.
pub(crate) fn proportion(some: usize, all: usize, tokens: u64) -> u64 {
    let share = u128::from(tokens) * some as u128 / all.max(1) as u128;
    u64::try_from(share).unwrap_or(tokens)
}

/// Two prompts side by side.
pub(super) struct Compared<'t> {
    before: &'t Turn,
    now: &'t Turn,
    /// Parts that both begin with.
    pub(super) common: usize,
    /// Parts of the turn before that were kept, and for how long.
    kept: Option<(usize, Lifetime)>,
}

impl<'t> Compared<'t> {
    pub(super) fn new(before: &'t Turn, now: &'t Turn) -> Self {
        let parts = &before.prompt.parts;
        let kept = match before.prompt.caching {
            Caching::Automatic(lifetime) => {
                // Messages that the client does not send again are with the provider.
                let is_compared =
                    |part: &&Part| !now.prompt.goes_on_elsewhere || part.place.section() != Section::Messages;
                Some((parts.iter().filter(is_compared).count(), lifetime))
            }
            Caching::Asked => {
                let mut marked = parts.iter().enumerate().rev();
                marked.find_map(|(at, part)| Some((at + 1, part.breakpoint?)))
            }
        };
        Compared {
            common: before.prompt.parts_in_common(&now.prompt),
            before,
            now,
            kept,
        }
    }

    fn is_broken(&self) -> bool {
        self.kept.is_some_and(|(kept, _)| self.common < kept)
    }

    /// Everything that was kept stands at the beginning of this prompt as well.
    pub(super) fn is_whole(&self) -> bool {
        self.kept.is_some_and(|(kept, _)| self.common >= kept)
    }

    /// Why the provider kept nothing of the turn before, and what it would have kept.
    pub(super) fn why_nothing_is_left(&self, minimum: u64) -> (Option<Cause>, u64) {
        let total = total_input(&self.before.usage);
        let kept = self.kept.map(|(parts, _)| estimate(&self.before.prompt, parts, total));
        let tokens = kept.unwrap_or(total);
        let cause = |kind, explained| Some(Cause { kind, explained });
        if tokens < minimum {
            let explained = format!("the turn before had about {tokens} tokens to keep; {minimum} are the least");
            return (cause(CauseKind::BelowMinimum, explained), 0);
        }
        match kept {
            None => (
                cause(
                    CauseKind::BreakpointMissing,
                    "the turn before asked to keep nothing".to_owned(),
                ),
                total,
            ),
            Some(_) => (
                cause(
                    CauseKind::Provider,
                    "the provider kept nothing of the turn before, although it was asked to".to_owned(),
                ),
                0,
            ),
        }
    }

    /// Everything that stands in the way of what was kept, in its order.
    pub(super) fn spoilt(&self) -> Vec<Cause> {
        let content = self.content();
        let expired = self.expired();
        // Whoever reads something finds the beginning still there, and an automatic cache may keep things for longer than it promises.
        let is_certain = expired.as_ref().is_some_and(|(_, is_certain)| *is_certain);
        let content_first = !content.is_empty() && (self.now.usage.cache_read_tokens > 0 || !is_certain);
        let expired = expired.map(|(cause, _)| cause);
        let mut causes: Vec<Cause> = [self.other_model(), self.other_beta(), self.other_key()]
            .into_iter()
            .flatten()
            .collect();
        match content_first {
            true => {
                causes.extend(content);
                causes.extend(expired);
            }
            false => {
                causes.extend(expired);
                causes.extend(content);
            }
        }
        causes.extend(self.breakpoint());
        causes
    }

    fn other_model(&self) -> Option<Cause> {
        let (before, now) = (self.before, self.now);
        let explained = match (before.model == now.model, before.upstream == now.upstream) {
            (true, true) => return None,
            (false, _) => format!("{} after {}", now.model, before.model),
            (true, false) => format!("asked of {} after {}", now.upstream, before.upstream),
        };
        Some(Cause {
            kind: CauseKind::OtherModel,
            explained,
        })
    }

    fn other_beta(&self) -> Option<Cause> {
        let (before, now) = (&self.before.betas, &self.now.betas);
        let added = now.difference(before).map(|name| format!("+{name}"));
        let removed = before.difference(now).map(|name| format!("-{name}"));
        let changed: Vec<String> = added.chain(removed).collect();
        (!changed.is_empty()).then(|| Cause {
            kind: CauseKind::OtherBeta,
            explained: changed.join(" "),
        })
    }

    fn other_key(&self) -> Option<Cause> {
        let (before, now) = (&self.before.prompt.cache_key, &self.now.prompt.cache_key);
        (before != now).then(|| Cause {
            kind: CauseKind::OtherCacheKey,
            explained: format!(
                "{} after {}",
                word(now.as_deref().unwrap_or("none")),
                word(before.as_deref().unwrap_or("none"))
            ),
        })
    }

    /// With whether it is certain.
    fn expired(&self) -> Option<(Cause, bool)> {
        let (_, lifetime) = self.kept?;
        let idle = (self.now.at.0 - self.before.at.0) / 1_000_000;
        if idle <= lifetime.seconds() {
            return None;
        }
        let is_certain = match self.before.prompt.caching {
            Caching::Asked => true,
            Caching::Automatic(lifetime) => idle > lifetime.seconds().max(AUTOMATIC_SECONDS_MAX),
        };
        let explained = format!(
            "asked {} after the turn before; it is kept for {}",
            spoken(idle),
            spoken(lifetime.seconds())
        );
        let kind = CauseKind::Expired;
        Some((Cause { kind, explained }, is_certain))
    }

    /// What of the prompt itself is another one.
    fn content(&self) -> Vec<Cause> {
        let Some((kept, _)) = self.kept else {
            return Vec::new();
        };
        let settings = self.settings(kept);
        if !self.is_broken() {
            return settings.into_iter().collect();
        }
        let (before, now) = self.parting();
        let sections = [before, now].into_iter().flatten().map(|part| part.place.section());
        let place = now.or(before).map(|part| shown(&part.place)).unwrap_or_default();
        let what = match (before, now) {
            (Some(_), None) => "is gone",
            _ => "differs",
        };
        let kind = match sections.min() {
            Some(Section::Tools) => CauseKind::Tools,
            Some(Section::System) => CauseKind::System,
            _ => CauseKind::Message,
        };
        let changed = Cause {
            kind,
            explained: format!("{place} {what}"),
        };
        match kind {
            CauseKind::Message => settings.into_iter().chain([changed]).collect(),
            _ => [changed].into_iter().chain(settings).collect(),
        }
    }

    fn settings(&self, kept: usize) -> Option<Cause> {
        let (before, now) = (&self.before.prompt, &self.now.prompt);
        let last = before.parts.get(kept.checked_sub(1)?)?;
        if last.place.section() != Section::Messages || before.settings == now.settings {
            return None;
        }
        let names: BTreeSet<&String> = before.settings.keys().chain(now.settings.keys()).collect();
        let changed = names
            .into_iter()
            .filter(|name| before.settings.get(*name) != now.settings.get(*name));
        let changed: Vec<&str> = changed.map(|name| &**name).collect();
        Some(Cause {
            kind: CauseKind::Settings,
            explained: format!("another {}", changed.join(", ")),
        })
    }

    /// Whether what was kept can be found from where this turn asks to read.
    fn breakpoint(&self) -> Option<Cause> {
        let (kept, _) = self.kept?;
        if self.now.prompt.caching != Caching::Asked {
            return None;
        }
        let parts = self.now.prompt.parts.iter().enumerate();
        let marked = parts.filter(|(_, part)| part.breakpoint.is_some());
        let ends: Vec<usize> = marked.map(|(at, _)| at + 1).collect();
        let Some(last) = ends.last() else {
            return Some(Cause {
                kind: CauseKind::BreakpointMissing,
                explained: "this turn asks to read nothing".to_owned(),
            });
        };
        if ends.iter().any(|end| *end >= kept && end - kept < LOOKBACK_BLOCKS) {
            return None;
        }
        let explained = match kept.checked_sub(*last) {
            Some(missing) if missing > 0 => format!("the last one stands {missing} blocks before where it stood"),
            _ => format!(
                "the nearest one stands {} blocks behind where it stood; a provider looks back over {LOOKBACK_BLOCKS}",
                ends.iter().filter(|end| **end >= kept).min().unwrap_or(last) - kept
            ),
        };
        let kind = CauseKind::BreakpointMoved;
        Some(Cause { kind, explained })
    }

    fn parting(&self) -> (Option<&'t Part>, Option<&'t Part>) {
        let at = self.common;
        (self.before.prompt.parts.get(at), self.now.prompt.parts.get(at))
    }

    pub(super) fn difference(&self) -> Difference {
        let (before, now) = self.parting();
        let texts = (before.map_or("", |part| &part.text), now.map_or("", |part| &part.text));
        let same = texts.0.chars().zip(texts.1.chars()).take_while(|(a, b)| a == b).count();
        let excerpt = |part: &Part| excerpt(&part.text, same);
        Difference {
            place_before: before.map(|part| shown(&part.place)),
            place_after: now.map(|part| shown(&part.place)),
            at_char: same,
            before: before.map(excerpt),
            after: now.map(excerpt),
        }
    }
}

fn shown(place: &Place) -> String {
    match place {
        Place::Tool { name } => format!("tool {}", word(name)),
        Place::System { number } => format!("system block {number}"),
        Place::Message { number, block, role } => {
            format!("message {number}, block {block} ({})", word(role))
        }
    }
}

/// A text around its nth character.
pub(crate) fn excerpt(text: &str, at: usize) -> String {
    let skipped = at.saturating_sub(SHOWN_BEFORE);
    let mut rest = text.chars().skip(skipped);
    let mut out = String::from(if skipped > 0 { "…" } else { "" });
    out.extend(rest.by_ref().take(at - skipped + SHOWN_BEHIND));
    if rest.next().is_some() {
        out.push('…');
    }
    out
}

/// Seconds as people say them.
fn spoken(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}
