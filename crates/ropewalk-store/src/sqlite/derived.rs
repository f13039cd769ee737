//! What linking concluded: saved by the one writer, read beside it.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};

use crate::derived::{BranchRow, ConversationRow, Conversations, CourseRow, LinkChanges, LinkRow, LinkState, Links};
use crate::facts::{ExchangeNumber, Micros, OwnerId, Position};
use crate::packed::{link_kind_code, link_kind_of};
use crate::sqlite::keys::{key, keys_of, number};
use crate::sqlite::{names, problem};
use crate::store::{BRANCHES_MAX, PAGE_MAX, Result, StoreError};

pub(super) fn state(connection: &Connection, owner: OwnerId) -> Result<LinkState> {
    let select = "SELECT link_version, linked_to, last_position, named_to FROM owner WHERE owner_id = ?1";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let found = statement.query_row([owner.0], |row| {
        Ok(LinkState {
            version: row.get::<_, i64>(0)?.cast_unsigned(),
            linked_to: Position(row.get(1)?),
            newest: Position(row.get(2)?),
            named_to: Position(row.get(3)?),
        })
    });
    found.optional().map_err(problem)?.ok_or(StoreError::NoOwner)
}

/// Something is to be seen that linking did not conclude: whoever linked meanwhile reads again.
pub(super) fn touch(connection: &Connection, owner: OwnerId) -> Result<()> {
    let update = "UPDATE owner SET link_version = link_version + 1 WHERE owner_id = ?1";
    let mut statement = connection.prepare_cached(update).map_err(problem)?;
    statement.execute([owner.0]).map_err(problem)?;
    Ok(())
}

/// Runs in the writer's savepoint, which makes it all or nothing; nobody else writes meanwhile.
pub(super) fn save(connection: &Connection, owner: OwnerId, changes: &LinkChanges) -> Result<bool> {
    if state(connection, owner)?.version != changes.version {
        return Ok(false);
    }
    let saver = Saver { connection, owner };
    if changes.from_scratch {
        saver.drop_all()?;
    }
    for first in &changes.gone_branches {
        let delete = "DELETE FROM branch WHERE key = ?1 AND owner_id = ?2";
        saver.execute(delete, [key(owner, first.0), owner.0])?;
    }
    for root in &changes.gone_conversations {
        let delete = "DELETE FROM conversation WHERE key = ?1 AND owner_id = ?2";
        saver.execute(delete, [key(owner, root.0), owner.0])?;
    }
    for root in changes.gone_conversations.iter().chain(&changes.turned) {
        let delete = "DELETE FROM course WHERE key = ?1 AND owner_id = ?2";
        saver.execute(delete, [key(owner, root.0), owner.0])?;
    }
    saver.links(&changes.links)?;
    saver.branches(&changes.branches)?;
    saver.conversations(&changes.conversations)?;
    saver.wanted(&changes.wanted)?;
    match changes.from_scratch {
        true => names::follow_all(connection, owner)?,
        false => names::follow(connection, owner, &changes.gone_conversations)?,
    }
    let update = "UPDATE owner SET link_version = link_version + 1, linked_to = ?2 WHERE owner_id = ?1";
    saver.execute(update, [owner.0, changes.linked_to.0])?;
    Ok(true)
}

pub(super) fn keep_course(connection: &Connection, owner: OwnerId, version: u64, course: &CourseRow) -> Result<bool> {
    if state(connection, owner)?.version != version {
        return Ok(false);
    }
    let upsert = "INSERT INTO course (key, owner_id, packed) VALUES (?1, ?2, ?3) \
                  ON CONFLICT (key) DO UPDATE SET packed = excluded.packed";
    let mut statement = connection.prepare_cached(upsert).map_err(problem)?;
    let row = params![key(owner, course.root.0), owner.0, course.packed];
    statement.execute(row).map_err(problem)?;
    Ok(true)
}

pub(super) fn find_course(connection: &Connection, owner: OwnerId, root: ExchangeNumber) -> Result<Option<Vec<u8>>> {
    let select = "SELECT packed FROM course WHERE key = ?1 AND owner_id = ?2";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let found = statement.query_row([key(owner, root.0), owner.0], |row| row.get(0));
    found.optional().map_err(problem)
}

