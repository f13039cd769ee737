//! Claims: the tests of seed 001 by their own names, its table of edge cases, and our rules on top.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use ropewalk_core::claim::{Claim, ClaimRegistry, Newcomer, Tier};

fn at(ms: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_millis(ms)
}

fn claim(parent: &str, name: &str, ms: i64) -> Claim {
    Claim {
        parent: parent.to_owned(),
        session: None,
        tool_use_id: None,
        expected_name: name.to_owned(),
        expected_type: None,
        valid_from: at(ms),
        spawned_at: at(ms),
        index: 0,
    }
}

fn typed(parent: &str, name: &str, expected_type: &str, ms: i64) -> Claim {
    Claim {
        expected_type: Some(expected_type.to_owned()),
        ..claim(parent, name, ms)
    }
}

fn registry(claims: impl IntoIterator<Item = Claim>) -> ClaimRegistry {
    let mut registry = ClaimRegistry::default();
    claims.into_iter().for_each(|claim| registry.create(claim));
    registry
}

fn named<'a>(name: &'a str, type_hash: &'a str) -> Newcomer<'a> {
    Newcomer {
        name: Some(name),
        type_hash,
        session: None,
    }
}

fn parent_of(registry: &mut ClaimRegistry, newcomer: Newcomer<'_>, ms: i64) -> Option<String> {
    registry
        .take_match(&newcomer, at(ms))
        .map(|matched| matched.claim.parent)
}

#[test]
fn seed_001_matches_claim_by_agent_name() {
    let mut registry = registry([claim("parent-hash", "recon", 0)]);
    assert_eq!(
        parent_of(&mut registry, named("recon", "child-type"), 0).as_deref(),
        Some("parent-hash")
    );
}

#[test]
fn seed_001_matches_claim_by_type_hash_when_name_does_not_match() {
    let mut registry = registry([typed("parent-hash", "recon", "child-type", 0)]);
    let parent = parent_of(&mut registry, named("different-name", "child-type"), 0);
    assert_eq!(parent.as_deref(), Some("parent-hash"));
}

#[test]
fn seed_001_returns_null_when_no_claim_matches() {
    let mut registry = registry([claim("parent-hash", "recon", 0)]);
    assert_eq!(parent_of(&mut registry, named("execute", "unknown-type"), 0), None);
}

#[test]
fn seed_001_expires_claims_after_30_seconds() {
    let mut registry = registry([claim("parent-hash", "recon", 0)]);
    assert_eq!(parent_of(&mut registry, named("recon", "any"), 31_000), None);
    assert_eq!(
        parent_of(&mut registry, named("recon", "any"), 30_000),
        None,
        "expires_at > now"
    );
    assert!(parent_of(&mut registry, named("recon", "any"), 29_999).is_some());
}

#[test]
fn seed_001_matches_claims_in_fifo_order() {
    // Whatever the order in which they were entered.
    let mut registry = registry([claim("parent-2", "recon", 100), claim("parent-1", "recon", 0)]);
    assert_eq!(
        parent_of(&mut registry, named("recon", "any"), 100).as_deref(),
        Some("parent-1")
    );
    assert_eq!(
        parent_of(&mut registry, named("recon", "any"), 100).as_deref(),
        Some("parent-2")
    );
}

#[test]
fn seed_001_removes_matched_claims() {
    let mut registry = registry([claim("parent-hash", "recon", 0)]);
    assert!(parent_of(&mut registry, named("recon", "any"), 0).is_some());
    assert_eq!(parent_of(&mut registry, named("recon", "any"), 0), None);
}

#[test]
fn seed_001_edge_parallel_calls_match_in_the_order_of_the_answer() {
    let call = |index| Claim {
        index,
        ..claim(&format!("call-{index}"), "recon", 0)
    };
    let mut registry = registry([call(2), call(0), call(1)]);
    for index in 0..3 {
        let parent = parent_of(&mut registry, named("recon", "any"), 1);
        assert_eq!(parent, Some(format!("call-{index}")));
    }
}

#[test]
fn seed_001_edge_children_of_one_type_match_by_creation() {
    let mut registry = registry([typed("second", "b", "type", 10), typed("first", "a", "type", 5)]);
    assert_eq!(
        parent_of(&mut registry, named("x", "type"), 20).as_deref(),
        Some("first")
    );
    assert_eq!(
        parent_of(&mut registry, named("x", "type"), 20).as_deref(),
        Some("second")
    );
}

