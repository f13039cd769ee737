//! What is wrong with a command line, in the words of every other error: what happened, then what to do.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Error};

use crate::cli::Arguments;
use crate::failure::{Failure, Kind};

/// Letters that may differ between what was typed and what was meant.
const TYPOS_MAX: usize = 2;

/// Answers what was asked for (`--help`, `--version`), else says what is wrong. Whoever asked for JSON gets errors as JSON.
pub(crate) fn report(error: &Error) -> ExitCode {
    let is_answer = !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if is_answer {
        error.exit();
    }
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    let text = error.render().to_string();
    Failure::new(Kind::Usage, message(&text))
        .hint(hint(error, &text))
        .report(wants_json)
}

/// What clap says before it gives advice, on one line.
fn message(text: &str) -> String {
    let first = text.split("\n\n").next().unwrap_or(text);
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let lines = first.lines().map(str::trim).filter(|line| !line.starts_with('['));
    lines.collect::<Vec<_>>().join(" ")
}

/// What was meant, else what may stand there, else how the command is written.
fn hint(error: &Error, text: &str) -> String {
    if let Some(meant) = suggested(error).or_else(|| nearest_verb(error)) {
        return format!("did you mean `{meant}`?");
    }
    let values = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("[possible values: "));
    if let Some(values) = values {
        return format!("one of {}", values.trim_end_matches(']'));
    }
    let usage = text.lines().find_map(|line| line.strip_prefix("Usage: "));
    match usage {
        Some(usage) => format!("{usage}; `--help` has examples"),
        None => "`--help` lists what there is".to_owned(),
    }
}

fn suggested(error: &Error) -> Option<String> {
    let kinds = [
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedArg,
        ContextKind::SuggestedValue,
    ];
    kinds.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(one) => Some(one.clone()),
        // The nearest comes last.
        ContextValue::Strings(several) => several.last().cloned(),
        _ => None,
    })
}

/// Clap compares whole words and finds nothing in three letters of which two are swapped.
fn nearest_verb(error: &Error) -> Option<String> {
    let ContextValue::String(typed) = error.get(ContextKind::InvalidSubcommand)? else {
        return None;
    };
    let command = Arguments::command();
    let names = command.get_subcommands().map(clap::Command::get_name);
    let near = names.map(|name| (strsim::damerau_levenshtein(name, typed), name));
    let (typos, name) = near.min()?;
    // Of a short word little is left when two letters are others.
    (typos <= TYPOS_MAX.min(typed.chars().count() / 2)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn said(line: &str) -> (String, String) {
        let error = Arguments::try_parse_from(line.split(' ')).unwrap_err();
        let text = error.render().to_string();
        (message(&text), hint(&error, &text))
    }

    #[test]
    fn typos_are_recognised() {
        for (line, meant) in [
            ("ropewalk lgo", "log"),
            ("ropewalk serach x", "search"),
            ("ropewalk stat", "stats"),
            ("ropewalk bisct", "bisect"),
            ("ropewalk log --grpah", "--graph"),
            ("ropewalk stats --by modle", "model"),
            ("ropewalk store migrat", "migrate"),
        ] {
            assert_eq!(said(line).1, format!("did you mean `{meant}`?"), "{line}");
        }
    }

    #[test]
    fn what_cannot_be_guessed_is_explained() {
        assert_eq!(said("ropewalk xyzzy").0, "unrecognized subcommand 'xyzzy'");
        assert!(said("ropewalk xyzzy").1.contains("ropewalk [OPTIONS] <COMMAND>"));
        let (message, hint) = said("ropewalk show");
        assert_eq!(message, "the following required arguments were not provided: <REF>");
        assert!(
            hint.starts_with("ropewalk show ") && hint.ends_with("<REF>; `--help` has examples"),
            "{hint}"
        );
        let (message, hint) = said("ropewalk export --format pdf");
        assert_eq!(message, "invalid value 'pdf' for '--format <FORMAT>'");
        assert_eq!(hint, "one of exchanges, claude-code, markdown, html");
        let (message, _) = said("ropewalk log --graph --exchanges");
        assert_eq!(message, "the argument '--graph' cannot be used with '--exchanges'");
    }
}
