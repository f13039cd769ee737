//! One store over several servers: Citus, by owner.
//!
//! Every key begins with the owner and no statement crosses owners, so a table can be cut anywhere between two of them. The table of
//! owners goes first and all others beside it: then a transaction of one owner stays on one server.

use std::collections::HashSet;

use deadpool_postgres::{Client, GenericClient};

use super::problem::problem;
use super::sql;
use crate::store::{Result, StoreError};

pub(super) async fn run(client: &mut Client, is_dry: bool) -> Result<Vec<String>> {
    let transaction = client.transaction().await.map_err(problem)?;
    let has_citus: bool = transaction
        .query_one(sql::HAS_CITUS, &[])
        .await
        .map_err(problem)?
        .get(0);
    if !has_citus {
        return Err(StoreError::NoCitus);
    }
    let done: HashSet<String> = names(&transaction, sql::DISTRIBUTED_TABLES)
        .await?
        .into_iter()
        .collect();
    let mut statements = Vec::new();
    for (at, table) in names(&transaction, sql::OWNED_TABLES).await?.into_iter().enumerate() {
        if done.contains(&table) {
            continue;
        }
        let statement = if at == 0 {
            sql::DISTRIBUTE_FIRST
        } else {
            sql::DISTRIBUTE_BESIDE
        };
        statements.push(statement.replace("$1::text::regclass", &format!("'{table}'")));
        if !is_dry {
            transaction.execute(statement, &[&table]).await.map_err(problem)?;
        }
    }
    transaction.commit().await.map_err(problem)?;
    Ok(statements)
}

async fn names(client: &impl GenericClient, sql: &'static str) -> Result<Vec<String>> {
    let rows = client.query(sql, &[]).await.map_err(problem)?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}
