//! Search by words, the plain way: every word of the query must occur, a quoted phrase in a row.

/// Bytes that a snippet shows on each side of the match.
const SNIPPET_BYTES_AROUND: usize = 40;

/// Words around the first match, with the match between U+0002 and U+0003; `None` where the query does not fit.
pub(crate) fn snippet(query: &str, text: &str) -> Option<String> {
    let words: Vec<(usize, String)> = words(text);
    let phrases = phrases(query);
    let places: Option<Vec<usize>> = phrases.iter().map(|phrase| find_phrase(&words, phrase)).collect();
    let (place, phrase) = (*places?.first()?, phrases.first()?);
    let start = words[place].0;
    let (last_start, last) = &words[place + phrase.len() - 1];
    let end = last_start
        + text[*last_start..]
            .char_indices()
            .nth(last.chars().count())
            .map_or(text.len() - last_start, |(end, _)| end);
    let before = text.floor_char_boundary(start.saturating_sub(SNIPPET_BYTES_AROUND));
    let behind = text.ceil_char_boundary((end + SNIPPET_BYTES_AROUND).min(text.len()));
    Some(format!(
        "{}\u{2}{}\u{3}{}",
        &text[before..start],
        &text[start..end],
        &text[end..behind]
    ))
}

fn find_phrase(words: &[(usize, String)], phrase: &[String]) -> Option<usize> {
    let mut windows = words.windows(phrase.len().max(1));
    windows.position(|window| window.iter().zip(phrase).all(|((_, word), wanted)| word == wanted))
}

/// What stands between quotes is one phrase, every word elsewhere its own.
fn phrases(query: &str) -> Vec<Vec<String>> {
    let spelled = |text: &str| words(text).into_iter().map(|(_, word)| word).collect::<Vec<_>>();
    let mut phrases = Vec::new();
    for (index, piece) in query.split('"').enumerate() {
        let words = spelled(piece);
        if index % 2 == 1 {
            phrases.push(words);
        } else {
            phrases.extend(words.into_iter().map(|word| vec![word]));
        }
    }
    phrases.retain(|phrase| !phrase.is_empty());
    phrases
}

/// Runs of letters and digits in lower case, each with its place. Folding keeps the count of characters: what has no
/// lower case of one character stays.
fn words(text: &str) -> Vec<(usize, String)> {
    let mut words: Vec<(usize, String)> = Vec::new();
    let mut is_inside = false;
    for (at, c) in text.char_indices() {
        if c.is_alphanumeric() {
            if !is_inside {
                words.push((at, String::new()));
            }
            let mut folded = c.to_lowercase();
            let single = folded.next().filter(|_| folded.next().is_none());
            if let Some((_, word)) = words.last_mut() {
                word.push(single.unwrap_or(c));
            }
        }
        is_inside = c.is_alphanumeric();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::snippet;

    #[test]
    fn all_words_and_whole_phrases_must_occur() {
        let text = "The Quick brown fox – café";
        for (query, expected) in [
            ("quick", Some("The \u{2}Quick\u{3} brown fox – café")),
            ("café fox", Some("The Quick brown fox – \u{2}café\u{3}")),
            ("\"quick brown\"", Some("The \u{2}Quick brown\u{3} fox – café")),
            ("\"brown quick\"", None),
            ("quick cat", None),
            ("", None),
            ("\"\"", None),
            ("fo", None),
        ] {
            assert_eq!(snippet(query, text).as_deref(), expected, "{query}");
        }
    }
}
