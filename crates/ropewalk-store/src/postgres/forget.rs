//! Removing exchanges, and what some of them said. One transaction, under the owner's lock from its beginning: who records
//! meanwhile waits for it, and looks again where it remembered something that is gone (see `known_parts`).

use deadpool_postgres::Transaction;

use super::bodies::{Bodies, NewBody};
use super::dictionaries::cannot_start;
use super::known_parts::KnownParts;
use super::packed::{escape, unescape};
use super::problem::problem;
use super::record::{Taken, until_through};
use super::tombstones::Sweeps;
use super::{Postgres, query, signed, sql, sweep, unsigned};
use crate::codec::Packer;
use crate::facts::{HashKind, Key, KeyKind, OwnerId, TextSource};
use crate::forget::{Compacted, Forgetting, Forgotten, Grave, Holed, HoledRequest, Tombstones};
use crate::packed::{read_hashes, read_keys, source_code, write_hashes};
use crate::store::Result;

pub(super) async fn forget(store: &Postgres, owner: OwnerId, what: &Forgetting) -> Result<Forgotten> {
    let went = until_through(|| try_forget(store, owner, what)).await?;
    store.known_parts.forget();
    store.dictionaries.forget(owner);
    Ok(went)
}

async fn try_forget(store: &Postgres, owner: OwnerId, what: &Forgetting) -> Result<Forgotten> {
    let mut client = store.client().await?;
    let numbers = store.numbers.take(&client, owner, numbers_needed(what)).await?;
    let transaction = client.transaction().await.map_err(problem)?;
    query(&transaction, sql::LOCK_OWNER, &[&owner.0]).await?;
    let mut removal = Removal {
        transaction: &transaction,
        owner,
        sweeps: Sweeps::read(&transaction, owner).await?,
        went: Forgotten::default(),
        bytes_in: 0,
    };
    removal.exchanges(what).await?;
    let mut numbers = Taken::of(numbers);
    for holed in &what.holed {
        removal.hole(holed, &mut numbers).await?;
    }
    removal.beside(what).await?;
    if let Some((at, graves)) = what.named_graves() {
        removal.sweeps.put_up(&transaction, owner, at, &graves).await?;
    }
    let (went, bytes_in) = (removal.went, removal.bytes_in);
    let swept = sweep::sweep(&transaction, owner, false, bytes_in).await?;
    transaction.commit().await.map_err(problem)?;
    Ok(went.and_swept(swept))
}

fn numbers_needed(what: &Forgetting) -> usize {
    let nothing_known = KnownParts::default();
    let bodies = what.holed.iter().filter_map(|holed| match &holed.request {
        HoledRequest::Replaced { body, .. } => Some(NewBody { id: "", body }),
        HoledRequest::Kept | HoledRequest::Dropped => None,
    });
    bodies
        .map(|body| Bodies::new(vec![body], &nothing_known).numbers_needed())
        .sum()
}

struct Removal<'t> {
    transaction: &'t Transaction<'t>,
    owner: OwnerId,
    sweeps: Sweeps,
    went: Forgotten,
    /// Bytes of bodies that the owner has not any more.
    bytes_in: i64,
}

