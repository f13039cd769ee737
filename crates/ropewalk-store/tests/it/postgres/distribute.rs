//! A store over several servers. Everything but the servers is tested everywhere; with `CITUS_URL`, the address of a coordinator's
//! database that may be written to, the conformance suite runs there (see `conformance.rs`).

use ropewalk_store::StoreError;

use super::fresh;

/// What of Citus is used: its entry in the catalogue, its list of tables, and the function that adds to it.
const STAND_IN: &str = "
    SET allow_system_table_mods = on;
    INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
        VALUES (99999, 'citus', 10, 11, false, '13.0');
    CREATE TABLE pg_dist_partition (logicalrelid regclass, beside text, at serial);
    CREATE FUNCTION create_distributed_table(t regclass, c text, colocate_with text DEFAULT 'default') RETURNS void
        LANGUAGE sql AS 'INSERT INTO pg_dist_partition (logicalrelid, beside) VALUES (t, colocate_with)';
";

#[tokio::test]
async fn a_server_without_the_extension_says_so_and_is_left_alone() {
    let fresh = fresh().await;
    assert!(matches!(fresh.store.distribute(false).await, Err(StoreError::NoCitus)));
    assert!(matches!(fresh.store.distribute(true).await, Err(StoreError::NoCitus)));
}

#[tokio::test]
async fn every_table_of_an_owner_is_spread_once_the_owners_first_and_all_others_beside_them() {
    let fresh = fresh().await;
    fresh.sql(STAND_IN);
    let planned = fresh.store.distribute(true).await.unwrap();
    assert_eq!(
        fresh.sql("SELECT count(*) FROM pg_dist_partition"),
        "0",
        "a plan changes nothing"
    );
    assert_eq!(planned[0], "SELECT create_distributed_table('owner', 'owner_id')");
    assert_eq!(fresh.store.distribute(false).await.unwrap(), planned);
    let first = "SELECT logicalrelid::text || ' ' || beside FROM pg_dist_partition ORDER BY at LIMIT 1";
    assert_eq!(fresh.sql(first), "owner default");
    let others =
        "SELECT string_agg(DISTINCT beside, ' ') FROM pg_dist_partition WHERE logicalrelid <> 'owner'::regclass";
    assert_eq!(fresh.sql(others), "owner");
    let left = "SELECT string_agg(c.relname::text, ' ' ORDER BY c.relname) FROM pg_class c \
                WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' \
                AND c.oid NOT IN (SELECT logicalrelid FROM pg_dist_partition)";
    assert_eq!(fresh.sql(left), "owner_name pg_dist_partition schema_version");
    assert!(
        fresh.store.distribute(false).await.unwrap().is_empty(),
        "again changes nothing"
    );
}
