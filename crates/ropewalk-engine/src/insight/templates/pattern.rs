//! What several prompts have in common, word by word: words that stay, and places between them.

/// Share of a pattern's words that a prompt must have, in order.
const OF_PATTERN_MIN: f64 = 0.7;

/// The same of a pattern that is one prompt yet: its words are also those that vary.
const OF_FIRST_MIN: f64 = 0.5;

/// Share of a prompt's words that must be the pattern's: the rest is what varies.
const OF_PROMPT_MIN: f64 = 0.5;

/// Words that must stay: fewer say nothing about each other.
const STAYING_MIN: usize = 3;

/// A word, or a place that varies.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Element {
    Word(Box<str>),
    Place,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Element>);

/// The first words of a prompt, with their punctuation.
pub(super) fn tokens(prompt: &str, words_max: usize) -> Vec<&str> {
    prompt.split_whitespace().take(words_max).collect()
}

impl Pattern {
    pub(super) fn of(tokens: &[&str]) -> Self {
        Pattern(tokens.iter().map(|token| Element::Word((*token).into())).collect())
    }

    fn words(&self) -> Vec<&str> {
        let words = self.0.iter().filter_map(|element| match element {
            Element::Word(word) => Some(&**word),
            Element::Place => None,
        });
        words.collect()
    }

    /// With a place wherever a prompt differs; `None` for a prompt that does not fit.
    pub(super) fn joined(&self, tokens: &[&str]) -> Option<Self> {
        let words = self.words();
        let (shorter, longer) = (words.len().min(tokens.len()), words.len().max(tokens.len()));
        if (shorter as f64) < (longer as f64) * OF_PROMPT_MIN {
            return None;
        }
        let of_pattern = match self.0.contains(&Element::Place) {
            true => OF_PATTERN_MIN,
            false => OF_FIRST_MIN,
        };
        let pairs = common(&words, tokens);
        let stays = pairs.len();
        let fits = stays >= STAYING_MIN
            && stays as f64 >= words.len() as f64 * of_pattern
            && stays as f64 >= tokens.len() as f64 * OF_PROMPT_MIN;
        fits.then(|| self.keeping(&pairs, tokens.len()))
    }

    /// The words of these pairs (of the pattern's word and the prompt's), with places where either has something between them.
    fn keeping(&self, pairs: &[(usize, usize)], tokens: usize) -> Self {
        let mut kept = Vec::new();
        let mut pairs = pairs.iter().copied().peekable();
        let (mut word, mut next_token, mut is_open) = (0, 0, false);
        for element in &self.0 {
            match element {
                Element::Place => is_open = true,
                Element::Word(text) => {
                    match pairs.next_if(|(of_pattern, _)| *of_pattern == word) {
                        Some((_, token)) => {
                            if is_open || token > next_token {
                                kept.push(Element::Place);
                            }
                            kept.push(Element::Word(text.clone()));
                            (next_token, is_open) = (token + 1, false);
                        }
                        None => is_open = true,
                    }
                    word += 1;
                }
            }
        }
        if is_open || next_token < tokens {
            kept.push(Element::Place);
        }
        Pattern(kept)
    }

    /// The words with numbered places.
    pub(super) fn text(&self) -> String {
        let mut place = 0;
        let pieces = self.0.iter().map(|element| match element {
            Element::Word(word) => word.to_string(),
            Element::Place => {
                place += 1;
                format!("{{{place}}}")
            }
        });
        pieces.collect::<Vec<_>>().join(" ")
    }