#[test]
fn seed_001_edge_a_claim_without_a_child_is_listed_once_it_expires() {
    let mut registry = registry([
        claim("late", "b", 10),
        claim("early", "a", 0),
        claim("open", "c", 5_000),
    ]);
    let parents = |claims: Vec<&Claim>| claims.into_iter().map(|claim| claim.parent.clone()).collect::<Vec<_>>();
    assert_eq!(parents(registry.expired(at(30_000))), ["early"]);
    assert_eq!(parents(registry.expired(at(30_010))), ["early", "late"]);
    assert_eq!(registry.remove_expired(at(30_010)).len(), 2);
    assert_eq!(registry.len(), 1);
}

#[test]
fn tiers_come_before_age() {
    let claims = [
        claim("any", "other", 0),
        typed("type", "other", "t", 1),
        claim("name", "recon", 2),
        typed("both", "recon", "t", 3),
    ];
    let mut registry = registry(claims);
    let mut tiers = Vec::new();
    while let Some(matched) = registry.take_match(&named("recon", "t"), at(10)) {
        tiers.push((matched.claim.parent, matched.tier));
    }
    let expected = [("both", Tier::NameAndType), ("name", Tier::Name), ("type", Tier::Type)];
    assert_eq!(tiers, expected.map(|(parent, tier)| (parent.to_owned(), tier)));
    assert_eq!(registry.len(), 1, "a stranger's claim stays");
}

#[test]
fn an_unknown_name_takes_any_claim_but_an_equal_type_first() {
    let unnamed = Newcomer {
        name: None,
        type_hash: "t",
        session: None,
    };
    let mut registry = registry([claim("any", "recon", 0), typed("type", "execute", "t", 5)]);
    assert_eq!(parent_of(&mut registry, unnamed, 10).as_deref(), Some("type"));
    assert_eq!(parent_of(&mut registry, unnamed, 10).as_deref(), Some("any"));
}

#[test]
fn an_expected_type_that_differs_does_not_forbid_an_equal_name() {
    let mut registry = registry([typed("parent", "recon", "old-type", 0)]);
    let matched = registry.take_match(&named("recon", "new-type"), at(1)).unwrap();
    assert_eq!(matched.tier, Tier::Name);
}

#[test]
fn the_same_session_comes_first_within_a_tier() {
    let in_session = |parent: &str, session: &str, ms| Claim {
        session: Some(session.to_owned()),
        ..claim(parent, "recon", ms)
    };
    let claims = [
        claim("none", "recon", 0),
        in_session("theirs", "s1", 1),
        in_session("ours", "s2", 2),
    ];
    let mut registry = registry(claims);
    let newcomer = Newcomer {
        session: Some("s2"),
        ..named("recon", "t")
    };
    assert_eq!(parent_of(&mut registry, newcomer, 10).as_deref(), Some("ours"));
    assert_eq!(parent_of(&mut registry, newcomer, 10).as_deref(), Some("none"));
    let last = registry.take_match(&newcomer, at(10)).unwrap();
    assert!(!last.same_session);
}

#[test]
fn a_child_never_comes_before_its_parent() {
    let spawned_later = Claim {
        valid_from: at(50),
        ..claim("parent", "recon", 100)
    };
    let mut registry = registry([spawned_later]);
    assert_eq!(parent_of(&mut registry, named("recon", "t"), 49), None);
    assert!(parent_of(&mut registry, named("recon", "t"), 50).is_some());
}

#[test]
fn the_result_of_the_call_closes_its_claim() {
    let call = Claim {
        tool_use_id: Some("toolu_1".to_owned()),
        ..claim("parent", "recon", 0)
    };
    let mut registry = registry([call]);
    assert_eq!(registry.close("toolu_2"), None);
    assert!(registry.close("toolu_1").is_some());
    assert!(registry.is_empty());
}

proptest! {
    #[test]
    fn the_order_of_creation_never_matters(
        claims in prop::collection::vec((0..3_i64, 0..2_u32, 0..2_usize, 0..3_usize), 1..8),
        rotation in 0..8_usize,
    ) {
        let claims: Vec<Claim> = claims
            .into_iter()
            .enumerate()
            .map(|(i, (ms, index, name, session))| Claim {
                index,
                session: [None, Some("s1"), Some("s2")][session].map(str::to_owned),
                ..claim(&format!("p{i}"), ["recon", "execute"][name], ms)
            })
            .collect();
        let mut rotated = claims.clone();
        rotated.rotate_left(rotation % claims.len());
        let newcomer = Newcomer { session: Some("s1"), ..named("recon", "t") };
        let (mut one, mut other) = (registry(claims), registry(rotated));
        loop {
            let (a, b) = (one.take_match(&newcomer, at(9)), other.take_match(&newcomer, at(9)));
            prop_assert_eq!(&a, &b);
            if a.is_none() {
                break;
            }
        }
    }
}
