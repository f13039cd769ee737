//! Words of one line. Where there is little room those go first that are missed least, and none is cut in two.

use super::text::painted_width;

const BETWEEN: &str = " · ";

/// How much a word would be missed; what is missed least goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Missed {
    Least,
    Less,
    Some,
    More,
    /// It stays, and is cut off if it must be.
    Most,
}

#[derive(Debug, Default)]
pub(crate) struct Words(Vec<(Missed, String)>);

impl Words {
    /// One more, painted or not.
    pub(crate) fn push(&mut self, missed: Missed, word: impl Into<String>) {
        self.0.push((missed, word.into()));
    }

    pub(crate) fn extend(&mut self, missed: Missed, words: impl IntoIterator<Item = String>) {
        self.0.extend(words.into_iter().map(|word| (missed, word)));
    }

    /// All of them, or those that fit into so many columns.
    pub(crate) fn line(mut self, room: Option<usize>) -> String {
        let room = room.unwrap_or(usize::MAX);
        while self.width() > room {
            let words = self.0.iter().enumerate();
            // Of two that are missed alike the last one goes.
            let least = words.filter(|(_, (missed, _))| *missed < Missed::Most);
            let Some((at, _)) = least.min_by_key(|(at, (missed, _))| (*missed, usize::MAX - at)) else {
                break;
            };
            self.0.remove(at);
        }
        let words: Vec<String> = self.0.into_iter().map(|(_, word)| word).collect();
        words.join(BETWEEN)
    }

    fn width(&self) -> usize {
        let words: usize = self.0.iter().map(|(_, word)| painted_width(word)).sum();
        words + painted_width(BETWEEN) * self.0.len().saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missed_least_goes_first() {
        let line = |room: usize| {
            let mut words = Words::default();
            words.push(Missed::Most, "\u{1b}[1mname\u{1b}[0m");
            words.push(Missed::Less, "main");
            words.push(Missed::Less, "model");
            words.push(Missed::More, "$1");
            words.line(Some(room))
        };
        assert_eq!(line(24), "\u{1b}[1mname\u{1b}[0m · main · model · $1");
        assert_eq!(line(23), "\u{1b}[1mname\u{1b}[0m · main · $1");
        assert_eq!(line(15), "\u{1b}[1mname\u{1b}[0m · $1");
        assert_eq!(line(1), "\u{1b}[1mname\u{1b}[0m");
    }
}
