//! Recording: a batch of exchanges, in one transaction.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::time::Duration;

use deadpool_postgres::{Client, GenericClient, Transaction};

use super::bodies::{Added, Bodies, NewBody};
use super::nodes::{Chain, Nodes};
use super::packed::{escape, unescape};
use super::problem::{others_were_in_the_way, problem, raced};
use super::rows::{self, Replaced, Row};
use super::tombstones::Sweeps;
use super::{Postgres, hash_of, query, search, spawns, sql, unsigned};
use crate::codec::Packer;
use crate::facts::{ExchangeNumber, Key, KeyKind, Micros, NewExchange, OwnerId, Provenance, Telling};
use crate::packed::{read_hashes, read_keys};
use crate::store::{ID_MAX, NO_EXCHANGE, Outcome, Recorded, Result, StoreError, TELLERS_MAX};

/// How often a batch is tried when other writers were in its way. Each time one of them got through.
const TRIES_MAX: u32 = 10;

/// The first pause between tries; the next are longer.
const PAUSE: Duration = Duration::from_millis(2);

/// The owner of that name, made on first use.
pub(super) async fn owner(store: &Postgres, name: &str) -> Result<OwnerId> {
    let mut client = store.client().await?;
    let name = escape(name);
    if let Some(owner) = find_owner(&client, &name).await? {
        return Ok(owner);
    }
    // In one transaction, so that nobody finds the name without its rows.
    let transaction = client.transaction().await.map_err(problem)?;
    query(&transaction, sql::INSERT_OWNER_NAME, &[&name]).await?;
    let owner = find_owner(&transaction, &name).await?.ok_or(StoreError::NoOwner)?;
    query(&transaction, sql::INSERT_OWNER, &[&owner.0]).await?;
    query(&transaction, sql::INSERT_OWNER_NUMBER, &[&owner.0]).await?;
    transaction.commit().await.map_err(problem)?;
    Ok(owner)
}

async fn find_owner(client: &impl GenericClient, name: &str) -> Result<Option<OwnerId>> {
    let rows = query(client, sql::FIND_OWNER, &[&name]).await?;
    Ok(rows.first().map(|row| OwnerId(row.get(0))))
}

/// What can be said about a batch without asking the server.
pub(super) fn check(batch: &[NewExchange]) -> Result<()> {
    match batch
        .iter()
        .map(|exchange| exchange.id.len())
        .find(|length| *length > ID_MAX)
    {
        Some(length) => Err(StoreError::IdTooLong { length }),
        None => Ok(()),
    }
}

pub(super) async fn record(store: &Postgres, owner: OwnerId, batch: &[NewExchange]) -> Result<Vec<Recorded>> {
    until_through(|| try_record(store, owner, batch)).await
}

/// Runs a transaction again while other writers were in its way.
pub(super) async fn until_through<T, F>(transaction: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut tried = 1;
    loop {
        match transaction().await {
            Err(error) if tried < TRIES_MAX && others_were_in_the_way(&error) => {
                tokio::time::sleep(PAUSE * tried).await;
                tried += 1;
            }
            outcome => return outcome,
        }
    }
}

/// Numbers for the rows of one batch.
#[derive(Debug)]
pub(super) struct Taken(Range<i64>);

impl Taken {
    pub(super) fn of(numbers: Range<i64>) -> Self {
        Taken(numbers)
    }

    /// Never asked for more than were taken: callers count before they ask.
    pub(super) fn next(&mut self) -> i64 {
        let number = self.0.start;
        self.0.start += 1;
        number
    }
}

