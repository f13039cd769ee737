//! What the provider answers, by what it is asked.

/// A question, known by words that occur in it, and the answers to it: the first time, the second time, and so on; the last
/// one stays.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) asked: &'static str,
    replies: &'static [Reply],
}

#[derive(Debug)]
pub(super) enum Reply {
    /// Status 529: try again.
    Overloaded,
    Says(Said),
    /// Goes on until the client goes away.
    SaysOn(Said),
}

#[derive(Debug)]
pub(super) struct Said {
    pub(super) text: &'static str,
    /// Tools with their input as JSON.
    pub(super) calls: &'static [(&'static str, &'static str)],
}

/// A line with its place in the script.
pub(super) struct Found {
    pub(super) asked: &'static str,
    pub(super) number: usize,
    replies: &'static [Reply],
}

impl Found {
    pub(super) fn reply(&self, nth: usize) -> &'static Reply {
        &self.replies[nth.min(self.replies.len() - 1)]
    }
}

/// The first line whose words occur in the newest text.
pub(super) fn find(newest: &str) -> Option<Found> {
    let number = LINES.iter().position(|line| newest.contains(line.asked))?;
    let line = &LINES[number];
    Some(Found {
        asked: line.asked,
        number,
        replies: line.replies,
    })
}

const fn says(text: &'static str) -> Reply {
    Reply::Says(Said { text, calls: &[] })
}

const fn says_on(text: &'static str) -> Reply {
    Reply::SaysOn(Said { text, calls: &[] })
}

const fn calls(text: &'static str, calls: &'static [(&'static str, &'static str)]) -> Reply {
    Reply::Says(Said { text, calls })
}

const fn line(asked: &'static str, replies: &'static [Reply]) -> Line {
    Line { asked, replies }
}

