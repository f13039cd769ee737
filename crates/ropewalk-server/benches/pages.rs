//! What a page of a long conversation costs, through the API from SQLite: `make bench-pages`.
//!
//! One conversation of 50,000 turns, whose last request has 100,000 messages; the same again as a client's log tells it, with a record
//! for each message; and one whose first request brings them all. Turns is an argument. The goal is a page within 50 ms.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark may fail and talk"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use bytes::Bytes;
use http::Request;
use ropewalk_core::cost::BundledPrices;
use ropewalk_core::model::Provider;
use ropewalk_engine::link::RECORDED_BYTES_MAX;
use ropewalk_engine::logged::{LogMessage, LogPreparer, LogTurn, MessageNumber};
use ropewalk_engine::prepare::{Prepared, Preparer};
use ropewalk_engine::spawn::SpawnTools;
use ropewalk_engine::{RawExchange, Recorder, Witness};
use ropewalk_server::{Access, Api, Problem, Source};
use ropewalk_store::facts::{OwnerId, Provenance};
use ropewalk_store::log::{LogChanges, RecordKind, RecordRow};
use ropewalk_store::{Micros, Sqlite, sqlite};
use serde_json::Value;

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TURNS: usize = 50_000;
const ASKED: usize = 40;
const STARTS: usize = 5;
const LIMIT: usize = 100;
const GOAL: Duration = Duration::from_millis(50);
const BATCH: usize = 64;

struct Fixed(Arc<Sqlite>);

impl Source for Fixed {
    type Store = Sqlite;

    async fn open(&self) -> Result<Option<Arc<Sqlite>>, Problem> {
        Ok(Some(Arc::clone(&self.0)))
    }

    async fn at_time(&self, _: &Sqlite, _: OwnerId, _: &str, _: Micros) -> Result<Arc<Sqlite>, Problem> {
        Ok(Arc::clone(&self.0))
    }
}

/// A conversation that is told turn by turn.
struct Told<'s> {
    recorder: Recorder<'s, Sqlite>,
    preparer: LogPreparer<'s>,
    session: Option<&'static str>,
    records: Vec<RecordRow>,
    last: Option<MessageNumber>,
    turns: usize,
}

impl<'s> Told<'s> {
    async fn new(store: &'s Sqlite, owner: &str, session: Option<&'static str>, tools: &'s SpawnTools) -> Self {
        let preparer = Preparer {
            prices: &BundledPrices,
            spawn_tools: tools,
        };
        Told {
            recorder: Recorder::new(store, owner, &BundledPrices).await.unwrap(),
            preparer: LogPreparer::new(preparer),
            session,
            records: Vec::new(),
            last: None,
            turns: 0,
        }
    }

