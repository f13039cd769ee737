//! Hashes of messages and of transcripts (seed 000).
//!
//! `message_hash` is the hash that the decision record describes; the pair of transcript hashes is what
//! its running system links by. Data written by it stays comparable, so the bytes are fixed.

use std::collections::HashSet;

use sha2::{Digest as _, Sha256};

use crate::hash::{hex_digits, sha256_hex};
use crate::json::{Doc, Style, quote, to_compact_js};
use crate::model::{Block, MediaKind, MediaSource, Message, Role, ToolContent, ToolInput};
use crate::prompt_path::Shared;
use crate::text::{fold_crlf, js_trim, strip_reminders};

/// How many messages the parent's transcript is shorter: an answer and the next prompt.
const TURN: usize = 2;

/// Both hashes of a transcript. `None` where there is nothing to hash.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TranscriptHashes {
    pub current_message_hash: Option<String>,
    pub parent_message_hash: Option<String>,
}

/// SHA-256 over `role:text`. Blocks that begin with a reminder are left out, blocks without text are empty.
pub fn message_hash(message: &Message) -> String {
    let texts: Vec<String> = message.blocks.iter().map(literal_text).collect();
    let text = if message.is_string {
        texts.concat()
    } else {
        let kept: Vec<String> = texts
            .into_iter()
            .filter(|text| !text.starts_with("<system-reminder>"))
            .collect();
        kept.join("\n")
    };
    sha256_hex(&format!("{}:{text}", message.role.name()))
}

/// The hashes of the transcript and of the transcript one turn earlier.
pub fn transcript_hashes<'a>(messages: impl IntoIterator<Item = &'a Message>) -> TranscriptHashes {
    HashedTranscript::of(messages, None).0
}

/// A transcript as it was hashed up to a few messages before its end, which the next turn may change.
#[derive(Debug, Clone, Default)]
pub struct HashedTranscript {
    bytes: Sha256,
    /// Messages that were hashed, and those among all that they were found in.
    count: usize,
    messages: usize,
}

/// The next turn has other marks on the last messages of this one.
const CHANGED_MAX: usize = 4;

impl HashedTranscript {
    /// Goes on behind what a turn before has of the same messages.
    pub fn of<'a>(
        messages: impl IntoIterator<Item = &'a Message>,
        before: Option<Shared<'_, HashedTranscript>>,
    ) -> (TranscriptHashes, Self) {
        let kept = without_repetitions(messages);
        let before = before.filter(|(before, shared)| before.messages <= *shared && before.count + TURN < kept.len());
        let mut hashed = before.map(|(before, _)| before.clone()).unwrap_or_default();
        // One pass serves both: the parent's transcript is a prefix, so its hash is a state on the way.
        let mut bytes = hashed.bytes.clone();
        let mut parent = None;
        for (i, (at, message)) in kept.iter().enumerate().skip(hashed.count) {
            write(message, &mut bytes);
            if i + TURN + 1 == kept.len() {
                parent = Some(hex_digits(&bytes.clone().finalize().into()));
            }
            if i + CHANGED_MAX + 1 == kept.len() {
                hashed = HashedTranscript {
                    bytes: bytes.clone(),
                    count: i + 1,
                    messages: at + 1,
                };
            }
        }
        let hashes = TranscriptHashes {
            current_message_hash: (!kept.is_empty()).then(|| hex_digits(&bytes.finalize().into())),
            parent_message_hash: parent,
        };
        (hashes, hashed)
    }
}

fn write(message: &Message, bytes: &mut Sha256) {
    for piece in [message.role.name(), "\n", &content(&message.blocks), "\n"] {
        bytes.update(piece);
    }
}

/// A transcript to which messages are added: a log has each of them once.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    bytes: Sha256,
    /// The hashes up to the last messages, the newest last.
    last: [Option<[u8; 32]>; TURN + 1],
}

impl Transcript {
    /// Adds a message that repeats no call and no result of those before it.
    pub fn push(&mut self, message: &Message) {
        if message.role == Role::System {
            return;
        }
        write(message, &mut self.bytes);
        self.last.rotate_left(1);
        self.last[TURN] = Some(self.bytes.clone().finalize().into());
    }

    pub fn hashes(&self) -> TranscriptHashes {
        TranscriptHashes {
            current_message_hash: self.last[TURN].as_ref().map(hex_digits),
            parent_message_hash: self.last[0].as_ref().map(hex_digits),
        }
    }
}

