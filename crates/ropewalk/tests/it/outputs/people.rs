//! What people see, at two widths.

use super::{Stage, changing, shown};
use crate::{stderr, stdout};

/// Verbs that tell of this machine, of this moment, or of sizes that compression decides.
const VARYING: [&str; 8] = [
    "doctor", "audit", "backup", "restore", "forget", "retain", "gc", "replay",
];

/// What a run changes: where the folder is, sizes of files, times.
fn steady(text: &str, folder: &str, verb: &str) -> String {
    let text = text.replace(folder, "FOLDER");
    let lines = text.lines().map(|line| match line {
        line if line.contains(" stored: ") => "  (sizes)".to_owned(),
        line if VARYING.contains(&verb) => without_figures(line.trim_end()),
        line => line.trim_end().to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Every number as `#`, in bytes of any unit.
fn without_figures(line: &str) -> String {
    let mut kept = String::new();
    for c in line.chars() {
        match c.is_ascii_digit() {
            true if kept.ends_with('#') => {}
            true => kept.push('#'),
            false => kept.push(c),
        }
    }
    for unit in ["KiB", "MiB", "GiB", "TiB"] {
        kept = kept.replace(unit, "B");
    }
    kept.replace("#.#", "#")
}

#[tokio::test(flavor = "multi_thread")]
async fn people_see_the_same_at_two_widths() {
    for columns in [80, 120] {
        let stage = Stage::set().await;
        let folder = stage.store.folder();
        let mut all = String::new();
        for arguments in shown().into_iter().chain(changing()) {
            let output = stage.run_at(columns, &arguments);
            assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
            all.push_str(&format!(
                "$ ropewalk {}\n{}\n\n",
                arguments.join(" "),
                steady(&stdout(&output), folder.to_str().unwrap(), arguments[0])
            ));
        }
        for arguments in [
            &["show", "nothing"][..],
            &["lgo"],
            &["--config", "/nowhere.toml", "log"],
        ] {
            let output = stage.run_at(columns, arguments);
            assert!(!output.status.success(), "{arguments:?}");
            all.push_str(&format!("$ ropewalk {}\n{}\n", arguments.join(" "), stderr(&output)));
        }
        insta::assert_snapshot!(format!("at_{columns}_columns"), all);
    }
}

/// Its names and times are of the moment, so only its shape is looked at.
#[tokio::test(flavor = "multi_thread")]
async fn a_demonstration_fits_on_the_screen() {
    let stage = Stage::set().await;
    let output = stage.run_at(80, &["demo", "--pace", "1"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    // What a reference comes to stands as it is sent.
    let drawn = text.split("$ ropewalk resolve ").next().unwrap();
    let is_wide = |line: &&str| line.chars().count() > 80 && !line.starts_with("$ ");
    assert_eq!(drawn.lines().find(is_wide), None);
}
