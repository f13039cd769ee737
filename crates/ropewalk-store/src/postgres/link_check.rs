//! Looking for damage in what linking concluded. It can be computed again, so a finding says that it has to be.

use std::collections::HashMap;

use deadpool_postgres::Transaction;

use super::check::FINDINGS_MAX;
use super::{query, sql};
use crate::facts::{ExchangeNumber, OwnerId};
use crate::parent_cycles::parent_cycles;
use crate::store::{Finding, Result, Severity};

/// Links looked at by one statement.
const ROWS_MAX: i64 = 10_000;

/// Rules that one statement finds: its name, the statement, what its rows are.
const RULES: [(&str, &str, &str); 5] = [
    (
        "link-target",
        sql::LINKS_WITHOUT_TARGET,
        "link that names something that is not there",
    ),
    (
        "link-conversation",
        sql::LINKS_WITHOUT_CONVERSATION,
        "link in a conversation that has no row",
    ),
    ("branch-links", sql::BRANCHES_WITHOUT_LINKS, "branch without links"),
    (
        "conversation-links",
        sql::CONVERSATIONS_WITHOUT_LINKS,
        "conversation without links",
    ),
    ("unlinked", sql::UNLINKED, "exchange that was linked and has no link"),
];

pub(super) async fn check(transaction: &Transaction<'_>, owner: OwnerId) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (rule, statement, what) in RULES {
        for row in query(transaction, statement, &[&owner.0, &FINDINGS_MAX]).await? {
            findings.push(error(rule, format!("{what}: {}", row.get::<_, i64>(0))));
        }
    }
    let cycles = cycles(transaction, owner).await?;
    let told = cycles.iter().take(FINDINGS_MAX as usize);
    findings.extend(told.map(|exchange| error("link-cycle", format!("link that is its own ancestor: {}", exchange.0))));
    Ok(findings)
}

fn error(rule: &'static str, what: String) -> Finding {
    Finding {
        severity: Severity::Error,
        rule,
        what,
    }
}

/// Goes through all parents, of one conversation at a time.
async fn cycles(transaction: &Transaction<'_>, owner: OwnerId) -> Result<Vec<ExchangeNumber>> {
    let mut cycles = Vec::new();
    let mut parents = HashMap::new();
    let (mut conversation, mut at, mut exchange) = (i64::MIN, i64::MIN, i64::MIN);
    loop {
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&owner.0, &conversation, &at, &exchange, &ROWS_MAX];
        let rows = query(transaction, sql::PARENTS_FROM, &values).await?;
        if rows.is_empty() {
            cycles.extend(parent_cycles(&parents));
            return Ok(cycles);
        }
        for row in &rows {
            if row.get::<_, i64>(0) != conversation {
                cycles.extend(parent_cycles(&parents));
                parents.clear();
            }
            (conversation, at, exchange) = (row.get(0), row.get(1), row.get(2));
            if let Some(parent) = row.get::<_, Option<i64>>(3) {
                parents.insert(ExchangeNumber(exchange), ExchangeNumber(parent));
            }
        }
    }
}
