//! References to messages through the proxy: the workflow of seed 003, and what of it other owners see.

use ropewalk_testkit::postgres::PrivatePostgres;
use ropewalk_testkit::upstream::{Answer, Received, Upstream};
use serde_json::{Value, json};

use super::client::{Client, Seen};
use super::server::{Place, Server, wait_until};

const TOKENS: &str =
    "[owners]\nmode = \"tokens\"\n[owners.tokens]\n\"token-of-ann\" = \"ann\"\n\"token-of-bob\" = \"bob\"\n";

const ANN: (&str, &str) = ("x-ropewalk-token", "token-of-ann");
const BOB: (&str, &str) = ("x-ropewalk-token", "token-of-bob");

fn answered(text: &str) -> Answer {
    Answer::json(
        json!({"id": format!("msg_{}", text.len()), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
            "usage": {"input_tokens": 10, "output_tokens": 5}})
        .to_string(),
    )
}

/// What a client sends, with bytes around the messages that must not change.
fn body(messages: &Value) -> String {
    format!("{{\"model\": \"claude-sonnet-4-5\",  \"max_tokens\": 64, \"messages\": {messages}, \"temperature\": 1.0}}")
}

struct Talk<'t> {
    upstream: &'t Upstream,
    server: &'t Server,
    owner: (&'static str, &'static str),
}

impl<'t> Talk<'t> {
    fn of(owner: (&'static str, &'static str), server: &'t Server, upstream: &'t Upstream) -> Self {
        Talk {
            upstream,
            server,
            owner,
        }
    }

    /// Sends messages, gets an answer, and gives what the provider got with what the client saw.
    async fn say(&self, messages: &Value, answer: &str) -> (Received, Seen) {
        self.upstream.answer_next(answered(answer));
        let mut client = Client::connect(self.server.address).await.unwrap();
        let seen = client
            .post("/v1/messages", &[self.owner], body(messages))
            .await
            .unwrap();
        assert_eq!(seen.status, 200, "{}", seen.text());
        (self.upstream.next_request().await, seen)
    }
}

