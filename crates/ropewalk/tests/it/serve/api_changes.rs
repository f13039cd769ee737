//! The API while things change: what is still the same, titles, changes of context, and everything that is told as it happens.

use bytes::Bytes;
use http::{Request, StatusCode};
use ropewalk_testkit::upstream::{Answer, Gate, Upstream};
use serde_json::{Value, json};

use super::api::{Caller, TWO_OWNERS, events, two_owners};
use super::client::{Client, Kind};
use super::server::Place;
use crate::store::{jsonl, turn};

/// A GET with the tag of an answer that the caller has.
async fn again(caller: &mut Caller, path: &str, tag: &str) -> StatusCode {
    let headers = [("authorization", "Bearer anns-token"), ("if-none-match", tag)];
    let seen = caller
        .client
        .send(Request::get(path), &headers, Bytes::new())
        .await
        .unwrap();
    assert!(seen.status != StatusCode::NOT_MODIFIED || seen.body.is_empty());
    seen.status
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_has_a_tag_that_changes_with_the_owners_data_and_the_question() {
    let (_upstream, place) = two_owners().await;
    let server = place.serve();
    server.wait_until_ready();
    let mut ann = Caller::new(&server, "anns-token").await;
    let mut bob = Caller::new(&server, "bobs-token").await;
    let paths = [
        "/api/v1/conversations",
        "/api/v1/conversations/talk-1/messages",
        "/api/v1/sessions/talk-1/messages",
        "/api/v1/stats",
        "/api/v1/exchanges/talk-1/request",
    ];
    let mut tags = Vec::new();
    for path in paths {
        let seen = ann.get(path).await;
        let tag = seen.headers["etag"].to_str().unwrap().to_owned();
        assert_eq!(again(&mut ann, path, &tag).await, StatusCode::NOT_MODIFIED, "{path}");
        assert_eq!(again(&mut ann, path, "\"other\"").await, StatusCode::OK, "{path}");
        assert!(!tags.contains(&tag), "another question has another tag");
        tags.push(tag);
    }
    let bobs = bob.get(paths[0]).await.headers["etag"].to_str().unwrap().to_owned();
    assert!(!tags.contains(&bobs), "another owner has other tags");
    // What was not answered has none, and neither has what is not told from the data alone.
    assert!(
        ann.get("/api/v1/conversations/nothing-here")
            .await
            .headers
            .get("etag")
            .is_none()
    );
    assert!(ann.get("/api/v1/search?query=rope").await.headers.get("etag").is_none());
    let file = place.store.file(
        "more.jsonl",
        &jsonl(&[turn("more", 90, &["What is a splice?", "Two ropes in one."])]),
    );
    place.store.ok(&["--owner", "ann", "import", file.to_str().unwrap()]);
    for (path, tag) in paths.iter().zip(&tags) {
        assert_eq!(again(&mut ann, path, tag).await, StatusCode::OK, "{path}");
    }
    assert!(server.stop().is_recorded());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_is_given_by_its_owner_alone_and_the_name_stays() {
    let (_upstream, place) = two_owners().await;
    let server = place.serve();
    server.wait_until_ready();
    let mut ann = Caller::new(&server, "anns-token").await;
    let before = ann.json("/api/v1/conversations/talk-1").await["conversation"].clone();
    let tag = ann.get("/api/v1/conversations").await.headers["etag"]
        .to_str()
        .unwrap()
        .to_owned();
    let path = "/api/v1/conversations/talk-1/title";
    let given = ann.post(path, &json!({"title": "  Ropes <b>and</b> walks "})).await;
    assert_eq!(given.status, StatusCode::OK, "{}", given.text());
    let after = ann.json("/api/v1/conversations/talk-1").await["conversation"].clone();
    assert_eq!(after["title"], "Ropes <b>and</b> walks");
    assert_eq!(after["friendly_id"], before["friendly_id"]);
    assert_eq!(
        again(&mut ann, "/api/v1/conversations", &tag).await,
        StatusCode::OK,
        "a title is a change"
    );
    for (body, expected) in [
        (json!({"title": " "}), StatusCode::BAD_REQUEST),
        (json!({"name": "x"}), StatusCode::BAD_REQUEST),
        (json!([]), StatusCode::BAD_REQUEST),
    ] {
        assert_eq!(ann.post(path, &body).await.status, expected, "{body}");
    }
    let mut bob = Caller::new(&server, "bobs-token").await;
    let foreign = bob.post(path, &json!({"title": "mine"})).await;
    assert_eq!(foreign.status, StatusCode::NOT_FOUND);
    assert_eq!(
        ann.json("/api/v1/conversations/talk-1").await["conversation"]["title"],
        after["title"]
    );
    assert!(server.stop().is_recorded());
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_the_system_prompt_and_the_tools_are_listed_with_their_texts() {
    let upstream = Upstream::start().await;
    let place = Place::with(&upstream, TWO_OWNERS);
    let mut lines = [
        turn("c-1", 0, &["Where is the mast?", "In the middle."]),
        turn(
            "c-2",
            10,
            &["Where is the mast?", "In the middle.", "And the keel?", "Below."],
        ),
    ];
    let tool = |name: &str| json!({"name": name, "description": name, "input_schema": {"type": "object"}});
    for (line, system, tools) in [
        (0, "Be brief.", vec!["Read"]),
        (1, "Be brief and kind.", vec!["Read", "Bash"]),
    ] {
        let body = &mut lines[line]["request"]["body"];
        body["system"] = json!(system);
        body["tools"] = tools.into_iter().map(tool).collect();
    }
    lines[1]["request"]["body"]["model"] = json!("claude-opus-4-5");
    let file = place.store.file("ann.jsonl", &jsonl(&lines));
    place.store.ok(&["--owner", "ann", "import", file.to_str().unwrap()]);
    let server = place.serve();
    server.wait_until_ready();
    let mut ann = Caller::new(&server, "anns-token").await;
    let path = "/api/v1/conversations/c-1/changes";
    let listed = ann.json(path).await;
    let kinds: Vec<&Value> = listed["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| &change["what"])
        .collect();
    assert_eq!(kinds, ["system_prompt", "tools"], "{listed}");
    assert!(
        listed["changes"][0]["before"].is_null(),
        "texts come when one exchange is asked for"
    );
    assert_eq!(listed["changes"][1]["tools_added"], json!(["Bash"]));
    let texts = ann.json(&format!("{path}?exchange=c-2")).await;
    assert_eq!(texts["changes"][0]["before"], "Be brief.");
    assert_eq!(texts["changes"][0]["after"], "Be brief and kind.");
    let first = ann.json(&format!("{path}?limit=1")).await;
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = ann.json(&format!("{path}?limit=1&cursor={cursor}")).await;
    assert_eq!(
        (&second["changes"][0], &second["next_cursor"]),
        (&listed["changes"][1], &Value::Null)
    );
    // The list of conversations can be narrowed to those of a model.
    let of = async |ann: &mut Caller, query: &str| {
        let listed = ann.json(&format!("/api/v1/conversations?{query}")).await;
        listed["conversations"].as_array().unwrap().len()
    };
    assert_eq!(of(&mut ann, "model=sonnet").await, 1);
    assert_eq!(of(&mut ann, "model=gpt").await, 0);
    assert_eq!(of(&mut ann, "cost=1000").await, 0);
    assert_eq!(of(&mut ann, "project=walk").await, 0);
    assert!(server.stop().is_recorded());
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_happens_is_told() {
    let upstream = Upstream::start().await;
    let place = Place::with(&upstream, TWO_OWNERS);
    let server = place.serve();
    server.wait_until_ready();
    let address = server.address;
    let mut stream = Listening::to(address, "anns-token").await;
    stream.until("health", |data| data["store"] == "up").await;
    let gate = Gate::closed();
    let begun = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\
        \"role\":\"assistant\",\"model\":\"claude-opus-4-5\",\"content\":[],\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n";
    upstream.answer_next(
        Answer::events([begun])
            .wait_for(&gate)
            .chunk("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"),
    );
    let kind = Kind::Messages { streams: true };
    let call = tokio::spawn(async move {
        let mut client = Client::connect(address).await.unwrap();
        let headers = [("x-ropewalk-token", "anns-token")];
        client
            .post(kind.path(), &headers, kind.body("Which way is the wind?"))
            .await
            .unwrap()
    });
    let created = stream.until("conversation.created", |_| true).await;
    stream
        .until("agent.changed", |data| data["status"] == "streaming")
        .await;
    let begin = stream.until("exchange.begin", |_| true).await;
    assert_eq!(begin["conversation_id"], created["conversation_id"]);
    let delta = stream
        .until("exchange.delta", |data| data["response_bytes"].as_u64() > Some(0))
        .await;
    assert_eq!(delta["id"], begin["id"]);
    gate.open();
    assert_eq!(call.await.unwrap().status, StatusCode::OK);
    stream.until("links.changed", |_| true).await;
    stream
        .until("agent.changed", |data| data["status"] != "streaming")
        .await;
    let end = stream.until("exchange.end", |_| true).await;
    assert_eq!(end["id"], begin["id"]);
    let file = place.store.file(
        "more.jsonl",
        &jsonl(&[turn("more", 90, &["What is a splice?", "Two ropes in one."])]),
    );
    place.store.ok(&["--owner", "ann", "import", file.to_str().unwrap()]);
    stream
        .until("import.progress", |data| {
            data["exchanges"] == 1 && data["is_done"] == true
        })
        .await;
    // What another does is not told.
    assert!(!stream.heard.contains("bobs"));
    assert!(server.stop().is_recorded());
}

/// A stream of events that is read as it comes.
struct Listening {
    socket: tokio::net::TcpStream,
    heard: String,
}

impl Listening {
    async fn to(address: std::net::SocketAddr, token: &str) -> Self {
        use tokio::io::AsyncWriteExt as _;
        let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
        let head = format!("GET /api/v1/events HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\r\n");
        socket.write_all(head.as_bytes()).await.unwrap();
        Listening {
            socket,
            heard: String::new(),
        }
    }

    /// An event of that name that is as expected, whenever it came.
    async fn until(&mut self, name: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
        use tokio::io::AsyncReadExt as _;
        let deadline = tokio::time::Instant::now() + super::server::PATIENCE;
        loop {
            // Between events stand the lengths of chunks.
            let whole = self.heard.rfind("\n\n").map_or("", |end| &self.heard[..end]);
            for piece in whole
                .split("\n\n")
                .filter_map(|piece| Some(&piece[piece.find("event: ")?..]))
            {
                for (found, _, data) in events(piece) {
                    if found == name && is_expected(&data) {
                        return data;
                    }
                }
            }
            let mut bytes = [0; 16 << 10];
            let read = tokio::time::timeout_at(deadline, self.socket.read(&mut bytes)).await;
            let read = read.unwrap_or_else(|_| panic!("no {name} in {}", self.heard)).unwrap();
            assert!(read > 0, "the stream ended without {name}: {}", self.heard);
            self.heard.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    }
}
