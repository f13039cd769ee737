//! Exchanges to store: turns of a conversation, made from their texts.

use std::collections::HashMap;
use std::sync::Arc;

use ropewalk_core::chain::{node, root};
use ropewalk_core::hash::{NodeHash, PartHash, ValueHash, sha256};
use ropewalk_core::json::Style;
use ropewalk_core::model::ChainStart;
use ropewalk_core::part::Part;
use ropewalk_core::recipe::{Inline, Piece, join};
use ropewalk_core::rope::{Layout, Pieces};
use ropewalk_store::facts::{Body, Link, Recipe, SearchText, Status, TextSource};
use ropewalk_store::{Micros, NewExchange};

#[derive(Debug)]
struct Made {
    pieces: Vec<Piece>,
    parts: Vec<Part>,
}

impl Pieces for Made {
    fn pieces<'a>(&'a self) -> Box<dyn Iterator<Item = &'a Piece> + 'a> {
        Box::new(self.pieces.iter())
    }
}

impl Recipe for Made {
    /// Texts are added behind the last one.
    fn layout(&self) -> Layout {
        let end = self.pieces.len();
        Layout { newest: end..end }
    }

    fn parts<'a>(&'a self) -> Box<dyn Iterator<Item = &'a Part> + 'a> {
        Box::new(self.parts.iter())
    }
}

/// A body that says these texts, its bytes beside it.
pub(crate) fn body(envelope: &[u8], texts: &[Arc<str>]) -> (Body, Vec<u8>) {
    let quote = || Piece::Inline(Inline::new(b"\"").unwrap());
    let mut parts = vec![Part::bytes(envelope)];
    let mut pieces = vec![Piece::Raw(parts[0].hash)];
    for text in texts {
        let part = Part::text(Arc::clone(text));
        pieces.extend([quote(), Piece::Text(part.hash, Style::Plain), quote()]);
        parts.push(part);
    }
    let source: HashMap<PartHash, Vec<u8>> = parts.iter().map(|part| (part.hash, part.as_bytes().to_vec())).collect();
    let bytes = join(&pieces, &source).unwrap();
    let body = Body {
        sha256: sha256(&bytes),
        length: bytes.len() as u64,
        recipe: Arc::new(Made { pieces, parts }),
    };
    (body, bytes)
}

/// The same body, without some of the parts it names.
pub(crate) fn without_parts(body: &Body) -> Body {
    let pieces = body.recipe.pieces().cloned().collect();
    Body {
        recipe: Arc::new(Made {
            pieces,
            parts: Vec::new(),
        }),
        ..body.clone()
    }
}

/// An exchange of a conversation that says `history`, the last text being the question, and answers with `answer`.
pub(crate) fn turn(id: &str, at: i64, history: &[&str], answer: Option<&str>) -> NewExchange {
    let texts: Vec<Arc<str>> = history.iter().map(|text| Arc::from(*text)).collect();
    let start = root(&ChainStart::Root);
    let request_chain = links(start, history);
    let input = request_chain.last().map_or(start, |link| link.node);
    let answer_text: Option<Arc<str>> = answer.map(Arc::from);
    let question = texts.last().map(|text| (TextSource::User, text));
    let said = question
        .into_iter()
        .chain(answer_text.as_ref().map(|text| (TextSource::Assistant, text)));
    NewExchange {
        id: id.to_owned(),
        at: Micros(at),
        ended_at: answer.map(|_| Micros(at + 10)),
        status: if answer.is_some() {
            Status::Complete
        } else {
            Status::Pending
        },
        http_status: answer.map(|_| 200),
        provider: "anthropic".to_owned(),
        model: Some("model-1".to_owned()),
        kind: "turn".to_owned(),
        session: None,
        agent: None,
        project: None,
        start,
        answer_chain: answer.map(|answer| links(input, &[answer])).unwrap_or_default(),
        request_chain: request_chain.into_iter().collect(),
        hashes: Vec::new(),
        keys: Vec::new(),
        usage: None,
        cost_nano_usd: None,
        cost_is_estimate: false,
        texts: said
            .map(|(source, text)| SearchText {
                source,
                strings: vec![Arc::clone(text)],
            })
            .collect(),
        request: body(b"{\"messages\":", &texts).0,
        sent: None,
        response: answer_text.map(|text| body(b"{\"content\":", &[text]).0),
        spawns: Vec::new(),
        detail: "{\"method\":\"POST\"}".to_owned(),
        provenance: None,
        rules_version: 1,
        projections_version: 1,
    }
}

fn links(mut parent: NodeHash, texts: &[&str]) -> Vec<Link> {
    texts
        .iter()
        .map(|text| {
            let value = ValueHash(sha256(text.as_bytes()));
            parent = node(parent, value);
            Link { value, node: parent }
        })
        .collect()
}

/// The nodes of an exchange's whole chain.
pub(crate) fn nodes(exchange: &NewExchange) -> Vec<NodeHash> {
    let links = exchange.request_chain.iter().chain(&exchange.answer_chain);
    links.map(|link| link.node).collect()
}
