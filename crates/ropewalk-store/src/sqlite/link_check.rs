//! Looking for damage in what linking concluded. It can be computed again, so a finding says that it has to be.

use std::collections::HashMap;

use rusqlite::{Connection, Row};

use crate::facts::{ExchangeNumber, OwnerId};
use crate::parent_cycles::parent_cycles;
use crate::sqlite::check::Report;
use crate::sqlite::keys::number;
use crate::sqlite::problem;
use crate::store::Result;

pub(super) fn check(connection: &Connection, owner: OwnerId, report: &mut Report) -> Result<()> {
    links(connection, owner, report)?;
    for (rule, select, what) in NAMED_BY_LINKS {
        each(connection, select, owner, |row| {
            report.error(rule, format!("{what} {} has no links", named(row)?));
            Ok(())
        })?;
    }
    each(connection, UNLINKED, owner, |row| {
        report.error(
            "unlinked",
            format!("exchange {} was linked and has no link", named(row)?),
        );
        Ok(())
    })
}

/// What is named by its first exchange has at least the link of that one.
const NAMED_BY_LINKS: [(&str, &str, &str); 2] = [
    (
        "branch-links",
        "SELECT b.key FROM branch b WHERE b.owner_id = ?1 AND NOT EXISTS (SELECT 1 FROM link l \
         WHERE l.key = b.key AND l.owner_id = ?1 AND l.conversation = b.conversation \
         AND (l.owner_id << 40 | coalesce(l.branch, l.conversation)) = b.key)",
        "branch",
    ),
    (
        "conversation-links",
        "SELECT c.key FROM conversation c WHERE c.owner_id = ?1 AND NOT EXISTS (SELECT 1 FROM link l \
         WHERE l.key = c.key AND l.owner_id = ?1 AND (l.owner_id << 40 | l.conversation) = c.key)",
        "conversation",
    ),
];

const UNLINKED: &str = "SELECT e.key FROM exchange e WHERE e.owner_id = ?1 \
    AND coalesce(e.position, e.key & 1099511627775) <= (SELECT linked_to FROM owner WHERE owner_id = ?1) \
    AND NOT EXISTS (SELECT 1 FROM link l WHERE l.key = e.key AND l.owner_id = ?1)";

/// Links with what they name, one conversation after the other.
const LINKS: &str = "SELECT l.key, l.conversation, l.parent, \
    EXISTS (SELECT 1 FROM exchange e WHERE e.key = l.key AND e.owner_id = ?1), \
    EXISTS (SELECT 1 FROM link r WHERE r.key = (l.owner_id << 40 | l.conversation) AND r.owner_id = ?1), \
    EXISTS (SELECT 1 FROM branch b WHERE b.key = (l.owner_id << 40 | coalesce(l.branch, l.conversation)) \
    AND b.owner_id = ?1 AND b.conversation = l.conversation), \
    EXISTS (SELECT 1 FROM link a WHERE a.key = (l.owner_id << 40 | coalesce(l.agent, l.conversation)) \
    AND a.owner_id = ?1), \
    l.parent IS NULL OR EXISTS (SELECT 1 FROM link p WHERE p.key = (l.owner_id << 40 | l.parent) AND p.owner_id = ?1), \
    EXISTS (SELECT 1 FROM conversation c WHERE c.key = (l.owner_id << 40 | l.conversation) AND c.owner_id = ?1) \
    FROM link l INDEXED BY link_conversation WHERE l.owner_id = ?1 ORDER BY l.conversation";

/// The columns of [`LINKS`] that say whether something is there, and what.
const TARGETS: [(usize, &str); 5] = [
    (3, "exchange"),
    (4, "conversation"),
    (5, "branch"),
    (6, "agent"),
    (7, "parent"),
];

fn links(connection: &Connection, owner: OwnerId, report: &mut Report) -> Result<()> {
    // The parents of one conversation at a time.
    let mut conversation = 0;
    let mut parents = HashMap::new();
    each(connection, LINKS, owner, |row| {
        let exchange = named(row)?;
        let of: i64 = row.get(1).map_err(problem)?;
        if of != conversation {
            cycles(&parents, report);
            parents.clear();
            conversation = of;
        }
        if let Some(parent) = row.get::<_, Option<i64>>(2).map_err(problem)? {
            parents.insert(ExchangeNumber(exchange), ExchangeNumber(parent));
        }
        for (column, what) in TARGETS {
            if !row.get::<_, bool>(column).map_err(problem)? {
                report.error("link-target", format!("the {what} of link {exchange} is not there"));
            }
        }
        if !row.get::<_, bool>(8).map_err(problem)? {
            let what = format!("link {exchange} is in conversation {of}, which has no row");
            report.error("link-conversation", what);
        }
        Ok(())
    })?;
    cycles(&parents, report);
    Ok(())
}

fn cycles(parents: &HashMap<ExchangeNumber, ExchangeNumber>, report: &mut Report) {
    for exchange in parent_cycles(parents) {
        report.error("link-cycle", format!("link {} is its own ancestor", exchange.0));
    }
}

fn named(row: &Row<'_>) -> Result<i64> {
    row.get(0).map(number).map_err(problem)
}

/// Goes over the rows of a statement that needs nothing but the owner.
pub(super) fn each(
    connection: &Connection,
    select: &str,
    owner: OwnerId,
    mut found: impl FnMut(&Row<'_>) -> Result<()>,
) -> Result<()> {
    let mut statement = connection.prepare(select).map_err(problem)?;
    let mut rows = statement.query([owner.0]).map_err(problem)?;
    while let Some(row) = rows.next().map_err(problem)? {
        found(row)?;
    }
    Ok(())
}