pub(super) fn drop_courses(connection: &Connection, owner: OwnerId) -> Result<()> {
    let keys = keys_of(owner);
    // The plus keeps the planner to the keys, where an owner's rows lie together.
    let delete = "DELETE FROM course WHERE +owner_id = ?1 AND key >= ?2 AND key < ?3";
    let mut statement = connection.prepare_cached(delete).map_err(problem)?;
    statement.execute([owner.0, keys.start, keys.end]).map_err(problem)?;
    Ok(())
}

/// Conversations that have another record now; those that are not there stay so.
pub(super) fn replace_conversations(connection: &Connection, owner: OwnerId, rows: &[ConversationRow]) -> Result<()> {
    let update = "UPDATE conversation SET record = ?3 WHERE key = ?1 AND owner_id = ?2";
    for row in rows {
        let mut statement = connection.prepare_cached(update).map_err(problem)?;
        statement
            .execute(params![key(owner, row.root.0), owner.0, row.record])
            .map_err(problem)?;
    }
    Ok(())
}

struct Saver<'c> {
    connection: &'c Connection,
    owner: OwnerId,
}

impl Saver<'_> {
    fn execute(&self, statement: &str, columns: impl Params) -> Result<()> {
        let mut statement = self.connection.prepare_cached(statement).map_err(problem)?;
        statement.execute(columns).map_err(problem)?;
        Ok(())
    }

    /// Everything but the aliases: an id that was given out finds its conversation for ever.
    fn drop_all(&self) -> Result<()> {
        let keys = keys_of(self.owner);
        // The plus keeps the planner to the keys, where an owner's rows lie together.
        for delete in [
            "DELETE FROM link WHERE +owner_id = ?1 AND key >= ?2 AND key < ?3",
            "DELETE FROM branch WHERE +owner_id = ?1 AND key >= ?2 AND key < ?3",
            "DELETE FROM conversation WHERE +owner_id = ?1 AND key >= ?2 AND key < ?3",
        ] {
            self.execute(delete, [self.owner.0, keys.start, keys.end])?;
        }
        drop_courses(self.connection, self.owner)?;
        self.execute("DELETE FROM wanted WHERE owner_id = ?1", [self.owner.0])
    }

    /// Executes a statement once for each row.
    fn for_each<'r, T, P: Params>(&self, rows: &'r [T], statement: &str, columns: impl Fn(&'r T) -> P) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut statement = self.connection.prepare_cached(statement).map_err(problem)?;
        for row in rows {
            statement.execute(columns(row)).map_err(problem)?;
        }
        Ok(())
    }

    fn links(&self, links: &[LinkRow]) -> Result<()> {
        let upsert = "INSERT INTO link (key, owner_id, at, kind, conversation, branch, agent, parent, decision) \
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (key) DO UPDATE SET at = excluded.at, \
                      kind = excluded.kind, conversation = excluded.conversation, branch = excluded.branch, \
                      agent = excluded.agent, parent = excluded.parent, decision = excluded.decision";
        self.for_each(links, upsert, |link| {
            let unless_root = |first: ExchangeNumber| (first != link.conversation).then_some(first.0);
            (
                key(self.owner, link.exchange.0),
                self.owner.0,
                link.at.0,
                link_kind_code(link.kind),
                link.conversation.0,
                unless_root(link.branch),
                unless_root(link.agent),
                link.parent.map(|parent| parent.0),
                &link.decision,
            )
        })
    }

    fn branches(&self, branches: &[BranchRow]) -> Result<()> {
        let upsert = "INSERT INTO branch (key, owner_id, conversation, shown, record) VALUES (?1, ?2, ?3, ?4, ?5) \
                      ON CONFLICT (key) DO UPDATE SET conversation = excluded.conversation, shown = excluded.shown, \
                      record = excluded.record";
        self.for_each(branches, upsert, |branch| {
            (
                key(self.owner, branch.first.0),
                self.owner.0,
                branch.conversation.0,
                &branch.shown,
                &branch.record,
            )
        })
    }

    fn conversations(&self, conversations: &[ConversationRow]) -> Result<()> {
        let upsert = "INSERT INTO conversation (key, owner_id, id, started_at, last_at, record) \
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (key) DO UPDATE SET id = excluded.id, \
                      started_at = excluded.started_at, last_at = excluded.last_at, record = excluded.record";
        self.for_each(conversations, upsert, |conversation| {
            (
                key(self.owner, conversation.root.0),
                self.owner.0,
                conversation.id,
                conversation.started_at.0,
                conversation.last_at.0,
                &conversation.record,
            )
        })?;
        // An id is made from its root, so one that is there leads to the same root.
        let alias = "INSERT OR IGNORE INTO conversation_alias (owner_id, id, root) VALUES (?1, ?2, ?3)";
        self.for_each(conversations, alias, |conversation| {
            (self.owner.0, conversation.id, conversation.root.0)
        })
    }

    fn wanted(&self, wanted: &[([u8; 8], ExchangeNumber)]) -> Result<()> {
        let insert = "INSERT OR IGNORE INTO wanted (owner_id, hash, exchange) VALUES (?1, ?2, ?3)";
        self.for_each(wanted, insert, |(hash, exchange)| {
            (self.owner.0, i64::from_be_bytes(*hash), exchange.0)
        })
    }
}

