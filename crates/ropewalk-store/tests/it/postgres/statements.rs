//! How many statements a turn and a look-up take: the server counts them.

use ropewalk_store::postgres::Options;
use ropewalk_store::store::Questions;
use ropewalk_store::{Micros, Postgres, Store};
use ropewalk_testkit::postgres::{PrivatePostgres, Setup, database_of};
use ropewalk_testkit::turns::Turns;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Count {
    /// Those that look for chunks or write them: only where a turn ends one does its recipe need any.
    of_chunks: u64,
    others: u64,
}

impl Count {
    fn all(self) -> u64 {
        self.of_chunks + self.others
    }
}

struct Counted {
    server: PrivatePostgres,
    store: Postgres,
    database: String,
}

impl Counted {
    async fn start() -> Self {
        let server = Setup::default()
            .setting("shared_preload_libraries=pg_stat_statements")
            .start()
            .unwrap();
        let url = server.fresh_database().unwrap();
        let database = database_of(&url).to_owned();
        server
            .run_sql(&database, "CREATE EXTENSION pg_stat_statements")
            .unwrap();
        // One connection: what it prepares once is then prepared for all that is counted.
        let options = Options {
            connections_max: 1,
            ..Options::default()
        };
        let store = Postgres::connect(&url, options).await.unwrap();
        Counted {
            server,
            store,
            database,
        }
    }

    fn forget(&self) {
        self.server
            .run_sql(&self.database, "SELECT pg_stat_statements_reset()")
            .unwrap();
    }

    /// Statements since it was forgotten, without those that make plans anew now and then or count here.
    fn count(&self) -> Count {
        let count = |chunks: &str| {
            let count = format!(
                "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements \
                 WHERE query NOT LIKE '%pg_stat_statements%' AND query NOT LIKE 'DISCARD%' \
                 AND query NOT LIKE 'UPDATE owner_number%' AND query {chunks} '% chunk %'"
            );
            self.server.run_sql(&self.database, &count).unwrap().parse().unwrap()
        };
        Count {
            of_chunks: count("LIKE"),
            others: count("NOT LIKE"),
        }
    }

    /// Statements of one more turn, and of one look-up.
    async fn count_turn_and_look_up(&self, owner: &str, turns: &mut Turns) -> (Count, Count) {
        let owner = self.store.owner(owner).await.unwrap();
        let batch = turns.batch(1);
        self.forget();
        self.store.record(owner, batch).await.unwrap();
        let turn = self.count();
        let questions = Questions {
            chains: vec![turns.chain_to_look_up()],
            limit: 4,
            ..Questions::default()
        };
        self.forget();
        self.store.look_up(owner, questions, Micros::MAX).await.unwrap();
        (turn, self.count())
    }
}

#[tokio::test]
async fn a_turn_takes_as_many_statements_in_a_large_store_as_in_a_small_one() {
    let counted = Counted::start().await;
    let mut turns = Turns::new(1, 10, 1_000);
    let owner = counted.store.owner("ann").await.unwrap();
    // Ten conversations of ten turns, then nine more times as many turns in others, then one more turn of each kind.
    counted.store.record(owner, turns.batch(100)).await.unwrap();
    let small = counted.count_turn_and_look_up("ann", &mut turns).await;
    let mut others = Turns::new(2, 50, 10).named(1);
    for _ in 0..15 {
        counted.store.record(owner, others.batch(64)).await.unwrap();
    }
    let large = counted.count_turn_and_look_up("ann", &mut turns).await;
    println!("{small:?}, {large:?}");
    assert_eq!((large.0.others, large.1), (small.0.others, small.1));
    for (turn, look_up) in [small, large] {
        assert!(
            turn.of_chunks <= 4 && turn.all() <= 16 && look_up.all() <= 3,
            "{small:?}, {large:?}"
        );
    }
}

#[tokio::test]
async fn a_turn_takes_as_many_statements_behind_a_long_history_but_for_levels_of_its_recipe() {
    let counted = Counted::start().await;
    let owner = counted.store.owner("ann").await.unwrap();
    let mut turns = Turns::new(1, 1, 100_000);
    let mut counts = Vec::new();
    for length in [100, 1_000, 4_000] {
        let mut recorded = 0;
        while recorded < length {
            counted.store.record(owner, turns.batch(20)).await.unwrap();
            recorded += 20;
        }
        counts.push(counted.count_turn_and_look_up("ann", &mut turns).await);
    }
    println!("{counts:?}");
    assert!(counts.iter().all(|count| count.1 == counts[0].1), "{counts:?}");
    // A level of a recipe is looked for and written by a statement each; one level holds about fifty times the one below.
    assert!(counts[2].0.all() <= counts[0].0.all() + 4, "{counts:?}");
}
