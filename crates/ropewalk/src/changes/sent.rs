//! What was found in logs, on its way to the server.

use bytes::Bytes;
use ropewalk_core::model::Provider;
use ropewalk_engine::logged::{LogMessage, LogTurn, Logged, MessageNumber};
use ropewalk_store::Micros;
use ropewalk_store::facts::Provenance;
use ropewalk_store::log::{ImportedFile, RecordRow};
use serde::{Deserialize, Serialize};

/// Something of a log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SentLogged {
    Message {
        behind: Option<MessageNumber>,
        provider: u8,
        json: String,
    },
    Turn(Box<SentTurn>),
    Record {
        session: String,
        uuid: String,
        /// Packed as the store packs it, in hex.
        record: String,
        said: Option<(MessageNumber, usize)>,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SentTurn {
    id: String,
    provider: u8,
    at: i64,
    ended_at: Option<i64>,
    spawned_at: Vec<(String, i64)>,
    model: Option<String>,
    project: Option<String>,
    hints: Vec<(String, String)>,
    request_id: Option<String>,
    asked: Option<MessageNumber>,
    answer: String,
    cut_off: bool,
    is_estimate: bool,
    file: String,
    line: u64,
    uuid: Option<String>,
    aliases: Vec<String>,
    log_begun: Option<i64>,
}

/// How far a file was read.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SentFile {
    path: String,
    size: u64,
    modified: i64,
    tail: String,
    offset: u64,
    problems: u64,
}

const PROVIDERS: [Provider; 4] = [
    Provider::Anthropic,
    Provider::OpenAiChat,
    Provider::OpenAiResponses,
    Provider::Gemini,
];

fn code(provider: Provider) -> u8 {
    PROVIDERS
        .iter()
        .position(|known| *known == provider)
        .unwrap_or_default() as u8
}

fn provider(code: u8) -> Option<Provider> {
    PROVIDERS.get(usize::from(code)).copied()
}

impl SentLogged {
    /// `None` for an exchange, which is sent as a line.
    pub(super) fn of(logged: &Logged) -> Option<Self> {
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        Some(match logged {
            Logged::Message(message) => SentLogged::Message {
                behind: message.behind,
                provider: code(message.provider),
                json: text(&message.json),
            },
            Logged::Turn(turn) => SentLogged::Turn(Box::new(SentTurn {
                id: turn.id.clone(),
                provider: code(turn.provider),
                at: turn.at.0,
                ended_at: turn.ended_at.map(|at| at.0),
                spawned_at: turn.spawned_at.iter().map(|(id, at)| (id.clone(), at.0)).collect(),
                model: turn.model.clone(),
                project: turn.project.clone(),
                hints: turn.hints.clone(),
                request_id: turn.request_id.clone(),
                asked: turn.asked,
                answer: text(&turn.answer),
                cut_off: turn.cut_off,
                is_estimate: turn.is_estimate,
                file: turn.provenance.file.clone(),
                line: turn.provenance.line,
                uuid: turn.provenance.uuid.clone(),
                aliases: turn.provenance.aliases.clone(),
                log_begun: turn.provenance.log_begun.map(|at| at.0),
            })),
            Logged::Record(row, said) => SentLogged::Record {
                session: row.session.clone(),
                uuid: row.uuid.clone(),
                record: hex::encode(row.to_bytes()),
                said: *said,
            },
            Logged::Exchange { .. } => return None,
        })
    }

    /// `None` for what cannot be understood.
    pub(super) fn read(self) -> Option<Logged> {
        Some(match self {
            SentLogged::Message {
                behind,
                provider: code,
                json,
            } => Logged::Message(LogMessage {
                behind,
                provider: provider(code)?,
                json: Bytes::from(json),
            }),
            SentLogged::Turn(turn) => Logged::Turn(Box::new(turn.read()?)),
            SentLogged::Record {
                session,
                uuid,
                record,
                said,
            } => {
                let bytes = hex::decode(record).ok()?;
                Logged::Record(Box::new(RecordRow::from_bytes(session, uuid, &bytes).ok()?), said)
            }
        })
    }
}

impl SentTurn {
    fn read(self) -> Option<LogTurn> {
        let spawned_at = self.spawned_at.into_iter().map(|(id, at)| (id, Micros(at)));
        Some(LogTurn {
            id: self.id,
            provider: provider(self.provider)?,
            at: Micros(self.at),
            ended_at: self.ended_at.map(Micros),
            spawned_at: spawned_at.collect(),
            model: self.model,
            project: self.project,
            hints: self.hints,
            request_id: self.request_id,
            asked: self.asked,
            answer: Bytes::from(self.answer),
            cut_off: self.cut_off,
            is_estimate: self.is_estimate,
            provenance: Provenance {
                file: self.file,
                line: self.line,
                uuid: self.uuid,
                aliases: self.aliases,
                log_begun: self.log_begun.map(Micros),
            },
        })
    }
}

impl From<&ImportedFile> for SentFile {
    fn from(file: &ImportedFile) -> Self {
        SentFile {
            path: file.path.clone(),
            size: file.size,
            modified: file.modified,
            tail: hex::encode(file.tail),
            offset: file.offset,
            problems: file.problems,
        }
    }
}

impl SentFile {
    pub(super) fn read(self) -> Option<ImportedFile> {
        let mut tail = [0; 32];
        hex::decode_to_slice(&self.tail, &mut tail).ok()?;
        Some(ImportedFile {
            path: self.path,
            size: self.size,
            modified: self.modified,
            tail,
            offset: self.offset,
            problems: self.problems,
        })
    }
}
