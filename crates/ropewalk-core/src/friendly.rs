//! Names that people can read (seed 003): `react_optimization_83p6` for a conversation, `m1hn4w` for a message.
//!
//! Ids are minted once and are facts from then on; nothing here is ever computed again to look one up.
//! [`friendly_id`] and [`short_hash`] are the seed's functions to the bit; [`mint`] and
//! [`mint_short_hash`] make their values unique.

use std::borrow::Cow;

/// The seed's own order: letters first, so that `a` is 0 and `9` is 35.
const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const ID_DIGITS: usize = 4;
const LONG_DIGITS: usize = 6;
/// How often a taken id is salted before it grows.
const SHORT_ATTEMPTS: u32 = 5;
/// Behind so many collisions in a row stands no accident; the conversation's own id then ends the search.
const MAX_ATTEMPTS: u32 = 10_000;
/// A pasted blob may be one word; an id has to fit on a line.
const WORD_CHARS_MAX: usize = 40;

/// MurmurHash3 x86 32-bit with seed 0.
pub fn murmur3_32(bytes: &[u8]) -> u32 {
    let mut hash = 0_u32;
    let mut chunks = bytes.chunks_exact(4);
    for chunk in &mut chunks {
        let block = chunk.iter().rev().fold(0, |block, byte| block << 8 | u32::from(*byte));
        hash ^= scramble(block);
        hash = hash.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    let tail = chunks
        .remainder()
        .iter()
        .rev()
        .fold(0, |tail, byte| tail << 8 | u32::from(*byte));
    hash ^= scramble(tail);
    // The length counts modulo 2^32, as in the original.
    hash ^= bytes.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

fn scramble(block: u32) -> u32 {
    block
        .wrapping_mul(0xcc9e_2d51)
        .rotate_left(15)
        .wrapping_mul(0x1b87_3593)
}

/// The low `digits` digits, most significant first.
pub fn base36(number: u32, digits: usize) -> String {
    let mut rest = number;
    let mut written = vec![ALPHABET[0]; digits];
    for digit in written.iter_mut().rev() {
        *digit = ALPHABET[(rest % 36) as usize];
        rest /= 36;
    }
    written.into_iter().map(char::from).collect()
}

/// The seed's id of a conversation. `created_at` is `YYYY-MM-DD HH:MM:SS`, frozen.
pub fn friendly_id(title: &str, created_at: &str) -> String {
    let hash = murmur3_32(format!("{title}{created_at}").as_bytes());
    format!("{}_{}", name_words(title), base36(hash, ID_DIGITS))
}

/// An id that is not taken. Only the hash is salted, so the words stay readable.
pub fn mint(title: &str, created_at: &str, conversation_id: &str, taken: impl Fn(&str) -> bool) -> String {
    let words = minted_words(title);
    for attempt in 0..MAX_ATTEMPTS {
        let input = match attempt {
            0 => format!("{title}{created_at}"),
            _ => format!("{title}{created_at}{conversation_id}{attempt}"),
        };
        let digits = if attempt <= SHORT_ATTEMPTS {
            ID_DIGITS
        } else {
            LONG_DIGITS
        };
        let id = format!("{words}_{}", base36(murmur3_32(input.as_bytes()), digits));
        if !taken(&id) {
            return id;
        }
    }
    let unique: String = conversation_id.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{words}_{}", unique.to_ascii_lowercase())
}

/// The seed's short hash of a message.
pub fn short_hash(friendly_id: &str, text: &str) -> String {
    base36(murmur3_32(format!("{friendly_id}{text}").as_bytes()), LONG_DIGITS)
}

/// A short hash that no other message of the conversation has. Equal texts get the next free one; `None`
/// if none is found within the bound, so that a message is rather without a hash than with a wrong one.
pub fn mint_short_hash(friendly_id: &str, text: &str, taken: impl Fn(&str) -> bool) -> Option<String> {
    short_hashes(friendly_id, text).find(|hash| !taken(hash))
}

/// The short hashes that a message may get, in the order in which they are tried.
pub fn short_hashes(friendly_id: &str, text: &str) -> impl Iterator<Item = String> {
    let salted = (1..MAX_ATTEMPTS).map(move |attempt| {
        // NUL keeps the salt apart from a text that ends in the same digits.
        short_hash(friendly_id, &format!("{text}\0{attempt}"))
    });
    std::iter::once(short_hash(friendly_id, text)).chain(salted)
}

/// The words of a title, as the seed picks them: two that mean something, or what there is.
fn name_words(title: &str) -> String {
    // Word by word: what stands for a title may be a file that somebody pasted, and two words of it are enough.
    let words = || {
        title
            .split(is_python_space)
            .map(cleaned)
            .filter(|word| !word.is_empty())
    };
    let longer = || words().filter(|word| word.len() > 1);
    let mut picked: Vec<String> = longer()
        .filter(|word| STOPWORDS.binary_search(&&**word).is_err())
        .take(2)
        .collect();
    if picked.is_empty() {
        picked = longer().take(2).collect();
    }
    if picked.is_empty() {
        picked = words().take(1).collect();
    }
    if picked.is_empty() {
        picked.push(NO_WORDS.to_owned());
    }
    picked.join("_")
}

/// What of a word can be in an id.
fn cleaned(word: &str) -> String {
    let lower = word.chars().flat_map(char::to_lowercase);
    lower.filter(char::is_ascii_alphanumeric).collect()
}

const NO_WORDS: &str = "chat";

/// A title without any ASCII word is transliterated first, or all of them would be called `chat`.
fn minted_words(title: &str) -> String {
    let has_ascii_word = title.chars().any(|c| c.is_ascii_alphanumeric());
    let readable = if has_ascii_word {
        Cow::Borrowed(title)
    } else {
        Cow::Owned(deunicode::deunicode(title))
    };
    let words = name_words(&readable);
    let short = words.split('_').map(|word| word.get(..WORD_CHARS_MAX).unwrap_or(word));
    short.collect::<Vec<_>>().join("_")
}

/// Python's `str.isspace`, which also counts the four separators of ASCII.
fn is_python_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Words that name nothing. Sorted, for the search.
#[rustfmt::skip]
const STOPWORDS: &[&str] = &[
    "a", "about", "after", "all", "also", "although", "am", "an", "and", "any", "are", "at", "be",
    "because", "been", "before", "being", "between", "both", "but", "by", "can", "could", "did", "do",
    "does", "doing", "during", "each", "every", "few", "for", "from", "get", "got", "had", "has",
    "have", "having", "he", "her", "here", "hers", "him", "his", "how", "i", "if", "in", "into", "is",
    "it", "its", "just", "like", "made", "make", "many", "may", "me", "might", "mine", "more", "most",
    "much", "must", "my", "myself", "no", "nor", "not", "of", "on", "ones", "or", "our", "ours",
    "ourselves", "over", "really", "shall", "she", "should", "since", "so", "some", "than", "that",
    "the", "their", "theirs", "them", "then", "there", "these", "they", "this", "those", "to", "too",
    "under", "up", "very", "was", "we", "were", "what", "when", "where", "which", "while", "who",
    "whom", "why", "will", "with", "would", "you", "your", "yours",
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn murmur_agrees_with_the_reference_values() {
        for (text, hash) in [
            ("", 0),
            ("a", 0x3c25_69b2),
            ("abc", 0xb3dd_93fa),
            ("test", 0xba6b_d213),
            ("hello", 0x248b_fa47),
            ("Hello, world!", 0xc036_3e43),
            ("The quick brown fox jumps over the lazy dog", 0x2e4f_f723),
        ] {
            assert_eq!(murmur3_32(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn stopwords_are_sorted() {
        assert!(STOPWORDS.is_sorted());
    }

    #[test]
    fn a_free_id_is_the_seeds_own() {
        let at = "2026-02-09 10:00:00";
        assert_eq!(
            mint("React Optimization", at, "c1", |_| false),
            "react_optimization_83p6"
        );
    }

    #[test]
    fn a_collision_changes_the_hash_only_and_grows_after_five_tries() {
        let at = "2026-02-09 10:00:00";
        let minted_with = |taken: usize| {
            let asked = std::cell::Cell::new(0);
            mint("React Optimization", at, "c1", |_| {
                asked.set(asked.get() + 1);
                asked.get() <= taken
            })
        };
        let ids: Vec<String> = (0..9).map(minted_with).collect();
        for (i, id) in ids.iter().enumerate() {
            let digits = id.strip_prefix("react_optimization_").unwrap();
            assert_eq!(digits.len(), if i <= 5 { 4 } else { 6 }, "{id}");
            assert_eq!(ids.iter().filter(|other| *other == id).count(), 1);
        }
        let salted = murmur3_32(b"React Optimization2026-02-09 10:00:00c11");
        assert_eq!(ids[1], format!("react_optimization_{}", base36(salted, 4)));
        assert_eq!(mint("x y", at, "0f-AA", |_| true), "x_0faa");
    }

    #[test]
    fn titles_in_other_scripts_get_words_when_minted() {
        let at = "2026-01-01 00:00:00";
        assert_eq!(friendly_id("日本語のタイトル", at), "chat_mosr");
        for title in ["日本語のタイトル", "Привет мир", "Καλημέρα κόσμε"] {
            let id = mint(title, at, "c", |_| false);
            assert!(!id.starts_with("chat_"), "{id}");
            assert!(
                id.ends_with(&friendly_id(title, at)["chat".len()..]),
                "{id}: the hash is the title's"
            );
        }
        assert_eq!(
            mint("Café münchen trip", "2025-12-31 23:59:59", "c", |_| false),
            "caf_mnchen_oc43"
        );
        assert!(mint("?!", at, "c", |_| false).starts_with("chat_"));
    }

    #[test]
    fn a_long_word_is_cut_when_minted() {
        let id = mint(&"x".repeat(5000), "2026-01-01 00:00:00", "c", |_| false);
        assert_eq!(id.len(), WORD_CHARS_MAX + 1 + ID_DIGITS);
    }

    #[test]
    fn equal_texts_get_different_short_hashes() {
        let fid = "react_optimization_83p6";
        let first = mint_short_hash(fid, "Hello", |_| false).unwrap();
        let second = mint_short_hash(fid, "Hello", |hash| hash == first).unwrap();
        assert_eq!(first, "m1hn4w");
        assert_ne!(first, second);
        assert_eq!(mint_short_hash(fid, "Hello", |_| true), None);
    }

    proptest! {
        #[test]
        fn ids_are_always_tokens(title in "\\PC{0,40}") {
            let id = mint(&title, "2026-01-01 00:00:00", "c", |_| false);
            prop_assert!(id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{}", id);
        }
    }
}
