//! Forgetting, retention, backups: on a file and on a server, and what is left of it afterwards.

mod backup;
mod drain;
mod forget;
mod retention;
mod upgrade;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ropewalk_testkit::postgres::{PrivatePostgres, database_of};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::serve::client::{Kind, call};
use crate::store::{TestStore, jsonl, turn};

/// Words that nothing else in these tests says.
const SECRET: &str = "the heirloom is buried below the third sundial of Vellmoor";
const SECRET_ANSWER: &str = "Then dig at Quorntide, where the shadow of the yew ends at noon.";

/// Where stores are: in their folder, and in a database of their own.
fn engines() -> [Option<String>; 2] {
    [None, Some(fresh_database())]
}

fn fresh_database() -> String {
    PrivatePostgres::shared().unwrap().fresh_database().unwrap()
}

/// So many calls, one after the other, beside whatever else happens.
fn load(server: SocketAddr, calls: usize) -> JoinHandle<()> {
    tokio::spawn(async move {
        for number in 0..calls {
            let kind = Kind::ALL[number % Kind::ALL.len()];
            call(server, kind, &format!("load number {number}")).await;
        }
    })
}

/// A store on either engine.
struct AnyPlace {
    store: TestStore,
    url: Option<String>,
}

impl AnyPlace {
    /// With nothing in it, on the engine of another.
    fn like(url: Option<&str>) -> Self {
        AnyPlace {
            store: TestStore::new(),
            url: url.map(|_| fresh_database()),
        }
    }

    /// One of each.
    fn both() -> [AnyPlace; 2] {
        engines().map(|url| AnyPlace {
            store: TestStore::new(),
            url,
        })
    }

    fn arguments<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        let mut all = arguments.to_vec();
        if let Some(url) = &self.url {
            all.extend(["--store", url]);
        }
        all
    }

    fn ok(&self, arguments: &[&str]) -> String {
        self.store.ok(&self.arguments(arguments))
    }

    fn json(&self, arguments: &[&str]) -> Vec<Value> {
        self.store.json(&self.arguments(arguments))
    }

    fn import(&self, file: &Path) -> Value {
        self.json(&["import", file.to_str().unwrap()]).remove(0)
    }

    /// Neither its files nor its tables have one of these words.
    fn assert_without(&self, words: &[&str]) {
        assert_without(&self.store.data(), self.url.as_deref(), words);
    }

    /// What a statement gives, where there is a server.
    fn sql(&self, statement: &str) -> String {
        sql(self.url.as_deref().unwrap(), statement)
    }
}

fn sql(url: &str, statement: &str) -> String {
    let server = PrivatePostgres::shared().unwrap();
    server.run_sql(database_of(url), statement).unwrap()
}

/// Every row of every table of a database as text.
fn tables(url: &str) -> String {
    let names = sql(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'");
    let mut all = String::new();
    for table in names.lines().map(str::trim).filter(|table| !table.is_empty()) {
        for row in sql(url, &format!("SELECT t::text FROM {table} t")).lines() {
            all.push_str(row);
            all.push('\n');
            // What is bytes in it, as text, and unpacked where it is packed.
            for hex in row.split("\\x").skip(1) {
                let digits: String = hex.chars().take_while(char::is_ascii_hexdigit).collect();
                let bytes = unhex(&digits);
                all.push_str(&String::from_utf8_lossy(&bytes));
                if let Ok(unpacked) = zstd::decode_all(&bytes[..]) {
                    all.push_str(&String::from_utf8_lossy(&unpacked));
                }
                all.push('\n');
            }
        }
    }
    all
}

/// No file of a folder and no table of a database has one of these words, which are in lower case.
fn assert_without(folder: &Path, url: Option<&str>, words: &[&str]) {
    assert_eq!(files_with(folder, words).len(), 0);
    let tables = url.map(tables).unwrap_or_default().to_lowercase();
    for word in words {
        assert!(!tables.contains(word), "{word} is in a table");
    }
}

fn unhex(digits: &str) -> Vec<u8> {
    let digit = |place: usize| u8::from_str_radix(&digits[place..place + 2], 16).unwrap();
    (0..digits.len() / 2).map(|pair| digit(pair * 2)).collect()
}

/// Two turns with something private in the first, and another conversation.
fn told() -> Vec<Value> {
    let first = ["Please write down where it is.", "Where what is?"];
    vec![
        turn("told-1", 0, &[first[0], first[1]]),
        turn("told-2", 10, &[first[0], first[1], SECRET, SECRET_ANSWER]),
        turn(
            "told-3",
            20,
            &[
                first[0],
                first[1],
                SECRET,
                SECRET_ANSWER,
                "And the tools?",
                "In the shed, as always.",
            ],
        ),
        turn(
            "other",
            30,
            &["What is a ropewalk?", "A long lane where ropes are made."],
        ),
    ]
}

fn told_file(store: &TestStore) -> PathBuf {
    store.file("told.exchanges.jsonl", &jsonl(&told()))
}

/// Files that hold one of these words, raw or inside of what zstd can unpack.
fn files_with(folder: &Path, words: &[&str]) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, words));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        let mut all = vec![bytes.clone()];
        // Every place where a compressed frame may begin.
        let magic = [0x28, 0xb5, 0x2f, 0xfd];
        for at in bytes
            .windows(4)
            .enumerate()
            .filter(|(_, window)| *window == magic)
            .map(|(at, _)| at)
        {
            let mut unpacked = Vec::new();
            if let Ok(mut decoder) = zstd::Decoder::new(&bytes[at..]) {
                // What comes behind the frame is another matter.
                let _ = std::io::copy(&mut decoder, &mut unpacked);
            }
            all.push(unpacked);
        }
        let says = |bytes: &Vec<u8>| words.iter().any(|word| contains(bytes, word));
        if all.iter().any(says) {
            found.insert(path);
        }
    }
    found
}

fn contains(bytes: &[u8], word: &str) -> bool {
    let lower: Vec<u8> = bytes.iter().map(u8::to_ascii_lowercase).collect();
    let word = word.to_ascii_lowercase();
    lower.windows(word.len()).any(|window| window == word.as_bytes())
}