async fn try_record(store: &Postgres, owner: OwnerId, batch: &[NewExchange]) -> Result<Vec<Recorded>> {
    let mut client = store.client().await?;
    let age = store.known_parts.age();
    let sweeps = sweeps(store, &client, owner).await?;
    let forgotten = match sweeps.count {
        0 => HashSet::new(),
        _ => sweeps.forgotten_in(&client, owner, batch).await?,
    };
    let ids: Vec<Cow<'_, str>> = batch.iter().map(|exchange| escape(&exchange.id)).collect();
    // Looked at before the transaction: what changes until its end is noticed there.
    let calls: Vec<[u8; 32]> = calls(batch);
    let existing = find_exchanges(&client, owner, &ids, &calls).await?;
    let tellers: HashSet<i64> = existing.iter().map(|existing| existing.number).collect();
    let mut plan = Plan::new(batch, &ids, existing, &forgotten);
    let mut bodies = Bodies::new(plan.bodies(), &store.known_parts);
    let mut numbers = Taken(
        store
            .numbers
            .take(&client, owner, plan.rows.len() + bodies.numbers_needed())
            .await?,
    );
    plan.give_numbers(&mut numbers);
    if plan.rows.is_empty() && plan.conflicts == 0 {
        store.numbers.give_back(owner, numbers.0);
        return Ok(plan.recorded());
    }
    let mut packer = store.dictionaries.packer(&client, owner).await?;
    let transaction = client.transaction().await.map_err(problem)?;
    rows::remove_replaced(&transaction, owner, &plan.rows).await?;
    let written = write(
        &transaction,
        owner,
        &mut plan,
        &mut bodies,
        &mut numbers,
        &mut packer.packer,
    )
    .await?;
    if written.sweeps != sweeps.count {
        // Something that was remembered, or found a moment ago, may be gone.
        store.known_parts.forget();
        store.dictionaries.forget(owner);
        return Err(raced());
    }
    // The owner's lock is ours by now: whoever else tells of these calls has committed, or waits.
    check_tellers(&transaction, owner, &calls, &tellers, &plan.rows).await?;
    transaction.commit().await.map_err(problem)?;
    store.known_parts.remember(owner, age, bodies.parts());
    store.numbers.give_back(owner, numbers.0);
    store.dictionaries.keep(packer);
    store.dictionaries.train_if_due(&client, owner, written.parts).await;
    Ok(plan.recorded())
}

/// How often the owner's parts were removed, as far as this process knows.
async fn sweeps(store: &Postgres, client: &Client, owner: OwnerId) -> Result<Sweeps> {
    if let Some(sweeps) = store.known_parts.sweeps(owner) {
        return Ok(sweeps);
    }
    let sweeps = Sweeps::read(client, owner).await?;
    store.known_parts.begin(owner, sweeps.clone());
    Ok(sweeps)
}

/// Everything that is written, in the order of locks (see the module above). Says where the owner stands now.
async fn write(
    transaction: &Transaction<'_>,
    owner: OwnerId,
    plan: &mut Plan<'_>,
    bodies: &mut Bodies<'_>,
    numbers: &mut Taken,
    packer: &mut Packer,
) -> Result<Advanced> {
    let mut nodes = Nodes::new(plan.rows.iter().map(Chain::new).collect());
    tokio::try_join!(bodies.find(transaction, owner), nodes.find(transaction, owner))?;
    let added = bodies.store(transaction, owner, numbers, packer).await?;
    let (new_nodes, (), (), (), ()) = tokio::try_join!(
        nodes.store(transaction, owner),
        rows::store_keys(transaction, owner, &plan.rows),
        rows::store_provenance(transaction, owner, &plan.rows),
        spawns::store(transaction, owner, &plan.rows),
        search::queue(transaction, owner, &plan.rows, bodies),
    )?;
    let advanced = advance_owner(transaction, owner, plan, added, new_nodes).await?;
    let first = advanced.last - plan.rows.len() as i64 + 1;
    for (row, position) in plan.rows.iter_mut().zip(first..) {
        row.position = position;
    }
    rows::store(transaction, owner, &plan.rows, bodies).await?;
    rows::store_sent(transaction, owner, &plan.rows, bodies).await?;
    Ok(advanced)
}

/// Where an owner stands behind a batch.
struct Advanced {
    /// The last of its positions.
    last: i64,
    parts: i64,
    sweeps: i64,
}