    /// What stood in each place in some prompts that fit.
    pub(super) fn places(&self, samples: &[Vec<Box<str>>]) -> Vec<Vec<String>> {
        let count = self.0.iter().filter(|element| **element == Element::Place).count();
        let mut places = vec![Vec::new(); count];
        let words = self.words();
        for sample in samples {
            let sample: Vec<&str> = sample.iter().map(|token| &**token).collect();
            let pairs = common(&words, &sample);
            let (mut word, mut token, mut place) = (0, 0, 0);
            for element in &self.0 {
                match element {
                    Element::Place => {
                        let end = pairs.get(word).map_or(sample.len(), |(_, token)| *token);
                        places[place].push(sample.get(token..end).unwrap_or_default().join(" "));
                        (place, token) = (place + 1, end);
                    }
                    Element::Word(_) => {
                        token = pairs.get(word).map_or(token, |(_, token)| token + 1);
                        word += 1;
                    }
                }
            }
        }
        places
    }
}

/// The longest sequence that both have in order, as pairs of places. Both are bounded, and so is the table.
fn common(a: &[&str], b: &[&str]) -> Vec<(usize, usize)> {
    let begin = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (rest_a, rest_b) = (&a[begin..], &b[begin..]);
    let end = rest_a
        .iter()
        .rev()
        .zip(rest_b.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let (inner_a, inner_b) = (&rest_a[..rest_a.len() - end], &rest_b[..rest_b.len() - end]);
    let mut pairs: Vec<(usize, usize)> = (0..begin).map(|at| (at, at)).collect();
    pairs.extend(
        longest_common(inner_a, inner_b)
            .into_iter()
            .map(|(i, j)| (begin + i, begin + j)),
    );
    pairs.extend((0..end).rev().map(|at| (a.len() - 1 - at, b.len() - 1 - at)));
    pairs
}

fn longest_common(a: &[&str], b: &[&str]) -> Vec<(usize, usize)> {
    let width = b.len() + 1;
    let mut lengths = vec![0_u16; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            lengths[i * width + j] = if a[i] == b[j] {
                lengths[(i + 1) * width + j + 1] + 1
            } else {
                lengths[(i + 1) * width + j].max(lengths[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < a.len() && j < b.len() {
        if a[i] == b[j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if lengths[(i + 1) * width + j] >= lengths[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mined(prompts: &[&str]) -> (String, Vec<Vec<String>>) {
        let split: Vec<Vec<&str>> = prompts.iter().map(|prompt| tokens(prompt, 256)).collect();
        let mut pattern = Pattern::of(&split[0]);
        for prompt in &split[1..] {
            pattern = pattern.joined(prompt).unwrap();
        }
        let samples: Vec<Vec<Box<str>>> = split
            .iter()
            .map(|prompt| prompt.iter().map(|token| (*token).into()).collect())
            .collect();
        (pattern.text(), pattern.places(&samples))
    }

    #[test]
    fn what_differs_becomes_a_place() {
        let (text, places) = mined(&[
            "Review pull request 12 in web and list every risk",
            "Review pull request 7 in the old api and list every risk",
            "Review pull request 9 in web and list every risk",
        ]);
        assert_eq!(text, "Review pull request {1} in {2} and list every risk");
        assert_eq!(places, [vec!["12", "7", "9"], vec!["web", "the old api", "web"]]);
    }

    #[test]
    fn a_place_may_stand_at_either_end_and_be_empty() {
        let (text, places) = mined(&["please fix the build now", "fix the build", "please fix the build soon"]);
        assert_eq!(text, "{1} fix the build {2}");
        assert_eq!(places, [vec!["please", "", "please"], vec!["now", "", "soon"]]);
    }

    #[test]
    fn what_is_said_otherwise_does_not_fit() {
        let pattern = Pattern::of(&tokens("Review pull request 12 in web and list every risk", 256));
        for other in [
            "Review it",
            "Write a poem about the sea and the ships on it at night",
            "Review pull request",
        ] {
            assert_eq!(pattern.joined(&tokens(other, 256)), None, "{other}");
        }
    }

    #[test]
    fn equal_prompts_have_no_places() {
        assert_eq!(
            mined(&["run the tests again", "run the tests again"]),
            ("run the tests again".to_owned(), vec![])
        );
    }
}
