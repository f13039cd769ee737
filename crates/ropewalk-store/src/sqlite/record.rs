//! What recording an exchange writes.

use ropewalk_core::hash::{PartHash, sha256};
use ropewalk_core::part::Part;
use ropewalk_core::rope::{self, Alike, ChunkName, ChunkNumber, Cuts, PartNumber, RopeNumbers};
use rusqlite::{OptionalExtension as _, params};

use crate::facts::{Body, ExchangeNumber, HashKind, Key, KeyKind, Micros, NewExchange, OwnerId, Provenance, Telling};
use crate::packed::{
    read_keys, read_provenance, status_code, write_hashes, write_keys, write_provenance, write_rope, write_usage,
};
use crate::sqlite::context::{self, Context};
use crate::sqlite::exchange_id::ExchangeId;
use crate::sqlite::keys::{Kind, key};
use crate::sqlite::nodes::{NodeRow, Speaker};
use crate::sqlite::packs::PackReader;
use crate::sqlite::tail::Tail;
use crate::sqlite::tombstones::Tombstones;
use crate::sqlite::writer::{CALL, Session};
use crate::sqlite::{problem, search, spawns};
use crate::store::{ID_MAX, NO_EXCHANGE, Outcome, Recorded, Result, StoreError, TELLERS_MAX};

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
    with_recorder(session, owner, |recorder| {
        batch.iter().map(|exchange| recorder.exchange(exchange)).collect()
    })
}

/// Writes something with the owner's numbers, which are kept if it succeeds.
pub(super) fn with_recorder<T>(
    session: &mut Session,
    owner: OwnerId,
    write: impl FnOnce(&mut Recorder<'_>) -> Result<T>,
) -> Result<T> {
    let counters = Counters::load(session, owner)?;
    let tail = Tail::load(session.connection(), owner, counters.last_part + 1)?;
    let tombstones = Tombstones::of(session.connection(), owner)?;
    let mut recorder = Recorder {
        session,
        owner,
        counters,
        tombstones,
        tail,
        packs: PackReader::default(),
    };
    let written = write(&mut recorder)?;
    let Recorder {
        session,
        mut counters,
        tail,
        ..
    } = recorder;
    counters.stored_bytes += tail.save(session)?;
    counters.save(session, owner)?;
    session.tidy_later(owner);
    Ok(written)
}

/// Packs the owner's tail.
pub(super) fn tidy(session: &mut Session, owner: OwnerId) -> Result<()> {
    let mut counters = Counters::load(session, owner)?;
    let tail = Tail::load(session.connection(), owner, counters.last_part + 1)?;
    counters.stored_bytes += tail.tidy(session)?;
    counters.save(session, owner)
}

/// The owner's numbers, read once and written once per batch.
pub(super) struct Counters {
    last_part: i64,
    last_chunk: i64,
    pub(super) last_node: i64,
    pub(super) last_context: i64,
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
                      part_bytes, stored_bytes, side_parts, last_chunk, last_context FROM owner WHERE owner_id = ?1";
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
                last_chunk: row.get(10)?,
                last_context: row.get(11)?,
            })
        });
        found.optional().map_err(problem)?.ok_or(StoreError::NoOwner)
    }

    fn save(&self, session: &Session, owner: OwnerId) -> Result<()> {
        let update = "UPDATE owner SET last_part = ?2, last_node = ?3, last_exchange = ?4, last_text = ?5, \
                      last_position = ?6, conflicts = ?7, bytes_in = ?8, part_bytes = ?9, stored_bytes = ?10, side_parts = ?11, \
                      last_chunk = ?12, last_context = ?13 WHERE owner_id = ?1";
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
            self.side_parts,
            self.last_chunk,
            self.last_context,
        ];
        statement.execute(columns).map_err(problem)?;
        Ok(())
    }
}

