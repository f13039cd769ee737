//! Values by where they stand: `metadata.user_id`, `messages[*].content`, `tools[0].*`.

use ropewalk_core::json::Node;

/// A path that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("a name is missing at character {at}")]
    NameMissing { at: usize },
    #[error("`[` at character {at} needs a number or `*`, and a `]`")]
    BadIndex { at: usize },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Member(String),
    AnyMember,
    Item(usize),
    AnyItem,
}

impl Path {
    pub(super) fn parse(text: &str) -> Result<Path, PathError> {
        let mut steps = Vec::new();
        let mut at = 0;
        while at < text.len() || steps.is_empty() {
            let rest = &text[at..];
            if let Some(inside) = rest.strip_prefix('[') {
                let end = inside.find(']').ok_or(PathError::BadIndex { at })?;
                steps.push(match &inside[..end] {
                    "*" => Step::AnyItem,
                    number => Step::Item(number.parse().map_err(|_| PathError::BadIndex { at })?),
                });
                at += end + 2;
                continue;
            }
            // A dot stands between two steps, not before the first.
            let dot = usize::from(!steps.is_empty());
            if dot == 1 && !rest.starts_with('.') {
                return Err(PathError::NameMissing { at });
            }
            let name = &rest[dot..];
            let name = &name[..name.find(['.', '[']).unwrap_or(name.len())];
            steps.push(match name {
                "" => return Err(PathError::NameMissing { at: at + dot }),
                "*" => Step::AnyMember,
                name => Step::Member(name.to_owned()),
            });
            at += dot + name.len();
        }
        Ok(Path(steps))
    }

    /// The values at this path below a root.
    pub(super) fn find<'d>(&self, root: Node<'d>) -> Vec<Node<'d>> {
        let mut nodes = vec![root];
        for step in &self.0 {
            nodes = nodes.into_iter().flat_map(|node| step.from(node)).collect();
        }
        nodes
    }
}

impl Step {
    fn from<'d>(&self, node: Node<'d>) -> Vec<Node<'d>> {
        match self {
            // Repeated names are all meant: who reads the first must not find what the last one hides.
            Step::Member(name) => {
                let named = node.members().filter(|(key, _)| key.is(name));
                named.map(|(_, value)| value).collect()
            }
            Step::AnyMember => node.members().map(|(_, value)| value).collect(),
            Step::Item(index) => node.items().nth(*index).into_iter().collect(),
            Step::AnyItem => node.items().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ropewalk_core::json::Doc;

    #[test]
    fn finds_values_by_their_path() {
        let doc = Doc::parse_str(r#"{"a":{"b":1,"b":2},"m":[{"c":"x"},{"c":["y"]},3],"t":[[4]]}"#).unwrap();
        for (path, expected) in [
            ("a.b", vec!["1", "2"]),
            ("m[*].c", vec![r#""x""#, r#"["y"]"#]),
            ("m[1].c[0]", vec![r#""y""#]),
            ("a.*", vec!["1", "2"]),
            ("t[0][0]", vec!["4"]),
            ("no.such[*]", vec![]),
        ] {
            let found: Vec<_> = Path::parse(path)
                .unwrap()
                .find(doc.root())
                .iter()
                .map(Node::raw)
                .collect();
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn says_what_is_wrong_with_a_path() {
        for (path, error) in [
            ("", PathError::NameMissing { at: 0 }),
            (".a", PathError::NameMissing { at: 0 }),
            ("a..b", PathError::NameMissing { at: 2 }),
            ("a.", PathError::NameMissing { at: 2 }),
            ("a[0]b", PathError::NameMissing { at: 4 }),
            ("a[", PathError::BadIndex { at: 1 }),
            ("a[x]", PathError::BadIndex { at: 1 }),
            ("a[-1]", PathError::BadIndex { at: 1 }),
        ] {
            assert_eq!(Path::parse(path), Err(error), "{path}");
        }
    }
}