/// Takes the owner's lock, and as many new positions as there are rows.
async fn advance_owner(
    transaction: &Transaction<'_>,
    owner: OwnerId,
    plan: &Plan<'_>,
    added: Added,
    new_nodes: i64,
) -> Result<Advanced> {
    let positions = plan.rows.len() as i64;
    let is_more = |row: &&Row<'_>| row.is_new && row.replaces.is_none();
    let exchanges = plan.rows.iter().filter(is_more).count() as i64;
    let bytes_in: i64 = plan.rows.iter().map(Row::bytes_in).sum();
    let rows = query(
        transaction,
        sql::ADVANCE_OWNER,
        &[
            &owner.0,
            &positions,
            &plan.conflicts,
            &exchanges,
            &added.parts,
            &new_nodes,
            &bytes_in,
            &added.part_bytes,
            &added.stored_bytes,
        ],
    )
    .await?;
    let row = rows.first().ok_or(StoreError::NoOwner)?;
    Ok(Advanced {
        last: row.get(0),
        parts: row.get(1),
        sweeps: row.get(2),
    })
}

/// What is there under an id, or of a call.
#[derive(Debug)]
struct Existing {
    id: String,
    number: i64,
    request_sha256: [u8; 32],
    response_sha256: Option<Vec<u8>>,
    at: i64,
    keys: Vec<Key>,
    hashes: Vec<u8>,
    bytes_in: i64,
    provenance: Option<Provenance>,
    ended_at: Option<Micros>,
    session: Option<String>,
    /// Its row in this batch, by place.
    row: Option<usize>,
}

impl Existing {
    fn read(row: &tokio_postgres::Row) -> Result<Self> {
        let text = |column: usize| row.get::<_, Option<String>>(column).map(unescape);
        let provenance = text(10).map(|file| Provenance {
            file,
            line: unsigned(row.get(11)),
            uuid: text(12),
            aliases: Vec::new(),
            log_begun: row.get::<_, Option<i64>>(13).map(Micros),
        });
        Ok(Existing {
            id: row.get(0),
            number: row.get(1),
            request_sha256: hash_of(row, 2)?,
            response_sha256: row.get(3),
            at: row.get(4),
            keys: read_keys(row.get(5))?,
            ended_at: row.get::<_, Option<i64>>(6).map(Micros),
            session: text(7),
            hashes: row.get(8),
            bytes_in: row.get(9),
            provenance,
            row: None,
        })
    }

    /// One that this batch writes.
    fn of_row(exchange: &NewExchange, id: String, place: usize) -> Self {
        Existing {
            id,
            number: 0,
            request_sha256: exchange.request.sha256,
            response_sha256: exchange.response.as_ref().map(|body| body.sha256.to_vec()),
            at: exchange.at.0,
            keys: exchange.keys.clone(),
            hashes: Vec::new(),
            bytes_in: 0,
            provenance: exchange.provenance.clone(),
            ended_at: exchange.ended_at,
            session: exchange.session.clone(),
            row: Some(place),
        }
    }

    /// Whether the same id comes with other bytes. A half that only one of the two has is no difference.
    fn differs(&self, exchange: &NewExchange) -> bool {
        let responses = self.response_sha256.as_ref().zip(exchange.response.as_ref());
        self.request_sha256 != exchange.request.sha256 || responses.is_some_and(|(known, new)| *known != new.sha256)
    }

    fn telling(&self) -> Telling<'_> {
        Telling {
            provenance: self.provenance.as_ref(),
            ended_at: self.ended_at,
            session: self.session.as_deref(),
        }
    }

    fn is_of_call(&self, call: [u8; 32]) -> bool {
        let mut keys = self.keys.iter();
        keys.any(|key| key.kind == KeyKind::Call && key.hash == call)
    }
}

/// The calls of a batch, each once.
fn calls(batch: &[NewExchange]) -> Vec<[u8; 32]> {
    let calls: BTreeSet<[u8; 32]> = batch.iter().flat_map(NewExchange::calls).collect();
    calls.into_iter().collect()
}

