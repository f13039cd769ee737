//! Looking for damage. Everything is read in one snapshot, so that writers at work are no findings.

use std::collections::{BTreeSet, HashSet};

use deadpool_postgres::{Client, Transaction};
use ropewalk_core::hash::sha256;
use tokio_postgres::Row;

use super::body::{Parts, StoredBody, chunks, chunks_of, learn_dictionaries, lowered, numbers_in, unpack};
use super::packed::unescape;
use super::problem::problem;
use super::{hash_of, link_check, query, snapshot, sql};
use crate::codec::Unpacker;
use crate::facts::OwnerId;
use crate::marks::pieces;
use crate::store::{Depth, Finding, Result, Severity, StoreError};

/// Findings of one rule that are told; more of the same help nobody.
pub(super) const FINDINGS_MAX: i64 = 100;

/// Exchanges and parts looked at by one statement.
const ROWS_MAX: i64 = 256;

/// Rules that one statement finds: its name, how bad it is, the statement, what its rows are.
const RULES: [(&str, Severity, &str, &str); 7] = [
    (
        "node-parent",
        Severity::Error,
        sql::NODES_WITHOUT_PARENT,
        "node without its parent",
    ),
    // A cycle has a node that is not one deeper than its parent, so this finds those as well.
    (
        "node-depth",
        Severity::Error,
        sql::NODES_OF_WRONG_DEPTH,
        "node not one deeper than its parent",
    ),
    (
        "node-hash",
        Severity::Error,
        sql::NODES_OF_WRONG_HASH,
        "node not named by its parent and value",
    ),
    (
        "node-exchange",
        Severity::Error,
        sql::NODES_OF_NO_EXCHANGE,
        "node of an exchange that is not there",
    ),
    (
        "exchange-node",
        Severity::Error,
        sql::EXCHANGES_WITHOUT_NODE,
        "exchange at a node that is not there",
    ),
    (
        "key-exchange",
        Severity::Warning,
        sql::KEYS_OF_NO_EXCHANGE,
        "key of an exchange that is not there",
    ),
    (
        "text-exchange",
        Severity::Warning,
        sql::TEXTS_OF_NO_EXCHANGE,
        "text of an exchange that is not there",
    ),
];

pub(super) async fn check(client: &mut Client, owner: OwnerId, depth: Depth) -> Result<Vec<Finding>> {
    let transaction = snapshot(client).await?;
    let mut check = Check {
        transaction,
        owner,
        findings: Vec::new(),
        sound_chunks: HashSet::new(),
        sound_parts: HashSet::new(),
        unpacker: Unpacker::default(),
    };
    check.rules().await?;
    check.ropes(depth).await?;
    check.totals().await?;
    check
        .findings
        .extend(link_check::check(&check.transaction, owner).await?);
    if depth == Depth::Data {
        check.parts().await?;
    }
    // Ended here rather than by being dropped, which would only be told to the server with the connection's next use.
    check.transaction.commit().await.map_err(problem)?;
    Ok(check.findings)
}

struct Check<'c> {
    transaction: Transaction<'c>,
    owner: OwnerId,
    findings: Vec<Finding>,
    /// Chunks with their level that were seen to resolve, and parts that are there: each is looked at once.
    sound_chunks: HashSet<(i64, u8)>,
    sound_parts: HashSet<i64>,
    unpacker: Unpacker,
}

