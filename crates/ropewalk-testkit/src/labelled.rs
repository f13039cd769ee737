//! Conversations and prompts with the truth about which of them are alike: what `suggest`, `templates` and merges are measured by.
//!
//! Beside those that are alike there are those that only look so: preambles that a client sends to everybody, prompts of one template,
//! phrases that people use on one subject.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use ropewalk_engine::{RawExchange, Witness};
use ropewalk_store::Micros;
use serde_json::{Value, json};

use crate::conversation::Random;

/// Words that everybody uses.
const COMMON: [&str; 40] = [
    "the", "a", "of", "to", "and", "in", "is", "it", "that", "for", "on", "with", "as", "we", "this", "be", "are",
    "not", "by", "or", "at", "from", "can", "if", "when", "which", "has", "was", "should", "will", "one", "all",
    "there", "what", "how", "then", "so", "more", "only", "you",
];

/// Words of one subject, beside those that everybody uses.
const SUBJECT_WORDS: u64 = 400;
const SUBJECTS: u64 = 50;

/// What a client says to every model.
const PREAMBLE: &str = "Here are the rules of this session. Answer in plain text, keep to the style of the code around you, ask \
before you delete anything, and never write outside of the folder that you were started in. When you are done, say in one sentence \
what you did and stop. The files of the project were listed above, and nothing else may be assumed about it.";

/// A conversation: what the user and the model said in turns. The last is an answer.
#[derive(Debug, Clone)]
pub struct Talk {
    pub said: Vec<String>,
}

/// Conversations, and which of them are alike.
#[derive(Debug)]
pub struct LabelledTalks {
    pub talks: Vec<Talk>,
    /// Pairs of places in `talks`, the lower one first.
    pub alike: BTreeSet<(usize, usize)>,
}

impl LabelledTalks {
    pub fn new(seed: u64, count: usize) -> Self {
        let mut random = Random(seed);
        let mut talks: Vec<Talk> = Vec::with_capacity(count);
        let mut alike = BTreeSet::new();
        let mut is_copied = BTreeSet::new();
        while talks.len() < count {
            let at = talks.len();
            let from = (at > 0)
                .then(|| random.below(at))
                .filter(|from| is_copied.insert(*from));
            let talk = match (random.below(100), from) {
                (0..8, Some(from)) => {
                    alike.insert((from, at));
                    is_copied.insert(at);
                    edited(&mut random, &talks[from])
                }
                (8..16, Some(from)) => {
                    alike.insert((from, at));
                    is_copied.insert(at);
                    quoting(&mut random, &talks[from])
                }
                (16..26, _) => from_template(&mut random),
                (26..34, Some(from)) => with_a_phrase_of(&mut random, &talks[from]),
                _ => stranger(&mut random),
            };
            talks.push(talk);
        }
        LabelledTalks { talks, alike }
    }
}

fn stranger(random: &mut Random) -> Talk {
    let subject = random.next_u64() % SUBJECTS;
    let mut opening = String::new();
    if random.below(100) < 30 {
        opening = format!("{PREAMBLE}\n\n");
    }
    let words = 25 + random.below(60);
    opening.push_str(&text(random, subject, words));
    let mut said = vec![opening];
    for _ in 0..1 + 2 * random.below(3) {
        let words = 20 + random.below(120);
        said.push(text(random, subject, words));
    }
    Talk { said }
}

/// The same with an edited opening; what follows was said again, a little otherwise.
fn edited(random: &mut Random, talk: &Talk) -> Talk {
    let mut said: Vec<String> = talk.said.iter().map(|text| reworded(random, text, 25)).collect();
    said[0] = reworded(random, &talk.said[0], 10);
    Talk { said }
}

/// Another conversation, into which the longest message of this one is pasted.
fn quoting(random: &mut Random, talk: &Talk) -> Talk {
    let mut other = stranger(random);
    let longest = talk
        .said
        .iter()
        .skip(1)
        .max_by_key(|text| text.len())
        .expect("there is an answer");
    let asked = text(random, 0, 8);
    other.said.insert(1, format!("Somebody said this: {longest}"));
    other.said.insert(1, asked);
    Talk { said: other.said }
}

/// One of many that begin with the same long prompt and are about different things.
fn from_template(random: &mut Random) -> Talk {
    let subject = random.next_u64() % SUBJECTS;
    let (issue, file) = (random.below(10_000), word(random, subject));
    let opening = format!(
        "You are given issue {issue} of this project. Read it, find the code that it is about in {file}.rs, write a test that fails, \
         and only then change the code. Keep the change as small as it can be and do not touch what has nothing to do with it. When \
         the tests pass, look at the difference once more as a reviewer would and write down what you did in ten lines."
    );
    let answer = text(random, subject, 60);
    Talk {
        said: vec![opening, answer],
    }
}

