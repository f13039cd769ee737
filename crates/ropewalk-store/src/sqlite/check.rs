//! Looking for damage.

use ropewalk_core::hash::sha256;
use rusqlite::{Connection, params};

use crate::codec::Unpacker;
use crate::facts::{ExchangeNumber, OwnerId};
use crate::sqlite::bodies::{self, Parts};
use crate::sqlite::exchange_id::ExchangeId;
use crate::sqlite::hash_index::{self, Fresh};
use crate::sqlite::keys::{Kind, key, keys_of, number};
use crate::sqlite::packs::StoredPack;
use crate::sqlite::{link_check, problem};
use crate::store::{Depth, Finding, Half, Result, Severity, StoreError};

/// Findings of one rule that are reported one by one; the rest is counted.
const FINDINGS_MAX: usize = 100;

pub(super) fn check(connection: &Connection, fresh: &Fresh, owner: OwnerId, depth: Depth) -> Result<Vec<Finding>> {
    let mut report = Report::default();
    file(connection, &mut report)?;
    nodes(connection, fresh, owner, &mut report)?;
    chunks(connection, fresh, owner, &mut report)?;
    if depth == Depth::Data {
        parts(connection, fresh, owner, &mut report)?;
    }
    exchanges(connection, fresh, owner, depth, &mut report)?;
    link_check::check(connection, owner, &mut report)?;
    Ok(report.findings)
}

#[derive(Default)]
pub(super) struct Report {
    findings: Vec<Finding>,
}

impl Report {
    pub(super) fn error(&mut self, rule: &'static str, what: String) {
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
    let select = "SELECT n.key, n.hash, n.parent, n.depth, p.depth, n.at < p.at, \
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
        let parent: Option<i64> = row.get(2).map_err(problem)?;
        let depth: i64 = row.get(3).map_err(problem)?;
        let parent_depth: Option<i64> = row.get(4).map_err(problem)?;
        match (parent, parent_depth) {
            (None, _) => {}
            (Some(parent), None) => report.error(
                "node-parent",
                format!("node {number} names parent {parent}, which is not there"),
            ),
            (Some(_), Some(parent_depth)) => {
                // A depth that is one more than the parent's everywhere leaves no room for a cycle.
                if parent_depth + 1 != depth {
                    report.error("node-depth", format!("node {number} is not one deeper than its parent"));
                }
                if row.get::<_, bool>(5).map_err(problem)? {
                    report.error("node-time", format!("node {number} is earlier than its parent"));
                }
            }
        }
        if !row.get::<_, bool>(6).map_err(problem)? {
            report.error("node-exchange", format!("node {number} belongs to no exchange"));
        }
        if !hash_index::find(connection, &[], fresh, owner, Kind::Node, &hash)?.contains(&number) {
            report.error("hash-index", format!("node {number} cannot be found by its hash"));
        }
    }
    Ok(())
}

/// Chunks are read by number and found by name. What they list is checked with the recipes.
fn chunks(connection: &Connection, fresh: &Fresh, owner: OwnerId, report: &mut Report) -> Result<()> {
    let select = "SELECT key, name FROM chunk WHERE owner_id = ?1";
    let mut statement = connection.prepare(select).map_err(problem)?;
    let mut rows = statement.query([owner.0]).map_err(problem)?;
    while let Some(row) = rows.next().map_err(problem)? {
        let number = number(row.get(0).map_err(problem)?);
        let name: Vec<u8> = row.get(1).map_err(problem)?;
        let Ok(name) = <[u8; 16]>::try_from(name) else {
            report.error("chunk-name", format!("chunk {number} has no name"));
            continue;
        };
        if !hash_index::find(connection, &[], fresh, owner, Kind::Chunk, &name)?.contains(&number) {
            report.error("hash-index", format!("chunk {number} cannot be found by its name"));
        }
    }
    Ok(())
}