const LINK: &str = "SELECT key, at, kind, conversation, coalesce(branch, conversation), coalesce(agent, conversation), \
                    parent, decision FROM link WHERE owner_id = ?1 AND ";
const CONVERSATION: &str = "SELECT key, id, started_at, last_at, record FROM conversation WHERE owner_id = ?1 AND ";

pub(super) fn links(connection: &Connection, owner: OwnerId, which: &Links) -> Result<Vec<LinkRow>> {
    match which {
        Links::Of(exchanges) => links_of(connection, owner, exchanges.iter().take(PAGE_MAX).copied()),
        Links::Children(parents) => {
            let select = format!("{LINK}parent = ?2 ORDER BY at, key LIMIT ?3");
            let mut links = Vec::new();
            let parents: BTreeSet<_> = parents.iter().take(PAGE_MAX).collect();
            for parent in parents {
                let columns = params![owner.0, parent.0, PAGE_MAX as i64];
                links.extend(query(connection, &select, columns, read_link)?);
                in_time_order(&mut links);
            }
            Ok(links)
        }
        Links::InConversation {
            conversation,
            after,
            limit,
        } => {
            let (at, last) = after.unwrap_or((Micros(i64::MIN), ExchangeNumber(0)));
            let select = format!(
                "{LINK}conversation = ?2 AND (at, key) > (?3, ?4) \
                 ORDER BY at, key LIMIT ?5"
            );
            let limit = (*limit).min(PAGE_MAX) as i64;
            let columns = params![owner.0, conversation.0, at.0, key(owner, last.0), limit];
            query(connection, &select, columns, read_link)
        }
    }
}

/// Who waits for each hash.
pub(super) fn wanting(connection: &Connection, owner: OwnerId, hashes: &[[u8; 8]]) -> Result<Vec<Vec<ExchangeNumber>>> {
    let select = "SELECT exchange FROM wanted WHERE owner_id = ?1 AND hash = ?2 ORDER BY exchange LIMIT ?3";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let waiting = hashes.iter().map(|hash| {
        let columns = params![owner.0, i64::from_be_bytes(*hash), PAGE_MAX as i64];
        let rows = statement.query_map(columns, |row| row.get(0).map(ExchangeNumber));
        rows.and_then(Iterator::collect).map_err(problem)
    });
    waiting.collect()
}

fn links_of(
    connection: &Connection,
    owner: OwnerId,
    exchanges: impl IntoIterator<Item = ExchangeNumber>,
) -> Result<Vec<LinkRow>> {
    let select = format!("{LINK}key = ?2");
    let mut links = Vec::new();
    for exchange in exchanges {
        let columns = [owner.0, key(owner, exchange.0)];
        links.extend(query(connection, &select, columns, read_link)?);
    }
    Ok(links)
}