const LINES: [Line; 33] = [
    // Programs that quote another conversation, and that ask what was asked before. First, because of what is quoted.
    line(
        "release notes",
        &[says(
            "Dates: 29 February is accepted in leap years; the documentation follows.",
        )],
    ),
    line("become a republic", &[says("On 17 June 1944.")]),
    // The conversation in Claude Code.
    line("<session>", &[says(r#"{"title": "Leap days in parse_date"}"#)]),
    line(
        "29 February is refused",
        &[calls(
            "I look at the parser and at who asks it for the length of a month.",
            &[
                ("Read", r#"{"file_path": "src/date.rs"}"#),
                ("Grep", r#"{"pattern": "days_in_month", "path": "src"}"#),
            ],
        )],
    ),
    line(
        "fn days_in_month",
        &[calls(
            "February has 28 days here, whatever the year. I let the leap year decide.",
            &[(
                "Edit",
                r#"{"file_path": "src/date.rs", "old_string": "2 => 28,", "new_string": "2 => 28 + u8::from(is_leap_year(year)),"}"#,
            )],
        )],
    ),
    line(
        "src/date.rs has been updated",
        &[calls(
            "Now the tests.",
            &[("Bash", r#"{"command": "cargo test", "description": "Run the tests"}"#)],
        )],
    ),
    line(
        "12 passed",
        &[says(
            "Mended: February has 29 days in a leap year, and all 12 tests pass.",
        )],
    ),
    line(
        "a test for the year 1900",
        &[
            Reply::Overloaded,
            calls(
                "1900 was no leap year; that is the case worth a test.",
                &[(
                    "Edit",
                    r#"{"file_path": "tests/date.rs", "old_string": "", "new_string": "assert!(parse_date(\"1900-02-29\").is_err());"}"#,
                )],
            ),
        ],
    ),
    line(
        "tests/date.rs has been updated",
        &[says("Added: 1900-02-29 must be refused, and it is.")],
    ),
    line(
        "Write a commit message",
        &[
            says("date: give February 29 days in leap years"),
            says("parse_date: ask the calendar, not a constant, how long February is"),
        ],
    ),
    line(
        "Write a line for the changelog",
        &[says("- `parse_date` accepts 29 February in leap years.")],
    ),
    line(
        "Let two agents review",
        &[calls(
            "One reads the code, one the documentation, side by side.",
            &[
                (
                    "Agent",
                    r#"{"description": "Review the code", "prompt": "Review src/date.rs for arithmetic that can overflow. Report in one sentence.", "subagent_type": "code-reviewer"}"#,
                ),
                (
                    "Agent",
                    r#"{"description": "Check the documentation", "prompt": "Check whether docs/dates.md still says that February has 28 days. Report in one sentence.", "subagent_type": "general-purpose"}"#,
                ),
            ],
        )],
    ),
    line(
        "Review src/date.rs for arithmetic",
        &[calls(
            "Who calls it decides what can overflow; that search is a job of its own.",
            &[(
                "Agent",
                r#"{"description": "Find callers", "prompt": "List every caller of days_in_month with the range of years it passes.", "subagent_type": "Explore"}"#,
            )],
        )],
    ),
    line(
        "List every caller of days_in_month",
        &[calls(
            "A search will do.",
            &[("Grep", r#"{"pattern": "days_in_month\\(", "path": "."}"#)],
        )],
    ),
    line(
        "src/date.rs:41:",
        &[says(
            "Two callers, parse_date and add_months; both pass years from 0 to 9999.",
        )],
    ),
    line(
        "Two callers, parse_date and add_months",
        &[says(
            "No arithmetic in src/date.rs can overflow: years stay below 10,000.",
        )],
    ),
    line(
        "Check whether docs/dates.md",
        &[calls(
            "I read it.",
            &[(
                "Bash",
                r#"{"command": "grep -n February docs/dates.md", "description": "Search the page"}"#,
            )],
        )],
    ),
    line(
        "docs/dates.md:7:",
        &[says("Line 7 of docs/dates.md says 28 days and should name leap years.")],
    ),
    line(
        "No arithmetic in src/date.rs can overflow",
        &[says(
            "The code is sound. The documentation is behind: line 7 of docs/dates.md.",
        )],
    ),
    line(
        "Fuzz the parser in the background",
        &[calls(
            "I start it and go on.",
            &[(
                "Agent",
                r#"{"description": "Fuzz the parser", "prompt": "Fuzz parse_date with a million random dates and report every panic.", "subagent_type": "general-purpose", "run_in_background": true}"#,
            )],
        )],
    ),
    line(
        "<task-notification>",
        &[says("The fuzzer is done: a million dates, no panic.")],
    ),
    line(
        "Async agent launched",
        &[says("It runs. Ask me anything else in the meantime.")],
    ),
    line(
        "Fuzz parse_date with a million",
        &[calls(
            "I run it.",
            &[(
                "Bash",
                r#"{"command": "cargo fuzz run parse_date -- -runs=1000000", "description": "Fuzz"}"#,
            )],
        )],
    ),
    line("Done 1000000 runs", &[says("1,000,000 runs, no panic.")]),
    line(
        "In two sentences",
        &[says("It splits at the dashes. Then it asks the calendar.")],
    ),
    line(
        "Explain parse_date line by line",
        &[says_on(
            "Line 1 takes the text by reference, so that nothing is copied. Line 2 splits it at the first dash; what stands before \
             it must be the year, four digits, no sign. Line 3 splits the rest again, because a month and a day are left. Line 4 \
             turns the digits into numbers and gives up at the first that is none. Line 5 asks for the length of the month, which \
             is where leap years come in. Line 6 compares the day with it, and line 7 builds the date.",
        )],
    ),
    line(
        "create a detailed summary of the conversation",
        &[says(
            "<analysis>\nA bug, its repair, a review, a fuzzer.\n</analysis>\n\n<summary>\n1. The user found that parse_date refused \
             29 February. days_in_month in src/date.rs gave February 28 days in every year; it now asks is_leap_year.\n2. \
             tests/date.rs has a case for 1900-02-29, which must be refused. All tests pass.\n3. Two agents reviewed the change: \
             nothing overflows, but line 7 of docs/dates.md still says 28 days.\n4. A fuzzer ran a million dates without a \
             panic.\n\nLeft to do: docs/dates.md, and the commit.\n</summary>",
        )],
    ),
    line(
        "What is left to do?",
        &[says("Line 7 of docs/dates.md, and then the commit.")],
    ),
    // The conversation in Codex.
    line(
        "Why is the build slow",
        &[calls(
            "I measure before I guess.",
            &[("shell", r#"{"command": ["cargo", "build", "--timings"]}"#)],
        )],
    ),
    line(
        "link 41.2s",
        &[says(
            "Linking takes 41 of 60 seconds. Another linker would halve the build.",
        )],
    ),
    line(
        "Try the other linker",
        &[says("With lld the same build takes 27 seconds.")],
    ),
    // The conversation of a program.
    line(
        "the capital of Iceland",
        &[calls("", &[("lookup", r#"{"country": "Iceland"}"#)])],
    ),
    line("Reykjavik, 139,000", &[says("Reykjavík, with about 139,000 people.")]),
];
