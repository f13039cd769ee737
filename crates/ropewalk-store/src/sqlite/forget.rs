//! Removing exchanges, and what some of them said.
//!
//! Rows go first, then a sweep takes what only they used. Entries of the hash index go with the commit (see `writer`). What the
//! file still holds of it on free pages goes with [`compact`].

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::facts::{HashKind, Key, KeyKind, OwnerId, TextSource};
use crate::forget::{Compacted, Forgetting, Forgotten, Grave, Holed, HoledRequest, Tombstones};
use crate::packed::{read_hashes, read_keys, source_of, write_hashes};
use crate::sqlite::exchange_id::ExchangeId;
use crate::sqlite::keys::{Kind, key};
use crate::sqlite::link_check::each;
use crate::sqlite::record::with_recorder;
use crate::sqlite::writer::Session;
use crate::sqlite::{derived, problem, search, sweep, tombstones};
use crate::store::Result;

pub(super) fn forget(session: &mut Session, owner: OwnerId, what: &Forgetting) -> Result<Forgotten> {
    // What is overwritten or freed from here on is overwritten with zeros.
    session
        .connection()
        .pragma_update(None, "secure_delete", "ON")
        .map_err(problem)?;
    let outcome = remove_all(session, owner, what);
    session
        .connection()
        .pragma_update(None, "secure_delete", "OFF")
        .map_err(problem)?;
    outcome
}

fn remove_all(session: &mut Session, owner: OwnerId, what: &Forgetting) -> Result<Forgotten> {
    let removed: BTreeSet<i64> = what.removed.iter().map(|exchange| exchange.0).collect();
    let holed: BTreeSet<i64> = what.holed.iter().map(|holed| holed.exchange.0).collect();
    let changed: BTreeSet<i64> = removed.union(&holed).copied().collect();
    let mut went = Forgotten::default();
    let mut forgetting = Removal {
        session,
        owner,
        went: &mut went,
    };
    forgetting.write_out_parent_messages(&changed)?;
    for exchange in &removed {
        forgetting.exchange(*exchange, what.tombstones.as_ref())?;
    }
    for holed in &what.holed {
        forgetting.hole(holed)?;
    }
    forgetting.texts(&removed, &what.holed)?;
    if !removed.is_empty() {
        forgetting.waiting(&removed)?;
        forgetting.aliases(&removed)?;
    }
    forgetting.names(what, &removed)?;
    forgetting.log(what)?;
    forgetting.pins(&what.quoted)?;
    let connection = session.connection();
    derived::replace_conversations(connection, owner, &what.conversations)?;
    derived::drop_courses(connection, owner)?;
    if let Some((at, graves)) = what.named_graves() {
        tombstones::put_up(connection, owner, at, graves)?;
    }
    // Whoever links from what was there before has to look again.
    let update = "UPDATE owner SET link_version = link_version + 1 WHERE owner_id = ?1";
    connection.execute(update, [owner.0]).map_err(problem)?;
    let swept = sweep::sweep(session, owner, false)?;
    Ok(went.and_swept(swept))
}

struct Removal<'s> {
    session: &'s mut Session,
    owner: OwnerId,
    went: &'s mut Forgotten,
}

