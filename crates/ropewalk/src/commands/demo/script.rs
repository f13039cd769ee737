//! The story: one long conversation in Claude Code with everything that happens to such conversations, a short one in Codex,
//! and programs: one with a tool, one that quotes the first conversation, and one that asks twice.

use std::net::SocketAddr;
use std::time::Duration;

use http::Method;
use serde_json::Value;

use super::claude::{Call, Claude};
use super::openai::{Codex, Program};
use crate::client::{Sent, Until, send};
use crate::failure::{Failure, Kind};
use crate::print::out::say;

/// What there is to look at afterwards.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) exchanges: usize,
    /// The exchange that goes on from a summary.
    pub(super) continued: String,
    /// What a program quoted, and the exchange in which it did.
    pub(super) reference: String,
    pub(super) quoting: String,
}

const SESSION: &str = "d3300000-0000-4000-8000-000000000001";
const FORKED_SESSION: &str = "d3300000-0000-4000-8000-000000000002";
const THREAD: &str = "d3300000-0000-7000-8000-000000000003";

/// `token` is that of the API.
pub(super) async fn tell(proxy: SocketAddr, token: &str) -> Result<Told, Failure> {
    let mut told = Told::default();
    let mut claude = Claude::new(proxy, SESSION);
    mend_a_bug(&mut claude).await?;
    try_other_words(&mut claude, &mut told).await?;
    start_agents(&mut claude, &mut told).await?;
    work_in_the_background(&mut claude, &mut told).await?;
    interrupt(&mut claude).await?;
    go_on_from_a_summary(&mut claude, &mut told).await?;
    told.exchanges += claude.exchanges;
    say("- Codex: a slow build, over the Responses API");
    let mut codex = Codex::new(proxy, THREAD);
    codex.begin().await?;
    codex.say("Why is the build slow?").await?;
    codex.give("check 12.0s, codegen 6.8s, link 41.2s").await?;
    codex.say("Try the other linker.").await?;
    say("- a program: one question with a tool, over Chat Completions");
    let mut program = Program::new(proxy);
    program.say("What is the capital of Iceland?").await?;
    program.give("Reykjavik, 139,000").await?;
    told.exchanges += codex.exchanges + program.exchanges;
    quote(proxy, token, &mut told).await?;
    say("- the same question twice: the second answer is from the store");
    for _ in 0..2 {
        let mut program = Program::reusing(proxy);
        program.say("When did Iceland become a republic?").await?;
        told.exchanges += program.exchanges;
    }
    Ok(told)
}

/// A program writes a reference to an answer in Claude Code; the proxy adds the words of that answer.
async fn quote(proxy: SocketAddr, token: &str, told: &mut Told) -> Result<(), Failure> {
    told.reference = newest_answer(proxy, token).await?;
    say(&format!(
        "- a program quotes the conversation in Claude Code: {}",
        told.reference
    ));
    let mut program = Program::new(proxy);
    let asked = format!("A line for the release notes, please. What is left: {}", told.reference);
    program.say(&asked).await?;
    told.quoting.clone_from(&program.exchange);
    told.exchanges += program.exchanges;
    Ok(())
}

