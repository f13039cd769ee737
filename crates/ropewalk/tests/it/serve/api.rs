//! The API and MCP over HTTP: who is let in, and that nobody sees what is another's.

use std::io::{Read as _, Write as _};
use std::time::Instant;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use ropewalk_server::api::ROUTES;
use ropewalk_testkit::upstream::Upstream;
use ropewalk_testkit::upstream::provider::Provider;
use serde_json::{Value, json};

use super::client::{Client, Kind, Seen};
use super::server::{PATIENCE, POLL, Place, Server, wait_until};
use crate::cache::rope;
use crate::store::{jsonl, talk, turn};

pub(super) const TWO_OWNERS: &str =
    "[owners]\nmode = 'tokens'\n[owners.tokens]\nanns-token = 'ann'\nbobs-token = 'bob'\ncarols-token = 'carol'\n";

/// Ann's words, none of which anybody else said.
const MARKS: [&str; 7] = [
    "rope?",
    "long_rope",
    "its walk",
    "quarter",
    "twisted",
    "hostile",
    "xylophone",
];

pub(super) async fn two_owners() -> (Upstream, Place) {
    let upstream = Upstream::start().await;
    let place = Place::with(&upstream, TWO_OWNERS);
    let mut anns = talk();
    let long = format!("\u{202e}{}\u{e0041}end", "xylophone ".repeat(1_000));
    anns.push(turn("long", 60, &["Something hostile, please.", &long]));
    let bobs = [
        turn("bobs-1", 0, &["Which colour is the sky?", "Grey."]),
        turn("bobs-2", 5, &["Which colour is the sea?", "Green."]),
    ];
    for (owner, lines) in [("ann", &anns[..]), ("bob", &bobs[..])] {
        let file = place.store.file(&format!("{owner}.jsonl"), &jsonl(lines));
        place.store.ok(&["--owner", owner, "import", file.to_str().unwrap()]);
    }
    (upstream, place)
}

/// A connection of somebody with a token.
pub(super) struct Caller {
    pub(super) client: Client,
    token: String,
}

impl Caller {
    pub(super) async fn new(server: &Server, token: &str) -> Self {
        let client = Client::connect(server.address).await.unwrap();
        Caller {
            client,
            token: format!("Bearer {token}"),
        }
    }

    pub(super) async fn get(&mut self, path: &str) -> Seen {
        let headers = [("authorization", &*self.token)];
        self.client
            .send(Request::get(path), &headers, Bytes::new())
            .await
            .unwrap()
    }

    pub(super) async fn json(&mut self, path: &str) -> Value {
        let seen = self.get(path).await;
        assert_eq!(seen.status, StatusCode::OK, "{path}: {}", seen.text());
        serde_json::from_slice(&seen.body).unwrap()
    }