impl Removal<'_> {
    fn connection(&self) -> &Connection {
        self.session.connection()
    }

    fn execute(&self, statement: &str, exchange: i64) -> Result<u64> {
        let mut statement = self.connection().prepare_cached(statement).map_err(problem)?;
        let changed = statement.execute([self.owner.0, exchange]).map_err(problem)?;
        Ok(changed as u64)
    }

    /// Others have the hash of their parent's message from the exchange that said it: now they have it themselves.
    fn write_out_parent_messages(&mut self, changed: &BTreeSet<i64>) -> Result<()> {
        let mut followers: Vec<(i64, i64, Vec<u8>)> = Vec::new();
        let select =
            "SELECT key, parent_message, hashes FROM exchange WHERE owner_id = ?1 AND parent_message IS NOT NULL";
        each(self.connection(), select, self.owner, |row| {
            let parent: i64 = row.get(1).map_err(problem)?;
            if changed.contains(&parent) {
                followers.push((row.get(0).map_err(problem)?, parent, row.get(2).map_err(problem)?));
            }
            Ok(())
        })?;
        let update = "UPDATE exchange SET hashes = ?3, parent_message = NULL WHERE key = ?1 AND owner_id = ?2";
        for (follower, parent, own) in followers {
            let mut hashes = read_hashes(&own)?;
            let of_parent = read_hashes(&self.hashes_of(parent)?.unwrap_or_default())?;
            let message = of_parent
                .into_iter()
                .find(|(kind, _)| *kind == HashKind::CurrentMessage);
            hashes.extend(message.map(|(_, hash)| (HashKind::ParentMessage, hash)));
            let mut statement = self.connection().prepare_cached(update).map_err(problem)?;
            let row = params![follower, self.owner.0, write_hashes(&hashes, |_| true)];
            statement.execute(row).map_err(problem)?;
        }
        Ok(())
    }

    fn hashes_of(&self, exchange: i64) -> Result<Option<Vec<u8>>> {
        let select = "SELECT hashes FROM exchange WHERE key = ?1 AND owner_id = ?2";
        let mut statement = self.connection().prepare_cached(select).map_err(problem)?;
        let found = statement.query_row([key(self.owner, exchange), self.owner.0], |row| row.get(0));
        found.optional().map_err(problem)
    }

    /// A row, with the entries that find it and everything that is named by it.
    fn exchange(&mut self, exchange: i64, tombstones: Option<&Tombstones>) -> Result<()> {
        let select = "SELECT e.id, e.keys, e.hashes, \
                      (SELECT hash FROM node WHERE node.key = (e.owner_id << 40 | e.input_node) AND node.owner_id = ?2), \
                      (SELECT hash FROM node WHERE node.key = (e.owner_id << 40 | e.output_node) AND node.owner_id = ?2), \
                      e.request_length + coalesce(e.response_length, 0) FROM exchange e WHERE e.key = ?1 AND e.owner_id = ?2";
        let mut statement = self.connection().prepare_cached(select).map_err(problem)?;
        let found = statement.query_row([key(self.owner, exchange), self.owner.0], |row| {
            let packed: (Vec<u8>, Vec<u8>) = (row.get(1)?, row.get(2)?);
            let nodes: [Option<Vec<u8>>; 2] = [row.get(3)?, row.get(4)?];
            Ok((row.get::<_, ExchangeId>(0)?.0, packed, nodes, row.get::<_, i64>(5)?))
        });
        let found = found.optional().map_err(problem)?;
        drop(statement);
        let Some((id, (keys, hashes), nodes, lengths)) = found else {
            return Ok(());
        };
        let (owner, keys) = (self.owner, read_keys(&keys)?);
        if let Some(Tombstones { at, .. }) = tombstones {
            let calls = keys.iter().filter(|key| key.kind == KeyKind::Call);
            let calls = calls.map(|key| Grave::Call(&key.hash));
            tombstones::put_up(self.connection(), owner, *at, calls.chain([Grave::Exchange(&id)]))?;
        }
        let id_hash = ropewalk_core::hash::sha256(id.as_bytes());
        self.session.unindex(owner, Kind::ExchangeId, &id_hash, exchange);
        for (kind, node) in [Kind::Input, Kind::Output].into_iter().zip(nodes) {
            if let Some(node) = node {
                self.session.unindex(owner, kind, &node, exchange);
            }
        }
        self.unindex_hashes(exchange, &hashes)?;
        for key in keys {
            self.session
                .unindex(owner, Kind::Key(key.kind.code()), &key.hash, exchange);
        }
        for statement in ROWS_OF_EXCHANGE {
            self.execute(statement, exchange)?;
        }
        let update = "UPDATE owner SET last_exchange = last_exchange - 1, bytes_in = bytes_in - ?2 WHERE owner_id = ?1";
        self.execute(update, lengths)?;
        self.went.exchanges += 1;
        Ok(())
    }

    fn unindex_hashes(&mut self, exchange: i64, hashes: &[u8]) -> Result<()> {
        for (_, hash) in read_hashes(hashes)? {
            let entry = Key::of_hash(&hash);
            self.session
                .unindex(self.owner, Kind::Key(entry.kind.code()), &entry.hash, exchange);
        }
        Ok(())
    }

    /// What an exchange said goes, its row stays, with the decision that was made while all of it was there.
    fn hole(&mut self, holed: &Holed) -> Result<()> {
        let exchange = holed.exchange.0;
        let sha256 = match &holed.request {
            HoledRequest::Replaced { body, .. } => Some(body.sha256),
            HoledRequest::Kept | HoledRequest::Dropped => None,
        };
        let upsert = "INSERT INTO hole (owner_id, exchange, kind, parent, decision, sha256) \
                      SELECT ?1, ?2, l.kind, l.parent, l.decision, ?3 FROM exchange e \
                      LEFT JOIN link l ON l.key = e.key AND l.owner_id = ?1 WHERE e.key = ?4 AND e.owner_id = ?1 \
                      ON CONFLICT (owner_id, exchange) DO UPDATE SET sha256 = coalesce(excluded.sha256, sha256)";
        let row = params![self.owner.0, exchange, sha256, key(self.owner, exchange)];
        let mut statement = self.connection().prepare_cached(upsert).map_err(problem)?;
        let is_there = statement.execute(row).map_err(problem)? > 0;
        drop(statement);
        if !is_there {
            return Ok(());
        }
        self.went.holes += 1;
        let request = "UPDATE exchange SET request_rope = ?3 WHERE key = ?2 AND owner_id = ?1";
        let rope = match &holed.request {
            HoledRequest::Kept => None,
            HoledRequest::Dropped => Some(Vec::new()),
            HoledRequest::Replaced { body, .. } => {
                let written = with_recorder(self.session, self.owner, |recorder| recorder.rope("", body, None));
                Some(written?.0)
            }
        };
        if let Some(rope) = rope {
            let mut statement = self.connection().prepare_cached(request).map_err(problem)?;
            statement
                .execute(params![self.owner.0, key(self.owner, exchange), rope])
                .map_err(problem)?;
            drop(statement);
            // It repeats the request.
            self.execute("DELETE FROM sent_body WHERE owner_id = ?1 AND exchange = ?2", exchange)?;
        }
        if holed.drops_response {
            let response = "UPDATE exchange SET response_rope = NULL WHERE owner_id = ?1 AND key = ?2";
            self.execute(response, key(self.owner, exchange))?;
        }
        if holed.drops_hashes {
            let hashes = self.hashes_of(exchange)?.unwrap_or_default();
            self.unindex_hashes(exchange, &hashes)?;
            let update = "UPDATE exchange SET hashes = x'', parent_message = NULL WHERE owner_id = ?1 AND key = ?2";
            self.execute(update, key(self.owner, exchange))?;
        }
        Ok(())
    }

    /// What search finds of what goes.
    fn texts(&mut self, removed: &BTreeSet<i64>, holed: &[Holed]) -> Result<()> {
        let holed: BTreeMap<i64, &Holed> = holed.iter().map(|holed| (holed.exchange.0, holed)).collect();
        let goes = |exchange: i64, source: TextSource| {
            removed.contains(&exchange) || holed.get(&exchange).is_some_and(|holed| holed.drops_text(source))
        };
        let mut keys = Vec::new();
        let select = "SELECT key, exchange, source FROM search_text WHERE owner_id = ?1";
        each(self.connection(), select, self.owner, |row| {
            let source = source_of(row.get(2).map_err(problem)?)?;
            if goes(row.get(1).map_err(problem)?, source) {
                keys.push(row.get(0).map_err(problem)?);
            }
            Ok(())
        })?;
        self.went.texts += keys.len() as u64;
        search::remove(self.connection(), self.owner, &keys)
    }

    /// What removed exchanges wait for. The table is ordered by hashes.
    fn waiting(&mut self, removed: &BTreeSet<i64>) -> Result<()> {
        let mut gone: Vec<(i64, i64)> = Vec::new();
        let select = "SELECT hash, exchange FROM wanted WHERE owner_id = ?1";
        each(self.connection(), select, self.owner, |row| {
            let exchange = row.get(1).map_err(problem)?;
            if removed.contains(&exchange) {
                gone.push((row.get(0).map_err(problem)?, exchange));
            }
            Ok(())
        })?;
        let delete = "DELETE FROM wanted WHERE owner_id = ?1 AND hash = ?2 AND exchange = ?3";
        let mut statement = self.connection().prepare_cached(delete).map_err(problem)?;
        for (hash, exchange) in gone {
            statement.execute([self.owner.0, hash, exchange]).map_err(problem)?;
        }
        Ok(())
    }

    /// Ids that lead to removed exchanges. The table is ordered by them.
    fn aliases(&mut self, removed: &BTreeSet<i64>) -> Result<()> {
        let mut gone: Vec<Vec<u8>> = Vec::new();
        let select = "SELECT id, root FROM conversation_alias WHERE owner_id = ?1";
        each(self.connection(), select, self.owner, |row| {
            if removed.contains(&row.get(1).map_err(problem)?) {
                gone.push(row.get(0).map_err(problem)?);
            }
            Ok(())
        })?;
        let delete = "DELETE FROM conversation_alias WHERE owner_id = ?1 AND id = ?2";
        let mut statement = self.connection().prepare_cached(delete).map_err(problem)?;
        for id in gone {
            statement.execute(params![self.owner.0, id]).map_err(problem)?;
        }
        Ok(())
    }

    fn names(&mut self, what: &Forgetting, removed: &BTreeSet<i64>) -> Result<()> {
        let mut gone: Vec<(i64, String)> = Vec::new();
        let select = "SELECT name, short_hash, exchange FROM message_name WHERE owner_id = ?1";
        if !removed.is_empty() {
            each(self.connection(), select, self.owner, |row| {
                let (name, exchange): (i64, i64) = (row.get(0).map_err(problem)?, row.get(2).map_err(problem)?);
                if removed.contains(&name) || removed.contains(&exchange) {
                    gone.push((name, row.get(1).map_err(problem)?));
                }
                Ok(())
            })?;
        }
        gone.extend(what.message_names.iter().map(|(name, hash)| (name.0, hash.clone())));
        let delete = "DELETE FROM message_name WHERE owner_id = ?1 AND name = ?2 AND short_hash = ?3";
        let mut deleted = 0;
        for (name, hash) in gone {
            let mut statement = self.connection().prepare_cached(delete).map_err(problem)?;
            let row = params![self.owner.0, name, hash];
            deleted += statement.execute(row).map_err(problem)? as u64;
        }
        for exchange in removed {
            let delete = "DELETE FROM conversation_name WHERE owner_id = ?1 AND exchange = ?2";
            deleted += self.execute(delete, *exchange)?;
        }
        self.went.names += deleted;
        Ok(())
    }

    fn log(&mut self, what: &Forgetting) -> Result<()> {
        let delete = "DELETE FROM record WHERE owner_id = ?1 AND session = ?2";
        for session in &what.sessions {
            let deleted = self.connection().execute(delete, params![self.owner.0, session]);
            self.went.records += deleted.map_err(problem)? as u64;
        }
        Ok(())
    }

    fn pins(&mut self, quoted: &[String]) -> Result<()> {
        let delete = "DELETE FROM pin WHERE owner_id = ?1 AND instr(outcome, ?2) > 0";
        for name in quoted {
            let deleted = self.connection().execute(delete, params![self.owner.0, name]);
            self.went.pins += deleted.map_err(problem)? as u64;
        }
        Ok(())
    }
}

