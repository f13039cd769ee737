//! Recording: a batch of exchanges, in one transaction.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use deadpool_postgres::{Client, GenericClient, Transaction};

use super::bodies::{Added, Bodies, NewBody};
use super::nodes::{Chain, Nodes};
use super::packed::escape;
use super::problem::{others_were_in_the_way, problem};
use super::rows::{self, Row};
use super::{Postgres, hash_of, query, search, spawns, sql};
use crate::codec::Packer;
use crate::facts::{ExchangeNumber, Key, NewExchange, OwnerId};
use crate::packed::read_keys;
use crate::store::{ID_MAX, Outcome, Recorded, Result, StoreError};

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
    let ids: Vec<Cow<'_, str>> = batch.iter().map(|exchange| escape(&exchange.id)).collect();
    // Looked at before the transaction: what changes until its end is noticed there.
    let existing = find_exchanges(&client, owner, &ids).await?;
    let mut plan = Plan::new(batch, &ids, existing);
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
    let parts = write(
        &transaction,
        owner,
        &mut plan,
        &mut bodies,
        &mut numbers,
        &mut packer.packer,
    )
    .await?;
    transaction.commit().await.map_err(problem)?;
    store.known_parts.remember(owner, age, bodies.parts());
    store.numbers.give_back(owner, numbers.0);
    store.dictionaries.keep(packer);
    store.dictionaries.train_if_due(&client, owner, parts).await;
    Ok(plan.recorded())
}

/// Everything that is written, in the order of locks (see the module above). Says how many parts the owner has now.
async fn write(
    transaction: &Transaction<'_>,
    owner: OwnerId,
    plan: &mut Plan<'_>,
    bodies: &mut Bodies<'_>,
    numbers: &mut Taken,
    packer: &mut Packer,
) -> Result<i64> {
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
    let Advanced { last, parts } = advance_owner(transaction, owner, plan, added, new_nodes).await?;
    let first = last - plan.rows.len() as i64 + 1;
    for (row, position) in plan.rows.iter_mut().zip(first..) {
        row.position = position;
    }
    rows::store(transaction, owner, &plan.rows, bodies).await?;
    Ok(parts)
}

/// Where an owner stands behind a batch.
struct Advanced {
    /// The last of its positions.
    last: i64,
    parts: i64,
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
    let exchanges = plan.rows.iter().filter(|row| row.is_new).count() as i64;
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
    })
}

/// What is there under an id.
#[derive(Debug)]
struct Existing {
    number: i64,
    request_sha256: [u8; 32],
    response_sha256: Option<Vec<u8>>,
    at: i64,
    keys: Vec<Key>,
    /// Its row in this batch, by place.
    row: Option<usize>,
}

impl Existing {
    /// Whether the same id comes with other bytes. A half that only one of the two has is no difference.
    fn differs(&self, exchange: &NewExchange) -> bool {
        let responses = self.response_sha256.as_ref().zip(exchange.response.as_ref());
        self.request_sha256 != exchange.request.sha256 || responses.is_some_and(|(known, new)| *known != new.sha256)
    }
}

async fn find_exchanges(client: &Client, owner: OwnerId, ids: &[Cow<'_, str>]) -> Result<HashMap<String, Existing>> {
    let mut sorted: Vec<&str> = ids.iter().map(AsRef::as_ref).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let rows = query(client, sql::FIND_EXCHANGES, &[&owner.0, &sorted]).await?;
    let existing = |row: &tokio_postgres::Row| {
        Ok((
            row.get(0),
            Existing {
                number: row.get(1),
                request_sha256: hash_of(row, 2)?,
                response_sha256: row.get(3),
                at: row.get(4),
                keys: read_keys(row.get(5))?,
                row: None,
            },
        ))
    };
    rows.iter().map(existing).collect()
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
    fn new(batch: &'b [NewExchange], ids: &[Cow<'_, str>], mut existing: HashMap<String, Existing>) -> Self {
        let mut plan = Plan {
            rows: Vec::with_capacity(batch.len()),
            outcomes: Vec::with_capacity(batch.len()),
            conflicts: 0,
        };
        for (exchange, id) in batch.iter().zip(ids) {
            let Some(there) = existing.get_mut(id.as_ref()) else {
                let place = plan.rows.len();
                plan.rows.push(Row::new(exchange));
                plan.outcomes.push((Outcome::New, Err(place)));
                let there = Existing {
                    number: 0,
                    request_sha256: exchange.request.sha256,
                    response_sha256: exchange.response.as_ref().map(|body| body.sha256.to_vec()),
                    at: exchange.at.0,
                    keys: Vec::new(),
                    row: Some(place),
                };
                existing.insert(id.clone().into_owned(), there);
                continue;
            };
            let outcome = plan.outcome_for(exchange, there);
            plan.outcomes.push((outcome, there.row.map_or(Ok(there.number), Err)));
        }
        plan
    }

    fn outcome_for(&mut self, exchange: &'b NewExchange, there: &mut Existing) -> Outcome {
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
            row.response_body = row.end.response.as_ref().map(push);
        }
        bodies
    }

    fn give_numbers(&mut self, numbers: &mut Taken) {
        for row in self.rows.iter_mut().filter(|row| row.is_new) {
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