/// A stranger who uses one phrase of another.
fn with_a_phrase_of(random: &mut Random, talk: &Talk) -> Talk {
    let mut other = stranger(random);
    let words: Vec<&str> = talk.said[1].split(' ').collect();
    let start = random.below(words.len().saturating_sub(8).max(1));
    let phrase = words[start..(start + 8).min(words.len())].join(" ");
    let last = other.said.len() - 1;
    let behind = text(random, 1, 30);
    other.said[last] = format!("{} {phrase} {behind}", other.said[last]);
    other
}

/// With one in so many words replaced, dropped or doubled.
fn reworded(random: &mut Random, text: &str, one_in: usize) -> String {
    let mut words: Vec<String> = Vec::new();
    for old in text.split(' ') {
        match random.below(one_in * 3) {
            0 => words.push(word(random, 0)),
            1 => {}
            2 => words.extend([old.to_owned(), old.to_owned()]),
            _ => words.push(old.to_owned()),
        }
    }
    words.push(word(random, 0));
    words.join(" ")
}

fn text(random: &mut Random, subject: u64, words: usize) -> String {
    let words: Vec<String> = (0..words)
        .map(|_| match random.below(2) {
            0 => COMMON[random.below(COMMON.len())].to_owned(),
            _ => word(random, subject),
        })
        .collect();
    words.join(" ")
}

/// A word of a subject; those of low numbers are said more often.
fn word(random: &mut Random, subject: u64) -> String {
    const SYLLABLES: [&str; 16] = [
        "ra", "ke", "lo", "mi", "tu", "sen", "dor", "vi", "pal", "ge", "fon", "ba", "ru", "zel", "ti", "mor",
    ];
    let most = random.next_u64() % SUBJECT_WORDS;
    let mut number = subject * SUBJECT_WORDS + random.next_u64() % (most + 1);
    let mut word = String::new();
    for _ in 0..4 {
        word.push_str(SYLLABLES[(number % 16) as usize]);
        number /= 16;
    }
    word
}

impl LabelledTalks {
    /// As exchanges whose ids are their places.
    pub fn exchanges(&self) -> impl Iterator<Item = RawExchange> {
        let spaced = self.talks.iter().enumerate();
        spaced.map(|(at, talk)| exchange(&at.to_string(), at as i64 * 1_000_000, &talk.said))
    }
}

/// A prompt, and the template that it was made from, if any.
#[derive(Debug, Clone)]
pub struct LabelledPrompt {
    pub text: String,
    pub template: Option<usize>,
}

/// Prompts of which a part was made from templates, in no order.
pub fn labelled_prompts(seed: u64, count: usize) -> Vec<LabelledPrompt> {
    /// Prompts of one template, on average.
    const OF_TEMPLATE: usize = 12;
    let mut random = Random(seed);
    let templates: Vec<Vec<String>> = (0..(count / OF_TEMPLATE / 2).max(1))
        .map(|_| {
            let subject = random.next_u64() % SUBJECTS;
            let stretches = 2 + random.below(3);
            (0..stretches)
                .map(|_| {
                    let words = 4 + random.below(9);
                    text(&mut random, subject, words)
                })
                .collect()
        })
        .collect();
    let prompts = (0..count).map(|_| {
        let subject = random.next_u64() % SUBJECTS;
        if random.below(2) == 0 {
            let words = 6 + random.below(60);
            let text = text(&mut random, subject, words);
            return LabelledPrompt { text, template: None };
        }
        let template = random.below(templates.len());
        let mut said = String::new();
        for stretch in &templates[template] {
            let words = 1 + random.below(3);
            said.push_str(&format!("{stretch} {} ", text(&mut random, subject, words)));
        }
        let text = said.trim_end().to_owned();
        LabelledPrompt {
            text,
            template: Some(template),
        }
    });
    prompts.collect()
}

/// How much of what was found is right, and how much of what is right was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    pub precision: f64,
    pub recall: f64,
}

impl Rates {
    pub fn of<T: Ord>(found: &BTreeSet<T>, truth: &BTreeSet<T>) -> Self {
        let right = found.intersection(truth).count() as f64;
        Rates {
            precision: right / (found.len() as f64).max(1.0),
            recall: right / (truth.len() as f64).max(1.0),
        }
    }
}

impl fmt::Display for Rates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "precision {:.4}, recall {:.4}", self.precision, self.recall)
    }
}

/// Pairs of places that have the same label.
pub fn same_label<L: Ord>(labels: &[Option<L>]) -> BTreeSet<(usize, usize)> {
    let mut places: BTreeMap<&L, Vec<usize>> = BTreeMap::new();
    for (at, label) in labels.iter().enumerate() {
        if let Some(label) = label {
            places.entry(label).or_default().push(at);
        }
    }
    let mut pairs = BTreeSet::new();
    for places in places.into_values() {
        for (nth, a) in places.iter().enumerate() {
            pairs.extend(places[nth + 1..].iter().map(|b| (*a, *b)));
        }
    }
    pairs
}

/// Conversations in which answers are quoted, and which.
#[derive(Debug)]
pub struct LabelledMerges {
    pub exchanges: Vec<RawExchange>,
    /// Ids of the exchange that answered and of the one that quotes it.
    pub merges: BTreeSet<(String, String)>,
}