/// Rows of one exchange, by the owner and its number.
const ROWS_OF_EXCHANGE: [&str; 8] = [
    "DELETE FROM exchange WHERE owner_id = ?1 AND key = (?1 << 40 | ?2)",
    "DELETE FROM sent_body WHERE owner_id = ?1 AND exchange = ?2",
    "DELETE FROM spawn WHERE owner_id = ?1 AND exchange = ?2",
    "DELETE FROM retold WHERE owner_id = ?1 AND exchange = ?2",
    "DELETE FROM hole WHERE owner_id = ?1 AND exchange = ?2",
    "DELETE FROM link WHERE owner_id = ?1 AND key = (?1 << 40 | ?2)",
    "DELETE FROM branch WHERE owner_id = ?1 AND key = (?1 << 40 | ?2)",
    "DELETE FROM conversation WHERE owner_id = ?1 AND key = (?1 << 40 | ?2)",
];

/// Merges the search index, so that no word of a removed text is left in it, rewrites the file without free pages, and cuts the
/// write-ahead log.
pub(super) fn compact(connection: &Connection) -> Result<Compacted> {
    let size = || -> rusqlite::Result<u64> {
        let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        Ok((pragma("page_count")? * pragma("page_size")?).cast_unsigned())
    };
    let bytes_before = size().map_err(problem)?;
    connection
        .execute("INSERT INTO search (search) VALUES ('optimize')", [])
        .map_err(problem)?;
    // In memory, the copy of a large store would take all of it.
    connection.pragma_update(None, "temp_store", "FILE").map_err(problem)?;
    let rewritten = connection.execute_batch("VACUUM");
    connection
        .pragma_update(None, "temp_store", "MEMORY")
        .map_err(problem)?;
    rewritten.map_err(problem)?;
    let cut = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
    let is_busy = cut.map_err(problem)?;
    Ok(Compacted {
        bytes_before,
        bytes_after: size().map_err(problem)?,
        leaves_copies: is_busy,
    })
}