impl Check<'_> {
    fn find(&mut self, severity: Severity, rule: &'static str, what: String) {
        self.findings.push(Finding { severity, rule, what });
    }

    async fn rules(&mut self) -> Result<()> {
        for (rule, severity, statement, what) in RULES {
            for row in query(&self.transaction, statement, &[&self.owner.0, &FINDINGS_MAX]).await? {
                let name: &[u8] = row.get(0);
                let name = match std::str::from_utf8(name) {
                    Ok(text) if rule == "exchange-node" => text.to_owned(),
                    _ => hex::encode(name),
                };
                self.find(severity, rule, format!("{what}: {name}"));
            }
        }
        Ok(())
    }

    /// Follows every recipe; with the data, joins every body as well.
    async fn ropes(&mut self, depth: Depth) -> Result<()> {
        let mut after = i64::MIN;
        loop {
            let rows = query(&self.transaction, sql::ROPES, &[&self.owner.0, &after, &ROWS_MAX]).await?;
            let Some(last) = rows.last() else {
                return Ok(());
            };
            after = last.get(0);
            for row in &rows {
                for column in [2, 6, 10] {
                    // A body that was forgotten has -1 levels.
                    if row.get::<_, Option<i16>>(column + 2).is_some_and(|levels| levels >= 0) {
                        self.body(row, column, depth).await?;
                    }
                }
            }
        }
    }

    async fn body(&mut self, row: &Row, column: usize, depth: Depth) -> Result<()> {
        let outcome = self.try_body(row, column, depth).await;
        let half = match column {
            2 => "request",
            6 => "response",
            _ => "what was sent in the place of the request",
        };
        match outcome {
            Err(StoreError::Damaged(why)) => {
                let id = unescape(row.get(1));
                self.find(Severity::Error, "body", format!("{half} of exchange {id}: {why}"));
                Ok(())
            }
            other => other,
        }
    }

    async fn try_body(&mut self, row: &Row, column: usize, depth: Depth) -> Result<()> {
        let stored = StoredBody::read(row, column)?;
        let mut leaves = Vec::new();
        for mut run in stored.runs()? {
            for level in (1..=run.level).rev() {
                let mut numbers = chunks_of(&run)?;
                if depth == Depth::Structure {
                    numbers.retain(|number| !self.sound_chunks.contains(&(*number, level)));
                }
                let found = chunks(&self.transaction, self.owner, &numbers).await?;
                run = lowered(level, &numbers, &found)?;
                self.sound_chunks
                    .extend(numbers.into_iter().map(|number| (number, level)));
            }
            leaves.append(&mut run.entries);
        }
        let pieces = pieces(&leaves)?;
        let numbers = numbers_in(&pieces);
        self.parts_are_there(&numbers).await?;
        if depth == Depth::Data {
            let parts = Parts::read(&self.transaction, self.owner, &numbers, &mut self.unpacker).await?;
            stored.join(&pieces, &parts)?;
        }
        Ok(())
    }

    async fn parts_are_there(&mut self, numbers: &[i64]) -> Result<()> {
        let unknown: BTreeSet<i64> = numbers
            .iter()
            .copied()
            .filter(|number| !self.sound_parts.contains(number))
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let asked: Vec<i64> = unknown.iter().copied().collect();
        for row in query(&self.transaction, sql::PART_NUMBERS, &[&self.owner.0, &asked]).await? {
            self.sound_parts.insert(row.get(0));
        }
        match unknown.iter().find(|number| !self.sound_parts.contains(number)) {
            Some(missing) => Err(StoreError::Damaged(format!("part {missing} is not there"))),
            None => Ok(()),
        }
    }

    /// Totals beside what they count, and what is kept for nothing.
    async fn totals(&mut self) -> Result<()> {
        let counted = query(&self.transaction, sql::COUNTED, &[&self.owner.0]).await?;
        let totals = query(&self.transaction, sql::STATS, &[&self.owner.0]).await?;
        let (Some(counted), Some(totals)) = (counted.first(), totals.first()) else {
            return Err(StoreError::NoOwner);
        };
        for (column, name) in ["exchanges", "parts", "nodes"].into_iter().enumerate() {
            let (there, total): (i64, i64) = (counted.get(column), totals.get(column));
            if there != total {
                let what = format!("{name}: {there} are there, the total says {total}");
                self.find(Severity::Warning, "totals", what);
            }
        }
        let unused = counted.get::<_, i64>(1) - self.sound_parts.len() as i64;
        let has_errors = self.findings.iter().any(|finding| finding.severity == Severity::Error);
        if unused > 0 && !has_errors {
            self.find(
                Severity::Note,
                "part-unused",
                format!("{unused} parts are in no recipe"),
            );
        }
        Ok(())
    }

    /// Rehashes every part.
    async fn parts(&mut self) -> Result<()> {
        let mut after = i64::MIN;
        loop {
            let rows = query(&self.transaction, sql::PARTS_FROM, &[&self.owner.0, &after, &ROWS_MAX]).await?;
            let Some(last) = rows.last() else {
                return Ok(());
            };
            after = last.get(0);
            let codecs = rows.iter().map(|row| row.get(2));
            learn_dictionaries(&self.transaction, self.owner, codecs, &mut self.unpacker).await?;
            for row in &rows {
                self.part(row)?;
            }
        }
    }

    fn part(&mut self, row: &Row) -> Result<()> {
        let number = row.get(0);
        match unpack(&mut self.unpacker, number, row.get(2), row.get(3), row.get(4)) {
            Ok(bytes) if sha256(&bytes) == hash_of(row, 1)? => {}
            Ok(_) => self.find(
                Severity::Error,
                "part-hash",
                format!("part {number} is not what it was"),
            ),
            Err(StoreError::Damaged(why)) => self.find(Severity::Error, "part-hash", why),
            Err(other) => return Err(other),
        }
        Ok(())
    }
}