/// A block's `text` member, whatever its type.
fn literal_text(block: &Block) -> String {
    match block {
        Block::Text { text, .. } => text.to_string(),
        Block::Other { json, .. } => {
            let doc = Doc::parse_str(json).ok();
            doc.and_then(|doc| doc.root().get("text")?.to_text())
                .unwrap_or_default()
        }
        _ => String::new(),
    }
}

/// User and assistant messages, each with its place among all, less those that repeat a call or a result: retried requests
/// of some clients carry them twice.
fn without_repetitions<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<(usize, &'a Message)> {
    let mut calls = HashSet::new();
    let mut results = HashSet::new();
    let mut kept = Vec::new();
    for (at, message) in messages.into_iter().enumerate() {
        if message.role == Role::System {
            continue;
        }
        // Stops at the first repetition, so the ids behind it stay unseen, as in the seed's system.
        let all_new = message.blocks.iter().all(|block| match block {
            Block::ToolUse(call) => call.id.as_deref().is_none_or(|id| calls.insert(id)),
            Block::ToolResult(result) => result.tool_use_id.as_deref().is_none_or(|id| results.insert(id)),
            _ => true,
        });
        if all_new {
            kept.push((at, message));
        }
    }
    kept
}

/// The blocks that count, numbered and one a line.
fn content(blocks: &[Block]) -> String {
    let counted = blocks.iter().filter_map(written);
    let numbered = counted.enumerate().map(|(i, block)| format!("[{i}]{block}"));
    numbered.collect::<Vec<_>>().join("\n")
}

/// One block as it is hashed; `None` for a text with nothing in it but reminders.
fn written(block: &Block) -> Option<String> {
    let written = match block {
        Block::Text { text, .. } => {
            let stripped = strip_reminders(text);
            let text = js_trim(&stripped);
            if text.is_empty() {
                return None;
            }
            format!("text:{}", fold_crlf(text))
        }
        Block::ToolUse(call) => {
            let id = call.id.as_deref().unwrap_or_default();
            format!("tool_use:{}:{id}:{}", call.name, compact_input(&call.input))
        }
        Block::ToolResult(result) => {
            let id = result.tool_use_id.as_deref().unwrap_or_default();
            format!("tool_result:{id}:{}", compact_result(&result.content))
        }
        Block::Media(media) => match (media.kind, &media.source) {
            (MediaKind::Image, MediaSource::Base64(data)) => {
                let media_type = media.media_type.as_deref().unwrap_or_default();
                format!("image:{media_type}:{}", sha256_hex(data))
            }
            (MediaKind::Image, _) => "image:no-source".to_owned(),
            (MediaKind::Document, _) => "document:unknown".to_owned(),
            (MediaKind::Audio, _) => "audio:unknown".to_owned(),
        },
        Block::Thinking { kind, .. } | Block::Other { kind, .. } => format!("{kind}:unknown"),
        Block::Reference { .. } => "item_reference:unknown".to_owned(),
    };
    Some(written)
}

fn compact_input(input: &ToolInput) -> String {
    match input {
        ToolInput::Json(json) => compact(json),
        ToolInput::Text(text) => json_string(text),
    }
}

fn compact_result(content: &ToolContent) -> String {
    match content {
        ToolContent::Absent => String::new(),
        ToolContent::Text(text) => strip_reminders(text).into_owned(),
        ToolContent::Blocks { json, .. } => compact(json),
    }
}

/// JavaScript's compact JSON. The model only holds well-formed JSON; anything else stands as it is.
fn compact(json: &str) -> String {
    Doc::parse_str(json).map_or_else(|_| json.to_owned(), |doc| to_compact_js(doc.root()))
}