/// A part's name is what its bytes hash to, so a damaged one is one that its name does not find.
fn parts(connection: &Connection, fresh: &Fresh, owner: OwnerId, report: &mut Report) -> Result<()> {
    let mut unpacker = Unpacker::default();
    let mut last = number(keys_of(owner).end - 1);
    while let Some(stored) = StoredPack::find(connection, owner, last)? {
        last = stored.first - 1;
        match stored.unpack(&mut unpacker) {
            Ok(pack) => {
                for number in pack.numbers() {
                    // One that is gone has a number and nothing else.
                    let Some(bytes) = pack.part(number) else { continue };
                    let hash = sha256(bytes);
                    let found = hash_index::find(connection, &[], fresh, owner, Kind::Part, &hash)?;
                    if !found.contains(&number) {
                        report.error(
                            "part-hash",
                            format!("part {number} is not what its name says, or cannot be found"),
                        );
                    }
                }
            }
            Err(StoreError::Damaged(what)) => report.error("part-read", what),
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

fn exchanges(connection: &Connection, fresh: &Fresh, owner: OwnerId, depth: Depth, report: &mut Report) -> Result<()> {
    let select = "SELECT e.key, e.id, \
                  (SELECT n.hash FROM node n WHERE n.key = (e.owner_id << 40 | e.input_node) AND n.owner_id = ?1), \
                  (SELECT n.hash FROM node n WHERE n.key = (e.owner_id << 40 | e.output_node) AND n.owner_id = ?1), \
                  e.response_rope IS NOT NULL, \
                  EXISTS (SELECT 1 FROM context c WHERE c.key = (e.owner_id << 40 | e.context) AND c.owner_id = ?1), \
                  e.output_node IS NOT NULL, e.parent_message IS NULL OR \
                  EXISTS (SELECT 1 FROM exchange p WHERE p.key = (e.owner_id << 40 | e.parent_message) \
                  AND p.owner_id = ?1) FROM exchange e WHERE e.owner_id = ?1";
    let mut statement = connection.prepare(select).map_err(problem)?;
    let mut rows = statement.query([owner.0]).map_err(problem)?;
    while let Some(row) = rows.next().map_err(problem)? {
        let number = number(row.get(0).map_err(problem)?);
        let ExchangeId(id) = row.get(1).map_err(problem)?;
        let has_output = row.get::<_, bool>(6).map_err(problem)?;
        for (kind, column, is_there) in [(Kind::Input, 2, true), (Kind::Output, 3, has_output)] {
            let node: Option<Vec<u8>> = row.get(column).map_err(problem)?;
            // A hash that is not whole was found with the node that has it.
            match node.map(<[u8; 32]>::try_from) {
                Some(Ok(hash)) => {
                    if !hash_index::find(connection, &[], fresh, owner, kind, &hash)?.contains(&number) {
                        report.error("hash-index", format!("exchange {id} cannot be found by its nodes"));
                    }
                }
                None if is_there => {
                    report.error("exchange-node", format!("exchange {id} names a node that is not there"));
                }
                Some(Err(_)) | None => {}
            }
        }
        if !row.get::<_, bool>(7).map_err(problem)? {
            let what = format!("exchange {id} goes on from a message of one that is not there");
            report.error("exchange-message", what);
        }
        if !row.get::<_, bool>(5).map_err(problem)? {
            report.error(
                "exchange-context",
                format!("exchange {id} names a context that is not there"),
            );
        }
        let halves = [
            (Half::Request, true),
            (Half::Sent, true),
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
        // It is of the request's parts and of few others: reading it is reading its recipe.
        Half::Sent => return bodies::body(connection, owner, ExchangeNumber(number), half).map(|_| ()),
    };
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let rope: Vec<u8> = statement
        .query_row(params![key(owner, number), owner.0], |row| row.get(0))
        .map_err(problem)?;
    if rope.is_empty() {
        return Ok(());
    }
    Parts::new(connection, owner).join(&rope).map(|_| ())
}
