//! The OpenAPI document, made of the types that the routes take and answer with.
//!
//! Each route is a line of `Document::routes`; its parameters and its answer come from their types, with their doc comments. What types
//! cannot say is added to the schemas: every member of an answer is there, `null` where it has nothing to say, and has the
//! description and the example that `fields` knows for its name.

mod fields;

use std::sync::LazyLock;

use http::Method;
use ropewalk_engine::insight::blame::{Blame, Timeline};
use ropewalk_engine::insight::cache::{CacheReport, CacheStats};
use ropewalk_engine::insight::diff::Diff;
use ropewalk_engine::insight::merges::Merges;
use ropewalk_engine::insight::spread::Spread;
use ropewalk_engine::insight::suggest::Suggestions;
use ropewalk_engine::insight::templates::Templates;
use ropewalk_engine::insight::waste::Waste;
use ropewalk_engine::matching::{Answers, Match};
use ropewalk_engine::view::SessionMessages;
use serde_json::{Map, Value, json};
use utoipa::openapi::path::ParameterIn;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, ToSchema};

use super::routes::{AsOf, Branches, Followed, Named, Typed};
use crate::problem::Told;
use crate::read::agents::{ListAgents, ListedAgents};
use crate::read::audit::{ListNoted, ListedNoted};
use crate::read::blame::TimelineOf;
use crate::read::cache::CachePeriod;
use crate::read::changes::{ListChanges, ListedChanges};
use crate::read::conversations::{ListConversations, Listed, NewTitle, Titled};
use crate::read::exchanges::{Explained, ListExchanges, ListedExchanges};
use crate::read::hashed::{AskHashes, RequestHashes};
use crate::read::health::{Check, HealthReport, ListFiles, ListedFiles};
use crate::read::insight::{ListWaste, Ranked, Suggest, Templates as ListTemplates, Two, WantedText};
use crate::read::matched::{Bounded, MatchOptions};
use crate::read::replay::{Replay, Wanted};
use crate::read::resolve::{ShownReference, Suggestions as Completions};
use crate::read::search::{Hits, Search};
use crate::read::stats::{AskStats, Stats};
use crate::read::tree::Tree;
use crate::read::whole::{Paged, WholeMessages};

/// As it is served and checked in.
pub fn document() -> &'static str {
    static WRITTEN: LazyLock<String> = LazyLock::new(|| {
        let mut text = serde_json::to_string_pretty(&Document::default().finished()).unwrap_or_default();
        text.push('\n');
        text
    });
    &WRITTEN
}

#[derive(Default)]
struct Document {
    paths: Map<String, Value>,
    schemas: Map<String, Value>,
}

/// A route without parameters behind its path.
#[derive(IntoParams)]
struct Nothing {}

