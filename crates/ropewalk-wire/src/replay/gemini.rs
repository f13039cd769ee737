//! Gemini: every event is a small answer, so a whole one is a stream of one event.

use std::collections::BTreeMap;

use ropewalk_core::json::{Doc, Node};

use super::event;
use crate::response::gemini::candidate_index;
use crate::stream::growing::Growing;

/// The elements of an array of answers.
pub(super) fn elements(text: &str) -> Option<Vec<String>> {
    let doc = Doc::parse_str(text).ok()?;
    let items = doc.root().items();
    Some(items.map(|item| item.raw().to_owned()).collect())
}

pub(super) fn events_of_array(text: &str) -> Option<String> {
    Some(elements(text)?.iter().map(|json| event("", json)).collect())
}

#[derive(Default)]
struct Candidate {
    /// Everything but its parts, the last that was said of each.
    said: Vec<(String, String)>,
    role: Option<String>,
    parts: Vec<Growing>,
    /// The last part is a text that the next one continues, of a thought or not.
    open: Option<bool>,
}

/// The answer that small ones make.
pub(super) fn whole(datas: &[String]) -> Option<String> {
    let mut answer = Growing::null();
    let mut candidates: BTreeMap<u64, Candidate> = BTreeMap::new();
    for data in datas {
        let doc = Doc::parse_str(data).ok()?;
        for (name, value) in doc.root().members() {
            let name = name.to_text()?;
            match &*name {
                "candidates" => {
                    for (position, candidate) in value.items().enumerate() {
                        let index = candidate_index(candidate, position);
                        candidates.entry(index).or_default().add(candidate)?;
                    }
                    // Its place among the members.
                    answer.member("candidates")?;
                }
                "usageMetadata" => {
                    for (name, count) in value.members() {
                        *answer.member("usageMetadata")?.member(&name.to_text()?)? = Growing::of(count);
                    }
                }
                _ => *answer.member(&name)? = Growing::of(value),
            }
        }
    }
    if !candidates.is_empty() {
        let all: Vec<String> = candidates
            .into_values()
            .map(Candidate::into_json)
            .collect::<Option<_>>()?;
        *answer.member("candidates")? = Growing::raw(format!("[{}]", all.join(",")));
    }
    Some(answer.to_json())
}

impl Candidate {
    fn add(&mut self, candidate: Node<'_>) -> Option<()> {
        for (name, value) in candidate.members() {
            let (name, json) = (name.to_text()?, value.raw().to_owned());
            if name == "content" {
                self.content(value);
                continue;
            }
            match self.said.iter_mut().find(|(known, _)| *known == name) {
                Some(known) => known.1 = json,
                None => self.said.push((name, json)),
            }
        }
        Some(())
    }

    fn content(&mut self, content: Node<'_>) {
        self.role = content
            .get("role")
            .map(|role| role.raw().to_owned())
            .or(self.role.take());
        let parts = content.get("parts").into_iter().flat_map(|parts| parts.items());
        for part in parts {
            let is_thought = part.get("thought").and_then(|thought| thought.as_bool()) == Some(true);
            let members = part.members().count();
            let is_text = part.get("text").is_some() && members == 1 + usize::from(is_thought);
            let continues = is_text && self.open == Some(is_thought);
            match (self.parts.last_mut(), part.get("text")) {
                (Some(last), Some(text)) if continues => {
                    if let Some(member) = last.member("text") {
                        member.merge(text);
                    }
                }
                _ => self.parts.push(Growing::of(part)),
            }
            self.open = is_text.then_some(is_thought);
        }
    }

    fn into_json(self) -> Option<String> {
        let parts: Vec<String> = self.parts.iter().map(Growing::to_json).collect();
        let mut content = Growing::raw(format!("{{\"parts\":[{}]}}", parts.join(",")));
        if let Some(role) = self.role {
            *content.member("role")? = Growing::raw(role);
        }
        let mut candidate = Growing::null();
        *candidate.member("content")? = content;
        for (name, json) in self.said {
            *candidate.member(&name)? = Growing::raw(json);
        }
        Some(candidate.to_json())
    }
}