impl LabelledMerges {
    pub fn new(seed: u64, conversations: usize) -> Self {
        let mut random = Random(seed);
        let mut made = LabelledMerges {
            exchanges: Vec::new(),
            merges: BTreeSet::new(),
        };
        for number in 0..conversations {
            match random.below(2) {
                0 => made.branches(&mut random, number),
                _ => made.agents(&mut random, number),
            }
        }
        made
    }

    fn exchange(&mut self, number: usize, turn: &str, messages: &[Value], answer: &[Value]) -> String {
        let id = format!("{number}-{turn}");
        let at = self.exchanges.len() as i64 * 1_000_000;
        self.exchanges.push(exchange_of(&id, at, messages, answer));
        id
    }

    /// Two answers to one question; then the user goes on with the first, and quotes the second, or not.
    fn branches(&mut self, random: &mut Random, number: usize) {
        let subject = random.next_u64() % SUBJECTS;
        let mut say = |words: usize| text(random, subject, words);
        let (opening, first) = (say(20), say(40));
        let (taken, other) = (say(60), say(60));
        let own = say(30);
        let mut messages = vec![said("user", &opening)];
        self.exchange(number, "1", &messages, &[block(&first)]);
        messages.extend([said("assistant", &first), said("user", "Go on.")]);
        self.exchange(number, "2", &messages, &[block(&taken)]);
        let from = self.exchange(number, "2b", &messages, &[block(&other)]);
        let (brought, is_quoted) = match random.below(5) {
            0 => (format!("Elsewhere you said:\n> {other}\nWhich is it?"), true),
            1 => (format!("{own} {} Which is it?", first_words(&other, 45)), true),
            2 => (format!("{own} {} Which is it?", first_words(&other, 9)), false),
            3 => (format!("You said: {taken} Are you sure?"), false),
            _ => (own, false),
        };
        messages.extend([said("assistant", &taken), said("user", &brought)]);
        let into = self.exchange(number, "3", &messages, &[block("Yes.")]);
        if is_quoted {
            self.merges.insert((from, into));
        }
    }

    /// An agent that starts another; the result is its report, with something around it, or something else.
    fn agents(&mut self, random: &mut Random, number: usize) {
        let subject = random.next_u64() % SUBJECTS;
        let mut say = |words: usize| text(random, subject, words);
        let (opening, prompt, report, other) = (say(20), say(25), say(80), say(80));
        let input = json!({"subagent_type": "worker", "description": "work", "prompt": prompt});
        let call = json!({"type": "tool_use", "id": format!("toolu_{number}"), "name": "Task", "input": input});
        let mut messages = vec![said("user", &opening)];
        self.exchange(number, "1", &messages, std::slice::from_ref(&call));
        let from = self.exchange(number, "child", &[said("user", &prompt)], &[block(&report)]);
        let is_quoted = random.below(3) > 0;
        let result = match is_quoted {
            true => format!("{report}\nagentId: a{number}"),
            false => other,
        };
        let result = json!([{"type": "tool_result", "tool_use_id": format!("toolu_{number}"), "content": result}]);
        messages.extend([
            json!({"role": "assistant", "content": [call]}),
            json!({"role": "user", "content": result}),
        ]);
        let into = self.exchange(number, "2", &messages, &[block("Done.")]);
        if is_quoted {
            self.merges.insert((from, into));
        }
    }
}

fn said(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

fn block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn first_words(text: &str, count: usize) -> String {
    text.split(' ').take(count).collect::<Vec<_>>().join(" ")
}

/// An exchange of Anthropic's format: what was said in turns, the last of it as the answer.
pub fn exchange(id: &str, at: i64, in_turns: &[String]) -> RawExchange {
    let (answer, before) = in_turns.split_last().expect("there is an answer");
    let roles = ["user", "assistant"].iter().cycle();
    let messages: Vec<Value> = before.iter().zip(roles).map(|(text, role)| said(role, text)).collect();
    exchange_of(id, at, &messages, &[block(answer)])
}

/// A call of Anthropic's format that was answered well.
pub fn answered(id: String, at: i64, request: &Value, answer: &Value) -> RawExchange {
    RawExchange {
        id,
        at: Micros(at),
        ended_at: Some(Micros(at + 400)),
        spawned_at: Vec::new(),
        method: "POST".to_owned(),
        path: "/v1/messages".to_owned(),
        request_headers: Vec::new(),
        request_body: Bytes::from(request.to_string()),
        sent_body: None,
        names: Default::default(),
        status: Some(200),
        response_headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        response_body: Some(Bytes::from(answer.to_string())),
        cut_off: false,
        witness: Witness::default(),
        provenance: None,
    }
}

fn exchange_of(id: &str, at: i64, messages: &[Value], answer: &[Value]) -> RawExchange {
    let body = json!({"model": "claude-sonnet-4-5", "max_tokens": 64, "messages": messages});
    let response = json!({
        "id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": answer, "stop_reason": "end_turn", "usage": {"input_tokens": 10, "output_tokens": 5},
    });
    answered(id.to_owned(), at, &body, &response)
}