fn json_string(text: &str) -> String {
    quote(text, Style::Plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Media, ToolResult, ToolUse};

    fn text(text: &str) -> Block {
        Block::Text {
            text: text.into(),
            extra: None,
        }
    }

    fn call(id: &str, input: ToolInput) -> Block {
        Block::ToolUse(ToolUse {
            id: Some(id.into()),
            name: "Read".into(),
            input,
            extra: None,
        })
    }

    fn result(id: &str, content: ToolContent) -> Block {
        let tool_use_id = Some(id.into());
        Block::ToolResult(ToolResult {
            tool_use_id,
            name: None,
            is_error: false,
            content,
            extra: None,
        })
    }

    fn message(role: Role, blocks: Vec<Block>) -> Message {
        Message {
            role,
            is_string: false,
            blocks,
            extra: None,
        }
    }

    fn image(source: MediaSource) -> Block {
        let media_type = Some("image/png".into());
        Block::Media(Media {
            kind: MediaKind::Image,
            media_type,
            source,
            extra: None,
        })
    }

    #[test]
    fn writes_each_block_as_the_seed_does() {
        let thinking = Block::Thinking {
            text: "hm".into(),
            kind: "thinking".into(),
            extra: None,
        };
        let blocks = [
            text(" <system-reminder>x</system-reminder> "),
            thinking,
            text(" a\r\nb "),
            call("t1", ToolInput::Json("{ \"b\" : 1.0, \"a\":\"\\u00e9\" }".into())),
            call("t2", ToolInput::Text("say \"hi\"\n".into())),
            result(
                "t1",
                ToolContent::Text(" a <system-reminder>x</system-reminder>\r\n".into()),
            ),
            result("t2", ToolContent::Absent),
            image(MediaSource::Base64("AAAA".into())),
            image(MediaSource::Url("https://example.org/a.png".into())),
        ];
        let data_hash = sha256_hex("AAAA");
        let lines = [
            "[0]thinking:unknown",
            "[1]text:a\nb",
            "[2]tool_use:Read:t1:{\"b\":1,\"a\":\"é\"}",
            "[3]tool_use:Read:t2:\"say \\\"hi\\\"\\n\"",
            "[4]tool_result:t1: a\r\n",
            "[5]tool_result:t2:",
            &format!("[6]image:image/png:{data_hash}"),
            "[7]image:no-source",
        ];
        assert_eq!(content(&blocks), lines.join("\n"));
    }

    #[test]
    fn a_string_of_reminders_has_no_content() {
        let blocks = [text("<system-reminder>x</system-reminder>")];
        assert_eq!(content(&blocks), "");
        let mut only = message(Role::User, blocks.to_vec());
        only.is_string = true;
        let hashes = transcript_hashes([&only]);
        assert_eq!(hashes.current_message_hash, Some(sha256_hex("user\n\n")));
        assert_eq!(
            message_hash(&only),
            sha256_hex("user:<system-reminder>x</system-reminder>")
        );
    }

    #[test]
    fn a_message_that_repeats_an_id_is_left_out_whole() {
        let input = || ToolInput::Json("{}".into());
        let first = message(Role::Assistant, vec![call("t1", input())]);
        let again = message(
            Role::Assistant,
            vec![text("more"), call("t1", input()), call("t2", input())],
        );
        let later = message(Role::Assistant, vec![call("t2", input())]);
        // A result may carry the id of a call: the two are counted apart.
        let answer = message(Role::User, vec![result("t1", ToolContent::Absent)]);
        let with = transcript_hashes([&first, &again, &later, &answer, &answer]);
        let without = transcript_hashes([&first, &later, &answer]);
        assert_eq!(with, without);
    }

    #[test]
    fn nothing_to_hash_is_no_hash() {
        assert_eq!(transcript_hashes([]), TranscriptHashes::default());
        let system = message(Role::System, vec![text("x")]);
        assert_eq!(transcript_hashes([&system]), TranscriptHashes::default());
    }

    #[test]
    fn the_parent_is_the_transcript_of_the_turn_before() {
        let user = |words: &str| message(Role::User, vec![text(words)]);
        let (a, c) = (user("a"), user("c"));
        let b = message(Role::Assistant, vec![text("b")]);
        let parent = transcript_hashes([&a]).current_message_hash;
        assert_eq!(transcript_hashes([&a, &b]).parent_message_hash, None);
        assert_eq!(transcript_hashes([&a, &b, &c]).parent_message_hash, parent);
    }

    #[test]
    fn a_transcript_that_grows_has_the_hashes_of_a_whole_one() {
        let said = ["a", "", "c", "d", "e"].map(|words| message(Role::User, vec![text(words)]));
        let mut grown = Transcript::default();
        assert_eq!(grown.hashes(), transcript_hashes([]));
        for count in 1..=said.len() {
            grown.push(&said[count - 1]);
            grown.push(&message(Role::System, vec![text("context")]));
            assert_eq!(grown.hashes(), transcript_hashes(&said[..count]));
        }
    }
}
