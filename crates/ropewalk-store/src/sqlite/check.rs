//! Looking for damage.

use ropewalk_core::chain;
use ropewalk_core::hash::{NodeHash, ValueHash};
use rusqlite::{Connection, params};

use crate::facts::{ExchangeNumber, OwnerId};
use crate::sqlite::bodies::{self, Parts};
use crate::sqlite::hash_index::{self, Fresh};
use crate::sqlite::keys::{Kind, key, number};
use crate::sqlite::problem;
use crate::store::{Depth, Finding, Half, Result, Severity, StoreError};

/// Findings of one rule that are reported one by one; the rest is counted.
const FINDINGS_MAX: usize = 100;

pub(super) fn check(connection: &Connection, fresh: &Fresh, owner: OwnerId, depth: Depth) -> Result<Vec<Finding>> {
    let mut report = Report::default();
    file(connection, &mut report)?;
    nodes(connection, fresh, owner, &mut report)?;
    parts(connection, fresh, owner, depth, &mut report)?;
    exchanges(connection, owner, depth, &mut report)?;
    Ok(report.findings)
}

#[derive(Default)]
struct Report {
    findings: Vec<Finding>,
}

impl Report {
    fn error(&mut self, rule: &'static str, what: String) {
        let already = self.findings.iter().filter(|finding| finding.rule == rule).count();
        let what = match already {
            FINDINGS_MAX => "more of the same".to_owned(),
            _ => what,
        };
        if already <= FINDINGS_MAX {
            self.findings.push(Finding {
                severity: Severity::Error,
                rule,
                what,
            });
        }
    }
}

/// What SQLite itself finds.
fn file(connection: &Connection, report: &mut Report) -> Result<()> {
    let mut statement = connection.prepare("PRAGMA quick_check(20)").map_err(problem)?;
    let mut rows = statement.query([]).map_err(problem)?;
    while let Some(row) = rows.next().map_err(problem)? {
        let said: String = row.get(0).map_err(problem)?;
        if said != "ok" {
            report.error("file", said);
        }
    }
    Ok(())
}

fn nodes(connection: &Connection, fresh: &Fresh, owner: OwnerId, report: &mut Report) -> Result<()> {
    let select = "SELECT n.key, n.hash, n.value, n.parent, n.depth, p.hash, p.depth, n.at < p.at, \
                  EXISTS (SELECT 1 FROM exchange e WHERE e.key = (n.owner_id << 40 | n.exchange) AND e.owner_id = ?1) \
                  FROM node n LEFT JOIN node p ON p.key = (n.owner_id << 40 | n.parent) AND p.owner_id = ?1 \
                  WHERE n.owner_id = ?1";
    let mut statement = connection.prepare(select).map_err(problem)?;
    let mut rows = statement.query([owner.0]).map_err(problem)?;
    while let Some(row) = rows.next().map_err(problem)? {
        let number = number(row.get(0).map_err(problem)?);
        let hash: Vec<u8> = row.get(1).map_err(problem)?;
        let Ok(hash) = <[u8; 32]>::try_from(hash) else {
            report.error("node-hash", format!("node {number} has no whole hash"));
            continue;
        };
        let parent: Option<i64> = row.get(3).map_err(problem)?;
        if let Some(parent) = parent {
            let parent_hash: Option<Vec<u8>> = row.get(5).map_err(problem)?;
            let value: Option<Vec<u8>> = row.get(2).map_err(problem)?;
            let depths: (i64, Option<i64>) = (row.get(4).map_err(problem)?, row.get(6).map_err(problem)?);
            match (
                parent_hash.and_then(|hash| hash.try_into().ok()),
                value.and_then(|value| value.try_into().ok()),
            ) {
                (Some(parent_hash), Some(value)) => {
                    if chain::node(NodeHash(parent_hash), ValueHash(value)).0 != hash {
                        report.error(
                            "node-hash",
                            format!("node {number} is not what its parent and value make"),
                        );
                    }
                    // A depth that is one more than the parent's everywhere leaves no room for a cycle.
                    if depths.1.map(|depth| depth + 1) != Some(depths.0) {
                        report.error("node-depth", format!("node {number} is not one deeper than its parent"));
                    }
                    if row.get::<_, bool>(7).map_err(problem)? {
                        report.error("node-time", format!("node {number} is earlier than its parent"));
                    }
                }
                _ => report.error(
                    "node-parent",
                    format!("node {number} names parent {parent}, which is not there"),
                ),
            }
        }
        if !row.get::<_, bool>(8).map_err(problem)? {
            report.error("node-exchange", format!("node {number} belongs to no exchange"));
        }
        if !hash_index::find(connection, &[], fresh, owner, Kind::Node, &hash)?.contains(&number) {
            report.error("hash-index", format!("node {number} cannot be found by its hash"));
        }
    }
    Ok(())
}

