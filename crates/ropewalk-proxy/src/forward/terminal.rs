//! The end of a streamed answer, found in its bytes.
//!
//! A client acts on the terminal event, not on the end of the body, so that event is what must not reach it before the
//! exchange is kept. The event is looked for by its line, not parsed; it counts as there when the blank line behind it is,
//! because before that no client takes it for an event.

use memchr::memmem;

/// Lines that begin the last event of a stream: Anthropic's, Chat Completions' and those of Responses.
const TERMINAL_LINES: [&[u8]; 6] = [
    b"event: message_stop",
    b"data: [DONE]",
    b"event: response.completed",
    b"event: response.incomplete",
    b"event: response.failed",
    b"event: error",
];

/// Longest of [`TERMINAL_LINES`], and the line break in front.
const LINE_BYTES_MAX: usize = 27;

/// Watches a stream of server-sent events go by.
#[derive(Debug, Default)]
pub(crate) struct TerminalWatch {
    /// The last bytes that went by: a line may be cut anywhere.
    tail: Vec<u8>,
    /// A terminal line went by; its event is not complete yet.
    line_seen: bool,
    /// The stream's first byte went by and is no longer in the tail.
    is_under_way: bool,
}

impl TerminalWatch {
    /// Whether the terminal event becomes complete with this piece.
    pub(crate) fn completes(&mut self, piece: &[u8]) -> bool {
        let mut joined;
        let text: &[u8] = match self.tail.is_empty() {
            true => piece,
            false => {
                joined = std::mem::take(&mut self.tail);
                joined.extend_from_slice(piece);
                &joined
            }
        };
        let begin = match self.line_seen {
            true => Some(0),
            false => find_terminal_line(text, !self.is_under_way),
        };
        if let Some(begin) = begin {
            self.line_seen = true;
            if has_blank_line(&text[begin..]) {
                return true;
            }
        }
        // A blank line in front of the terminal one is another event's.
        let kept = (text.len() - begin.unwrap_or(0)).min(LINE_BYTES_MAX);
        self.is_under_way |= kept < text.len();
        self.tail = text[text.len() - kept..].to_vec();
        false
    }
}

/// Where a terminal line begins. A line, not any text: an answer may quote one within its JSON.
fn find_terminal_line(text: &[u8], from_start: bool) -> Option<usize> {
    let begins_line = |at: usize| match at.checked_sub(1) {
        Some(before) => matches!(text[before], b'\n' | b'\r'),
        None => from_start,
    };
    TERMINAL_LINES
        .iter()
        .find_map(|line| memmem::find_iter(text, line).find(|at| begins_line(*at)))
}

fn has_blank_line(text: &[u8]) -> bool {
    [&b"\n\n"[..], b"\r\n\r\n", b"\r\r"]
        .iter()
        .any(|blank| memmem::find(text, blank).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed_at(stream: &str, piece: usize) -> Option<usize> {
        let mut watch = TerminalWatch::default();
        let mut seen = 0;
        for piece in stream.as_bytes().chunks(piece) {
            seen += piece.len();
            if watch.completes(piece) {
                return Some(seen);
            }
        }
        None
    }

    #[test]
    fn finds_the_terminal_event_of_every_family_however_it_is_cut() {
        for stream in [
            "event: content_block_stop\ndata: {}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
            "data: {\"choices\":[]}\n\ndata: [DONE]\n\n",
            "event: response.output_text.done\r\ndata: {}\r\n\r\nevent: response.completed\r\ndata: {}\r\n\r\n",
        ] {
            for piece in 1..=stream.len() {
                let at = completed_at(stream, piece).unwrap();
                assert!(at + piece > stream.len(), "{stream:?} in pieces of {piece}: {at}");
            }
        }
    }

    #[test]
    fn a_quoted_terminal_line_is_none() {
        let quoted = "data: {\"text\":\"event: message_stop\\n\\n data: [DONE]\"}\n\n";
        for piece in 1..=quoted.len() {
            assert_eq!(completed_at(quoted, piece), None);
        }
    }
}