/// The name of the last answer in the conversation about leap days, which it has soon after the answer has ended.
async fn newest_answer(proxy: SocketAddr, token: &str) -> Result<String, Failure> {
    /// Naming takes milliseconds; a busy machine takes its time.
    const TRIES_MAX: usize = 600;
    const PAUSE: Duration = Duration::from_millis(50);
    let headers = || vec![("authorization", format!("Bearer {token}"))];
    for _ in 0..TRIES_MAX {
        let asked = Sent::bare(Method::GET, "/api/v1/references?q=leap_days", headers());
        let answer = send(proxy, &asked, Until::End).await?;
        let said: Value = serde_json::from_str(&answer.text).unwrap_or_default();
        let newest = said["suggestions"].as_array().and_then(|all| {
            let message = all.iter().find(|suggestion| suggestion["kind"] == "message")?;
            let is_last = message["text"].as_str()?.contains("and then the commit");
            message["reference"].as_str().filter(|_| is_last)
        });
        if let Some(reference) = newest {
            return Ok(reference.to_owned());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(Failure::new(
        Kind::Internal,
        "the demonstration's conversation has no name",
    ))
}

/// Four turns with tools; a second question, whose first request the provider refuses.
async fn mend_a_bug(claude: &mut Claude) -> Result<(), Failure> {
    say("- Claude Code: a bug, its repair with tools, and a retry after an error");
    let prompt = "29 February is refused by parse_date, but 2024 has one. Find out why and mend it.";
    claude.begin(prompt).await?;
    let calls = claude.say(prompt).await?;
    let source = "fn days_in_month(year: u16, month: u8) -> u8 {\n    match month {\n        2 => 28,\n        4 | 6 | 9 | 11 => 30,\n        _ => 31,\n    }\n}";
    let calls = claude.give(&calls, &[source, "src/date.rs:17\nsrc/date.rs:41"]).await?;
    let calls = claude.give(&calls, &["The file src/date.rs has been updated."]).await?;
    claude.give(&calls, &["test result: ok. 12 passed; 0 failed"]).await?;
    claude.hear("Also add a test for the year 1900.");
    claude.fail().await?;
    let calls = claude.ask().await?;
    claude
        .give(&calls, &["The file tests/date.rs has been updated."])
        .await?;
    Ok(())
}

/// The same request again gets another answer; another question at the same place is an edit.
async fn try_other_words(claude: &mut Claude, told: &mut Told) -> Result<(), Failure> {
    say("- a second answer to the same question, and another question in its place");
    let mut again = claude.forked(SESSION);
    let mut edited = claude.forked(FORKED_SESSION);
    claude.say("Write a commit message.").await?;
    again.say("Write a commit message.").await?;
    edited.say("Write a line for the changelog.").await?;
    told.exchanges += again.exchanges + edited.exchanges;
    Ok(())
}

/// Two side by side, one of which starts a third. By now the system prompt is another one.
async fn start_agents(claude: &mut Claude, told: &mut Told) -> Result<(), Failure> {
    say("- two agents side by side, one with an agent of its own; another system prompt");
    claude
        .system
        .push_str("\nThe user reads on a phone: one sentence is enough.");
    let calls = claude.say("Let two agents review the change.").await?;
    let [review, check] = &calls[..] else {
        return Err(not_as_written(&calls));
    };
    let mut reviewer = claude.subagent(review, "a1c0de0000000001");
    let mut checker = claude.subagent(check, "a1c0de0000000002");
    let (reviewed, checked) = tokio::join!(review_with_help(&mut reviewer), check_a_page(&mut checker));
    told.exchanges += reviewed? + reviewer.exchanges + checker.exchanges;
    checked?;
    let reports = [(&reviewer, "a1c0de0000000001"), (&checker, "a1c0de0000000002")];
    let reports = reports.map(|(agent, id)| format!("{}\nagentId: {id}", agent.last_text()));
    claude.give(&calls, &[&reports[0], &reports[1]]).await?;
    Ok(())
}

/// Gives the number of requests that its own agent made.
async fn review_with_help(reviewer: &mut Claude) -> Result<usize, Failure> {
    let calls = reviewer.ask().await?;
    let [find] = &calls[..] else {
        return Err(not_as_written(&calls));
    };
    let mut finder = reviewer.subagent(find, "a1c0de0000000003");
    let searches = finder.ask().await?;
    let found = "src/date.rs:41: days_in_month(year, month)\nsrc/span.rs:9: days_in_month(year, next)";
    finder.give(&searches, &[found]).await?;
    let report = format!("{}\nagentId: a1c0de0000000003", finder.last_text());
    reviewer.give(&calls, &[&report]).await?;
    Ok(finder.exchanges)
}

async fn check_a_page(checker: &mut Claude) -> Result<(), Failure> {
    let calls = checker.ask().await?;
    checker
        .give(&calls, &["docs/dates.md:7: February has 28 days."])
        .await?;
    Ok(())
}

/// The agent that started it goes on meanwhile, and is told when it is done.
async fn work_in_the_background(claude: &mut Claude, told: &mut Told) -> Result<(), Failure> {
    say("- an agent in the background, and word from it");
    let id = "a1c0de0000000004";
    let calls = claude.say("Fuzz the parser in the background.").await?;
    let [start] = &calls[..] else {
        return Err(not_as_written(&calls));
    };
    let mut fuzzer = claude.subagent(start, id);
    let launched = format!("Async agent launched successfully.\nagentId: {id}");
    let launched = [&*launched];
    let (answered, fuzzed) = tokio::join!(claude.give(&calls, &launched), async {
        let runs = fuzzer.ask().await?;
        fuzzer.give(&runs, &["Done 1000000 runs in 12 second(s)"]).await
    });
    answered?;
    fuzzed?;
    told.exchanges += fuzzer.exchanges;
    let notification = format!(
        "<task-notification>\n<task-id>{id}</task-id>\n<tool-use-id>{}</tool-use-id>\n<status>completed</status>\n\
         <result>{}</result>\n</task-notification>",
        start.id(),
        fuzzer.last_text()
    );
    claude.say(&notification).await?;
    Ok(())
}

/// The user has seen enough of an answer and asks for a shorter one.
async fn interrupt(claude: &mut Claude) -> Result<(), Failure> {
    /// About half of the answer.
    const ENOUGH_BYTES: usize = 2_000;
    say("- an answer that the user interrupts");
    claude.hear("Explain parse_date line by line.");
    claude.interrupt(ENOUGH_BYTES).await?;
    claude.say("In two sentences, please.").await?;
    Ok(())
}

async fn go_on_from_a_summary(claude: &mut Claude, told: &mut Told) -> Result<(), Failure> {
    say("- a compaction: the conversation goes on from its summary");
    claude.compact().await?;
    claude.say("What is left to do?").await?;
    told.continued = claude.exchange.clone();
    Ok(())
}

fn not_as_written(calls: &[Call]) -> Failure {
    Failure::new(
        Kind::Internal,
        format!("the demonstration's provider called {} tools", calls.len()),
    )
}
