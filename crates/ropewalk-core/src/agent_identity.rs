//! Identity of agents (seed 001): 16 hex digits each, computed exactly as the seed's JavaScript does.
//!
//! These are projections: they name a type of agent and an opening, never a record. Two conversations
//! with equal openings share them.

use std::borrow::Cow;

use crate::hash::sha256_hex;
use crate::text::js_trim;

/// How much of the first answer counts, in UTF-16 units.
const FIRST_RESPONSE_UNITS: usize = 500;

/// The first 16 digits of a hash, which is all that this seed keeps.
pub fn short(hex: &str) -> String {
    hex[..hex.floor_char_boundary(16)].to_owned()
}

/// Hash of the tools' names, sorted by UTF-16 code unit.
pub fn tool_set_hash<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.into_iter().collect();
    // Only characters beyond the BMP sort differently than in UTF-8, but those do.
    names.sort_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
    short(&sha256_hex(&names.join("|")))
}

pub fn agent_type_hash(system_prompt_hash: &str, tool_set_hash: &str) -> String {
    short(&sha256_hex(&[system_prompt_hash, tool_set_hash].concat()))
}

pub fn conversation_hash(agent_type_hash: &str, first_user_hash: &str, first_response_hash: &str) -> String {
    short(&sha256_hex(
        &[agent_type_hash, first_user_hash, first_response_hash].concat(),
    ))
}

/// Hash of the first answer's text: trimmed, then cut, not trimmed again.
pub fn hash_first_assistant_response(text: &str) -> String {
    short(&sha256_hex(&first_units(js_trim(text))))
}

pub fn hash_user_message(text: &str) -> String {
    short(&sha256_hex(js_trim(text)))
}

/// `substring(0, 500)`. A pair cut in half leaves a lone surrogate, which is written as U+FFFD.
fn first_units(text: &str) -> Cow<'_, str> {
    // No character has more units than bytes, and those of ASCII have one of each.
    let start = &text.as_bytes()[..text.len().min(FIRST_RESPONSE_UNITS)];
    if start.len() == text.len() || start.is_ascii() {
        return Cow::Borrowed(&text[..start.len()]);
    }
    let mut units = 0;
    let mut kept = String::new();
    for c in text.chars() {
        units += c.len_utf16();
        if units > FIRST_RESPONSE_UNITS {
            if units - c.len_utf16() < FIRST_RESPONSE_UNITS {
                kept.push(char::REPLACEMENT_CHARACTER);
            }
            break;
        }
        kept.push(c);
    }
    Cow::Owned(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_001_tool_order_does_not_matter() {
        assert_eq!(
            tool_set_hash(["read_file", "write_file"]),
            tool_set_hash(["write_file", "read_file"])
        );
        assert_ne!(tool_set_hash(["read_file"]), tool_set_hash(["write_file"]));
        assert_eq!(tool_set_hash(["test"]).len(), 16);
    }

    #[test]
    fn names_sort_by_utf16_unit() {
        // U+1F600 is d83d de00 in UTF-16 and sorts before U+FF5E there, behind it in UTF-8.
        let sorted = short(&sha256_hex("\u{1f600}|\u{ff5e}"));
        assert_eq!(tool_set_hash(["\u{ff5e}", "\u{1f600}"]), sorted);
    }

    #[test]
    fn cuts_after_500_units() {
        assert_eq!(
            hash_first_assistant_response(&"a".repeat(1000)),
            hash_first_assistant_response(&"a".repeat(500))
        );
        let whole_pair = format!("{}\u{1f600}", "a".repeat(498));
        assert_eq!(first_units(&whole_pair), whole_pair);
        assert_eq!(first_units(&format!("{whole_pair}x")), whole_pair);
        let split = format!("{}\u{1f600}x", "a".repeat(499));
        assert_eq!(first_units(&split), format!("{}\u{fffd}", "a".repeat(499)));
    }

    #[test]
    fn trims_before_the_cut_only() {
        let text = format!("  {} y", "x".repeat(499));
        let cut = format!("{} ", "x".repeat(499));
        assert_eq!(hash_first_assistant_response(&text), short(&sha256_hex(&cut)));
        assert_eq!(hash_user_message("\u{feff}test\u{a0}"), hash_user_message("test"));
    }
}
