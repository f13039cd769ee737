//! A decision in words.

use std::collections::HashMap;

use ropewalk_store::derived::LinkKind;
use ropewalk_store::facts::ExchangeNumber;

use crate::link::decision::{Decision, Linked, Method, Place, Why};

/// Candidates that a sentence names; `explain` lists all.
const NAMED_MAX: usize = 3;

/// Why an exchange is linked where it is, as a sentence that continues "It …".
pub(super) fn reason(link: &Linked, ids: &HashMap<ExchangeNumber, String>) -> String {
    let decision = &link.decision;
    let name = |number: ExchangeNumber| ids.get(&number).cloned().unwrap_or_else(|| format!("#{}", number.0));
    let anchor = decision.anchor().map(name);
    let at = anchor.as_deref().unwrap_or("its conversation");
    let mut text = match decision.method {
        Method::New => begins(decision, ids),
        Method::Header => match decision.spawned.is_some() || decision.place == Place::Child {
            true => format!("says in its headers that it was started by the agent of {at}"),
            false => format!("says in its headers that it belongs behind {at}"),
        },
        Method::Reference => format!("names the answer of {at} as the one it goes on from"),
        Method::Retry => format!("repeats {at}, which had not succeeded: another attempt of the same turn"),
        Method::Prefix => goes_on(&format!("contains the answer of {at}"), link),
        Method::Partial => goes_on(
            &format!("contains the beginning of the answer of {at}, which was interrupted"),
            link,
        ),
        Method::Opening => format!("begins like {at} and is of the same session"),
        Method::History => format!(
            "shares a long opening of {} with {at}, which no other conversation begins with",
            blocks(decision.shared)
        ),
        Method::Anchor => goes_on(
            &format!("contains the answer of {at}, although what stands before it changed"),
            link,
        ),
        Method::SpawnPrompt => format!("begins with exactly the prompt that {at} started an agent with"),
        Method::ClaimNameAndType => format!("has the name and the type of the agent that {at} had just started"),
        Method::ClaimName => format!("has the name of the agent that {at} had just started"),
        Method::ClaimType => format!("has the type of the agent that {at} had just started"),
        Method::ClaimAny => format!("has no known name, and {at} had just started an agent that nobody else was"),
        Method::Summary => format!("begins with the summary that {at} wrote: the conversation was compacted"),
        Method::CompactedSession => format!("says that it continues a conversation, in the session of {at}"),
        Method::Session => format!("has the session of {at}, though nothing of what was said there"),
        Method::Quote => format!("quotes {at}"),
    };
    match decision.kind {
        LinkKind::Auxiliary => text.push_str("; a call beside the conversation, no turn of it"),
        LinkKind::Compaction => text.push_str("; it asks for a summary, and nothing goes on from it"),
        LinkKind::Turn | LinkKind::Retry => {}
    }
    if let Some((first, last)) = decision.rewritten {
        text.push_str(&format!(
            "; blocks {} to {} were rewritten by the client",
            first + 1,
            last + 1
        ));
    }
    if decision.discontinuous {
        text.push_str("; what came between was not recorded");
    }
    if decision.orphan {
        text.push_str("; an agent whose parent is not known");
    }
    text
}

fn goes_on(start: &str, link: &Linked) -> String {
    let shared = blocks(link.decision.shared);
    let opens_branch = link.branch == link.exchange;
    match link.decision.place {
        Place::Root | Place::Same => format!("{start} ({shared} alike)"),
        Place::After(_) if !opens_branch => format!("{start}, and is the first to go on from it ({shared} alike)"),
        Place::After(kind) | Place::Beside(kind) => {
            format!("{start}, and leaves its branch there: {} ({shared} alike)", kind.name())
        }
        Place::Child => format!("{start}, and begins an agent of its own"),
    }
}

fn begins(decision: &Decision, ids: &HashMap<ExchangeNumber, String>) -> String {
    let mut openings: Vec<&str> = Vec::new();
    for rejected in &decision.rejected {
        if rejected.why == Why::OnlyAnOpening {
            let id = ids.get(&ExchangeNumber(rejected.exchange));
            openings.extend(id.map(|id| &**id));
        }
    }
    if openings.is_empty() {
        return "contains nothing that was recorded before: a conversation begins".to_owned();
    }
    let named = openings.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    let more = openings.len().saturating_sub(NAMED_MAX);
    let more = if more == 0 {
        String::new()
    } else {
        format!(" and {more} more")
    };
    format!("begins like {named}{more}, but an equal opening alone does not link strangers: a conversation begins")
}

fn blocks(count: u32) -> String {
    match count {
        1 => "1 block".to_owned(),
        count => format!("{count} blocks"),
    }
}

#[cfg(test)]
mod tests {
    use ropewalk_store::Micros;

    use super::*;
    use crate::link::decision::BranchKind;

    fn ids() -> HashMap<ExchangeNumber, String> {
        (1..=9)
            .map(|number| (ExchangeNumber(number), format!("turn-{number}")))
            .collect()
    }

    fn linked(decision: Decision, branch: i64) -> Linked {
        Linked {
            exchange: ExchangeNumber(9),
            at: Micros(0),
            decision,
            conversation: ExchangeNumber(1),
            branch: ExchangeNumber(branch),
            agent: ExchangeNumber(1),
        }
    }

    #[test]
    fn a_prefix_names_the_answer_and_the_branch() {
        let mut decision = Decision::new(LinkKind::Turn, Method::Prefix, Place::After(BranchKind::Edit));
        decision.shared = 4;
        let decision = decision.behind(ExchangeNumber(2));
        assert_eq!(
            reason(&linked(decision.clone(), 1), &ids()),
            "contains the answer of turn-2, and is the first to go on from it (4 blocks alike)"
        );
        assert_eq!(
            reason(&linked(decision, 9), &ids()),
            "contains the answer of turn-2, and leaves its branch there: edit (4 blocks alike)"
        );
    }

    #[test]
    fn strangers_that_begin_alike_are_named() {
        let rejected = (1..=5).map(|number| (ExchangeNumber(number), Why::OnlyAnOpening));
        assert_eq!(
            reason(&linked(Decision::root().rejecting(rejected), 9), &ids()),
            "begins like turn-1, turn-2, turn-3 and 2 more, but an equal opening alone does not link strangers: \
             a conversation begins"
        );
    }

    #[test]
    fn what_else_is_known_is_added() {
        let mut decision = Decision::new(LinkKind::Auxiliary, Method::Session, Place::Same);
        decision.discontinuous = true;
        assert_eq!(
            reason(&linked(decision.attached(ExchangeNumber(7)), 1), &ids()),
            "has the session of turn-7, though nothing of what was said there; a call beside the conversation, \
             no turn of it; what came between was not recorded"
        );
    }
}
