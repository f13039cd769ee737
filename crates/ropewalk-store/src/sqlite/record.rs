//! What recording an exchange writes.

use ropewalk_core::hash::{PartHash, sha256};
use ropewalk_core::part::Part;
use ropewalk_core::rope::{self, PartNumber, PartNumbers};
use rusqlite::{OptionalExtension as _, params};

use crate::codec::Codec;
use crate::facts::{Body, ExchangeNumber, HashKind, Key, NewExchange, OwnerId};
use crate::packed::{status_code, write_hashes, write_keys, write_provenance, write_rope, write_usage};
use crate::sqlite::bodies::Parts;
use crate::sqlite::keys::{Kind, key};
use crate::sqlite::writer::Session;
use crate::sqlite::{dictionary, problem, search};
use crate::store::{ID_MAX, Outcome, Recorded, Result, StoreError};

/// The owner of that name, made on first use.
pub(super) fn owner(session: &mut Session, name: &str) -> Result<OwnerId> {
    let connection = session.connection();
    let insert = "INSERT INTO owner (name, secret) VALUES (?1, randomblob(32)) ON CONFLICT (name) DO NOTHING";
    connection.execute(insert, [name]).map_err(problem)?;
    let select = "SELECT owner_id FROM owner WHERE name = ?1";
    connection
        .query_row(select, [name], |row| row.get(0))
        .map(OwnerId)
        .map_err(problem)
}

pub(super) fn record(session: &mut Session, owner: OwnerId, batch: &[NewExchange]) -> Result<Vec<Recorded>> {
    let counters = Counters::load(session, owner)?;
    let mut recorder = Recorder {
        session,
        owner,
        counters,
    };
    let parts_before = recorder.counters.last_part;
    let recorded = batch
        .iter()
        .map(|exchange| recorder.exchange(exchange))
        .collect::<Result<Vec<_>>>()?;
    recorder.counters.save(recorder.session, owner)?;
    let parts_after = recorder.counters.last_part;
    if dictionary::train_if_due(session.connection(), owner, parts_before, parts_after)? {
        session.forget_packer(owner);
    }
    Ok(recorded)
}

/// The owner's numbers, read once and written once per batch.
pub(super) struct Counters {
    last_part: i64,
    pub(super) last_node: i64,
    last_exchange: i64,
    pub(super) last_text: i64,
    last_position: i64,
    side_parts: i64,
    conflicts: i64,
    bytes_in: i64,
    part_bytes: i64,
    stored_bytes: i64,
}

impl Counters {
    fn load(session: &Session, owner: OwnerId) -> Result<Self> {
        let select = "SELECT last_part, last_node, last_exchange, last_text, last_position, conflicts, bytes_in, \
                      part_bytes, stored_bytes, side_parts FROM owner WHERE owner_id = ?1";
        let mut statement = session.connection().prepare_cached(select).map_err(problem)?;
        let found = statement.query_row([owner.0], |row| {
            Ok(Counters {
                last_part: row.get(0)?,
                last_node: row.get(1)?,
                last_exchange: row.get(2)?,
                last_text: row.get(3)?,
                last_position: row.get(4)?,
                conflicts: row.get(5)?,
                bytes_in: row.get(6)?,
                part_bytes: row.get(7)?,
                stored_bytes: row.get(8)?,
                side_parts: row.get(9)?,
            })
        });
        found.optional().map_err(problem)?.ok_or(StoreError::NoOwner)
    }

    fn save(&self, session: &Session, owner: OwnerId) -> Result<()> {
        let update = "UPDATE owner SET last_part = ?2, last_node = ?3, last_exchange = ?4, last_text = ?5, \
                      last_position = ?6, conflicts = ?7, bytes_in = ?8, part_bytes = ?9, stored_bytes = ?10, side_parts = ?11 \
                      WHERE owner_id = ?1";
        let mut statement = session.connection().prepare_cached(update).map_err(problem)?;
        let columns = params![
            owner.0,
            self.last_part,
            self.last_node,
            self.last_exchange,
            self.last_text,
            self.last_position,
            self.conflicts,
            self.bytes_in,
            self.part_bytes,
            self.stored_bytes,
            self.side_parts
        ];
        statement.execute(columns).map_err(problem)?;
        Ok(())
    }
}