fn in_time_order(links: &mut Vec<LinkRow>) {
    links.sort_unstable_by_key(|link| (link.at, link.exchange));
    links.truncate(PAGE_MAX);
}

pub(super) fn branches(
    connection: &Connection,
    owner: OwnerId,
    conversation: ExchangeNumber,
) -> Result<Vec<BranchRow>> {
    let select = "SELECT key, conversation, shown, record FROM branch INDEXED BY branch_conversation \
                  WHERE owner_id = ?1 AND conversation = ?2 ORDER BY key LIMIT ?3";
    let columns = params![owner.0, conversation.0, BRANCHES_MAX as i64];
    query(connection, select, columns, |row| {
        Ok(BranchRow {
            first: ExchangeNumber(number(row.get(0).map_err(problem)?)),
            conversation: ExchangeNumber(row.get(1).map_err(problem)?),
            shown: row.get(2).map_err(problem)?,
            record: row.get(3).map_err(problem)?,
        })
    })
}

pub(super) fn conversations(
    connection: &Connection,
    owner: OwnerId,
    which: &Conversations,
) -> Result<Vec<ConversationRow>> {
    let by_root = format!("{CONVERSATION}key = ?2");
    let mut found = Vec::new();
    match which {
        Conversations::Of(roots) => {
            for root in roots.iter().take(PAGE_MAX) {
                let columns = [owner.0, key(owner, root.0)];
                found.extend(query(connection, &by_root, columns, read_conversation)?);
            }
        }
        Conversations::Ids(ids) => {
            // The exchange that an id was made from may have become part of another conversation.
            let by_alias = "SELECT l.conversation FROM conversation_alias a \
                            JOIN link l ON l.key = (a.owner_id << 40 | a.root) AND l.owner_id = a.owner_id \
                            WHERE a.owner_id = ?1 AND a.id = ?2";
            for id in ids.iter().take(PAGE_MAX) {
                let mut statement = connection.prepare_cached(by_alias).map_err(problem)?;
                let root = statement.query_row(params![owner.0, id], |row| row.get::<_, i64>(0));
                if let Some(root) = root.optional().map_err(problem)? {
                    let columns = [owner.0, key(owner, root)];
                    found.extend(query(connection, &by_root, columns, read_conversation)?);
                }
            }
        }
        Conversations::Newest { before, limit } => {
            let (at, root) = before.map_or((i64::MAX, i64::MAX), |(at, root)| (at.0, key(owner, root.0)));
            let select = format!(
                "{CONVERSATION}(last_at, key) < (?2, ?3) \
                 ORDER BY last_at DESC, key DESC LIMIT ?4"
            );
            let columns = params![owner.0, at, root, (*limit).min(PAGE_MAX) as i64];
            found = query(connection, &select, columns, read_conversation)?;
        }
    }
    Ok(found)
}

fn query<T>(
    connection: &Connection,
    select: &str,
    columns: impl Params,
    read: impl Fn(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let mut rows = statement.query(columns).map_err(problem)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(problem)? {
        found.push(read(row)?);
    }
    Ok(found)
}

fn read_link(row: &Row<'_>) -> Result<LinkRow> {
    let exchange = |column: usize| row.get(column).map(ExchangeNumber).map_err(problem);
    let parent: Option<i64> = row.get(6).map_err(problem)?;
    Ok(LinkRow {
        exchange: ExchangeNumber(number(row.get(0).map_err(problem)?)),
        at: Micros(row.get(1).map_err(problem)?),
        kind: link_kind_of(row.get(2).map_err(problem)?)?,
        conversation: exchange(3)?,
        branch: exchange(4)?,
        agent: exchange(5)?,
        parent: parent.map(ExchangeNumber),
        decision: row.get(7).map_err(problem)?,
    })
}

fn read_conversation(row: &Row<'_>) -> Result<ConversationRow> {
    Ok(ConversationRow {
        root: ExchangeNumber(number(row.get(0).map_err(problem)?)),
        id: row.get(1).map_err(problem)?,
        started_at: Micros(row.get(2).map_err(problem)?),
        last_at: Micros(row.get(3).map_err(problem)?),
        record: row.get(4).map_err(problem)?,
    })
}