impl Removal<'_> {
    async fn exchanges(&mut self, what: &Forgetting) -> Result<()> {
        let mut numbers: Vec<i64> = what.removed.iter().map(|exchange| exchange.0).collect();
        numbers.sort_unstable();
        if numbers.is_empty() {
            return Ok(());
        }
        let mut keys: Vec<(i64, Key)> = Vec::new();
        let mut graves: Vec<(String, Vec<[u8; 32]>)> = Vec::new();
        for row in query(self.transaction, sql::FORGET_EXCHANGES, &[&self.owner.0, &numbers]).await? {
            let number: i64 = row.get(0);
            let own = read_keys(row.get(2))?;
            let calls = own.iter().filter(|key| key.kind == KeyKind::Call).map(|key| key.hash);
            graves.push((unescape(row.get(1)), calls.collect()));
            let by_hash = read_hashes(row.get(3))?;
            let by_hash = by_hash.iter().map(|(_, hash)| Key::of_hash(hash));
            keys.extend(own.into_iter().chain(by_hash).map(|key| (number, key)));
            self.bytes_in += row.get::<_, i64>(4);
            self.went.exchanges += 1;
        }
        self.keys(&keys).await?;
        if let Some(Tombstones { at, .. }) = &what.tombstones {
            let graves: Vec<Grave<'_>> = graves
                .iter()
                .flat_map(|(id, calls)| calls.iter().map(Grave::Call).chain([Grave::Exchange(id)]))
                .collect();
            self.sweeps.put_up(self.transaction, self.owner, *at, &graves).await?;
        }
        // The queue first: what is taken from it meanwhile is in the index by the time that is asked.
        for statement in [
            sql::DELETE_PROVENANCE,
            sql::DELETE_SPAWNS,
            sql::DELETE_SENT,
            sql::DELETE_QUEUED,
            sql::FORGET_HOLES,
            sql::FORGET_LINKS,
            sql::FORGET_BRANCHES,
            sql::FORGET_CONVERSATIONS,
            sql::FORGET_ALIASES,
            sql::FORGET_WANTED,
        ] {
            query(self.transaction, statement, &[&self.owner.0, &numbers]).await?;
        }
        self.went.texts += self.count(sql::FORGET_TEXTS, &numbers).await?;
        self.went.names += self.count(sql::FORGET_NAMES, &numbers).await?;
        self.went.names += self.count(sql::FORGET_MESSAGE_NAMES, &numbers).await?;
        Ok(())
    }

    async fn count(&self, statement: &'static str, numbers: &Vec<i64>) -> Result<u64> {
        let rows = query(self.transaction, statement, &[&self.owner.0, numbers]).await?;
        Ok(rows.len() as u64)
    }

    async fn keys(&self, keys: &[(i64, Key)]) -> Result<()> {
        let kinds: Vec<i16> = keys.iter().map(|(_, key)| i16::from(key.kind.code())).collect();
        let hashes: Vec<&[u8]> = keys.iter().map(|(_, key)| key.hash.as_slice()).collect();
        let exchanges: Vec<i64> = keys.iter().map(|(number, _)| *number).collect();
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] = [&self.owner.0, &kinds, &hashes, &exchanges];
        query(self.transaction, sql::DELETE_KEYS, &values).await?;
        Ok(())
    }

    /// What an exchange said goes, its row stays, with the decision that was made while all of it was there.
    async fn hole(&mut self, holed: &Holed, numbers: &mut Taken) -> Result<()> {
        let exchange = holed.exchange.0;
        let left = match &holed.request {
            HoledRequest::Replaced { body, .. } => Some(body),
            HoledRequest::Kept | HoledRequest::Dropped => None,
        };
        let (sha256, length) = (left.map(|body| &body.sha256[..]), left.map(|body| signed(body.length)));
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] = [&self.owner.0, &exchange, &sha256, &length];
        if query(self.transaction, sql::INSERT_HOLE, &values).await?.is_empty() {
            return Ok(());
        }
        self.went.holes += 1;
        let rope = match (&holed.request, left) {
            (HoledRequest::Kept, _) => None,
            (_, None) => Some((-1, Vec::new())),
            (_, Some(body)) => {
                // What this process remembers may be what goes.
                let nothing_known = KnownParts::default();
                let mut bodies = Bodies::new(vec![NewBody { id: "", body }], &nothing_known);
                bodies.find(self.transaction, self.owner).await?;
                let mut packer = Packer::new().map_err(cannot_start)?;
                bodies.store(self.transaction, self.owner, numbers, &mut packer).await?;
                let rope = bodies.rope(0)?;
                Some((i16::from(rope.levels), rope.root))
            }
        };
        if let Some((levels, root)) = &rope {
            query(
                self.transaction,
                sql::REPLACE_REQUEST,
                &[&self.owner.0, &exchange, levels, root],
            )
            .await?;
            // It repeats the request.
            query(self.transaction, sql::DELETE_SENT, &[&self.owner.0, &vec![exchange]]).await?;
        }
        if holed.drops_response {
            query(self.transaction, sql::DROP_RESPONSE, &[&self.owner.0, &exchange]).await?;
        }
        if holed.drops_hashes {
            for row in query(self.transaction, sql::HASHES_OF, &[&self.owner.0, &exchange]).await? {
                let hashes = read_hashes(row.get(0))?;
                let own = hashes.iter().filter(|(kind, _)| !kind.is_of_context());
                let keys = own.map(|(_, hash)| (exchange, Key::of_hash(hash)));
                self.keys(&keys.collect::<Vec<_>>()).await?;
                let left = write_hashes(&hashes, HashKind::is_of_context);
                query(self.transaction, sql::SET_HASHES, &[&self.owner.0, &exchange, &left]).await?;
            }
        }
        self.texts_of(holed).await
    }

    /// What search finds of what an exchange lost.
    async fn texts_of(&mut self, holed: &Holed) -> Result<()> {
        let goes = TextSource::ALL.into_iter().filter(|source| holed.drops_text(*source));
        let sources: Vec<i16> = goes.map(source_code).collect();
        for statement in [sql::FORGET_QUEUED_OF, sql::FORGET_TEXTS_OF] {
            let rows = query(
                self.transaction,
                statement,
                &[&self.owner.0, &holed.exchange.0, &sources],
            )
            .await?;
            self.went.texts += rows.len() as u64;
        }
        Ok(())
    }

    /// Names, records, pins and conversations that are asked for beside the exchanges.
    async fn beside(&mut self, what: &Forgetting) -> Result<()> {
        let (names, hashes): (Vec<i64>, Vec<&str>) =
            what.message_names.iter().map(|(name, hash)| (name.0, &**hash)).unzip();
        let gone = query(
            self.transaction,
            sql::FORGET_MESSAGES,
            &[&self.owner.0, &names, &hashes],
        )
        .await?;
        self.went.names += gone.len() as u64;
        let sessions: Vec<_> = what.sessions.iter().map(|session| escape(session)).collect();
        let gone = query(self.transaction, sql::FORGET_RECORDS, &[&self.owner.0, &sessions]).await?;
        self.went.records += gone.len() as u64;
        for name in &what.quoted {
            let gone = query(self.transaction, sql::FORGET_PINS, &[&self.owner.0, name]).await?;
            self.went.pins += gone.len() as u64;
        }
        let roots: Vec<i64> = what.conversations.iter().map(|row| row.root.0).collect();
        let records: Vec<&[u8]> = what.conversations.iter().map(|row| &row.record[..]).collect();
        query(
            self.transaction,
            sql::REPLACE_CONVERSATIONS,
            &[&self.owner.0, &roots, &records],
        )
        .await?;
        query(self.transaction, sql::DROP_COURSES, &[&self.owner.0]).await?;
        Ok(())
    }
}

/// Asks the server to give back the room of rows that are gone.
pub(super) async fn compact(store: &Postgres) -> Result<Compacted> {
    let client = store.client().await?;
    let size = async || -> Result<u64> {
        let rows = query(&client, sql::STORE_SIZE, &[]).await?;
        Ok(rows.first().map_or(0, |row| unsigned(row.get(0))))
    };
    let bytes_before = size().await?;
    client.batch_execute(sql::NO_TIMEOUT).await.map_err(problem)?;
    let vacuumed = client.batch_execute(sql::VACUUM).await.map_err(problem);
    let bytes_after = size().await?;
    // A connection without a timeout is nobody else's.
    drop(deadpool_postgres::Object::take(client));
    vacuumed?;
    Ok(Compacted {
        bytes_before,
        bytes_after,
        leaves_copies: false,
    })
}