pub(super) struct Recorder<'s> {
    pub(super) session: &'s mut Session,
    pub(super) owner: OwnerId,
    pub(super) counters: Counters,
    tombstones: Tombstones,
    /// Takes the batch's new parts.
    tail: Tail,
    packs: PackReader,
}

/// What is there under an id.
struct Existing {
    number: i64,
    request_sha256: Vec<u8>,
    response_sha256: Option<Vec<u8>>,
    input_node: i64,
    provenance: Option<Provenance>,
    ended_at: Option<Micros>,
    session: Option<String>,
    lengths: i64,
}

impl Existing {
    /// Whether the same id comes with other bytes. A half that only one of the two has is no difference.
    fn differs(&self, exchange: &NewExchange) -> bool {
        let request = self.request_sha256 != exchange.request.sha256;
        let responses = self.response_sha256.as_ref().zip(exchange.response.as_ref());
        request || responses.is_some_and(|(known, new)| *known != new.sha256)
    }

    fn telling(&self) -> Telling<'_> {
        Telling {
            provenance: self.provenance.as_ref(),
            ended_at: self.ended_at,
            session: self.session.as_deref(),
        }
    }
}

impl Recorder<'_> {
    fn exchange(&mut self, exchange: &NewExchange) -> Result<Recorded> {
        if exchange.id.len() > ID_MAX {
            return Err(StoreError::IdTooLong {
                length: exchange.id.len(),
            });
        }
        let existing = self.find_existing(exchange)?;
        if existing.is_none() && self.tombstones.are_of(self.session.connection(), exchange)? {
            return Ok(Recorded {
                number: NO_EXCHANGE,
                outcome: Outcome::Forgotten,
            });
        }
        let outcome = match existing {
            None => {
                self.counters.last_exchange += 1;
                self.counters.last_position += 1;
                // Its number is its position as well, until it is completed.
                let number = self.counters.last_position;
                self.insert(exchange, number, None)?;
                (number, Outcome::New)
            }
            Some(existing) if exchange.telling().is_same_call(existing.telling()) => {
                if exchange.telling().outranks(existing.telling()) {
                    self.replace(&existing, exchange)?;
                    (existing.number, Outcome::Replaced)
                } else {
                    (existing.number, Outcome::Known)
                }
            }
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

    /// What is there under its id, or of the same call.
    fn find_existing(&mut self, exchange: &NewExchange) -> Result<Option<Existing>> {
        let id_hash = sha256(exchange.id.as_bytes());
        for number in self.session.find(self.owner, Kind::ExchangeId, &id_hash)? {
            let found = self.existing(number)?.filter(|(id, ..)| *id == exchange.id);
            if let Some((_, _, existing)) = found {
                return Ok(Some(existing));
            }
        }
        for call in exchange.calls() {
            let found = self.find_teller(exchange, call)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Who told of the same call. Two who passed it on saw two calls, so where only such are known there is nobody to look for.
    fn find_teller(&mut self, exchange: &NewExchange, call: [u8; 32]) -> Result<Option<Existing>> {
        let is_of_log = exchange.telling().is_of_log();
        if is_of_log {
            self.session.say_passed_on(self.owner, &call, false);
        } else if self.session.is_passed_on(self.owner, &call) {
            return Ok(None);
        }
        let tellers = self.session.find(self.owner, CALL, &call)?;
        for number in tellers.iter().take(TELLERS_MAX) {
            let is_it = |keys: &[Key]| keys.iter().any(|key| key.kind == KeyKind::Call && key.hash == call);
            let found = self.existing(*number)?.filter(|(_, keys, _)| is_it(keys));
            if let Some((_, _, existing)) = found
                && exchange.telling().is_same_call(existing.telling())
            {
                return Ok(Some(existing));
            }
        }
        if !is_of_log && tellers.len() >= TELLERS_MAX {
            self.session.say_passed_on(self.owner, &call, true);
        }
        Ok(None)
    }

    fn existing(&self, number: i64) -> Result<Option<(String, Vec<Key>, Existing)>> {
        let select = "SELECT e.id, e.keys, e.request_sha256, e.response_sha256, e.input_node, e.provenance, e.ended_at, c.session, \
                      e.request_length + coalesce(e.response_length, 0) \
                      FROM exchange e JOIN context c ON c.key = (e.owner_id << 40 | e.context) AND c.owner_id = ?2 \
                      WHERE e.key = ?1 AND e.owner_id = ?2";
        let mut statement = self.session.connection().prepare_cached(select).map_err(problem)?;
        let columns = params![key(self.owner, number), self.owner.0];
        let found = statement.query_row(columns, |row| {
            let id: ExchangeId = row.get(0)?;
            let packed: (Vec<u8>, Option<String>) = (row.get(1)?, row.get(5)?);
            let existing = Existing {
                number,
                request_sha256: row.get(2)?,
                response_sha256: row.get(3)?,
                input_node: row.get(4)?,
                provenance: None,
                ended_at: row.get::<_, Option<i64>>(6)?.map(Micros),
                session: row.get(7)?,
                lengths: row.get(8)?,
            };
            Ok((id.0, packed, existing))
        });
        let Some((id, (keys, provenance), mut existing)) = found.optional().map_err(problem)? else {
            return Ok(None);
        };
        existing.provenance = provenance.as_deref().map(read_provenance).transpose()?;
        Ok(Some((id, read_keys(&keys)?, existing)))
    }

    /// The same call, told better: its row is written anew under its number.
    fn replace(&mut self, existing: &Existing, exchange: &NewExchange) -> Result<()> {
        self.counters.bytes_in -= existing.lengths;
        self.counters.last_position += 1;
        self.session.rewrote_a_row();
        let connection = self.session.connection();
        let delete = "DELETE FROM exchange WHERE owner_id = ?1 AND key = ?2";
        let row = params![self.owner.0, key(self.owner, existing.number)];
        connection
            .prepare_cached(delete)
            .and_then(|mut delete| delete.execute(row))
            .map_err(problem)?;
        let delete = "DELETE FROM spawn WHERE owner_id = ?1 AND exchange = ?2";
        connection
            .prepare_cached(delete)
            .and_then(|mut delete| delete.execute(params![self.owner.0, existing.number]))
            .map_err(problem)?;
        // What it said before is not found any more.
        let upsert = "INSERT INTO retold (owner_id, exchange, first_text) VALUES (?1, ?2, ?3) \
                      ON CONFLICT (owner_id, exchange) DO UPDATE SET first_text = excluded.first_text";
        let first_text = key(self.owner, self.counters.last_text + 1);
        connection
            .prepare_cached(upsert)
            .and_then(|mut upsert| upsert.execute(params![self.owner.0, existing.number, first_text]))
            .map_err(problem)?;
        self.insert(exchange, existing.number, Some(self.counters.last_position))
    }

    fn insert(&mut self, exchange: &NewExchange, number: i64, position: Option<i64>) -> Result<()> {
        let request_rope = self.body(&exchange.id, &exchange.request)?;
        let response_rope = exchange
            .response
            .as_ref()
            .map(|body| self.body(&exchange.id, body))
            .transpose()?;
        let asking = Speaker::asking(exchange, number);
        let start = self.start_node(exchange.start, asking)?;
        let input = self.asked_node(start, exchange, asking)?;
        let output = self.answer_node(input, exchange, number)?;
        let detail = self.side_part(&Part::text(exchange.detail.as_str().into()))?;
        let context = self.context(&Context::of(exchange))?;
        let provenance = exchange.provenance.as_ref().map(write_provenance);
        let parent_message = self.parent_message(exchange);
        let insert = "INSERT INTO exchange (key, owner_id, id, at, ended_at, status, http_status, context, detail, \
                      input_node, output_node, hashes, keys, usage, cost_nano_usd, cost_is_estimate, request_sha256, \
                      request_length, request_rope, response_sha256, response_length, response_rope, provenance, \
                      parent_message, position, projections) \
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, \
                      ?21, ?22, ?23, ?24, ?25, ?26)";
        let mut statement = self.session.connection().prepare_cached(insert).map_err(problem)?;
        let columns = params![
            key(self.owner, number),
            self.owner.0,
            ExchangeId(exchange.id.clone()),
            exchange.at.0,
            exchange.ended_at.map(|at| at.0),
            status_code(exchange.status),
            exchange.http_status,
            context,
            detail,
            input.number,
            output.map(|node| node.number),
            own_hashes(exchange, parent_message),
            write_keys(&own_keys(exchange)),
            exchange.usage.as_ref().map(write_usage),
            exchange.cost_nano_usd.map(|cost| cost as i64),
            exchange.cost_is_estimate,
            exchange.request.sha256,
            exchange.request.length as i64,
            request_rope,
            exchange.response.as_ref().map(|body| body.sha256),
            exchange.response.as_ref().map(|body| body.length as i64),
            response_rope,
            provenance,
            parent_message,
            position,
            exchange.projections_version,
        ];
        statement.execute(columns).map_err(problem)?;
        drop(statement);
        let id_hash = sha256(exchange.id.as_bytes());
        self.session.index(self.owner, Kind::ExchangeId, &id_hash, number);
        self.session.index(self.owner, Kind::Input, &input.hash.0, number);
        self.index_output(output, number);
        self.remember_message(exchange, number);
        self.index_keys(exchange, number);
        self.sent(exchange, number)?;
        spawns::insert(self, &exchange.spawns, number)?;
        search::queue(self, &exchange.texts, number)
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
        let connection = self.session.connection();
        let begun = context::number_of(connection, self.owner, existing.number)?;
        let context = Context::load(connection, self.owner, begun)?.completed_by(exchange);
        let context = self.context(&context)?;
        let detail = self.side_part(&Part::text(exchange.detail.as_str().into()))?;
        let parent_message = self.parent_message(exchange);
        let update = "UPDATE exchange SET position = ?3, ended_at = ?4, status = ?5, http_status = ?6, output_node = ?7, \
                      hashes = ?8, keys = ?9, usage = ?10, cost_nano_usd = ?11, cost_is_estimate = ?12, \
                      response_sha256 = ?13, response_length = ?14, response_rope = ?15, context = ?16, detail = ?17, \
                      parent_message = ?18, projections = ?19 \
                      WHERE key = ?1 AND owner_id = ?2";
        let mut statement = self.session.connection().prepare_cached(update).map_err(problem)?;
        let columns = params![
            key(self.owner, existing.number),
            self.owner.0,
            self.counters.last_position,
            exchange.ended_at.map(|at| at.0),
            status_code(exchange.status),
            exchange.http_status,
            output.map(|node| node.number),
            own_hashes(exchange, parent_message),
            write_keys(&own_keys(exchange)),
            exchange.usage.as_ref().map(write_usage),
            exchange.cost_nano_usd.map(|cost| cost as i64),
            exchange.cost_is_estimate,
            exchange.response.as_ref().map(|body| body.sha256),
            exchange.response.as_ref().map(|body| body.length as i64),
            rope,
            context,
            detail,
            parent_message,
            exchange.projections_version,
        ];
        statement.execute(columns).map_err(problem)?;
        drop(statement);
        self.index_output(output, existing.number);
        self.remember_message(exchange, existing.number);
        self.index_keys(exchange, existing.number);
        self.sent(exchange, existing.number)?;
        spawns::insert(self, &exchange.spawns, existing.number)?;
        let of_answer = exchange.texts.iter().filter(|text| text.source.is_of_answer());
        search::queue(self, of_answer, existing.number)
    }

    /// The exchange that this one's parent message was the current one of, if it was met lately.
    fn parent_message(&mut self, exchange: &NewExchange) -> Option<i64> {
        let hash = only_hash(exchange, HashKind::ParentMessage)?;
        self.session.recall(self.owner, MESSAGE, hash)
    }

    /// For those that go on from this one. What has no answer yet may change, and so may what a log tells.
    fn remember_message(&mut self, exchange: &NewExchange, number: i64) {
        if exchange.response.is_some()
            && !exchange.telling().is_of_log()
            && let Some(hash) = only_hash(exchange, HashKind::CurrentMessage)
        {
            self.session.remember(self.owner, MESSAGE, hash, number);
        }
    }

    fn index_output(&mut self, output: Option<NodeRow>, number: i64) {
        if let Some(node) = output {
            self.session.index(self.owner, Kind::Output, &node.hash.0, number);
        }
    }

    fn index_keys(&mut self, exchange: &NewExchange, number: i64) {
        let changing = exchange.hashes.iter().filter(|(kind, _)| !kind.is_of_context());
        let by_hash = changing.map(|(_, hash)| Key::of_hash(hash));
        for entry in own_keys(exchange).into_iter().chain(by_hash) {
            let kind = Kind::Key(entry.kind.code());
            self.session.index(self.owner, kind, &entry.hash, number);
        }
    }

    /// Stores a body's new parts and its recipe; gives the recipe's root.
    fn body(&mut self, id: &str, body: &Body) -> Result<Vec<u8>> {
        self.counters.bytes_in += body.length as i64;
        let alike = self.session.bodies.take_like(self.owner, body);
        let alike = alike.as_ref().map(|(known, pieces)| Alike {
            cuts: &known.cuts,
            pieces: *pieces,
        });
        let (rope, cuts) = self.rope(id, body, alike)?;
        self.session.bodies.keep(self.owner, body, cuts);
        Ok(rope)
    }

    /// What the provider got in the request's place, if it got another.
    fn sent(&mut self, exchange: &NewExchange, number: i64) -> Result<()> {
        let Some(sent) = &exchange.sent else { return Ok(()) };
        let (rope, _) = self.rope(&exchange.id, sent, None)?;
        let insert = "INSERT INTO sent_body (owner_id, exchange, sha256, length, rope) VALUES (?1, ?2, ?3, ?4, ?5) \
                      ON CONFLICT (owner_id, exchange) DO NOTHING";
        let mut statement = self.session.connection().prepare_cached(insert).map_err(problem)?;
        let row = params![self.owner.0, number, sent.sha256, sent.length as i64, rope];
        statement.execute(row).map_err(problem)?;
        Ok(())
    }

    pub(super) fn rope(&mut self, id: &str, body: &Body, alike: Option<Alike<'_>>) -> Result<(Vec<u8>, Cuts)> {
        for part in body.recipe.parts_behind(alike.map_or(0, |alike| alike.pieces)) {
            self.part(part)?;
        }
        let stored = rope::store_like(&*body.recipe, body.recipe.layout(), alike, self);
        let (rope, cuts) = stored.map_err(|error| match error {
            StoreError::MissingPart { .. } => StoreError::MissingPart { id: id.to_owned() },
            other => other,
        })?;
        Ok((write_rope(&rope), cuts))
    }

    /// The number of a part, which is stored if it is new.
    fn part(&mut self, part: &Part) -> Result<i64> {
        if let Some(number) = self.find_part(&part.hash)? {
            return Ok(number);
        }
        self.insert_part(part)
    }

    /// A part that no body has: what an exchange says about itself. It does not count among the parts.
    fn side_part(&mut self, part: &Part) -> Result<i64> {
        let before = self.counters.last_part;
        let number = self.part(part)?;
        self.counters.side_parts += self.counters.last_part - before;
        Ok(number)
    }

    pub(super) fn find_part(&mut self, hash: &PartHash) -> Result<Option<i64>> {
        if let Some(number) = self.session.recall(self.owner, Kind::Part, &hash.0) {
            return Ok(Some(number));
        }
        for number in self.session.find(self.owner, Kind::Part, &hash.0)? {
            // The index knows five bytes of a hash, which somebody could make two texts for.
            if sha256(self.load_part(number)?) == hash.0 {
                self.session.remember(self.owner, Kind::Part, &hash.0, number);
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// A part, also one that was added by this batch.
    fn load_part(&mut self, number: i64) -> Result<&[u8]> {
        match self.tail.part(number) {
            Some(part) => Ok(part),
            None => self.packs.part(self.session.connection(), self.owner, number),
        }
    }

    fn insert_part(&mut self, part: &Part) -> Result<i64> {
        let bytes = part.as_bytes();
        self.tail.push(self.session, bytes)?;
        self.counters.last_part += 1;
        self.counters.part_bytes += bytes.len() as i64;
        let number = self.counters.last_part;
        self.session.index(self.owner, Kind::Part, &part.hash.0, number);
        self.session.remember(self.owner, Kind::Part, &part.hash.0, number);
        Ok(number)
    }
}

/// What is remembered of current messages.
const MESSAGE: Kind = Kind::Key(KeyKind::Hash.code());

/// The hash of that kind, where it is one and whole.
fn only_hash(exchange: &NewExchange, kind: HashKind) -> Option<&[u8]> {
    let mut hashes = exchange.hashes.iter().filter(|(known, _)| *known == kind);
    let (_, hash) = hashes.next()?;
    (hash.len() == 32 && hashes.next().is_none()).then_some(hash)
}

/// Hashes that an exchange does not share with others of its context, nor with the one before it.
fn own_hashes(exchange: &NewExchange, parent_message: Option<i64>) -> Vec<u8> {
    write_hashes(&exchange.hashes, |kind| {
        let is_elsewhere = kind == HashKind::ParentMessage && parent_message.is_some();
        !kind.is_of_context() && !is_elsewhere
    })
}

/// Keys that an exchange does not share with others of its context.
fn own_keys(exchange: &NewExchange) -> Vec<Key> {
    let own = exchange.keys.iter().filter(|key| !key.kind.is_of_context());
    own.copied().collect()
}

impl RopeNumbers for Recorder<'_> {
    type Error = StoreError;

    fn part_number(&mut self, part: &PartHash) -> Result<PartNumber> {
        let found = self.find_part(part)?;
        found
            .map(|number| number as PartNumber)
            .ok_or(StoreError::MissingPart { id: String::new() })
    }

    fn find_chunk(&mut self, name: &ChunkName) -> Result<Option<ChunkNumber>> {
        if let Some(number) = self.session.recall(self.owner, Kind::Chunk, &name.0) {
            return Ok(Some(number as ChunkNumber));
        }
        for number in self.session.find(self.owner, Kind::Chunk, &name.0)? {
            let select = "SELECT 1 FROM chunk WHERE key = ?1 AND owner_id = ?2 AND name = ?3";
            let mut statement = self.session.connection().prepare_cached(select).map_err(problem)?;
            let row = params![key(self.owner, number), self.owner.0, name.0];
            let is_it = statement.exists(row).map_err(problem)?;
            drop(statement);
            if is_it {
                self.session.remember(self.owner, Kind::Chunk, &name.0, number);
                return Ok(Some(number as ChunkNumber));
            }
        }
        Ok(None)
    }

    fn insert_chunk(&mut self, name: &ChunkName, bytes: Vec<u8>) -> Result<ChunkNumber> {
        self.counters.last_chunk += 1;
        let number = self.counters.last_chunk;
        let insert = "INSERT INTO chunk (key, owner_id, name, bytes) VALUES (?1, ?2, ?3, ?4)";
        let mut statement = self.session.connection().prepare_cached(insert).map_err(problem)?;
        let row = params![key(self.owner, number), self.owner.0, name.0, bytes];
        statement.execute(row).map_err(problem)?;
        drop(statement);
        self.session.index(self.owner, Kind::Chunk, &name.0, number);
        self.session.remember(self.owner, Kind::Chunk, &name.0, number);
        Ok(number as ChunkNumber)
    }
}
