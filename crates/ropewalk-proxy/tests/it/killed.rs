//! A process that is killed at any moment: what it acknowledged is there afterwards.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ropewalk_proxy::journal::{Folder, Settings};

use crate::support::{Running, bodies, patient, read_folder};

const FOLDER: &str = "ROPEWALK_TEST_KILLED_FOLDER";

fn text(key: u64, name: &str) -> String {
    format!("{name} {key} ").repeat(1 + (key % 400) as usize)
}

/// The process that is killed: this test again, with a folder.
#[test]
#[ignore = "run by the test below"]
fn sends_until_it_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let settings = Settings {
        segment_bytes: 100_000,
        ..patient()
    };
    let running = Running::start(Arc::new(Folder::open(Path::new(&folder)).unwrap()), settings);
    for round in 0.. {
        let keys = (0..8).map(|index| round * 8 + index);
        let waiting: Vec<_> = keys
            .map(|key| (key, running.exchange(key, &text(key, "question"), &text(key, "answer"))))
            .collect();
        for (key, released) in waiting {
            assert!(released.blocking_recv().unwrap().acknowledged);
            println!("acknowledged {key}");
        }
    }
}

#[test]
fn what_was_acknowledged_before_a_kill_is_in_the_journal() {
    for attempt in 0..12 {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "killed::sends_until_it_is_killed",
                "--ignored",
                "--nocapture",
            ])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let key_of = |line: &str| line.split("acknowledged ").nth(1)?.parse().ok();
        let mut acknowledged: Vec<u64> = lines.by_ref().find_map(|line| key_of(&line)).into_iter().collect();
        std::thread::sleep(Duration::from_micros(attempt * 1_700));
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged.extend(lines.filter_map(|line| key_of(&line)));
        let (entries, _) = read_folder(folder.path());
        let found = bodies(&entries);
        for key in acknowledged {
            let bodies = found.get(&u128::from(key)).unwrap_or_else(|| panic!("{key} is lost"));
            assert!(bodies.ended && bodies.request == text(key, "question").as_bytes());
            assert!(bodies.answer == text(key, "answer").as_bytes());
        }
    }
}
