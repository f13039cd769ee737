//! Ask a model only what it was not asked before, and keep every answer.
//!
//! ```text
//! cargo run -p ropewalk-engine --example find_or_create
//! ```
//!
//! The same three calls as in the design that this follows: a question, the same question again, and one that goes on from its
//! answer. Only two of them reach the model. Here the model is a function; in a program of yours it is a client of a provider, and
//! the store is a folder ([`Sqlite::open`]) or a PostgreSQL server.
#![allow(clippy::print_stdout, reason = "it is an example")]

use std::convert::Infallible;
use std::error::Error;

use bytes::Bytes;
use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::matching::{Asked, FoundOrCreated, Match};
use ropewalk_engine::{RawExchange, Recorder, Witness};
use ropewalk_store::Micros;
use ropewalk_store::sqlite::{Options, Sqlite};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = Sqlite::in_memory(&Options::default())?;
    let mut recorder = Recorder::new(&store, "me", &BundledPrices).await?;

    let question = json!([{"role": "user", "content": "Capital of France?"}]);
    let longer = json!([
        {"role": "user", "content": "Capital of France?"},
        {"role": "assistant", "content": "Paris"},
        {"role": "user", "content": "Germany?"},
    ]);
    for (number, messages) in [&question, &question, &longer].into_iter().enumerate() {
        let body = request(messages);
        let asked = Asked::read_at("/v1/messages", &body)?;
        let model = async |known: &Match| {
            println!(
                "  the model is asked: {} of {} blocks are known",
                known.depth, known.blocks
            );
            Ok::<_, Infallible>(ask_the_model(number, body.clone()))
        };
        println!("call {number}");
        match recorder.find_or_create_from_messages(&asked, model).await? {
            FoundOrCreated::Found { answer, alternatives } => {
                println!("  found: {} ({} other answers)", answer.content, alternatives.len());
            }
            FoundOrCreated::Created { branch_point, .. } => match branch_point {
                Some(node) => println!("  new, behind {node}"),
                None => println!("  new, a conversation of its own"),
            },
        }
    }
    Ok(())
}

fn request(messages: &Value) -> Bytes {
    let body = json!({"model": "some-model", "max_tokens": 64, "system": "You are helpful", "messages": messages});
    Bytes::from(body.to_string())
}

/// A call and its answer, as your client saw them.
fn ask_the_model(number: usize, request_body: Bytes) -> RawExchange {
    let text = if number == 0 { "Paris" } else { "Berlin" };
    let answer = json!({
        "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "some-model",
        "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 12, "output_tokens": 1},
    });
    let at = Micros(1_700_000_000_000_000 + number as i64 * 1_000_000);
    RawExchange {
        id: format!("call-{number}"),
        at,
        ended_at: Some(Micros(at.0 + 500_000)),
        spawned_at: Vec::new(),
        method: "POST".to_owned(),
        path: "/v1/messages".to_owned(),
        request_headers: Vec::new(),
        request_body,
        sent_body: None,
        status: Some(200),
        response_headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        response_body: Some(Bytes::from(answer.to_string())),
        cut_off: false,
        witness: Witness::default(),
        provenance: None,
        names: Default::default(),
    }
}
