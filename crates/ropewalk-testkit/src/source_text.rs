//! Texts as coding agents send them: this workspace's own sources and documents, read from one end to the other.
//!
//! What a store costs depends on what is in it. Words drawn at random compress worse than anything people write, and
//! templates compress better; so measurements take real source code, a piece of it at a time and none twice until all of it
//! was used.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::captures::workspace_root;
use crate::conversation::Random;

static CODE: LazyLock<String> = LazyLock::new(|| concatenated(&workspace_root().join("crates"), "rs"));

/// Documents, and what the sources say in comments.
static PROSE: LazyLock<String> = LazyLock::new(|| {
    let mut prose = concatenated(&workspace_root().join("docs"), "md");
    for line in CODE.lines().map(str::trim_start) {
        if let Some(comment) = line.strip_prefix("//") {
            prose.push_str(comment.trim_start_matches(['/', '!']).trim_start());
            prose.push('\n');
        }
    }
    prose
});

/// A reader of the workspace's texts.
#[derive(Debug, Clone)]
pub struct SourceText {
    code_at: usize,
    prose_at: usize,
}

impl SourceText {
    /// Readers of different seeds begin at different places.
    pub fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        SourceText {
            code_at: random.below(CODE.len()),
            prose_at: random.below(PROSE.len()),
        }
    }

    /// The next so many bytes of source code, from the beginning of a line on.
    pub fn code(&mut self, length: usize) -> String {
        next(&CODE, &mut self.code_at, length)
    }

    /// The next so many bytes of text about source code.
    pub fn prose(&mut self, length: usize) -> String {
        next(&PROSE, &mut self.prose_at, length).trim_end().to_owned()
    }
}

fn next(corpus: &str, at: &mut usize, length: usize) -> String {
    let mut taken = String::with_capacity(length);
    while taken.len() < length {
        let start = corpus.ceil_char_boundary(*at);
        let end = corpus.floor_char_boundary((start + length - taken.len()).min(corpus.len()));
        taken.push_str(&corpus[start..end]);
        *at = match corpus[end..].find('\n') {
            Some(line_end) => end + line_end + 1,
            None => 0,
        };
        if end < corpus.len() {
            // Up to three bytes are missing where a character would have been cut.
            break;
        }
    }
    taken
}

/// The files of a folder and its folders that have this extension, in the order of their paths.
fn concatenated(folder: &Path, extension: &str) -> String {
    let mut folders = vec![folder.to_path_buf()];
    let mut files: Vec<PathBuf> = Vec::new();
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).expect("the workspace can be read");
        for path in entries.map(|entry| entry.expect("the workspace can be read").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                files.push(path);
            }
        }
    }
    files.sort_unstable();
    let texts = files
        .iter()
        .map(|file| std::fs::read_to_string(file).expect("sources are text"));
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_length_asked_for_and_do_not_repeat() {
        let mut source = SourceText::new(1);
        let texts: Vec<String> = (0..200).map(|_| source.code(1_000)).collect();
        assert!(texts.iter().all(|text| (997..=1_000).contains(&text.len())));
        let mut different = texts.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), texts.len());
    }

    #[test]
    fn reading_goes_on_from_the_beginning() {
        let mut at = 3;
        assert_eq!(next("ab\ncd\n", &mut at, 5), "cd\nab");
        assert_eq!(at, 3);
    }
}