impl Document {
    #[rustfmt::skip] // One line each.
    fn routes(&mut self) {
        self.get::<ListConversations, Listed>("/api/v1/conversations", "Conversations, the one that went on last first");
        self.get::<Branches, Tree>("/api/v1/conversations/{ref}", "One conversation with its branches and agents");
        self.get::<Paged, WholeMessages>("/api/v1/conversations/{ref}/messages", "The messages of its active path");
        self.get::<ListChanges, ListedChanges>("/api/v1/conversations/{ref}/changes", "When its system prompt or its tools became others");
        self.post::<Nothing, NewTitle, Titled>("/api/v1/conversations/{ref}/title", "Gives it another title; its friendly id stays");
        self.get::<ListExchanges, ListedExchanges>("/api/v1/exchanges", "Exchanges, oldest first, of one conversation or all");
        self.get::<AsOf, Explained>("/api/v1/exchanges/{ref}", "One exchange, with the decision that gave it its place");
        self.file::<AsOf>("/api/v1/exchanges/{ref}/{half}", "application/octet-stream", "The bytes of its `request`, its `response`, or what was `sent` in the request's place");
        self.get::<Paged, SessionMessages>("/api/v1/sessions/{ref}/messages", "All messages of a client's session or a conversation, tool operations in their place");
        self.get::<ListAgents, ListedAgents>("/api/v1/agents", "Agents of one conversation, or of the newest ones");
        self.get::<Search, Hits>("/api/v1/search", "Words in what was said, with snippets");
        self.get::<Named, ShownReference>("/api/v1/resolve", "What a reference comes to, and what the proxy would add");
        self.get::<Typed, Completions>("/api/v1/references", "Friendly ids that begin so; of one that is whole, its messages, newest first");
        self.post::<MatchOptions, Value, Bounded<Match>>("/api/v1/match", "Whether the request in the body was sent before, and its answers");
        self.post::<AskHashes, Value, RequestHashes>("/api/v1/hash", "Every hash of the request in the body, which need not be recorded");
        self.get::<Named, Bounded<Answers>>("/api/v1/answers", "All answers to the input of an exchange");
        self.get::<Named, Blame>("/api/v1/blame", "Who brought each system block and tool of an exchange");
        self.get::<TimelineOf, Timeline>("/api/v1/timeline", "Every change of system blocks and tools");
        self.get::<Named, CacheReport>("/api/v1/cache", "What the provider's cache gave for an exchange, and why not more");
        self.get::<CachePeriod, CacheStats>("/api/v1/cache/stats", "The causes of a period by what they cost");
        self.get::<Two, Diff>("/api/v1/diff", "Two branches or exchanges from where they part");
        self.post::<Nothing, Wanted, Replay>("/api/v1/replay", "The request of an exchange for another model or with other options, to be sent through the proxy");
        self.post::<Nothing, WantedText, Spread>("/api/v1/spread", "Everybody who saw a text; in the body, because it may be a secret");
        self.get::<Suggest, Ranked<Suggestions>>("/api/v1/suggestions", "Conversations that are nearly the same");
        self.get::<ListTemplates, Ranked<Templates>>("/api/v1/templates", "Prompts that recur");
        self.get::<ListWaste, Ranked<Waste>>("/api/v1/waste", "What is sent again and again");
        self.get::<Named, Merges>("/api/v1/merges", "Answers that were quoted from one branch into another");
        self.get::<AskStats, Stats>("/api/v1/stats", "Tokens, cost and reuse by model and by day, and how much room all of it takes");
        self.get::<Nothing, HealthReport>("/api/v1/health", "How the server is, what the last check of the store found, and what imports brought");
        self.post::<Nothing, Value, Check>("/api/v1/health/check", "Begins a check of the store; `health` tells how it goes");
        self.get::<ListFiles, ListedFiles>("/api/v1/imports", "Logs that were read, by whichever process");
        self.get::<ListNoted, ListedNoted>("/api/v1/audit", "Changes of one's data, the newest first");
        self.file::<Followed>("/api/v1/events", "text/event-stream", "What happens, as it happens");
        self.file::<Nothing>("/api/v1/openapi.json", "application/json", "This document");
        self.post::<Nothing, Value, Value>("/mcp", "MCP over HTTP");
    }

    fn get<P: IntoParams, A: ToSchema>(&mut self, path: &str, summary: &str) {
        let answer = self.content::<A>();
        let changed = json!({"description": "The answer", "headers": {"ETag": {"schema": {"type": "string"}}}, "content": answer});
        let same = json!({"description": "Nothing changed since the answer whose `ETag` is in `If-None-Match`"});
        self.add::<P>(&Method::GET, path, summary, json!({"200": changed, "304": same}), None);
    }

    fn post<P: IntoParams, B: ToSchema, A: ToSchema>(&mut self, path: &str, summary: &str) {
        let (body, answer) = (self.content::<B>(), self.content::<A>());
        let responses = json!({"200": {"description": "The answer", "content": answer}});
        let body = json!({"required": true, "content": body});
        self.add::<P>(&Method::POST, path, summary, responses, Some(body));
    }

    /// An answer that is no JSON value of ours.
    fn file<P: IntoParams>(&mut self, path: &str, kind: &str, summary: &str) {
        let responses = json!({"200": {"description": "The answer", "content": {kind: {}}}});
        self.add::<P>(&Method::GET, path, summary, responses, None);
    }