    /// A list to its end, one after the other.
    pub(super) async fn all(&mut self, path: &str, list: &str, next: &str) -> Vec<Value> {
        let mut all: Vec<Value> = Vec::new();
        let mut cursor = String::new();
        let mark = if path.contains('?') { '&' } else { '?' };
        loop {
            let page = self.json(&format!("{path}{mark}limit=1{cursor}")).await;
            all.extend(page[list].as_array().unwrap().iter().cloned());
            match page[next].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return all,
            }
        }
    }

    /// What may be quoted, asked for until it is as expected.
    async fn suggested_until(&mut self, is_expected: impl Fn(&Seen) -> bool) -> Seen {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.get("/api/v1/references?q=").await;
            if is_expected(&seen) {
                return seen;
            }
            assert!(Instant::now() < deadline, "{}: {}", seen.status, seen.text());
            tokio::time::sleep(POLL).await;
        }
    }

    pub(super) async fn post(&mut self, path: &str, body: &Value) -> Seen {
        let headers = [
            ("authorization", &*self.token),
            ("accept", "application/json, text/event-stream"),
        ];
        self.client.post(path, &headers, body.to_string()).await.unwrap()
    }

    async fn rpc(&mut self, method: &str, params: Value) -> String {
        let seen = self
            .post(
                "/mcp",
                &json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}),
            )
            .await;
        assert_eq!(seen.status, StatusCode::OK, "{}", seen.text());
        seen.text()
    }

    /// The text of a tool's answer, as JSON.
    async fn tool(&mut self, name: &str, arguments: Value) -> Value {
        let answer = self
            .rpc("tools/call", json!({"name": name, "arguments": arguments}))
            .await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap()
    }

    /// The names of a list that MCP gives.
    async fn listed(&mut self, method: &str, list: &str, member: &str) -> Vec<String> {
        let answer: Value = serde_json::from_str(&self.rpc(method, json!({})).await).unwrap();
        let all = answer["result"][list].as_array().unwrap().iter();
        all.map(|one| one[member].as_str().unwrap().to_owned()).collect()
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> String {
        self.rpc("tools/call", json!({"name": tool, "arguments": arguments}))
            .await
    }

    /// Everything that can be asked about a name, in every way: each route, each tool and each kind of resource that there is. Who adds one says
    /// here how it is asked.
    async fn ask_about(&mut self, name: &str) -> Vec<String> {
        let mut answers = Vec::new();
        let escaped = name.replace('@', "%40");
        for (_, path) in &ROUTES {
            let query = match *path {
                "/api/v1/resolve" | "/api/v1/answers" | "/api/v1/exchanges" | "/api/v1/agents" | "/api/v1/cache"
                | "/api/v1/blame" | "/api/v1/timeline" => {
                    format!("ref={escaped}")
                }
                "/api/v1/references" => format!("q={escaped}"),
                "/api/v1/search" => format!("query={escaped}"),
                // Whose event it is not, and who has none behind it, hears nothing.
                "/api/v1/events" => format!("after={escaped}&limit=0"),
                "/api/v1/conversations/{ref}"
                | "/api/v1/conversations/{ref}/messages"
                | "/api/v1/conversations/{ref}/changes"
                | "/api/v1/exchanges/{ref}"
                | "/api/v1/exchanges/{ref}/{half}"
                | "/api/v1/sessions/{ref}/messages" => String::new(),
                "/api/v1/merges" => format!("ref={escaped}"),
                "/api/v1/replay" => {
                    let seen = self.post(path, &json!({"ref": name})).await;
                    answers.push(format!("{} {}", seen.status, seen.text()));
                    continue;
                }
                "/api/v1/diff" => format!("b=talk-2&a={escaped}"),
                // A change, which has its own test.
                "/api/v1/conversations/{ref}/title" => continue,
                // Asked without a name.
                "/api/v1/openapi.json"
                | "/api/v1/spread"
                | "/api/v1/suggestions"
                | "/api/v1/templates"
                | "/api/v1/waste"
                | "/api/v1/health"
                | "/api/v1/health/check"
                | "/api/v1/hash"
                | "/api/v1/audit"
                | "/api/v1/imports" => continue,
                "/api/v1/conversations" | "/api/v1/cache/stats" | "/api/v1/match" | "/api/v1/stats" | "/mcp" => {
                    continue;
                }
                new => panic!("{new} is not asked about"),
            };
            let path = path.replace("{ref}", &escaped).replace("{half}", "request");
            let as_of = ["", "&as_of=2026-03-02T00:00:00Z"];
            for as_of in &as_of[..if path.ends_with("events") { 1 } else { 2 }] {
                let seen = self.get(&format!("{path}?{query}{as_of}")).await;
                answers.push(format!("{} {}", seen.status, seen.text()));
            }
        }
        for tool in self.listed("tools/list", "tools", "name").await {
            let mut arguments = match &*tool {
                "read_messages" | "conversation_tree" => json!({"name": name}),
                "resolve_references" => json!({"references": [name]}),
                "search" => json!({"query": name}),
                // Asked without a name.
                "list_conversations" | "match" => continue,
                new => panic!("{new} is not asked about"),
            };
            answers.push(self.call(&tool, arguments.clone()).await);
            arguments["as_of"] = json!("2026-03-02T00:00:00Z");
            answers.push(self.call(&tool, arguments).await);
        }
        for template in self
            .listed("resources/templates/list", "resourceTemplates", "uriTemplate")
            .await
        {
            let (kind, _) = template.split_once('{').unwrap();
            answers.push(
                self.rpc("resources/read", json!({"uri": format!("{kind}{name}")}))
                    .await,
            );
        }
        answers
    }

    /// Everything that can be asked without a name, by the same rule.
    async fn ask_for_all(&mut self, request: &Value, first: &str) -> Vec<String> {
        let mut answers = vec![self.rpc("resources/list", json!({})).await];
        for (_, path) in &ROUTES {
            answers.push(match *path {
                "/api/v1/references" => self.get("/api/v1/references?q=").await.text(),
                "/api/v1/match" => self.post(path, request).await.text(),
                "/api/v1/events" => self.get(&format!("{path}?after={first}&limit=1")).await.text(),
                "/api/v1/conversations" | "/api/v1/exchanges" => self.get(path).await.text(),
                "/api/v1/search" => self.get("/api/v1/search?query=rope").await.text(),
                "/api/v1/spread" => self.post(path, &json!({"text": "its walk"})).await.text(),
                "/api/v1/templates" => self.get("/api/v1/templates?times=2").await.text(),
                "/api/v1/diff" | "/api/v1/merges" => continue,
                // Neither agents nor sums have words of their own, and of what Ann said nothing was said twice.
                "/api/v1/agents"
                | "/api/v1/stats"
                | "/api/v1/cache/stats"
                | "/api/v1/suggestions"
                | "/api/v1/waste"
                | "/api/v1/health"
                | "/api/v1/health/check"
                | "/api/v1/audit"
                | "/api/v1/imports" => continue,
                // The same for everybody.
                "/api/v1/openapi.json" | "/api/v1/hash" => continue,
                "/api/v1/resolve" | "/api/v1/replay" | "/api/v1/answers" | "/api/v1/cache" | "/api/v1/blame"
                | "/api/v1/timeline" | "/mcp" => continue,
                named if named.contains("{ref}") => continue,
                new => panic!("{new} is not asked"),
            });
        }
        for tool in self.listed("tools/list", "tools", "name").await {
            let all = match &*tool {
                "search" => vec![json!({"query": "rope"}), json!({"query": "xylophone"})],
                "list_conversations" => vec![json!({})],
                "match" => vec![json!({"request": request})],
                "read_messages" | "conversation_tree" | "resolve_references" => continue,
                new => panic!("{new} is not asked"),
            };
            for arguments in all {
                answers.push(self.call(&tool, arguments).await);
            }
        }
        answers
    }
}