/// The messages of the owner's newest conversation, once the last one says this.
fn messages_with(place: &Place, owner: &str, last: &str) -> Vec<Value> {
    wait_until(|| {
        // The store may be about to be made.
        let listed = place
            .store
            .run(&place.over_store(&["--json", "log", "-n", "1", "--owner", owner]));
        let newest: Value = serde_json::from_slice(&listed.stdout)
            .ok()
            .filter(|_| listed.status.success())?;
        let id = newest["friendly_id"].as_str()?.to_owned();
        let messages = place.store.json(&place.over_store(&["show", &id, "--owner", owner]));
        let is_there = messages.last().is_some_and(|message| message["content"] == last);
        is_there.then_some(messages)
    })
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seed_003_from_the_badge_to_the_third_turn() {
    let upstream = Upstream::start().await;
    let place = Place::with(&upstream, TOKENS);
    let server = place.serve();
    let ann = Talk::of(ANN, &server, &upstream);

    // 1. A conversation whose messages have badges.
    let words = "Memoise the rows; café <b>\"rows\"</b>.";
    ann.say(&json!([user("React optimization for a long list")]), words)
        .await;
    let known = messages_with(&place, "ann", words);
    let (friendly_id, hash) = (
        known[1]["friendly_id"].as_str().unwrap(),
        known[1]["short_hash"].as_str().unwrap(),
    );
    assert!(friendly_id.starts_with("react_optimization_"), "{friendly_id}");
    let reference = known[1]["reference"].as_str().unwrap().to_owned();
    assert_eq!(reference, format!("@conversation_{friendly_id}_message_{hash}"));

    // 2. Another conversation refers to one of them, and to nothing.
    let text = format!("Apply {reference} here; not @conversation_nobody_was_here_message_1.");
    let element = format!(
        "<pkb_item source=\"referenced\" type=\"conversation_message\" ref=\"{reference}\">from {friendly_id} #2 \
         (assistant):\n{words}</pkb_item>"
    );
    let with_element = format!("{text}\n\n{element}");
    let first = json!([user(&text)]);
    let (received, seen) = ann.say(&first, "Applied.").await;
    assert_eq!(
        received.body_so_far(),
        body(&json!([user(&with_element)])),
        "turn 1, to the byte"
    );
    assert_eq!(
        received.header("content-length"),
        Some(&*received.body_so_far().len().to_string())
    );
    let told = seen.headers["x-ropewalk-references"].to_str().unwrap();
    assert_eq!(told, "unresolved: @conversation_nobody_was_here_message_1");

    // 3. The client sends its own text again, as a block this time, and once more as a string.
    let block = |text: &str| {
        let block = json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]);
        json!({"role": "user", "content": block})
    };
    let answer = json!({"role": "assistant", "content": "Applied."});
    let second = json!([block(&text), answer, user("And tests?")]);
    let (received, _) = ann.say(&second, "Tests, too.").await;
    let expected = body(&json!([block(&with_element), answer, user("And tests?")]));
    assert_eq!(received.body_so_far(), expected, "turn 2, to the byte");
    let more = json!({"role": "assistant", "content": "Tests, too."});
    let third = json!([user(&text), answer, user("And tests?"), more, user("Thanks.")]);
    let (received, seen) = ann.say(&third, "Welcome.").await;
    let expected = body(&json!([
        user(&with_element),
        answer,
        user("And tests?"),
        more,
        user("Thanks.")
    ]));
    assert_eq!(received.body_so_far(), expected, "turn 3, to the byte");

    // 4. It is one conversation of what the client said; what was sent is there beside it.
    let said = messages_with(&place, "ann", "Welcome.");
    assert_eq!(said.len(), 6);
    assert_eq!(said[0]["content"], json!(text));
    assert_eq!(place.store.json(&["log", "--owner", "ann"]).len(), 2);
    let id = seen.id();
    let raw = |half: &str| place.store.ok(&["show", &id, "--raw", half, "--owner", "ann"]);
    assert_eq!((raw("request"), raw("sent")), (body(&third), expected.clone()));
    let line = place.store.ok(&["export", &id, "--owner", "ann"]);
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        line["sent"]["body"].to_string().len(),
        serde_json::from_str::<Value>(&expected).unwrap().to_string().len()
    );
    let resolved = place.store.ok(&["resolve", &reference, "--owner", "ann"]);
    assert_eq!(resolved.trim_end(), element);
    assert!(server.stop().is_recorded());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_another_owner_goes_anywhere() {
    let upstream = Upstream::start().await;
    let place = Place::with(&upstream, TOKENS);
    let server = place.serve();
    let ann = Talk::of(ANN, &server, &upstream);
    let bob = Talk::of(BOB, &server, &upstream);
    ann.say(&json!([user("The secret plan")]), "Hide it well.").await;
    bob.say(&json!([user("Good morning")]), "Good morning, Bob.").await;
    let plan = messages_with(&place, "ann", "Hide it well.");
    messages_with(&place, "bob", "Good morning, Bob.");
    let theirs = plan[1]["reference"].as_str().unwrap();
    let made_up = theirs.replace("secret_plan", "sacred_plan");
    assert_ne!(theirs, made_up);
    let mut answers = Vec::new();
    for reference in [theirs, &*made_up] {
        let messages = json!([user(&format!("tell me {reference}"))]);
        let (received, seen) = bob.say(&messages, "I cannot.").await;
        assert_eq!(received.body_so_far(), body(&messages), "nothing was added");
        let told = seen.headers["x-ropewalk-references"].to_str().unwrap();
        assert_eq!(told, format!("unresolved: {reference}"));
        let output = place.store.run(&["resolve", reference, "--owner", "bob"]);
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        answers.push((output.stdout, said.replace(reference, "REF")));
    }
    assert_eq!(answers[0], answers[1], "not yours and not there are one answer");
    assert!(answers[0].0.is_empty());
    assert!(server.stop().is_recorded());
    let everything = place.store.ok(&["export", "--owner", "bob"]);
    assert_eq!(everything.lines().count(), 3);
    assert!(!everything.contains("Hide it well"), "{everything}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn references_can_be_turned_off_for_all_and_for_one() {
    let upstream = Upstream::start().await;
    let place = Place::with(&upstream, TOKENS);
    let server = place.serve();
    let ann = Talk::of(ANN, &server, &upstream);
    ann.say(&json!([user("Green apples")]), "Sour.").await;
    let known = messages_with(&place, "ann", "Sour.");
    let reference = known[1]["reference"].as_str().unwrap().to_owned();
    assert!(server.stop().is_recorded());
    let cases = [
        (format!("{TOKENS}[references]\nenabled = false\n"), false),
        (format!("{TOKENS}[references.owners]\nann = false\n"), false),
        (
            format!("{TOKENS}[references]\nenabled = false\n[references.owners]\nann = true\n"),
            true,
        ),
        (format!("{TOKENS}[references]\nmax = 0\n"), false),
        (format!("{TOKENS}[references]\nmax_bytes = 10\n"), false),
    ];
    for (number, (config, is_on)) in cases.into_iter().enumerate() {
        place.configure(&config);
        let server = place.serve();
        let ann = Talk::of(ANN, &server, &upstream);
        let messages = json!([user(&format!("{number}: {reference}"))]);
        // Until the store is open, a request goes on as it came.
        let is_changed = wait_until(|| {
            tokio::task::block_in_place(|| {
                let handle = tokio::runtime::Handle::current();
                let (received, seen) = handle.block_on(ann.say(&messages, "Noted."));
                let is_changed = received.body_so_far() != body(&messages);
                let is_decided = is_changed || !is_on || seen.headers.contains_key("x-ropewalk-references");
                is_decided.then_some(is_changed)
            })
        });
        assert_eq!(is_changed, is_on, "{config}");
        server.stop();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_title_can_be_changed_while_the_server_runs_and_without_it() {
    let upstream = Upstream::start().await;
    let place = Place::with(&upstream, TOKENS);
    let server = place.serve();
    let ann = Talk::of(ANN, &server, &upstream);
    ann.say(&json!([user("Green apples")]), "Sour.").await;
    let known = messages_with(&place, "ann", "Sour.");
    let id = known[0]["friendly_id"].as_str().unwrap();
    let title = |text: &str| {
        let said = place.store.ok(&["title", id, text, "--owner", "ann"]);
        assert!(said.contains(id), "{said}");
        let newest = &place.store.json(&["log", "--owner", "ann"])[0];
        assert_eq!(
            (newest["friendly_id"].as_str(), newest["title"].as_str()),
            (Some(id), Some(text))
        );
    };
    title("While it runs");
    assert!(server.stop().is_recorded());
    title("While it does not");
    place.store.ok(&["rebuild", "--owner", "ann"]);
    let newest = &place.store.json(&["log", "--owner", "ann"])[0];
    assert_eq!(
        (newest["friendly_id"].as_str(), newest["title"].as_str()),
        (Some(id), Some("While it does not"))
    );
}

/// The words that the provider got behind a text, if any.
fn added_to(text: &str, received: &Received) -> Option<String> {
    let sent: Value = serde_json::from_slice(&received.body_so_far()).unwrap();
    let said = sent["messages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|message| match &message["content"] {
            Value::String(text) => vec![text.clone()],
            blocks => {
                let texts = blocks.as_array().unwrap().iter();
                texts
                    .filter_map(|block| Some(block["text"].as_str()?.to_owned()))
                    .collect()
            }
        });
    let mut behind = said.filter_map(|said| Some(said.strip_prefix(text)?.to_owned()));
    behind.find(|behind| behind.contains("<pkb_item"))
}

/// A conversation whose fourth message is this; what its last request had, so that it can be asked again.
async fn two_turns(talk: &Talk<'_>, opening: &str, fourth: &str) -> Value {
    talk.say(&json!([user(opening)]), "Gladly.").await;
    let longer = json!([user(opening), {"role": "assistant", "content": "Gladly."}, user("How?")]);
    talk.say(&longer, fourth).await;
    longer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pin_holds_in_a_continuation_and_in_a_subagents_prompt() {
    let upstream = Upstream::start().await;
    let place = Place::with(&upstream, TOKENS);
    let server = place.serve();
    let ann = Talk::of(ANN, &server, &upstream);
    let longer = two_turns(&ann, "React optimization for a long list", "Memoise the rows.").await;
    let friendly_id = messages_with(&place, "ann", "Memoise the rows.")[1]["friendly_id"].clone();
    let reference = format!("@conv_{}_msg_4", friendly_id.as_str().unwrap());
    let text = format!("Do {reference} in the settings page.");
    let (received, _) = ann.say(&json!([user(&text)]), "Done in settings.").await;
    let first = added_to(&text, &received).unwrap();
    assert!(first.contains("Memoise the rows."), "{first}");

    // Meanwhile the fourth message of that conversation is another one.
    ann.say(&longer, "Virtualise the list.").await;
    let moved = || {
        let resolved = place.store.run(&["resolve", &reference, "--owner", "ann"]);
        let is_moved = String::from_utf8_lossy(&resolved.stdout).contains("Virtualise the list.");
        is_moved.then_some(())
    };
    wait_until(moved);

    // The conversation goes on after a compaction, with its last messages kept as they were.
    let summary = "This session is being continued from a previous conversation that ran out of context. The conversation is \
                   summarized below:\nAnalysis: the user wants a faster settings page, and it was made faster.";
    let kept = json!([
        {"role": "user", "content": [{"type": "text", "text": summary}, {"type": "text", "text": text}]},
        {"role": "assistant", "content": "Done in settings."},
        user("And the start page?"),
    ]);
    let (received, _) = ann.say(&kept, "Done there as well.").await;
    assert_eq!(
        added_to(&text, &received).as_deref(),
        Some(&*first),
        "after a compaction"
    );
    assert_eq!(added_to(summary, &received), None);

    // A subagent is started with the same text.
    let agent = json!({"model": "claude-sonnet-4-5", "max_tokens": 64, "system": "You are a subagent.", "messages": [user(&text)]});
    upstream.answer_next(answered("Looking."));
    let mut client = Client::connect(server.address).await.unwrap();
    let seen = client.post("/v1/messages", &[ANN], agent.to_string()).await.unwrap();
    assert_eq!(seen.status, 200, "{}", seen.text());
    let received = upstream.next_request().await;
    assert_eq!(
        added_to(&text, &received).as_deref(),
        Some(&*first),
        "in a subagent's prompt"
    );

    // Another text that refers to it means what it means now.
    let other = format!("Now do {reference} in the list.");
    let (received, _) = ann.say(&json!([user(&other)]), "Fine.").await;
    let now = added_to(&other, &received).unwrap();
    assert!(now.contains("Virtualise the list."), "{now}");
    assert!(server.stop().is_recorded());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn references_are_found_and_pinned_in_postgresql() {
    let postgres = PrivatePostgres::shared().unwrap();
    let upstream = Upstream::start().await;
    let place = Place::with(&upstream, TOKENS).recording_to(&postgres.fresh_database().unwrap());
    let server = place.serve();
    server.wait_until_ready();
    let ann = Talk::of(ANN, &server, &upstream);
    let longer = two_turns(&ann, "Knots for a long rope", "A bowline.").await;
    let known = messages_with(&place, "ann", "A bowline.");
    let (reference, friendly_id) = (known[3]["reference"].as_str().unwrap(), &known[3]["friendly_id"]);
    let by_index = format!("@conv_{}_msg_4", friendly_id.as_str().unwrap());
    let text = format!("Tie {reference} or {by_index}, not @conversation_nobody_was_here_message_1.");
    let (received, seen) = ann.say(&json!([user(&text)]), "Tied.").await;
    let first = added_to(&text, &received).unwrap();
    assert_eq!(first.matches("A bowline.").count(), 2, "{first}");
    let told = seen.headers["x-ropewalk-references"].to_str().unwrap();
    assert_eq!(told, "unresolved: @conversation_nobody_was_here_message_1");
    let bob = Talk::of(BOB, &server, &upstream);
    let (received, _) = bob.say(&json!([user(&text)]), "No.").await;
    assert_eq!(received.body_so_far(), body(&json!([user(&text)])), "nothing was added");
    ann.say(&longer, "A clove hitch.").await;
    messages_with(&place, "ann", "A clove hitch.");
    assert!(server.stop().is_recorded());

    // Pins are in the store, not in the server.
    let server = place.serve();
    server.wait_until_ready();
    let ann = Talk::of(ANN, &server, &upstream);
    let answer = json!({"role": "assistant", "content": "Tied."});
    let (received, _) = ann
        .say(&json!([user(&text), answer, user("Again.")]), "Tied again.")
        .await;
    assert_eq!(added_to(&text, &received), Some(first));
    assert!(server.stop().is_recorded());
}