pub(super) struct Recorder<'s> {
    pub(super) session: &'s mut Session,
    pub(super) owner: OwnerId,
    pub(super) counters: Counters,
}

/// What is there under an id.
struct Existing {
    number: i64,
    request_sha256: Vec<u8>,
    response_sha256: Option<Vec<u8>>,
    input_node: i64,
}

impl Existing {
    /// Whether the same id comes with other bytes. A half that only one of the two has is no difference.
    fn differs(&self, exchange: &NewExchange) -> bool {
        let request = self.request_sha256 != exchange.request.sha256;
        let responses = self.response_sha256.as_ref().zip(exchange.response.as_ref());
        request || responses.is_some_and(|(known, new)| *known != new.sha256)
    }
}

impl Recorder<'_> {
    fn exchange(&mut self, exchange: &NewExchange) -> Result<Recorded> {
        if exchange.id.len() > ID_MAX {
            return Err(StoreError::IdTooLong {
                length: exchange.id.len(),
            });
        }
        let outcome = match self.find_exchange(&exchange.id)? {
            None => (self.insert(exchange)?, Outcome::New),
            Some(existing) if existing.differs(exchange) => {
                self.counters.conflicts += 1;
                (existing.number, Outcome::Conflict)
            }
            Some(existing) if existing.response_sha256.is_none() && exchange.response.is_some() => {
                self.complete(&existing, exchange)?;
                (existing.number, Outcome::Completed)
            }
            Some(existing) => (existing.number, Outcome::Known),
        };
        Ok(Recorded {
            number: ExchangeNumber(outcome.0),
            outcome: outcome.1,
        })
    }

    fn find_exchange(&self, id: &str) -> Result<Option<Existing>> {
        for number in self
            .session
            .find(self.owner, Kind::ExchangeId, &sha256(id.as_bytes()))?
        {
            let select = "SELECT request_sha256, response_sha256, input_node FROM exchange \
                          WHERE key = ?1 AND owner_id = ?2 AND id = ?3";
            let mut statement = self.session.connection().prepare_cached(select).map_err(problem)?;
            let columns = params![key(self.owner, number), self.owner.0, id];
            let found = statement.query_row(columns, |row| {
                Ok(Existing {
                    number,
                    request_sha256: row.get(0)?,
                    response_sha256: row.get(1)?,
                    input_node: row.get(2)?,
                })
            });
            if let Some(existing) = found.optional().map_err(problem)? {
                return Ok(Some(existing));
            }
        }
        Ok(None)
    }

    fn insert(&mut self, exchange: &NewExchange) -> Result<i64> {
        self.counters.last_exchange += 1;
        self.counters.last_position += 1;
        let number = self.counters.last_exchange;
        let request_rope = self.body(&exchange.id, &exchange.request)?;
        let response_rope = exchange
            .response
            .as_ref()
            .map(|body| self.body(&exchange.id, body))
            .transpose()?;
        let start = self.start_node(exchange.start, number, exchange.at)?;
        let input = self.chain(start, &exchange.request_chain, number, exchange.at)?;
        let output = self.answer_node(input, exchange, number)?;
        let detail = self.side_part(&Part::text(exchange.detail.as_str().into()))?;
        let context = self.context(&exchange.hashes)?;
        let provenance = exchange.provenance.as_ref().map(write_provenance);
        let insert = "INSERT INTO exchange (key, owner_id, id, position, at, ended_at, status, http_status, provider, \
                      model, kind, session, agent, project, input_node, output_node, context, hashes, keys, usage, cost_nano_usd, \
                      cost_is_estimate, request_sha256, request_length, request_rope, response_sha256, response_length, \
                      response_rope, detail, provenance, rules_version) \
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, \
                      ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31)";
        let mut statement = self.session.connection().prepare_cached(insert).map_err(problem)?;
        let columns = params![
            key(self.owner, number),
            self.owner.0,
            exchange.id,
            self.counters.last_position,
            exchange.at.0,
            exchange.ended_at.map(|at| at.0),
            status_code(exchange.status),
            exchange.http_status,
            exchange.provider,
            exchange.model,
            exchange.kind,
            exchange.session,
            exchange.agent,
            exchange.project,
            input.number,
            output,
            context,
            write_hashes(&exchange.hashes, |kind| !kind.is_of_context()),
            write_keys(&exchange.keys),
            exchange.usage.as_ref().map(write_usage),
            exchange.cost_nano_usd.map(|cost| cost as i64),
            exchange.cost_is_estimate,
            exchange.request.sha256,
            exchange.request.length as i64,
            request_rope,
            exchange.response.as_ref().map(|body| body.sha256),
            exchange.response.as_ref().map(|body| body.length as i64),
            response_rope,
            detail,
            provenance,
            exchange.rules_version,
        ];
        statement.execute(columns).map_err(problem)?;
        drop(statement);
        let id_hash = sha256(exchange.id.as_bytes());
        self.session.index(self.owner, Kind::ExchangeId, &id_hash, number);
        self.index_keys(exchange, number);
        search::queue(self, &exchange.texts, number)?;
        Ok(number)
    }

    /// The end of an exchange whose beginning is there.
    fn complete(&mut self, existing: &Existing, exchange: &NewExchange) -> Result<()> {
        self.counters.last_position += 1;
        let rope = exchange
            .response
            .as_ref()
            .map(|body| self.body(&exchange.id, body))
            .transpose()?;
        let input = self.node_row(existing.input_node)?;
        let output = self.answer_node(input, exchange, existing.number)?;
        let context = self.context(&exchange.hashes)?;
        let detail = self.side_part(&Part::text(exchange.detail.as_str().into()))?;
        let update = "UPDATE exchange SET position = ?3, ended_at = ?4, status = ?5, http_status = ?6, output_node = ?7, \
                      hashes = ?8, keys = ?9, usage = ?10, cost_nano_usd = ?11, cost_is_estimate = ?12, \
                      response_sha256 = ?13, response_length = ?14, response_rope = ?15, model = coalesce(?16, model), context = ?17, \
                      detail = ?18 \
                      WHERE key = ?1 AND owner_id = ?2";
        let mut statement = self.session.connection().prepare_cached(update).map_err(problem)?;
        let columns = params![
            key(self.owner, existing.number),
            self.owner.0,
            self.counters.last_position,
            exchange.ended_at.map(|at| at.0),
            status_code(exchange.status),
            exchange.http_status,
            output,
            write_hashes(&exchange.hashes, |kind| !kind.is_of_context()),
            write_keys(&exchange.keys),
            exchange.usage.as_ref().map(write_usage),
            exchange.cost_nano_usd.map(|cost| cost as i64),
            exchange.cost_is_estimate,
            exchange.response.as_ref().map(|body| body.sha256),
            exchange.response.as_ref().map(|body| body.length as i64),
            rope,
            exchange.model,
            context,
            detail,
        ];
        statement.execute(columns).map_err(problem)?;
        drop(statement);
        self.index_keys(exchange, existing.number);
        let of_answer = exchange.texts.iter().filter(|text| text.source.is_of_answer());
        search::queue(self, of_answer, existing.number)
    }

    fn index_keys(&mut self, exchange: &NewExchange, number: i64) {
        let changing = exchange.hashes.iter().filter(|(kind, _)| !kind.is_of_context());
        let by_hash = changing.map(|(_, hash)| Key::of_hash(hash));
        for entry in exchange.keys.iter().copied().chain(by_hash) {
            let kind = Kind::Key(entry.kind.code());
            self.session.index(self.owner, kind, &entry.hash, number);
        }
    }

    /// The part that holds the hashes of the exchange's context.
    fn context(&mut self, hashes: &[(HashKind, Vec<u8>)]) -> Result<i64> {
        let part = Part::bytes(&write_hashes(hashes, HashKind::is_of_context));
        if let Some(number) = self.find_part(&part.hash)? {
            return Ok(number);
        }
        let number = self.side_part(&part)?;
        for (_, hash) in hashes.iter().filter(|(kind, _)| kind.is_of_context()) {
            let key = Key::of_hash(hash);
            self.session.index(self.owner, Kind::Context, &key.hash, number);
        }
        Ok(number)
    }

    pub(super) fn pack(&mut self, bytes: &[u8]) -> Result<(Codec, Vec<u8>)> {
        self.session.packer(self.owner)?.pack(bytes).map_err(cannot_pack)
    }

    /// Stores a body's new parts and its recipe; gives the recipe's root.
    fn body(&mut self, id: &str, body: &Body) -> Result<Vec<u8>> {
        self.counters.bytes_in += body.length as i64;
        for part in body.recipe.parts() {
            self.part(part)?;
        }
        let rope = rope::store(body.recipe.pieces(), self).map_err(|error| match error {
            StoreError::MissingPart { .. } => StoreError::MissingPart { id: id.to_owned() },
            other => other,
        })?;
        Ok(write_rope(&rope))
    }

    /// The number of a part, which is stored if it is new.
    fn part(&mut self, part: &Part) -> Result<i64> {
        if let Some(number) = self.find_part(&part.hash)? {
            return Ok(number);
        }
        let (codec, packed) = self.pack(part.as_bytes())?;
        self.insert_part(&part.hash, part.as_bytes().len(), codec, &packed)
    }

    /// A part that no body has: what an exchange says about itself. It does not count among the parts.
    fn side_part(&mut self, part: &Part) -> Result<i64> {
        let before = self.counters.last_part;
        let number = self.part(part)?;
        self.counters.side_parts += self.counters.last_part - before;
        Ok(number)
    }

    pub(super) fn find_part(&mut self, hash: &PartHash) -> Result<Option<i64>> {
        if let Some(number) = self.session.known.get(&(self.owner.0, hash.0)) {
            return Ok(Some(*number));
        }
        for number in self.session.find(self.owner, Kind::Part, &hash.0)? {
            // The index knows eight bytes of a hash, which somebody could make two texts for.
            let part = Parts::new(self.session.connection(), self.owner).load(number)?;
            if part.name == *hash {
                self.session.remember(self.owner, hash.0, number);
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    fn insert_part(&mut self, hash: &PartHash, length: usize, codec: Codec, bytes: &[u8]) -> Result<i64> {
        self.counters.last_part += 1;
        let number = self.counters.last_part;
        let insert = "INSERT INTO part (key, owner_id, hash, length, codec, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let mut statement = self.session.connection().prepare_cached(insert).map_err(problem)?;
        let name = (codec == Codec::Chunk).then_some(hash.0);
        let row = params![
            key(self.owner, number),
            self.owner.0,
            name,
            length as i64,
            codec.code(),
            bytes
        ];
        statement.execute(row).map_err(problem)?;
        drop(statement);
        self.counters.part_bytes += length as i64;
        self.counters.stored_bytes += bytes.len() as i64;
        self.session.index(self.owner, Kind::Part, &hash.0, number);
        self.session.remember(self.owner, hash.0, number);
        Ok(number)
    }
}

impl PartNumbers for Recorder<'_> {
    type Error = StoreError;

    fn number(&mut self, part: &PartHash) -> Result<PartNumber> {
        let found = self.find_part(part)?;
        found
            .map(|number| number as PartNumber)
            .ok_or(StoreError::MissingPart { id: String::new() })
    }

    fn find_chunk(&mut self, name: &PartHash) -> Result<Option<PartNumber>> {
        Ok(self.find_part(name)?.map(|number| number as PartNumber))
    }

    fn insert_chunk(&mut self, name: &PartHash, bytes: Vec<u8>) -> Result<PartNumber> {
        let number = self.insert_part(name, bytes.len(), Codec::Chunk, &bytes)?;
        Ok(number as PartNumber)
    }
}

pub(super) fn cannot_pack(error: std::io::Error) -> StoreError {
    StoreError::Database {
        what: "a part cannot be compressed".to_owned(),
        source: error.into(),
    }
}