    fn said(&mut self, role: &str, kind: RecordKind) {
        let number = self.turns;
        let text = format!("{role} says something of turn {number}, and a little more so that it is a line of text");
        let json = format!(r#"{{"role":"{role}","content":"{text}"}}"#);
        let said = self.preparer.message(&LogMessage {
            behind: self.last,
            provider: Provider::Anthropic,
            json: Bytes::from(json),
        });
        let said = said.unwrap();
        let of = |role: &str, turn: usize| format!("{role}-{turn:08}");
        let parent = match kind {
            RecordKind::Assistant => Some(of("user", number)),
            _ => number.checked_sub(1).map(|before| of("assistant", before)),
        };
        self.records.extend(self.session.map(|session| RecordRow {
            session: session.to_owned(),
            uuid: of(role, number),
            parent,
            kind,
            is_sidechain: false,
            at: Some(at(number)),
            agent: None,
            message: (kind == RecordKind::Assistant).then(|| format!("msg_{number}")),
            node: self.preparer.node_of(said, 0),
            tool_use: None,
            stands_for: None,
            text: None,
            file: "log".to_owned(),
            line: number as u64,
        }));
        self.last = Some(said);
    }

    /// Tells of more turns. They are recorded and linked together, as many as linking remembers the requests of: of what it does not, it
    /// would read the whole history again for each.
    async fn go_on(&mut self, turns: usize) {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for _ in 0..turns {
            let prepared = self.turn();
            bytes += prepared.outline_bytes;
            batch.push(prepared);
            if batch.len() == BATCH || bytes >= RECORDED_BYTES_MAX / 2 {
                self.save(std::mem::take(&mut batch)).await;
                bytes = 0;
            }
        }
        self.save(batch).await;
    }

    fn turn(&mut self) -> Prepared {
        self.said("user", RecordKind::User);
        let hints = self
            .session
            .map(|session| ("x-claude-code-session-id".to_owned(), session.to_owned()));
        let number = self.turns;
        let turn = LogTurn {
            id: format!("turn-{number}"),
            provider: Provider::Anthropic,
            at: at(number),
            ended_at: Some(Micros(at(number).0 + 1_000_000)),
            spawned_at: Vec::new(),
            model: Some("claude-opus-4-5".to_owned()),
            project: None,
            hints: hints.into_iter().collect(),
            request_id: None,
            asked: self.last,
            answer: answer(number),
            cut_off: false,
            is_estimate: false,
            provenance: Provenance {
                file: "log".to_owned(),
                line: number as u64,
                uuid: None,
                aliases: Vec::new(),
                log_begun: None,
            },
        };
        let prepared = self.preparer.turn(&turn).unwrap();
        self.said("assistant", RecordKind::Assistant);
        self.turns += 1;
        prepared
    }

    async fn save(&mut self, batch: Vec<Prepared>) {
        self.recorder.record_prepared(batch).await.unwrap();
        let changes = LogChanges {
            records: std::mem::take(&mut self.records),
            ..LogChanges::default()
        };
        self.recorder.save_log(changes).await.unwrap();
        self.recorder.link().await.unwrap();
    }
}

fn at(turn: usize) -> Micros {
    Micros(1_800_000_000_000_000 + turn as i64 * 5_000_000)
}

fn answer(number: usize) -> Bytes {
    let text = format!("assistant says something of turn {number}, and a little more so that it is a line of text");
    Bytes::from(format!(
        r#"{{"id":"msg_{number}","type":"message","role":"assistant","model":"claude-opus-4-5","content":[{{"type":"text","text":"{text}"}}],"stop_reason":"end_turn","usage":{{"input_tokens":10,"output_tokens":5}}}}"#
    ))
}

/// Everything in the first request.
async fn at_once(store: &Sqlite, owner: &str, messages: usize) {
    let said: Vec<String> = (0..messages)
        .map(|number| {
            let role = if number % 2 == 0 { "user" } else { "assistant" };
            format!(
                r#"{{"role":"{role}","content":"message {number} of a conversation that was never recorded before"}}"#
            )
        })
        .collect();
    let raw = RawExchange {
        id: "at-once".to_owned(),
        at: at(0),
        ended_at: Some(at(1)),
        spawned_at: Vec::new(),
        method: "POST".to_owned(),
        path: "/v1/messages".to_owned(),
        request_headers: Vec::new(),
        request_body: Bytes::from(format!(r#"{{"model":"m","messages":[{}]}}"#, said.join(","))),
        sent_body: None,
        names: Default::default(),
        status: Some(200),
        response_headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        response_body: Some(answer(0)),
        cut_off: false,
        witness: Witness::default(),
        provenance: None,
    };
    let mut recorder = Recorder::new(store, owner, &BundledPrices).await.unwrap();
    recorder.record(&[raw]).await.unwrap();
    recorder.link().await.unwrap();
}

struct Asking {
    api: Api<Fixed>,
}

impl Asking {
    fn of(store: &Arc<Sqlite>, owner: &str) -> Self {
        let access = Access::by_tokens([("token", Arc::from(owner))], [1; 32]);
        Asking {
            api: Api::new(Arc::new(Fixed(Arc::clone(store))), access),
        }
    }

    async fn get(&self, path: &str) -> (Value, Duration) {
        let request = Request::get(path).header("authorization", "Bearer token");
        let began = Instant::now();
        let answer = self.api.answer(request.body(Body::empty()).unwrap()).await;
        let status = answer.status();
        let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        let took = began.elapsed();
        assert!(status.is_success(), "{path}: {}", String::from_utf8_lossy(&body));
        (serde_json::from_slice(&body).unwrap(), took)
    }

    /// Cursors of the middle and of the last page.
    async fn cursors(&self, path: &str, next: &str) -> [String; 2] {
        let (mut cursors, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let (page, _) = self.get(&page_path(path, 500, cursor.as_deref())).await;
            let Some(more) = page[next].as_str() else { break };
            cursors.push(more.to_owned());
            cursor = Some(more.to_owned());
        }
        let last = cursors.last().unwrap().clone();
        [cursors[cursors.len() / 2].clone(), last]
    }
}

fn store_in(folder: &Path) -> Arc<Sqlite> {
    Arc::new(Sqlite::open(&folder.join("data"), &sqlite::Options::default()).unwrap())
}

fn page_path(path: &str, limit: usize, cursor: Option<&str>) -> String {
    match cursor {
        Some(cursor) => format!("{path}?limit={limit}&cursor={cursor}"),
        None => format!("{path}?limit={limit}"),
    }
}

/// Processor time of all threads so far: on a loaded machine the clock says little.
fn processor() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 10)
}

fn show(what: &str, mut times: Vec<Duration>, processor: Duration) {
    let each = processor.as_secs_f64() * 1e3 / times.len() as f64;
    times.sort();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
    let verdict = if at(99) <= GOAL {
        "within the goal"
    } else {
        "beyond the goal"
    };
    let [p50, p99] = [at(50), at(99)].map(|time| time.as_secs_f64() * 1e3);
    println!("  {what:32} p50 {p50:8.2} ms  p99 {p99:8.2} ms  {verdict}  ({each:.1} ms of a processor)");
}

async fn measure((folder, owner): (&Path, &str), asking: &Asking, id: &str, mut told: Option<Told<'_>>) {
    let routes = [
        (format!("/api/v1/conversations/{id}/messages"), "next_cursor"),
        (format!("/api/v1/sessions/{id}/messages"), "next"),
    ];
    for (path, next) in &routes {
        let (page, _) = asking.get(&page_path(path, LIMIT, None)).await;
        println!(" {path} ({} messages)", page["total"]);
        let (mut times, began) = (Vec::new(), processor());
        for _ in 0..STARTS {
            let store = Arc::new(Sqlite::open_read_only(&folder.join("data")).unwrap());
            let started = Asking::of(&store, owner);
            times.push(started.get(&page_path(path, LIMIT, None)).await.1);
        }
        show("first page after a start", times, processor() - began);
        let [middle, last] = asking.cursors(path, next).await;
        for (what, cursor) in [
            ("first page", None),
            ("middle page", Some(&middle)),
            ("last page", Some(&last)),
        ] {
            let (mut times, began) = (Vec::new(), processor());
            for _ in 0..ASKED {
                times.push(asking.get(&page_path(path, LIMIT, cursor.map(String::as_str))).await.1);
            }
            show(what, times, processor() - began);
        }
        if let Some(told) = &mut told {
            for (what, cursor) in [
                ("first page after another turn", None),
                ("last page after another turn", Some(&*last)),
            ] {
                let (mut times, mut spent) = (Vec::new(), Duration::ZERO);
                for _ in 0..ASKED {
                    told.go_on(1).await;
                    let began = processor();
                    times.push(asking.get(&page_path(path, LIMIT, cursor)).await.1);
                    spent += processor() - began;
                }
                show(what, times, spent);
            }
        }
    }
    println!("  memory: {} MB now, {} MB at most", memory("VmRSS:"), memory("VmHWM:"));
}

fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() / 1024
}

async fn only_conversation(asking: &Asking) -> String {
    let (page, _) = asking.get("/api/v1/conversations").await;
    page["conversations"][0]["conversation_id"].as_str().unwrap().to_owned()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let turns = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(TURNS);
    let tools = SpawnTools::default();
    for (owner, session) in [
        ("heard", None),
        ("logged", Some("11111111-2222-4333-8444-555555555555")),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let store = store_in(folder.path());
        let began = Instant::now();
        let mut told = Told::new(&store, owner, session, &tools).await;
        told.go_on(turns).await;
        println!(
            "{owner}: {turns} turns, recorded in {:.0} s",
            began.elapsed().as_secs_f64()
        );
        let asking = Asking::of(&store, owner);
        let id = only_conversation(&asking).await;
        measure((folder.path(), owner), &asking, &id, Some(told)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(folder.path());
    at_once(&store, "at once", turns * 2 - 1).await;
    println!("at once: one request of {} messages", turns * 2 - 1);
    let asking = Asking::of(&store, "at once");
    let id = only_conversation(&asking).await;
    measure((folder.path(), "at once"), &asking, &id, None).await;
}