/// A part's name is what its bytes hash to, so a damaged one is one that its name does not find.
fn parts(connection: &Connection, fresh: &Fresh, owner: OwnerId, depth: Depth, report: &mut Report) -> Result<()> {
    let select = "SELECT key, hash IS NOT NULL FROM part WHERE owner_id = ?1";
    let mut statement = connection.prepare(select).map_err(problem)?;
    let mut rows = statement.query([owner.0]).map_err(problem)?;
    let mut loader = Parts::new(connection, owner);
    while let Some(row) = rows.next().map_err(problem)? {
        let number = number(row.get(0).map_err(problem)?);
        let is_chunk: bool = row.get(1).map_err(problem)?;
        if !is_chunk && depth == Depth::Structure {
            continue;
        }
        match loader.load(number) {
            Ok(part) => {
                let found = hash_index::find(connection, &[], fresh, owner, Kind::Part, &part.name.0)?;
                if !found.contains(&number) {
                    report.error(
                        "part-hash",
                        format!("part {number} is not what its name says, or cannot be found"),
                    );
                }
            }
            Err(StoreError::Damaged(what)) => report.error("part-read", format!("part {number}: {what}")),
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

fn exchanges(connection: &Connection, owner: OwnerId, depth: Depth, report: &mut Report) -> Result<()> {
    let select = "SELECT e.key, e.id, \
                  EXISTS (SELECT 1 FROM node n WHERE n.key = (e.owner_id << 40 | e.input_node) AND n.owner_id = ?1), \
                  e.output_node IS NULL OR \
                  EXISTS (SELECT 1 FROM node n WHERE n.key = (e.owner_id << 40 | e.output_node) AND n.owner_id = ?1), \
                  e.response_rope IS NOT NULL \
                  FROM exchange e WHERE e.owner_id = ?1";
    let mut statement = connection.prepare(select).map_err(problem)?;
    let mut rows = statement.query([owner.0]).map_err(problem)?;
    while let Some(row) = rows.next().map_err(problem)? {
        let number = number(row.get(0).map_err(problem)?);
        let id: String = row.get(1).map_err(problem)?;
        if !row.get::<_, bool>(2).map_err(problem)? || !row.get::<_, bool>(3).map_err(problem)? {
            report.error("exchange-node", format!("exchange {id} names a node that is not there"));
        }
        let halves = [
            (Half::Request, true),
            (Half::Response, row.get::<_, bool>(4).map_err(problem)?),
        ];
        for (half, _) in halves.into_iter().filter(|(_, is_there)| *is_there) {
            let outcome = match depth {
                Depth::Data => bodies::body(connection, owner, ExchangeNumber(number), half).map(|_| ()),
                Depth::Structure => recipe(connection, owner, number, half),
            };
            match outcome {
                Ok(()) => {}
                Err(StoreError::Damaged(what)) => report.error("exchange-body", format!("exchange {id}: {what}")),
                Err(other) => return Err(other),
            }
        }
    }
    Ok(())
}

/// Reads a recipe down to the names of its parts.
fn recipe(connection: &Connection, owner: OwnerId, number: i64, half: Half) -> Result<()> {
    let select = match half {
        Half::Request => "SELECT request_rope FROM exchange WHERE key = ?1 AND owner_id = ?2",
        Half::Response => "SELECT response_rope FROM exchange WHERE key = ?1 AND owner_id = ?2",
    };
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let rope: Vec<u8> = statement
        .query_row(params![key(owner, number), owner.0], |row| row.get(0))
        .map_err(problem)?;
    Parts::new(connection, owner).join(&rope).map(|_| ())
}
