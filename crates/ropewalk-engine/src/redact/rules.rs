//! What users may say about redaction, and what is wrong with it.

use std::ops::Range;

use regex::bytes::Regex;
use serde::Deserialize;

use super::paths::PathError;
use super::placeholder::{NAME_BYTES_MAX, is_name};

/// What to look for. By default the built-in detectors.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedactRules {
    /// The built-in detectors of common secrets.
    pub builtin: bool,
    pub patterns: Vec<PatternRule>,
    /// Values that are replaced whole, by where they stand: `metadata.user_id`, `messages[*].content`.
    pub paths: Vec<String>,
}

impl Default for RedactRules {
    fn default() -> Self {
        RedactRules {
            builtin: true,
            patterns: Vec::new(),
            paths: Vec::new(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatternRule {
    /// In the placeholder: lower-case letters, digits and hyphens.
    pub name: String,
    /// Its first group is replaced; without a group, all that it matches.
    pub regex: String,
}

#[derive(Debug, thiserror::Error)]
pub enum RedactError {
    #[error("the redaction pattern `{name}` is no regular expression")]
    Pattern {
        name: String,
        #[source]
        source: Box<regex::Error>,
    },
    #[error("the redaction pattern `{name}` matches the empty text")]
    MatchesNothing { name: String },
    #[error("`{name}` names no redaction pattern: it takes 1 to {NAME_BYTES_MAX} of a–z, 0–9 and -")]
    Name { name: String },
    #[error("the redaction path `{path}` cannot be read")]
    Path {
        path: String,
        #[source]
        source: PathError,
    },
    #[error("the anchors of the built-in detectors cannot be searched for")]
    Anchors(#[source] aho_corasick::BuildError),
}

impl RedactError {
    pub(super) fn pattern(name: &str, source: regex::Error) -> RedactError {
        RedactError::Pattern {
            name: name.to_owned(),
            source: Box::new(source),
        }
    }
}

/// A pattern of a user, ready to be used.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) name: String,
    regex: Regex,
}

impl Pattern {
    pub(super) fn new(rule: &PatternRule) -> Result<Pattern, RedactError> {
        let name = rule.name.clone();
        if !is_name(&name) {
            return Err(RedactError::Name { name });
        }
        let regex = Regex::new(&rule.regex).map_err(|source| RedactError::pattern(&name, source))?;
        if regex.is_match(b"") {
            return Err(RedactError::MatchesNothing { name });
        }
        Ok(Pattern { name, regex })
    }

    pub(super) fn ranges<'t>(&'t self, text: &'t [u8]) -> impl Iterator<Item = Range<usize>> + 't {
        let found = self.regex.captures_iter(text);
        let ranges = found.filter_map(|captures| Some(captures.get(1).or_else(|| captures.get(0))?.range()));
        ranges.filter(|range| !range.is_empty())
    }
}