async fn find_exchanges(
    client: &Client,
    owner: OwnerId,
    ids: &[Cow<'_, str>],
    calls: &[[u8; 32]],
) -> Result<Vec<Existing>> {
    let mut sorted: Vec<&str> = ids.iter().map(AsRef::as_ref).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let hashes: Vec<&[u8]> = calls.iter().map(|call| &call[..]).collect();
    let kind = i16::from(KeyKind::Call.code());
    let (by_id, by_call) = (
        async || query(client, sql::FIND_EXCHANGES, &[&owner.0, &sorted]).await,
        async || {
            if hashes.is_empty() {
                return Ok(Vec::new());
            }
            query(
                client,
                sql::FIND_CALLS,
                &[&owner.0, &hashes, &kind, &(TELLERS_MAX as i64)],
            )
            .await
        },
    );
    let (by_id, by_call) = tokio::try_join!(by_id(), by_call())?;
    let mut seen = HashSet::new();
    let rows = by_id.iter().chain(&by_call).map(Existing::read);
    let mut existing = rows.collect::<Result<Vec<_>>>()?;
    existing.retain(|existing| seen.insert(existing.number));
    Ok(existing)
}

/// Whether somebody told of one of the calls since we looked.
async fn check_tellers(
    transaction: &Transaction<'_>,
    owner: OwnerId,
    calls: &[[u8; 32]],
    known: &HashSet<i64>,
    rows: &[Row<'_>],
) -> Result<()> {
    if calls.is_empty() {
        return Ok(());
    }
    let hashes: Vec<&[u8]> = calls.iter().map(|call| &call[..]).collect();
    let kind = i16::from(KeyKind::Call.code());
    let tellers = query(
        transaction,
        sql::TELLERS_OF_CALLS,
        &[&owner.0, &hashes, &kind, &(TELLERS_MAX as i64)],
    )
    .await?;
    let is_known = |teller: i64| known.contains(&teller) || rows.iter().any(|row| row.number == teller);
    match tellers.iter().all(|row| is_known(row.get(0))) {
        true => Ok(()),
        false => Err(raced()),
    }
}

/// What becomes of each exchange of a batch, and the rows to write.
struct Plan<'b> {
    rows: Vec<Row<'b>>,
    /// Per exchange: the outcome, and the number or the row that will have one.
    outcomes: Vec<(Outcome, std::result::Result<i64, usize>)>,
    conflicts: i64,
}

impl<'b> Plan<'b> {
    /// Looks at the batch in order, so that an exchange can begin and end in the same one.
    fn new(
        batch: &'b [NewExchange],
        ids: &[Cow<'_, str>],
        existing: Vec<Existing>,
        forgotten: &HashSet<usize>,
    ) -> Self {
        let mut plan = Plan {
            rows: Vec::with_capacity(batch.len()),
            outcomes: Vec::with_capacity(batch.len()),
            conflicts: 0,
        };
        let mut known = Known::new(existing);
        for (at, (exchange, id)) in batch.iter().zip(ids).enumerate() {
            let Some(there) = known.find(exchange, id) else {
                if forgotten.contains(&at) {
                    plan.outcomes.push((Outcome::Forgotten, Ok(NO_EXCHANGE.0)));
                    continue;
                }
                let place = plan.rows.len();
                plan.rows.push(Row::new(exchange));
                plan.outcomes.push((Outcome::New, Err(place)));
                known.add(Existing::of_row(exchange, id.clone().into_owned(), place));
                continue;
            };
            let outcome = plan.outcome_for(exchange, id, there);
            plan.outcomes.push((outcome, there.row.map_or(Ok(there.number), Err)));
            known.index();
        }
        plan
    }

    fn outcome_for(&mut self, exchange: &'b NewExchange, id: &str, there: &mut Existing) -> Outcome {
        if exchange.telling().is_same_call(there.telling()) {
            return match exchange.telling().outranks(there.telling()) {
                true => self.replace(exchange, id, there),
                false => Outcome::Known,
            };
        }
        if there.differs(exchange) {
            self.conflicts += 1;
            return Outcome::Conflict;
        }
        let Some(response) = exchange.response.as_ref().filter(|_| there.response_sha256.is_none()) else {
            return Outcome::Known;
        };
        there.response_sha256 = Some(response.sha256.to_vec());
        match there.row {
            Some(place) => self.rows[place].end = exchange,
            None => {
                there.row = Some(self.rows.len());
                let keys = std::mem::take(&mut there.keys);
                self.rows.push(Row::completing(exchange, there.number, there.at, keys));
            }
        }
        Outcome::Completed
    }

    /// The same call, told better: what this batch or another one wrote of it is written anew.
    fn replace(&mut self, exchange: &'b NewExchange, id: &str, there: &mut Existing) -> Outcome {
        let mut row = Row::new(exchange);
        row.number = there.number;
        let place = match there.row {
            Some(place) => {
                row.replaces = self.rows[place].replaces.take();
                self.rows[place] = row;
                place
            }
            None => {
                let mut keys = std::mem::take(&mut there.keys);
                let hashes = read_hashes(&there.hashes).unwrap_or_default();
                keys.extend(hashes.iter().map(|(_, hash)| Key::of_hash(hash)));
                row.replaces = Some(Replaced {
                    keys,
                    bytes_in: there.bytes_in,
                });
                self.rows.push(row);
                self.rows.len() - 1
            }
        };
        *there = Existing {
            number: there.number,
            ..Existing::of_row(exchange, id.to_owned(), place)
        };
        Outcome::Replaced
    }

    /// The bodies of all rows, in the order in which `rows::store` asks for them again.
    fn bodies(&mut self) -> Vec<NewBody<'b>> {
        let mut bodies = Vec::new();
        for row in &mut self.rows {
            let id = row.begin.id.as_str();
            let mut push = |body| {
                bodies.push(NewBody { id, body });
                bodies.len() - 1
            };
            row.request_body = row.is_new.then(|| push(&row.begin.request));
            row.sent_body = row.sent().map(&mut push);
            row.response_body = row.end.response.as_ref().map(push);
        }
        bodies
    }

    fn give_numbers(&mut self, numbers: &mut Taken) {
        for row in self.rows.iter_mut().filter(|row| row.is_new && row.number == 0) {
            row.number = numbers.next();
        }
    }

    fn recorded(&self) -> Vec<Recorded> {
        let recorded = |(outcome, number): &(Outcome, std::result::Result<i64, usize>)| Recorded {
            number: ExchangeNumber(number.unwrap_or_else(|place| self.rows[place].number)),
            outcome: *outcome,
        };
        self.outcomes.iter().map(recorded).collect()
    }
}

/// What is there, by id and by call.
struct Known {
    existing: Vec<Existing>,
    by_id: HashMap<String, usize>,
    by_call: HashMap<[u8; 32], Vec<usize>>,
    /// How many are in the maps; the last one that was found may have another name now.
    touched: Option<usize>,
}

impl Known {
    fn new(existing: Vec<Existing>) -> Self {
        let mut known = Known {
            existing: Vec::new(),
            by_id: HashMap::new(),
            by_call: HashMap::new(),
            touched: None,
        };
        existing.into_iter().for_each(|existing| known.add(existing));
        known
    }

    fn add(&mut self, existing: Existing) {
        self.touched = Some(self.existing.len());
        self.existing.push(existing);
        self.index();
    }

    /// Gives the one that was found last its names.
    fn index(&mut self) {
        let Some(place) = self.touched.take() else { return };
        let existing = &self.existing[place];
        self.by_id.insert(existing.id.clone(), place);
        for key in existing.keys.iter().filter(|key| key.kind == KeyKind::Call) {
            let places = self.by_call.entry(key.hash).or_default();
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }

    fn find(&mut self, exchange: &NewExchange, id: &str) -> Option<&mut Existing> {
        let by_id = self
            .by_id
            .get(id)
            .copied()
            .filter(|place| self.existing[*place].id == id);
        let place = by_id.or_else(|| {
            exchange.calls().find_map(|call| {
                let mut tellers = self.by_call.get(&call)?.iter().copied();
                tellers.find(|place| {
                    let existing = &self.existing[*place];
                    existing.is_of_call(call) && exchange.telling().is_same_call(existing.telling())
                })
            })
        })?;
        self.touched = Some(place);
        Some(&mut self.existing[place])
    }
}
