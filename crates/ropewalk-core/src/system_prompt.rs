//! Hashes of the system prompt (seed 000's dual hash).
//!
//! `system_hash` leaves out what clients change within one session: the billing line, reminders, transient
//! context, the git status. `system_raw_hash` leaves out nothing, so that every change can be seen.

use std::borrow::{Borrow, Cow};

use crate::hash::sha256_hex;
use crate::model::Block;
use crate::text::{fold_crlf, js_trim, strip_between, strip_reminders};

const BILLING_LINE: &str = "x-anthropic-billing-header:";
const GIT_STATUS: &str = "gitStatus:";

/// Hash of the part of the prompt that stays the same within a session.
pub fn system_hash<B: Borrow<Block>>(system: &[B]) -> String {
    let stable: Vec<String> = texts(system).map(stable_part).collect();
    let joined = stable.join("\n");
    sha256_hex(js_trim(&fold_crlf(&joined)))
}

/// Hash of the prompt as sent.
pub fn system_raw_hash<B: Borrow<Block>>(system: &[B]) -> String {
    sha256_hex(&raw_text(system))
}

/// The blocks' texts joined by LF, nothing removed.
pub fn raw_text<B: Borrow<Block>>(system: &[B]) -> String {
    texts(system).collect::<Vec<_>>().join("\n")
}

fn texts<B: Borrow<Block>>(system: &[B]) -> impl Iterator<Item = &str> {
    system.iter().filter_map(|block| match block.borrow() {
        Block::Text { text, .. } => Some(&**text),
        _ => None,
    })
}

/// The order of the removals is part of the hash.
fn stable_part(text: &str) -> String {
    let text = without_billing_lines(text);
    let text = strip_reminders(&text);
    let text = strip_between(&text, "<transient_context>", "</transient_context>");
    let end = text.find(GIT_STATUS).unwrap_or(text.len());
    text[..end].to_owned()
}

fn without_billing_lines(text: &str) -> Cow<'_, str> {
    if !text.contains(BILLING_LINE) {
        return Cow::Borrowed(text);
    }
    let lines = text.split_inclusive('\n');
    Cow::Owned(lines.filter(|line| !line.starts_with(BILLING_LINE)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(texts: &[&str]) -> Vec<Block> {
        let block = |text: &&str| Block::Text {
            text: (*text).into(),
            extra: None,
        };
        texts.iter().map(block).collect()
    }

    #[test]
    fn hashes_nothing_without_a_prompt() {
        let none: [Block; 0] = [];
        assert_eq!(system_hash(&none), sha256_hex(""));
        assert_eq!(system_raw_hash(&none), sha256_hex(""));
    }

    #[test]
    fn leaves_out_what_changes_within_a_session() {
        for (given, stable) in [
            (
                vec!["x-anthropic-billing-header: cc_version=1;", "You are."],
                "You are.",
            ),
            (vec!["a\r\nx-anthropic-billing-header: y\r\nb"], "a\nb"),
            (
                vec!["a x-anthropic-billing-header: y"],
                "a x-anthropic-billing-header: y",
            ),
            (vec!["a\n<system-reminder>r</system-reminder>b"], "ab"),
            (vec!["a <transient_context>1</transient_context>b"], "a b"),
            (vec!["a\ngitStatus: clean\nmore", "b"], "a\n\nb"),
            (vec!["\u{feff} a "], "a"),
        ] {
            assert_eq!(system_hash(&system(&given)), sha256_hex(stable), "{given:?}");
            assert_eq!(system_raw_hash(&system(&given)), sha256_hex(&given.join("\n")));
        }
    }

    #[test]
    fn the_order_of_removals_shows() {
        // The reminder goes before the git status is looked for, so its words do not cut the block.
        let blocks = system(&["a<system-reminder>gitStatus: x</system-reminder>b"]);
        assert_eq!(system_hash(&blocks), sha256_hex("ab"));
    }
}
