//! A terminal that is drawn on again and again.

use std::io::IsTerminal as _;

use super::text::cut_painted;

/// To the upper left corner.
const HOME: &str = "\u{1b}[H";
const CLEAR_LINE: &str = "\u{1b}[K";
const CLEAR_BELOW: &str = "\u{1b}[J";
const CLEAR_ALL: &str = "\u{1b}[2J";

#[derive(Debug)]
pub(crate) struct Screen {
    is_fresh: bool,
}

impl Screen {
    /// `None` where stdout is no terminal.
    pub(crate) fn find() -> Option<Self> {
        std::io::stdout().is_terminal().then_some(Screen { is_fresh: true })
    }

    /// What puts a text in the place of the one before, without a flicker: lines are written over, not away. What does not fit is cut
    /// off; the screen may have changed its size since.
    pub(crate) fn drawn(&mut self, text: &str) -> String {
        let size = terminal_size::terminal_size_of(std::io::stdout());
        let (width, height) = size.map_or((80, 24), |(width, height)| (width.0.into(), height.0.into()));
        let begin = if std::mem::take(&mut self.is_fresh) {
            CLEAR_ALL
        } else {
            ""
        };
        format!("{begin}{}", fitted(text, width, height))
    }
}

fn fitted(text: &str, width: usize, height: usize) -> String {
    let all = text.lines().count();
    let room = height.saturating_sub(1).max(1);
    let mut drawing = HOME.to_owned();
    let kept = if all > room { room - 1 } else { all };
    for line in text.lines().take(kept) {
        drawing.push_str(&cut_painted(line, width));
        drawing.push_str(CLEAR_LINE);
        drawing.push_str("\r\n");
    }
    if all > kept {
        drawing.push_str(&cut_painted(&format!("… {} more lines", all - kept), width));
        drawing.push_str(CLEAR_LINE);
        drawing.push_str("\r\n");
    }
    drawing.push_str(CLEAR_BELOW);
    drawing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_stays_on_the_screen() {
        let text = "one\ntwo\nthree, which is long\nfour\nfive\n";
        let drawing = fitted(text, 10, 4);
        assert_eq!(
            drawing,
            "\u{1b}[Hone\u{1b}[K\r\ntwo\u{1b}[K\r\n… 3 more …\u{1b}[K\r\n\u{1b}[J"
        );
        assert_eq!(fitted("a\n", 10, 4), "\u{1b}[Ha\u{1b}[K\r\n\u{1b}[J");
    }
}
