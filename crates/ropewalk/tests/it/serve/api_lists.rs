//! What the API lists and adds up is what the command line does, by whatever it is asked for, and as it was at any time.

use http::StatusCode;
use serde_json::{Value, json};

use super::api::{Caller, two_owners};
use super::server::Place;
use crate::store::{jsonl, turn};

/// What a verb prints for Ann.
fn of_verb(place: &Place, arguments: &[&str]) -> Vec<Value> {
    let mut all = vec!["--owner", "ann"];
    all.extend(arguments);
    place.store.json(&all)
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_filtered_as_on_the_command_line() {
    let (_upstream, place) = two_owners().await;
    let exchanges = of_verb(&place, &["log", "--exchanges"]);
    let second = exchanges.iter().find(|one| one["id"] == "talk-2b").unwrap();
    let branch = second["branch_id"].as_str().unwrap();
    let hash = &second["request_sha256"].as_str().unwrap()[..10];
    let filters = [
        ("model", "sonnet"),
        ("model", "nobody"),
        ("branch", branch),
        ("agent", "nobody"),
        ("hash", hash),
        ("grep", "quarter"),
        ("grep", "depends"),
    ];
    let mut cases = Vec::new();
    for (name, value) in filters {
        let flag = format!("--{name}");
        cases.push((
            format!("/api/v1/exchanges?{name}={value}"),
            "exchanges",
            of_verb(&place, &["log", "--exchanges", &flag, value]),
        ));
        // Of conversations, model and agent are told by any part of their names.
        if ["branch", "hash", "grep"].contains(&name) {
            cases.push((
                format!("/api/v1/conversations?{name}={value}"),
                "conversations",
                of_verb(&place, &["log", &flag, value]),
            ));
        }
    }
    let server = place.serve();
    server.wait_until_ready();
    let mut ann = Caller::new(&server, "anns-token").await;
    for (path, list, expected) in &cases {
        assert_eq!(ann.all(path, list, "next_cursor").await, *expected, "{path}");
    }
    assert!(cases.iter().any(|(_, _, expected)| expected.len() == 1), "some choose");
    assert!(cases.iter().any(|(_, _, expected)| expected.len() > 1), "some do not");
    for path in ["exchanges?hash=xyz", "conversations?hash="] {
        let seen = ann.get(&format!("/api/v1/{path}")).await;
        assert_eq!(seen.status, StatusCode::BAD_REQUEST, "{path}: {}", seen.text());
    }
    // Nobody chooses among what is another's.
    let mut bob = Caller::new(&server, "bobs-token").await;
    for path in [format!("exchanges?hash={hash}"), "exchanges?grep=quarter".to_owned()] {
        let seen = bob.json(&format!("/api/v1/{path}")).await;
        assert_eq!(seen["exchanges"], json!([]), "{path}");
    }
    assert!(server.stop().is_recorded());
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_are_by_what_is_asked_for_as_on_the_command_line() {
    let (_upstream, place) = two_owners().await;
    let kinds = ["project", "session", "conversation", "branch", "agent"];
    let expected = kinds.map(|by| of_verb(&place, &["stats", "--by", by]).remove(0)["by"].clone());
    let server = place.serve();
    server.wait_until_ready();
    let mut ann = Caller::new(&server, "anns-token").await;
    for (by, expected) in kinds.iter().zip(&expected) {
        let stats = ann.json(&format!("/api/v1/stats?by={by}")).await;
        assert_eq!(stats["by"], *expected, "{by}");
        assert_eq!(stats["by_left_out"], 0);
    }
    let all = expected[2].as_object().unwrap();
    let one = ann.json("/api/v1/stats?by=conversation&limit=1").await;
    let [(id, sums)] = &one["by"].as_object().unwrap().iter().collect::<Vec<_>>()[..] else {
        panic!("{one}");
    };
    assert_eq!(all[*id], **sums);
    assert!(
        all.values()
            .all(|other| other["cost_usd"].as_f64() <= sums["cost_usd"].as_f64())
    );
    assert_eq!(one["by_left_out"], all.len() - 1);
    let stats = ann.json("/api/v1/stats").await;
    assert_eq!((&stats["by"], &stats["by_left_out"]), (&Value::Null, &json!(0)));
    let came: u64 = stats["bytes_by_day"]
        .as_object()
        .unwrap()
        .values()
        .map(|day| day.as_u64().unwrap())
        .sum();
    assert_eq!(json!(came), stats["storage"]["bytes_in"]);
    assert_eq!(ann.get("/api/v1/stats?by=colour").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(ann.json("/api/v1/health").await["owner"], "ann");
    assert!(server.stop().is_recorded());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_list_is_as_it_was_at_a_time() {
    let (_upstream, place) = two_owners().await;
    let request = json!({"model": "claude-sonnet-4-5", "max_tokens": 64,
        "messages": [{"role": "user", "content": "How long is a rope?"}]});
    let file = place.store.file("request.json", &request.to_string());
    let file = file.to_str().unwrap().to_owned();
    let verbs: [(&[&str], &str, Option<&str>); 11] = [
        (&["log"], "conversations", Some("conversations")),
        (&["log", "--exchanges"], "exchanges", Some("exchanges")),
        (&["show", "talk-1", "--tree"], "sessions/talk-1/messages", None),
        (&["tree"], "agents", Some("agents")),
        (&["stats", "--cache"], "cache/stats", None),
        (&["stats", "--waste"], "waste", None),
        (&["suggest"], "suggestions", None),
        (&["templates", "--times", "2"], "templates?times=2", None),
        (&["blame", "talk-1", "--timeline"], "timeline?ref=talk-1", None),
        (&["diff", "talk-1", "talk-1"], "diff?a=talk-1&b=talk-1", None),
        (&["show", "talk-1", "--answers"], "answers?ref=talk-1", Some("answers")),
    ];
    // Between the turns of the talk, and before the stranger.
    let times = ["2026-03-01T10:00:05Z", "2026-03-01T10:00:15Z", "2026-03-01T10:00:25Z"];
    let mut cases = Vec::new();
    for time in times {
        for (arguments, path, list) in verbs {
            let mut all = vec!["--as-of", time];
            all.extend(arguments);
            cases.push((path, time, list, of_verb(&place, &all)));
        }
    }
    let matched = times.map(|time| of_verb(&place, &["--as-of", time, "match", &file]).remove(0));
    let sums = times.map(|time| of_verb(&place, &["--as-of", time, "stats"]).remove(0));
    let server = place.serve();
    server.wait_until_ready();
    let mut ann = Caller::new(&server, "anns-token").await;
    for (path, time, list, expected) in cases {
        let mark = if path.contains('?') { '&' } else { '?' };
        let mut answer = ann.json(&format!("/api/v1/{path}{mark}as_of={time}")).await;
        let Some(list) = list else {
            let members = answer.as_object_mut().unwrap();
            members.retain(|name, _| expected[0].get(name).is_some());
            assert_eq!(answer, expected[0], "{path} at {time}");
            continue;
        };
        let listed = answer[list].as_array().unwrap();
        assert_eq!(listed.len(), expected.len(), "{path} at {time}");
        for (one, other) in listed.iter().zip(&expected) {
            let of_line = |value: &Value| value.as_object().unwrap().clone();
            let mut line = of_line(other);
            if one.get("v").is_none() {
                line.remove("v");
            }
            assert_eq!(of_line(one), line, "{path} at {time}");
        }
    }
    for ((time, matched), sums) in times.iter().zip(&matched).zip(&sums) {
        let seen = ann.post(&format!("/api/v1/match?as_of={time}"), &request).await;
        let answer: Value = serde_json::from_slice(&seen.body).unwrap();
        for member in ["outcome", "depth", "node"] {
            assert_eq!(answer.get(member), matched.get(member), "{member} at {time}: {answer}");
        }
        let stats = ann.json(&format!("/api/v1/stats?as_of={time}")).await;
        assert_eq!(stats["models"], sums["models"], "{time}");
    }
    assert!(server.stop().is_recorded());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orphan_says_why_it_is_one() {
    let (_upstream, place) = two_owners().await;
    let mut line = turn("orphan-1", 40, &["Look at the shadow.", "It is long."]);
    line["request"]["headers"] = json!({
        "x-claude-code-session-id": "5f0c0000-0000-4000-8000-000000000009",
        "x-claude-code-agent-id": "agent-shadow",
        "x-claude-code-parent-agent-id": "agent-of-nobody",
    });
    let file = place.store.file("orphan.jsonl", &jsonl(&[line]));
    place.store.ok(&["--owner", "ann", "import", file.to_str().unwrap()]);
    let server = place.serve();
    server.wait_until_ready();
    let mut ann = Caller::new(&server, "anns-token").await;
    let agents = ann.json("/api/v1/agents").await;
    let agents = agents["agents"].as_array().unwrap();
    let (orphans, others): (Vec<&Value>, Vec<&Value>) = agents.iter().partition(|agent| agent["orphan"] == true);
    let [orphan] = orphans[..] else { panic!("{agents:?}") };
    assert_eq!(
        orphan["orphan_reason"],
        "names the agent `agent-of-nobody` as the one that started it, of which nothing was recorded"
    );
    assert!(others.iter().all(|agent| agent["orphan_reason"].is_null()));
    assert!(server.stop().is_recorded());
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_and_hashes_are_those_of_the_command_line() {
    let (_upstream, place) = two_owners().await;
    let request = json!({"model": "claude-sonnet-4-5", "max_tokens": 64,
        "messages": [{"role": "user", "content": "How long is a rope?"}]});
    let file = place.store.file("request.json", &request.to_string());
    place
        .store
        .ok(&["--owner", "ann", "title", "talk-1", "Of ropes and their walks"]);
    let printed = place.store.json(&["hash", file.to_str().unwrap(), "--chain"]).remove(0);
    let server = place.serve();
    server.wait_until_ready();
    let mut ann = Caller::new(&server, "anns-token").await;
    let seen = ann.post("/api/v1/hash?chain=true", &request).await;
    let hashes: Value = serde_json::from_slice(&seen.body).unwrap();
    for (name, value) in hashes.as_object().unwrap() {
        assert_eq!(printed.get(name).unwrap_or(&Value::Null), value, "{name}");
    }
    assert_eq!(
        ann.post("/api/v1/hash", &json!({"words": 1})).await.status,
        StatusCode::BAD_REQUEST
    );
    // That somebody used a token is noted as well; of each owner their own.
    let mut bob = Caller::new(&server, "bobs-token").await;
    let _ = bob.json("/api/v1/audit").await;
    for (caller, expected) in [(&mut ann, &["api token", "title"][..]), (&mut bob, &["api token"])] {
        let changes = caller.all("/api/v1/audit", "changes", "next_cursor").await;
        let verbs: Vec<&str> = changes.iter().map(|change| change["verb"].as_str().unwrap()).collect();
        assert_eq!(verbs, expected);
    }
    let none = ann.json("/api/v1/audit?since=2999-01-01T00:00:00Z").await;
    assert_eq!(none["changes"], json!([]));
    assert_eq!(ann.get("/api/v1/audit?cursor=x").await.status, StatusCode::BAD_REQUEST);
    assert!(server.stop().is_recorded());
}
