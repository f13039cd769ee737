//! Hashes and keys made again by a newer program.

use rusqlite::{OptionalExtension as _, params};

use crate::facts::{Key, OwnerId, Projected};
use crate::packed::{read_hashes, read_keys, write_hashes, write_keys};
use crate::sqlite::context::{self, Context};
use crate::sqlite::keys::{Kind, key};
use crate::sqlite::problem;
use crate::sqlite::record::{Recorder, with_recorder};
use crate::sqlite::writer::Session;
use crate::store::Result;

/// Gives exchanges other hashes and keys. Entries of the index for those that are gone stay: a row is asked whether it has them.
pub(super) fn project(session: &mut Session, owner: OwnerId, batch: &[Projected]) -> Result<u64> {
    with_recorder(session, owner, |recorder| {
        let mut written = 0;
        for projected in batch {
            written += u64::from(recorder.project(projected)?);
        }
        Ok(written)
    })
}

impl Recorder<'_> {
    fn project(&mut self, new: &Projected) -> Result<bool> {
        let number = new.exchange.0;
        let Some(known) = self.known_keys(new)? else {
            return Ok(false);
        };
        let connection = self.session.connection();
        let before = context::number_of(connection, self.owner, number)?;
        let context = Context {
            hashes: new
                .hashes
                .iter()
                .filter(|(kind, _)| kind.is_of_context())
                .cloned()
                .collect(),
            keys: new
                .keys
                .iter()
                .filter(|key| key.kind.is_of_context())
                .copied()
                .collect(),
            ..Context::load(connection, self.owner, before)?
        };
        let context = self.context(&context)?;
        let own: Vec<Key> = new
            .keys
            .iter()
            .filter(|key| !key.kind.is_of_context())
            .copied()
            .collect();
        // The hash of the parent message is written out: whoever had it may have another one now.
        let update = "UPDATE exchange SET context = ?3, hashes = ?4, keys = ?5, parent_message = NULL, projections = ?6 \
                      WHERE key = ?1 AND owner_id = ?2";
        let mut statement = self.session.connection().prepare_cached(update).map_err(problem)?;
        let columns = params![
            key(self.owner, number),
            self.owner.0,
            context,
            write_hashes(&new.hashes, |kind| !kind.is_of_context()),
            write_keys(&own),
            new.version,
        ];
        statement.execute(columns).map_err(problem)?;
        drop(statement);
        self.session.rewrote_a_row();
        let changing = new.hashes.iter().filter(|(kind, _)| !kind.is_of_context());
        let by_hash = changing.map(|(_, hash)| Key::of_hash(hash));
        for entry in own.into_iter().chain(by_hash).filter(|entry| !known.contains(entry)) {
            let kind = Kind::Key(entry.kind.code());
            self.session.index(self.owner, kind, &entry.hash, number);
        }
        Ok(true)
    }

    /// What the exchange is found by, unless it is another one than was looked at.
    fn known_keys(&self, new: &Projected) -> Result<Option<Vec<Key>>> {
        let select = "SELECT hashes, keys FROM exchange WHERE key = ?1 AND owner_id = ?2 AND response_sha256 IS ?3";
        let mut statement = self.session.connection().prepare_cached(select).map_err(problem)?;
        let columns = params![key(self.owner, new.exchange.0), self.owner.0, new.response_sha256];
        let found = statement.query_row(columns, |row| {
            Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Vec<u8>>(1)?))
        });
        let Some((hashes, keys)) = found.optional().map_err(problem)? else {
            return Ok(None);
        };
        let mut known = read_keys(&keys)?;
        known.extend(read_hashes(&hashes)?.iter().map(|(_, hash)| Key::of_hash(hash)));
        Ok(Some(known))
    }
}