fn has_a_mark(text: &str) -> bool {
    MARKS.iter().any(|mark| text.contains(mark))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_anothers_and_what_does_not_exist_are_the_same_byte_for_byte() {
    let (_upstream, place) = two_owners().await;
    let conversations = place.store.json(&["--owner", "ann", "log"]);
    let exchanges = place.store.json(&["--owner", "ann", "log", "--exchanges"]);
    let server = place.serve();
    server.wait_until_ready();
    let mut ann = Caller::new(&server, "anns-token").await;
    let mut bob = Caller::new(&server, "bobs-token").await;
    let mut carol = Caller::new(&server, "carols-token").await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let friendly_id = text(&conversations[0]["friendly_id"]);
    let messages = ann.tool("read_messages", json!({"name": friendly_id})).await;
    // Names of Ann's things, each with one of the same shape that is nobody's.
    let nodes = text(&exchanges[1]["output_node"]);
    let names = [
        (friendly_id.clone(), "nothing_here_zzzz".to_owned()),
        (
            text(&conversations[0]["conversation_id"]),
            "00000000-0000-8000-8000-000000000000".to_owned(),
        ),
        ("talk-1".to_owned(), "talk-9".to_owned()),
        (
            text(&messages["messages"][0]["reference"]),
            "@conversation_nothing_here_zzzz_message_zzzzzz".to_owned(),
        ),
        (
            format!("@conv_{friendly_id}_msg_1"),
            "@conv_nothing_here_zzzz_msg_1".to_owned(),
        ),
        (nodes[3..15].to_owned(), "0123456789ab".to_owned()),
    ];
    for (anns, nobodys) in &names {
        assert!(
            ann.ask_about(anns).await.iter().any(|answer| has_a_mark(answer)),
            "{anns}"
        );
        let foreign = bob.ask_about(anns).await;
        let missing = bob.ask_about(nobodys).await;
        for ((foreign, missing), of_carol) in foreign.iter().zip(&missing).zip(carol.ask_about(anns).await) {
            let bare = |text: &str, name: &str| text.replace(name, "NAME").replace(&name.replace('@', ""), "NAME");
            assert_eq!(bare(foreign, anns), bare(missing, nobodys));
            assert_eq!(*foreign, of_carol, "who has other things and who has nothing");
            assert!(!has_a_mark(&bare(foreign, anns)), "{foreign}");
        }
    }
    let request = json!({"model": "claude-sonnet-4-5", "max_tokens": 64,
        "messages": [{"role": "user", "content": "How long is a rope?"}]});
    assert!(
        ann.ask_for_all(&request, "talk-1")
            .await
            .iter()
            .all(|answer| has_a_mark(answer))
    );
    for answer in bob.ask_for_all(&request, "bobs-1").await {
        // What he asked for himself is repeated to him: where his messages leave what is known.
        let answer = answer.replace("How long is a rope?", "");
        assert!(!has_a_mark(&answer), "{answer}");
    }
    for route in ["suggestions?score=0", "waste"] {
        let answer = bob.get(&format!("/api/v1/{route}")).await.text();
        assert!(!has_a_mark(&answer), "{answer}");
    }
    for guess in 0..300_u32 {
        let hash = ropewalk_core::friendly::base36(guess.wrapping_mul(2_654_435_761), 6);
        let reference = format!("@conversation_{friendly_id}_message_{hash}");
        let answer = bob.get(&format!("/api/v1/resolve?ref={reference}")).await.text();
        let expected =
            json!({"v": 1, "reference": reference, "resolved": false, "ambiguous": false, "chars_left_out": 0});
        assert_eq!(serde_json::from_str::<Value>(&answer).unwrap(), expected);
    }
    assert!(server.stop().is_recorded());
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_are_of_ones_own_by_day_and_model() {
    let (_upstream, place) = two_owners().await;
    let server = place.serve();
    server.wait_until_ready();
    let mut ann = Caller::new(&server, "anns-token").await;
    let told = place.store.json(&["--owner", "ann", "stats"]);
    let stats = ann.json("/api/v1/stats").await;
    assert_eq!(stats["models"], told[0]["models"]);
    assert_eq!(stats["storage"]["bytes_in"], told[0]["bytes_in"]);
    let all = stats["total"]["exchanges"].as_u64().unwrap();
    assert_eq!(told[0]["exchanges"], all);
    let by_day: u64 = stats["days"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|models| models.as_object().unwrap().values())
        .map(|sums| sums["exchanges"].as_u64().unwrap())
        .sum();
    assert_eq!((by_day, stats["is_cut_off"].as_bool()), (all, Some(false)));
    assert_eq!(
        stats["days"].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["2026-03-01"]
    );
    let east = ann.json("/api/v1/stats?tz=Pacific/Kiritimati").await;
    assert_eq!(
        east["days"].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["2026-03-02"]
    );
    let later = ann.json("/api/v1/stats?since=2026-03-01T10:00:59Z").await;
    assert_eq!(later["total"]["exchanges"], 1, "the one a minute later");
    let earlier = ann.json("/api/v1/stats?until=2026-03-01T10:00:59Z").await;
    assert_eq!(earlier["total"]["exchanges"], all - 1);
    assert_eq!(
        ann.get("/api/v1/stats?tz=Nowhere").await.status,
        StatusCode::BAD_REQUEST
    );
    let mut bob = Caller::new(&server, "bobs-token").await;
    assert_eq!(bob.json("/api/v1/stats").await["total"]["exchanges"], 2);
    let mut carol = Caller::new(&server, "carols-token").await;
    assert_eq!(carol.json("/api/v1/stats").await["total"]["exchanges"], 0);
    assert!(server.stop().is_recorded());
}

/// Headers, and the status if they are refused.
type Case<'c> = (&'c [(&'c str, &'c str)], Option<u16>);

#[tokio::test(flavor = "multi_thread")]
async fn every_route_lets_in_who_should_be_and_nobody_else() {
    let (_upstream, place) = two_owners().await;
    let server = place.serve();
    server.wait_until_ready();
    let mut client = Client::connect(server.address).await.unwrap();
    let own = format!("http://{}", server.address);
    let right = ("authorization", "Bearer anns-token");
    let json = ("content-type", "application/json");
    let unknown = (Method::GET, "/api/v1/nothing");
    for (method, path) in ROUTES.iter().chain([&unknown]) {
        let cases: [Case<'_>; 12] = [
            (&[json], Some(401)),
            (&[json, ("authorization", "Bearer wrong")], Some(401)),
            (&[json, ("authorization", "anns-token")], Some(401)),
            (&[json, ("cookie", "ropewalk=anns-token")], Some(401)),
            (&[json, ("x-ropewalk-token", "wrong")], Some(401)),
            (&[json, right, ("host", "evil.example")], Some(403)),
            (&[json, right, ("host", "127.0.0.1.evil.example")], Some(403)),
            (&[json, right, ("origin", "http://evil.example")], Some(403)),
            (&[json, right, ("origin", "null")], Some(403)),
            (&[json, right], None),
            (&[json, right, ("origin", &own)], None),
            (&[json, ("x-ropewalk-token", "anns-token")], None),
        ];
        for (headers, refused) in cases {
            // A stream of events that is to end.
            let address = path.replace("/events", "/events?limit=0");
            let request = Request::builder().method(method).uri(address);
            let seen = client.send(request, headers, Bytes::from_static(b"{}")).await.unwrap();
            let status = seen.status.as_u16();
            match refused {
                Some(expected) => assert_eq!(status, expected, "{method} {path} {headers:?}"),
                None => assert!(
                    ![401, 403, 415].contains(&status),
                    "{method} {path} {headers:?}: {status}"
                ),
            }
        }
        if *method == Method::POST {
            for kind in [
                "text/plain",
                "application/x-www-form-urlencoded",
                "multipart/form-data; boundary=x",
            ] {
                let headers = [right, ("content-type", kind)];
                let seen = client
                    .send(Request::post(*path), &headers, Bytes::from_static(b"{}"))
                    .await
                    .unwrap();
                assert_eq!(seen.status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{path} {kind}");
            }
            let headers = [right, ("accept", "application/json, text/event-stream")];
            let seen = client.post(path, &headers, vec![b' '; (8 << 20) + 1]).await.unwrap();
            assert_eq!(seen.status, StatusCode::PAYLOAD_TOO_LARGE, "{path}");
            client = Client::connect(server.address).await.unwrap();
        }
        let wrong = client
            .send(Request::delete(*path), &[right], Bytes::new())
            .await
            .unwrap();
        assert!([404, 405].contains(&wrong.status.as_u16()), "{path}: {}", wrong.status);
    }
    let refused = client.get("/api/v1/resolve?ref=x").await.unwrap();
    assert_eq!(refused.headers["www-authenticate"], "Bearer");
    assert_eq!(refused.headers["content-type"], "application/json");
    let error: Value = serde_json::from_str(&refused.text()).unwrap();
    assert_eq!(error["error"]["kind"], "unauthorized");
    assert!(error["error"]["hint"].is_string());
    for open in ["/healthz", "/readyz", "/metrics", "/", "/conversations/long_rope_1234"] {
        assert_eq!(client.get(open).await.unwrap().status, StatusCode::OK, "{open}");
    }
    // Tokens are read again on SIGHUP.
    place.configure("[owners]\nmode = 'tokens'\n[owners.tokens]\nnew-token = 'ann'\n");
    server.signal("HUP");
    wait_until(|| server.said().contains("reloaded").then_some(()));
    let status = async |client: &mut Client, token: &str| {
        let headers = [("authorization", token)];
        let request = Request::get("/api/v1/references?q=");
        client.send(request, &headers, Bytes::new()).await.unwrap().status
    };
    assert_eq!(status(&mut client, "Bearer anns-token").await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(&mut client, "Bearer new-token").await, StatusCode::OK);
    assert!(server.stop().is_recorded());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_link_that_is_printed_lets_a_browser_in_once_and_a_cookie_from_then_on() {
    let upstream = Upstream::start().await;
    let place = Place::before(&upstream);
    let file = place.store.file("talk.jsonl", &jsonl(&talk()));
    place.store.import(&file);
    let server = place.serve();
    server.wait_until_ready();
    let said = wait_until(|| Some(server.said()).filter(|said| said.contains("/?token=")));
    let token = said
        .split_once("/?token=")
        .unwrap()
        .1
        .split_whitespace()
        .next()
        .unwrap();
    let kept = place.data().join("api.token");
    assert_eq!(std::fs::read_to_string(&kept).unwrap().trim(), token);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&kept).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let mut client = Client::connect(server.address).await.unwrap();
    for (path, place) in [
        (format!("/?token={token}"), "/"),
        (
            format!("/api/v1/references?q=long&token={token}"),
            "/api/v1/references?q=long",
        ),
    ] {
        let entered = client.get(&path).await.unwrap();
        assert_eq!(
            (entered.status, entered.headers["location"].to_str().unwrap()),
            (StatusCode::SEE_OTHER, place)
        );
        let set = entered.headers["set-cookie"].to_str().unwrap();
        assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict"), "{set}");
        assert!(!set.contains(token));
        let cookie = set.split(';').next().unwrap();
        let headers = [("cookie", cookie)];
        let seen = client
            .send(Request::get("/api/v1/references?q="), &headers, Bytes::new())
            .await
            .unwrap();
        assert!(seen.text().contains("long_rope"), "{}", seen.text());
        // A page of another site does not get to use it.
        let headers = [("cookie", cookie), ("origin", "http://evil.example")];
        let seen = client
            .send(Request::get("/api/v1/references?q="), &headers, Bytes::new())
            .await
            .unwrap();
        assert_eq!(seen.status, StatusCode::FORBIDDEN);
    }
    let refused = client.get("/?token=wrong").await.unwrap();
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert!(!refused.headers.contains_key("set-cookie"));
    assert!(server.stop().is_recorded());
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_lead_through_everything_and_what_is_cut_says_so() {
    let (_upstream, place) = two_owners().await;
    let server = place.serve();
    server.wait_until_ready();
    let mut ann = Caller::new(&server, "anns-token").await;
    let all = ann.tool("list_conversations", json!({})).await["conversations"].clone();
    let all = all.as_array().unwrap();
    let (mut paged, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = ann
            .tool("list_conversations", json!({"limit": 1, "cursor": cursor}))
            .await;
        paged.extend(page["conversations"].as_array().unwrap().clone());
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(paged, *all);
    let is_it = |one: &&Value| one["exchanges"] == 3;
    let name = &all.iter().find(is_it).unwrap()["friendly_id"];
    let forward = ann.tool("read_messages", json!({"name": name, "limit": 3})).await;
    let rest = ann
        .tool("read_messages", json!({"name": name, "cursor": forward["next_cursor"]}))
        .await;
    let back = ann
        .tool(
            "read_messages",
            json!({"name": name, "limit": 3, "cursor": rest["previous_cursor"]}),
        )
        .await;
    assert_eq!(
        (rest["messages"].as_array().unwrap().len(), &rest["next_cursor"]),
        (1, &Value::Null)
    );
    assert_eq!(back["messages"], forward["messages"]);
    let lost = ann
        .tool("read_messages", json!({"name": name, "cursor": "after.nobody"}))
        .await;
    assert_eq!(lost["error"]["kind"], "bad_request");
    let (mut found, mut cursor) = (0, Value::Null);
    loop {
        let page = ann
            .tool("search", json!({"query": "rope", "limit": 1, "cursor": cursor}))
            .await;
        found += page["hits"].as_array().unwrap().len();
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    let at_once = ann.tool("search", json!({"query": "rope"})).await["hits"]
        .as_array()
        .unwrap()
        .len();
    assert!(at_once > 1 && found == at_once, "{found} of {at_once}");

    // A long answer, in pieces; what hides in it is written out.
    let long = ann
        .rpc(
            "tools/call",
            json!({"name": "read_messages", "arguments": {"name": "long"}}),
        )
        .await;
    assert!(long.contains(r"\\u202e") && !long.contains('\u{202e}'), "{long}");
    let mut whole = String::new();
    loop {
        let skip = whole.chars().count();
        let page = ann
            .tool(
                "read_messages",
                json!({"name": "long", "from_end": true, "limit": 1, "skip_chars": skip}),
            )
            .await;
        whole.push_str(page["messages"][0]["content"].as_str().unwrap());
        if page["messages"][0]["chars_left_out"] == 0 {
            break;
        }
        assert_eq!(whole.chars().count() % 4_000, 0);
    }
    assert_eq!(whole, format!("\u{202e}{}\u{e0041}end", "xylophone ".repeat(1_000)));
    assert!(server.stop().is_recorded());
}

/// Requests that are answered at a time.
const REQUESTS_MAX: usize = 16;

#[tokio::test(flavor = "multi_thread")]
async fn who_never_sends_a_body_takes_a_place_and_not_the_server() {
    let (_upstream, place) = two_owners().await;
    let server = place.serve();
    server.wait_until_ready();
    let mut ann = Caller::new(&server, "anns-token").await;
    let head = format!(
        "POST /api/v1/match HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer bobs-token\r\ncontent-type: application/json\r\n\
         content-length: 9\r\n\r\n",
        server.address
    );
    // One that comes while somebody else is answered may be sent away, so more come until there is no place left.
    let deadline = Instant::now() + PATIENCE;
    let mut waiting = Vec::new();
    let busy = loop {
        let mut socket = std::net::TcpStream::connect(server.address).unwrap();
        socket.write_all(head.as_bytes()).unwrap();
        waiting.push(socket);
        let seen = ann.get("/api/v1/references?q=").await;
        if seen.status != StatusCode::OK {
            break seen;
        }
        assert!(Instant::now() < deadline, "there is always a place");
    };
    assert!(waiting.len() >= REQUESTS_MAX, "{} are too many", waiting.len());
    assert!(busy.text().contains(r#""kind":"busy""#), "{}", busy.text());
    assert_eq!(ann.get("/healthz").await.status, StatusCode::OK);
    drop(waiting);
    ann.suggested_until(|seen| seen.status == StatusCode::OK).await;
    assert!(server.stop().is_recorded());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_providers_key_opens_what_was_recorded_with_it() {
    let upstream = Upstream::start().await;
    upstream.answer_as(Provider::new());
    let place = Place::with(&upstream, "[owners]\nmode = 'credential'\n");
    let server = place.serve();
    server.wait_until_ready();
    let kind = Kind::Messages { streams: false };
    let mut client = Client::connect(server.address).await.unwrap();
    for (key, said) in [("sk-one", "Knots of sailors"), ("sk-two", "Birds of paradise")] {
        let headers = [("x-api-key", key)];
        let seen = client.post(kind.path(), &headers, kind.body(said)).await.unwrap();
        assert_eq!(seen.status, StatusCode::OK);
    }
    for (key, own, others) in [("sk-one", "knots_", "birds_"), ("sk-two", "birds_", "knots_")] {
        let mut caller = Caller::new(&server, key).await;
        let seen = caller.suggested_until(|seen| seen.text().contains(own)).await;
        assert!(!seen.text().contains(others), "{}", seen.text());
    }
    let nobodys = Caller::new(&server, "sk-three")
        .await
        .get("/api/v1/references?q=")
        .await;
    assert_eq!(nobodys.text(), r#"{"suggestions":[],"next_cursor":null}"#);
    let refused = client.get("/api/v1/references?q=").await.unwrap();
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert!(server.stop().is_recorded());
}

/// The events of a stream that has ended: each with its name, its id and its data.
pub(super) fn events(text: &str) -> Vec<(String, String, Value)> {
    let field = |event: &str, name: &str| {
        let line = event.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name} in {event}")).to_owned()
    };
    let all = text.split("\n\n").filter(|event| event.contains("data: "));
    all.map(|event| {
        let data = serde_json::from_str(&field(event, "data: ")).unwrap();
        let id = event.lines().find_map(|line| line.strip_prefix("id: "));
        (field(event, "event: "), id.unwrap_or_default().to_owned(), data)
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_an_exchange_is_told_with_the_names_of_its_messages() {
    let upstream = Upstream::start().await;
    upstream.answer_as(Provider::new());
    let place = Place::with(&upstream, TWO_OWNERS);
    let server = place.serve();
    server.wait_until_ready();
    let kind = Kind::Messages { streams: true };
    let address = server.address;
    let call = async |token: &str, said: &str| {
        let mut client = Client::connect(address).await.unwrap();
        let headers = [("x-ropewalk-token", token)];
        let seen = client.post(kind.path(), &headers, kind.body(said)).await.unwrap();
        assert_eq!(seen.status, StatusCode::OK);
        seen.id()
    };
    let first = call("anns-token", "!say A bowline\nKnots of sailors").await;
    let mut ann = Caller::new(&server, "anns-token").await;
    ann.suggested_until(|seen| seen.text().contains("say_bowline_")).await;
    let following = {
        let path = format!("/api/v1/events?after={first}&limit=2");
        let mut ann = Caller::new(&server, "anns-token").await;
        tokio::spawn(async move { ann.get(&path).await })
    };
    call("bobs-token", "!say Nothing\nBirds of paradise").await;
    let second = call("anns-token", "!say A clove hitch\nKnots of climbers").await;
    let third = call("anns-token", "!say A sheet bend\nKnots of weavers").await;
    let heard = following.await.unwrap();
    assert_eq!(heard.headers["content-type"], "text/event-stream");
    let mut heard = events(&heard.text());
    heard.retain(|(name, ..)| name.starts_with("exchange.") && name != "exchange.delta");
    // Some were seen as they began, which is told without names, and without an id to come back with.
    heard.retain(|(name, id, data)| {
        let is_begin = name == "exchange.begin";
        assert!(!is_begin || id.is_empty() && data.get("message_ids").is_none() && data["owner"] == "ann");
        !is_begin
    });
    assert_eq!(heard.len(), 2);
    for ((name, id, data), (expected, answer)) in heard.iter().zip([(second, "A clove hitch"), (third, "A sheet bend")])
    {
        assert_eq!((&**name, id), ("exchange.end", &expected));
        assert_eq!((&data["id"], &data["owner"]), (&json!(expected), &json!("ann")));
        let friendly_id = data["friendly_id"].as_str().unwrap();
        let messages = place.store.json(&["show", friendly_id, "--owner", "ann"]);
        assert_eq!(messages[1]["content"], answer);
        let expected = json!({
            "user_message_id": messages[0]["uuid"], "user_message_short_hash": messages[0]["short_hash"],
            "response_message_id": messages[1]["uuid"], "response_message_short_hash": messages[1]["short_hash"],
        });
        assert_eq!(data["message_ids"], expected);
        assert!(
            expected.as_object().unwrap().values().all(Value::is_string),
            "{expected}"
        );
    }
    // A stream that nobody ends does not keep the server from stopping.
    let mut endless = std::net::TcpStream::connect(address).unwrap();
    let head = format!("GET /api/v1/events HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer anns-token\r\n\r\n");
    endless.write_all(head.as_bytes()).unwrap();
    let mut got = [0; 15];
    endless.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"HTTP/1.1 200 OK");
    let stopped = server.stop();
    assert!(
        stopped.is_recorded() && !stopped.said.contains("cut off"),
        "{}",
        stopped.said
    );
    let mut rest = Vec::new();
    endless.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"0\r\n\r\n"), "it ended well");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_known_at_a_time_is_what_is_answered() {
    let (_upstream, place) = two_owners().await;
    let server = place.serve();
    server.wait_until_ready();
    let mut ann = Caller::new(&server, "anns-token").await;
    let known = ann.tool("read_messages", json!({"name": "talk-1"})).await;
    let friendly_id = known["friendly_id"].as_str().unwrap().to_owned();
    let asked = known["messages"][0]["reference"].as_str().unwrap().to_owned();
    let answered = known["messages"][1]["reference"].as_str().unwrap().to_owned();
    // The first turn begins at 10:00:00 and ends a second later.
    let times = ["2026-03-01T09:59:59Z", "2026-03-01T10:00:00.5Z", "2026-03-01T10:00:05Z"];
    for (time, is_asked, is_answered) in [
        (times[0], false, false),
        (times[1], true, false),
        (times[2], true, true),
    ] {
        for (reference, expected) in [(&asked, is_asked), (&answered, is_answered)] {
            let path = format!("/api/v1/resolve?ref={}&as_of={time}", reference.replace('@', "%40"));
            let resolved: Value = serde_json::from_str(&ann.get(&path).await.text()).unwrap();
            assert_eq!(resolved["resolved"], expected, "{reference} at {time}: {resolved}");
            let tool = json!({"references": [reference], "as_of": time});
            let resolved = ann.tool("resolve_references", tool).await;
            assert_eq!(resolved["references"][0]["resolved"], expected, "{reference} at {time}");
        }
        let answers = ann.get(&format!("/api/v1/answers?ref=talk-1&as_of={time}")).await;
        assert_eq!(
            answers.text().contains("its walk"),
            is_answered,
            "{time}: {}",
            answers.text()
        );
        let hits = ann
            .tool(
                "search",
                json!({"query": "walk", "said_by": "assistant", "as_of": time}),
            )
            .await;
        assert_eq!(
            !hits["hits"].as_array().unwrap().is_empty(),
            is_answered,
            "{time}: {hits}"
        );
        let read = ann
            .tool("read_messages", json!({"name": friendly_id, "as_of": time}))
            .await;
        let count = read["messages"].as_array().map(Vec::len);
        let expected = is_asked.then_some(1 + usize::from(is_answered));
        assert_eq!(count, expected, "{time}: {read}");
        let listed = ann.tool("list_conversations", json!({"as_of": time})).await;
        assert_eq!(
            listed["conversations"].as_array().unwrap().len(),
            usize::from(is_asked),
            "{time}"
        );
        let tree = ann
            .tool("conversation_tree", json!({"name": friendly_id, "as_of": time}))
            .await;
        assert_eq!(tree["total"] == json!(1), is_asked, "{time}: {tree}");
    }
    let now = ann.tool("read_messages", json!({"name": friendly_id})).await;
    assert!(now["messages"].as_array().unwrap().len() > 2);
    let wrong = ann.get("/api/v1/resolve?ref=%40conv_a_b_msg_1&as_of=yesterday").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    assert!(server.stop().is_recorded());
}

/// Lines say which version of their form they have; in the API the path does.
fn without_version(mut lines: Vec<Value>) -> Vec<Value> {
    for line in &mut lines {
        assert_eq!(line.as_object_mut().unwrap().remove("v"), Some(1.into()));
    }
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_listed_is_read_page_by_page_and_in_the_shapes_of_the_command_line() {
    let (_upstream, place) = two_owners().await;
    let exchanges = place.store.json(&["--owner", "ann", "log", "--exchanges"]);
    let conversations = place.store.json(&["--owner", "ann", "log"]);
    let friendly_id = conversations[0]["friendly_id"].as_str().unwrap();
    let messages = without_version(place.store.json(&["--owner", "ann", "show", friendly_id]));
    let session = place.store.json(&["--owner", "ann", "show", friendly_id, "--tree"]);
    let read = format!("/api/v1/conversations/{friendly_id}/messages");
    let agents = without_version(place.store.json(&["--owner", "ann", "tree"]));
    let server = place.serve();
    server.wait_until_ready();
    let mut ann = Caller::new(&server, "anns-token").await;
    for (path, list, expected) in [
        ("/api/v1/conversations", "conversations", &conversations),
        ("/api/v1/exchanges", "exchanges", &exchanges),
        (&*read, "messages", &messages),
        ("/api/v1/agents", "agents", &agents),
    ] {
        assert_eq!(ann.all(path, list, "next_cursor").await, *expected, "{path}");
    }
    let in_session = read.replace("conversations", "sessions");
    assert_eq!(ann.json(&in_session).await, session[0]);
    let all = ann.all(&in_session, "messages", "next").await;
    assert_eq!(&all, session[0]["messages"].as_array().unwrap());
    let of_one = format!("/api/v1/agents?ref={friendly_id}");
    let whole = ann.json(&of_one).await;
    assert_eq!(
        &ann.all(&of_one, "agents", "next_cursor").await,
        whole["agents"].as_array().unwrap()
    );
    for typed in ["", friendly_id, &format!("{friendly_id}_message_")] {
        let path = format!("/api/v1/references?q={typed}");
        let whole = ann.json(&format!("{path}&limit=100")).await;
        let whole = whole["suggestions"].as_array().unwrap();
        assert!(whole.len() > 1, "{typed}: {whole:?}");
        assert_eq!(&ann.all(&path, "suggestions", "next_cursor").await, whole, "{typed}");
    }
    for path in [
        &*read,
        &in_session,
        "/api/v1/agents",
        "/api/v1/waste",
        "/api/v1/templates",
        "/api/v1/suggestions",
    ] {
        let seen = ann.get(&format!("{path}?cursor=nobody")).await;
        assert_eq!(seen.status, StatusCode::BAD_REQUEST, "{path}: {}", seen.text());
    }
    let explained = ann.json("/api/v1/exchanges/talk-2").await;
    assert_eq!(explained["exchange"]["id"], "talk-2");
    assert!(explained["reason"].is_string(), "{explained}");
    let request = ann.get("/api/v1/exchanges/talk-2/request").await;
    let recorded = place
        .store
        .run(&["--owner", "ann", "show", "talk-2", "--raw", "request"])
        .stdout;
    assert_eq!(request.body, recorded);
    assert_eq!(request.headers["content-disposition"], "attachment");
    assert!(server.stop().is_recorded());
}

#[tokio::test(flavor = "multi_thread")]
async fn caches_and_blame_are_answered_as_on_the_command_line() {
    let (_upstream, place) = two_owners().await;
    let mut lines = rope("Tuesday");
    for line in &mut lines {
        line["path"] = json!("/p/site/anthropic/v1/messages");
    }
    let file = place.store.file("rope.jsonl", &jsonl(&lines));
    place.store.ok(&["--owner", "ann", "import", file.to_str().unwrap()]);
    let since = "2026-03-01T10:01:30Z";
    let type_hash = place
        .store
        .json(&["--owner", "ann", "log", "--exchanges"])
        .last()
        .unwrap()["agent"]["type_hash"]
        .clone();
    let type_hash = type_hash.as_str().unwrap();
    let cases: [(&[&str], String); 7] = [
        (&["explain", "--cache", "rope-3"], "cache?ref=rope-3".to_owned()),
        (&["stats", "--cache"], "cache/stats".to_owned()),
        (
            &["stats", "--cache", "--since", since],
            format!("cache/stats?since={since}"),
        ),
        (&["blame", "rope-4"], "blame?ref=rope-4".to_owned()),
        (&["blame", "rope-4", "--timeline"], "timeline?ref=rope-4".to_owned()),
        (&["blame", "--project", "site"], "timeline?project=site".to_owned()),
        (
            &["blame", "--agent-type", type_hash],
            format!("timeline?agent_type={type_hash}"),
        ),
    ];
    let expected: Vec<Value> = cases
        .iter()
        .map(|(arguments, _)| {
            let mut all = vec!["--owner", "ann"];
            all.extend(*arguments);
            place.store.json(&all).remove(0)
        })
        .collect();
    let server = place.serve();
    server.wait_until_ready();
    let mut ann = Caller::new(&server, "anns-token").await;
    for ((_, path), expected) in cases.iter().zip(&expected) {
        let seen = ann.get(&format!("/api/v1/{path}")).await;
        assert_eq!(
            serde_json::from_str::<Value>(&seen.text()).unwrap(),
            *expected,
            "{path}"
        );
    }
    // Whoever has nothing of it is told the same as who asks for nothing.
    let mut bob = Caller::new(&server, "bobs-token").await;
    for path in ["cache?ref=rope-3", "blame?ref=rope-3", "timeline?ref=rope-3"] {
        assert_eq!(
            bob.get(&format!("/api/v1/{path}")).await.status,
            StatusCode::NOT_FOUND,
            "{path}"
        );
    }
    for path in ["timeline?project=site", "timeline?client=claude-code/2.1.197"] {
        let seen = bob.get(&format!("/api/v1/{path}")).await;
        assert_eq!(
            seen.text(),
            r#"{"v":1,"turns":0,"changes":[],"is_cut":false}"#,
            "{path}"
        );
    }
    let stats: Value = serde_json::from_str(&bob.get("/api/v1/cache/stats").await.text()).unwrap();
    assert_eq!((&stats["turns"], &stats["nothing_to_explain"]), (&json!(0), &json!(2)));
    for bad in [
        "timeline",
        "timeline?project=a&client=b",
        "timeline?agent_type=xyz",
        "cache/stats?since=soon",
    ] {
        assert_eq!(
            ann.get(&format!("/api/v1/{bad}")).await.status,
            StatusCode::BAD_REQUEST,
            "{bad}"
        );
    }
    assert!(server.stop().is_recorded());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_history_shows_is_the_same_as_on_the_command_line() {
    let (_upstream, place) = two_owners().await;
    let of_verb = |arguments: &[&str]| {
        let mut all = vec!["--owner", "ann"];
        all.extend(arguments);
        place.store.json(&all).remove(0)
    };
    let expected = [
        (
            "/api/v1/diff?a=talk-2&b=talk-2b",
            of_verb(&["diff", "talk-2", "talk-2b"]),
        ),
        ("/api/v1/suggestions", of_verb(&["suggest"])),
        ("/api/v1/templates?times=2", of_verb(&["templates", "--times", "2"])),
        ("/api/v1/waste", of_verb(&["stats", "--waste"])),
    ];
    let spread = of_verb(&["spread", "its walk"]);
    let graph = of_verb(&["log", "--graph"]);
    let server = place.serve();
    server.wait_until_ready();
    let mut ann = Caller::new(&server, "anns-token").await;
    for (path, expected) in expected {
        let seen = ann.get(path).await;
        assert_eq!(seen.status, StatusCode::OK, "{path}: {}", seen.text());
        let mut answer: Value = serde_json::from_str(&seen.text()).unwrap();
        if !path.contains("diff") {
            let next = answer.as_object_mut().unwrap().remove("next_cursor");
            assert_eq!(next, Some(Value::Null), "{path}");
        }
        assert_eq!(answer, expected, "{path}");
    }
    let seen = ann.post("/api/v1/spread", &json!({"text": "its walk"})).await;
    assert_eq!(serde_json::from_str::<Value>(&seen.text()).unwrap(), spread);
    let part = spread["parts"][0].as_str();
    if let Some(part) = part {
        let seen = ann.post("/api/v1/spread", &json!({"part": part})).await;
        assert_eq!(seen.status, StatusCode::OK, "{}", seen.text());
    }
    let merges = ann
        .get(&format!(
            "/api/v1/merges?ref={}",
            graph["conversation_id"].as_str().unwrap()
        ))
        .await;
    let merges: Value = serde_json::from_str(&merges.text()).unwrap();
    assert_eq!(merges["merges"], graph["merges"]);
    let first = graph["conversation_id"].as_str().unwrap();
    let asked = json!({"ref": first, "model": "another-model", "set": {"temperature": 0}, "unset": ["max_tokens"]});
    let again: Value = serde_json::from_str(&ann.post("/api/v1/replay", &asked).await.text()).unwrap();
    let body: Value = serde_json::from_str(again["body"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&body["model"], &body["temperature"], body.get("max_tokens")),
        (&"another-model".into(), &0.into(), None),
        "{again}"
    );
    assert_eq!(again["target"], "/v1/messages");
    let keys = ["authorization", "x-api-key", "x-ropewalk-token"];
    assert!(keys.iter().all(|key| again["headers"].get(*key).is_none()), "{again}");
    for wrong in [
        json!({}),
        json!({"ref": first, "set": {"": 1}}),
        json!({"ref": first, "to": "me"}),
    ] {
        let seen = ann.post("/api/v1/replay", &wrong).await;
        assert_eq!(seen.status, StatusCode::BAD_REQUEST, "{wrong}: {}", seen.text());
    }
    for (body, status) in [
        (json!({}), StatusCode::BAD_REQUEST),
        (json!({"text": "--"}), StatusCode::BAD_REQUEST),
        (json!({"part": "abc"}), StatusCode::BAD_REQUEST),
        (json!({"words": "x"}), StatusCode::BAD_REQUEST),
        (json!({"text": "nobody ever said this"}), StatusCode::OK),
    ] {
        let seen = ann.post("/api/v1/spread", &body).await;
        assert_eq!(seen.status, status, "{body}: {}", seen.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_use_of_a_token_is_noted() {
    let (_upstream, place) = two_owners().await;
    let server = place.serve();
    server.wait_until_ready();
    for token in ["anns-token", "anns-token", "not-a-token"] {
        let mut caller = Caller::new(&server, token).await;
        caller.get("/api/v1/conversations").await;
    }
    let text = std::fs::read_to_string(place.data().join("audit.jsonl")).unwrap();
    let entries: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(entries.len(), 1, "{text}");
    assert_eq!(
        (&entries[0]["verb"], &entries[0]["owner"]),
        (&"api token".into(), &"ann".into())
    );
    assert!(!text.contains("anns-token"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_is_checked_when_somebody_wants_it_and_what_was_imported_is_told() {
    let (_upstream, place) = two_owners().await;
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/import/chatgpt");
    place.store.ok(&["--owner", "ann", "import", log]);
    let server = place.serve();
    server.wait_until_ready();
    let mut ann = Caller::new(&server, "anns-token").await;
    let mut bob = Caller::new(&server, "bobs-token").await;
    let before = ann.json("/api/v1/health").await;
    assert_eq!(before["check"]["state"], "never");
    assert_eq!(before["server"]["store"], "up");
    assert!(before["rules_version"].is_u64());
    let begun = ann.post("/api/v1/health/check", &json!({})).await;
    assert_eq!(begun.status, StatusCode::OK, "{}", begun.text());
    let deadline = Instant::now() + PATIENCE;
    let check = loop {
        let report = ann.json("/api/v1/health").await;
        if report["check"]["state"] != "running" {
            break report["check"].clone();
        }
        assert!(Instant::now() < deadline, "{report}");
        tokio::time::sleep(POLL).await;
    };
    assert_eq!(
        (&check["state"], &check["errors"]),
        (&json!("done"), &json!(0)),
        "{check}"
    );
    assert!(check["ended_at"].is_string());
    assert_eq!(bob.json("/api/v1/health").await["check"]["state"], "never");

    // Logs that were read before the server was there, each owner's own. Exchanges are not logs.
    let files = ann.all("/api/v1/imports", "files", "next_cursor").await;
    assert!(!files.is_empty());
    for file in &files {
        assert!(file["path"].as_str().unwrap().contains("chatgpt"), "{file}");
        assert_eq!((&file["bytes_read"], &file["problems"]), (&json!(0), &json!(0)));
        assert!(file["bytes"].as_u64() > Some(0));
    }
    assert_eq!(
        bob.json("/api/v1/imports").await,
        json!({"files": [], "next_cursor": null})
    );
    let lines = jsonl(&[turn("more", 90, &["What is a splice?", "Two ropes in one."])]);
    let file = place.store.file("more.jsonl", &lines);
    place.store.ok(&["--owner", "ann", "import", file.to_str().unwrap()]);
    let deadline = Instant::now() + PATIENCE;
    let import = loop {
        let report = ann.json("/api/v1/health").await;
        if report["imports"][0]["is_done"] == true {
            break report["imports"][0].clone();
        }
        assert!(Instant::now() < deadline, "{report}");
        tokio::time::sleep(POLL).await;
    };
    assert_eq!(
        (&import["exchanges"], &import["new"], &import["known"]),
        (&json!(1), &json!(1), &json!(0))
    );
    assert_eq!(bob.json("/api/v1/health").await["imports"], json!([]));
    assert!(server.stop().is_recorded());
}
