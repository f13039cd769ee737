//! Every statement names its owner.

use std::fs;
use std::path::{Path, PathBuf};

/// Tables that belong to the store itself. Their rows carry the owner in what they hold.
const WITHOUT_OWNER: [&str; 2] = ["hash_log", "sqlite_schema"];

/// Statements that look for an owner, or work for all of them one after the other.
const EXCEPTIONS: [&str; 6] = [
    "INSERT INTO search (search) VALUES ('optimize')",
    "SELECT coalesce(sum(last_part + last_node + 14 * last_exchange), 0) FROM owner",
    "INSERT INTO owner (name, secret)",
    "SELECT owner_id FROM owner WHERE name = ?1",
    "SELECT owner_id, name FROM owner WHERE ?1 IS NULL OR name > ?1",
    "SELECT owner_id, indexed_text, last_text FROM owner WHERE indexed_text < last_text",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// String literals of a source that begin like a statement, continued lines joined.
fn statements(source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]").next().unwrap();
    let joined = code.split("\\\n").map(str::trim_start).collect::<Vec<_>>().join("");
    let literals = joined.split('"').skip(1).step_by(2);
    let verbs = ["SELECT ", "INSERT ", "UPDATE ", "DELETE "];
    literals
        .filter(|text| verbs.iter().any(|verb| text.starts_with(verb)))
        .map(str::to_owned)
        .collect()
}

/// The full-text table is filtered by the owner's range of keys and joined to rows that carry the owner.
fn is_scoped(statement: &str) -> bool {
    let is_exception = EXCEPTIONS.iter().any(|known| statement.starts_with(known));
    let is_internal = WITHOUT_OWNER.iter().any(|table| statement.contains(table));
    let inserts_search = statement.starts_with("INSERT INTO search (rowid, text)");
    let is_insert = statement.starts_with("INSERT") && statement.contains("owner_id");
    let has_filter = statement.contains("owner_id = ?");
    is_exception || is_internal || inserts_search || is_insert || has_filter
}

#[test]
fn every_statement_filters_by_owner() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sqlite"), &mut files);
    let mut checked = 0;
    for file in files {
        for statement in statements(&fs::read_to_string(&file).unwrap()) {
            assert!(is_scoped(&statement), "{}: {statement}", file.display());
            checked += 1;
        }
    }
    assert!(checked > 30, "{checked} statements found");
}

#[test]
fn the_lint_sees_a_statement_without_owner() {
    assert!(!is_scoped("SELECT hash FROM part WHERE key = ?1"));
    assert_eq!(statements("let a = \"SELECT x \\\n    FROM y\";"), ["SELECT x FROM y"]);
}
