//! Files that tool calls name.

use std::collections::BTreeMap;

use serde_json::Value;

/// Files of one call that are looked at: a patch may name thousands.
const FILES_OF_CALL_MAX: usize = 1_000;

/// Arguments that name a file, whatever the tool.
const FILE_ARGUMENTS: [&str; 6] = [
    "file_path",
    "notebook_path",
    "path",
    "filePath",
    "absolute_path",
    "filename",
];

/// How a patch announces a file.
const PATCH_BEGINS: &str = "*** Begin Patch";
const PATCH_FILES: [&str; 4] = [
    "*** Add File: ",
    "*** Update File: ",
    "*** Delete File: ",
    "*** Move to: ",
];

/// Parts of the names of tools that change files.
const WRITING_NAMES: [&str; 8] = [
    "write", "edit", "patch", "create", "replace", "insert", "delete", "save",
];

/// Strings inside arguments that are looked at for patches: a call has few, a hostile one may have millions.
const STRINGS_MAX: usize = 10_000;

/// Files by their path, each with whether a call meant to change it.
pub(super) type Files = BTreeMap<String, bool>;

/// Adds the files that a tool call names.
pub(super) fn add_files(name: &str, input: &Value, files: &mut Files) {
    let name = name.to_lowercase();
    let is_writing = WRITING_NAMES.iter().any(|part| name.contains(part));
    let mut left = FILES_OF_CALL_MAX;
    let mut add = |path: &str, is_written: bool| {
        if !path.is_empty() && left > 0 {
            left -= 1;
            *files.entry(path.to_owned()).or_default() |= is_written;
        }
    };
    if let Value::Object(members) = input {
        let named = FILE_ARGUMENTS.iter().filter_map(|key| members.get(*key)?.as_str());
        named.for_each(|path| add(path, is_writing));
    }
    for text in strings(input) {
        let Some((_, patch)) = text.split_once(PATCH_BEGINS) else {
            continue;
        };
        for line in patch.lines() {
            let path = PATCH_FILES.iter().find_map(|begin| line.strip_prefix(begin));
            path.into_iter().for_each(|path| add(path.trim(), true));
        }
    }
}

/// Every string inside a value.
fn strings(value: &Value) -> Vec<&str> {
    let mut strings = Vec::new();
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        if strings.len() >= STRINGS_MAX {
            break;
        }
        match value {
            Value::String(text) => strings.push(&**text),
            Value::Array(items) => waiting.extend(items),
            Value::Object(members) => waiting.extend(members.values()),
            _ => {}
        }
    }
    strings
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn files_of(name: &str, input: &Value) -> Vec<(String, bool)> {
        let mut files = Files::new();
        add_files(name, input, &mut files);
        files.into_iter().collect()
    }

    #[test]
    fn files_are_found_by_argument_and_in_patches() {
        let named = |path: &str, is_written| (path.to_owned(), is_written);
        let patch = "*** Begin Patch\n*** Update File: src/a.rs\n@@\n-x\n+y\n*** Add File: b.md\n+z\n*** End Patch";
        for (name, input, expected) in [
            ("Read", json!({"file_path": "a.rs"}), vec![named("a.rs", false)]),
            (
                "Edit",
                json!({"file_path": "a.rs", "old_string": "path"}),
                vec![named("a.rs", true)],
            ),
            ("LS", json!({"path": "src"}), vec![named("src", false)]),
            (
                "NotebookEdit",
                json!({"notebook_path": "n.ipynb"}),
                vec![named("n.ipynb", true)],
            ),
            (
                "apply_patch",
                json!({"input": patch}),
                vec![named("b.md", true), named("src/a.rs", true)],
            ),
            (
                "shell",
                json!({"command": ["apply_patch", patch]}),
                vec![named("b.md", true), named("src/a.rs", true)],
            ),
            (
                "apply_patch",
                json!(patch),
                vec![named("b.md", true), named("src/a.rs", true)],
            ),
            ("Bash", json!({"command": "cat a.rs"}), vec![]),
            ("Read", json!({"file_path": 3}), vec![]),
        ] {
            assert_eq!(files_of(name, &input), expected, "{name} {input}");
        }
    }

    #[test]
    fn a_file_that_is_read_and_changed_was_changed() {
        let mut files = Files::new();
        add_files("Edit", &json!({"file_path": "a.rs"}), &mut files);
        add_files("Read", &json!({"file_path": "a.rs"}), &mut files);
        assert!(files["a.rs"]);
    }
}
