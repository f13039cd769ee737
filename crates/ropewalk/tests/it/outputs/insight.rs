//! What people see where there is something to tell: caches that were not read, merges, near-duplicates, templates, waste, changes of
//! tools, and a whole conversation; at two widths. What is laid out in columns fits; sentences may go on in the next line.

use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use super::{Stage, traffic, words};
use crate::cache::rope;
use crate::insight::{merges, suggest, templates, waste};
use crate::{stderr, stdout};

/// What it is, the traffic, and what is asked about it.
type Told = (&'static str, Vec<Value>, Vec<Vec<&'static str>>);

fn told() -> Vec<Told> {
    vec![
        (
            "a cache that was not read",
            rope("Tuesday"),
            words(&[
                "explain --cache rope-1",
                "explain --cache rope-2",
                "explain --cache rope-3",
                "explain --cache rope-4",
                "stats --cache",
                "blame rope-4",
                "blame rope-4 --timeline",
                "blame --client claude-code/2.1.197",
                "show FRIENDLY",
            ]),
        ),
        (
            "answers that come back",
            merges::merging(),
            words(&["log --graph", "tree"]),
        ),
        ("nearly the same", suggest::talks(), words(&["suggest"])),
        ("prompts that recur", templates::talks(), words(&["templates"])),
        (
            "sent again and again",
            waste::stuck(),
            words(&["stats --waste", "show FRIENDLY --tree"]),
        ),
        (
            "agents and branches",
            traffic(),
            words(&[
                "show FRIENDLY",
                "tree FRIENDLY",
                "explain talk-2b",
                "log --exchanges --model sonnet -n 2",
            ]),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn people_see_what_there_is_to_tell_at_two_widths() {
    for columns in [80, 120] {
        let mut all = String::new();
        let mut too_wide = Vec::new();
        for (what, lines, commands) in told() {
            let stage = Stage::with(&lines).await;
            for arguments in commands {
                let output = stage.run_at(columns, &arguments);
                assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
                let text = stdout(&output);
                let is_laid_out = ["log", "tree", "suggest", "templates"].contains(&arguments[0]);
                let wide = text.lines().filter(|line| is_laid_out && line.width() > columns);
                too_wide.extend(wide.map(|line| format!("{}: {line}", arguments.join(" "))));
                all.push_str(&format!("$ ropewalk {}    # {what}\n{text}\n", arguments.join(" ")));
            }
        }
        let trimmed: Vec<&str> = all.lines().map(str::trim_end).collect();
        insta::assert_snapshot!(format!("insight_at_{columns}_columns"), trimmed.join("\n"));
        assert_eq!(too_wide, Vec::<String>::new(), "wider than {columns} columns");
    }
}
