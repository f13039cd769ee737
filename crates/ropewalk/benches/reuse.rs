//! How fast an answer from the store is, beside a fast provider: `make bench-reuse`.
//!
//! A provider answers after 50 ms. The same clients ask it through the proxy, then ask for what the store has, each as fast as it can,
//! in turns. The server is started anew before the second, so that nothing of it lies in memory. The figure is the ratio of the two rates.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may fail and talk")]

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use ropewalk_testkit::upstream::{Answer, Upstream};
use serde_json::json;
use tokio::net::TcpStream;

const LATENCY: Duration = Duration::from_millis(50);
const GOAL: f64 = 20.0;

/// Characters of one prompt: a small agent's turn.
const PROMPT_CHARS: usize = 16 << 10;

struct Server(Child);

impl Server {
    /// Starts one and waits until its store can be asked.
    async fn start(data: &Path, upstream: &Upstream) -> (Server, SocketAddr) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ropewalk"))
            .arg("--data")
            .arg(data)
            .args(["serve", "--listen", "127.0.0.1:0", "--upstream"])
            .arg(format!("anthropic={}", upstream.url()))
            .env_clear()
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let greeting = said.next().unwrap().unwrap();
        let address = greeting.split("http://").nth(1).unwrap().split(' ').next().unwrap();
        let address: SocketAddr = address.parse().unwrap();
        std::thread::spawn(move || said.for_each(drop));
        let mut client = Client::connect(address).await;
        while client.send(Request::get("/readyz"), Bytes::new()).await.0 != StatusCode::OK {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        (Server(child), address)
    }

    fn stop(mut self) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.0.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

struct Client {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

impl Client {
    async fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).await.unwrap();
        socket.set_nodelay(true).unwrap();
        let (sender, connection) = handshake(TokioIo::new(socket)).await.unwrap();
        tokio::spawn(async move { drop(connection.await) });
        Client {
            sender,
            host: address.to_string(),
        }
    }

    /// The status, and whether it was reused.
    async fn send(&mut self, request: http::request::Builder, body: Bytes) -> (StatusCode, bool) {
        self.sender.ready().await.unwrap();
        let request = request.header("host", &self.host).body(Full::new(body)).unwrap();
        let answer = self.sender.send_request(request).await.unwrap();
        let (status, is_hit) = (answer.status(), answer.headers().contains_key("x-ropewalk-reuse"));
        drop(answer.into_body().collect().await.unwrap());
        (status, is_hit)
    }

    async fn ask(&mut self, prompt: usize) -> bool {
        let text = format!("{prompt} {}", "rope ".repeat(PROMPT_CHARS / 5));
        let body = json!({
            "model": "m", "max_tokens": 64, "temperature": 0, "messages": [{"role": "user", "content": text}],
        });
        let request = Request::post("/v1/messages").header("x-ropewalk-reuse", "exact");
        let (status, is_hit) = self.send(request, body.to_string().into()).await;
        assert_eq!(status, StatusCode::OK);
        is_hit
    }
}

/// Requests a second by so many clients; each asks its own prompts, again and again if they are to be hits.
async fn rate(address: SocketAddr, clients: usize, time: Duration, prompts: usize, hits: bool) -> f64 {
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            tokio::spawn(async move {
                let mut connection = Client::connect(address).await;
                let (begun, mut count) = (Instant::now(), 0);
                while begun.elapsed() < time && (hits || count < prompts) {
                    let is_hit = connection.ask(client * prompts + count % prompts).await;
                    assert_eq!(is_hit, hits);
                    count += 1;
                }
                count as f64 / begun.elapsed().as_secs_f64()
            })
        })
        .collect();
    let mut sum = 0.0;
    for task in tasks {
        sum += task.await.unwrap();
    }
    sum
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let seconds = std::env::var("ROPEWALK_BENCH_SECONDS").ok();
    let time = Duration::from_secs(seconds.and_then(|text| text.parse().ok()).unwrap_or(3));
    let upstream = Upstream::start().await;
    upstream.keep_nothing();
    let text = "word ".repeat(400);
    let body = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 4_000, "output_tokens": 400},
    });
    // The pause stands between two pieces, so the first is a blank.
    upstream.answer_always(Answer::json(" ").chunk(body.to_string()).pause_between(LATENCY));
    for clients in [1, 8] {
        let folder = tempfile::tempdir().unwrap();
        let prompts = (time.as_secs_f64() / LATENCY.as_secs_f64()) as usize / 2;
        let (server, address) = Server::start(folder.path(), &upstream).await;
        let asked = rate(address, clients, time * 4, prompts, false).await;
        server.stop();
        let (server, address) = Server::start(folder.path(), &upstream).await;
        let reused = rate(address, clients, time, prompts, true).await;
        server.stop();
        let ratio = reused / asked;
        let verdict = if ratio >= GOAL { "reached" } else { "missed" };
        println!(
            "{clients} clients: {asked:.0}/s asked, {reused:.0}/s reused: {ratio:.1} times (goal {GOAL}, {verdict})"
        );
    }
}