    fn add<P: IntoParams>(
        &mut self,
        method: &Method,
        path: &str,
        summary: &str,
        mut responses: Value,
        body: Option<Value>,
    ) {
        let problem = self.content::<Told<'_>>();
        for status in ["4XX", "5XX"] {
            responses[status] = json!({"description": "What happened instead, and what to do", "content": problem});
        }
        let names = path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let named =
            names.map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
        let asked = P::into_params(|| Some(ParameterIn::Query));
        let asked = asked
            .iter()
            .map(|parameter| serde_json::to_value(parameter).unwrap_or_default());
        let mut parameters: Vec<Value> = named.chain(asked).collect();
        parameters.iter_mut().for_each(fields::explain_parameter);
        let mut operation = json!({"summary": summary, "parameters": parameters, "responses": responses});
        if let Some(body) = body {
            operation["requestBody"] = body;
        }
        let item = self.paths.entry(path).or_insert_with(|| json!({}));
        item[method.as_str().to_ascii_lowercase()] = operation;
    }

    /// A type as JSON, its schema and those that it is made of among the components.
    fn content<T: ToSchema>(&mut self) -> Value {
        let mut found: Vec<(String, RefOr<Schema>)> = Vec::new();
        T::schemas(&mut found);
        let name = T::name();
        let whole = serde_json::to_value(T::schema()).unwrap_or_default();
        // Those of a generic type would all have one name.
        let is_generic = std::any::type_name::<T>().ends_with('>');
        let is_named = !is_generic && whole.get("properties").or(whole.get("allOf")).is_some();
        for (name, schema) in found {
            self.schemas
                .insert(name, serde_json::to_value(schema).unwrap_or_default());
        }
        let schema = match is_named {
            true => json!({"$ref": format!("#/components/schemas/{name}")}),
            false => {
                let mut whole = whole.clone();
                fields::explain_schema(&name, &mut whole);
                whole
            }
        };
        if is_named {
            self.schemas.insert(name.into_owned(), whole);
        }
        json!({"application/json": {"schema": schema}})
    }

    fn finished(mut self) -> Value {
        self.routes();
        // A generic type does not name what it is made of.
        self.content::<Match>();
        self.content::<Answers>();
        self.content::<Suggestions>();
        self.content::<Templates>();
        self.content::<Waste>();
        for (name, schema) in &mut self.schemas {
            fields::explain_schema(name, schema);
        }
        json!({
            "openapi": "3.1.0",
            "info": {
                "title": "Ropewalk",
                "description": "What was recorded, for programs. docs/api.md says how to be let in, and what each route is for.",
                "version": "1",
                "license": {"name": "MIT OR Apache-2.0"},
            },
            "security": [{"token": []}],
            "paths": self.paths,
            "components": {
                "schemas": self.schemas,
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::{env, fs};

    use super::super::ROUTES;
    use super::*;

    #[test]
    fn the_document_that_is_checked_in_is_the_one_that_is_served() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openapi/ropewalk.json");
        if env::var_os("ROPEWALK_WRITE_OPENAPI").is_some() {
            fs::write(&file, document()).unwrap();
        }
        let written = fs::read_to_string(&file).unwrap_or_default();
        assert!(
            written == document(),
            "the API changed: `make openapi` writes openapi/ropewalk.json and the dashboard's types anew"
        );
    }

    #[test]
    fn every_schema_that_is_named_is_there() {
        let known: Value = serde_json::from_str(document()).unwrap();
        for piece in document().split("#/components/schemas/").skip(1) {
            let name = piece.split('"').next().unwrap_or_default();
            assert!(known["components"]["schemas"].get(name).is_some(), "{name}");
        }
    }

    #[test]
    fn every_route_is_in_the_document_and_nothing_else() {
        let document: Value = serde_json::from_str(document()).unwrap();
        let mut written: Vec<(String, String)> = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            let methods = item.as_object().unwrap().keys();
            written.extend(methods.map(|method| (method.to_ascii_uppercase(), path.clone())));
        }
        let mut served: Vec<(String, String)> = ROUTES
            .iter()
            .map(|(method, path)| (method.to_string(), (*path).to_owned()))
            .collect();
        written.sort();
        served.sort();
        assert_eq!(written, served);
    }
}
