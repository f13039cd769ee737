//! `ropewalk bisect`: the turn from which on a check fails.

use std::process::Stdio;

use ropewalk_engine::replay::Otherwise;
use ropewalk_engine::view::View;
use ropewalk_store::derived::LinkKind;
use ropewalk_store::store::ExchangeRow;
use serde::Serialize;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::replay::{Answered, Replayer, otherwise};
use crate::any_store::AnyStore;
use crate::cli::Bisect;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::out::{Out, say};
use crate::print::text::one_line;

/// What a check says of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Good,
    Bad,
    /// It cannot be told.
    Skip,
}

/// One turn that was tried.
#[derive(Debug, Clone, Serialize)]
struct Step {
    /// From 1, from the beginning of the conversation.
    turn: usize,
    exchange_id: String,
    /// The exchange whose answer was checked: the same, or the one that asked again.
    answer_exchange_id: Option<String>,
    verdict: Verdict,
}

#[derive(Debug, Serialize)]
struct Found<'a> {
    v: u32,
    /// `found`, `skipped` (one of several turns that could not be told) or `good` (nothing is bad).
    outcome: &'static str,
    turns: usize,
    /// The turns of which one is the first bad one.
    first_bad: Vec<&'a Turn>,
    steps: &'a [Step],
}

#[derive(Debug, Clone, Serialize)]
struct Turn {
    turn: usize,
    exchange_id: String,
    #[serde(skip)]
    row: ExchangeRow,
}

pub(crate) async fn run(context: &Context, arguments: &Bisect) -> Result<(), Failure> {
    let otherwise = otherwise(&arguments.otherwise)?;
    let store = context.read().await?;
    let view = context.view_to_find(&store).await?;
    let turns = turns(&view, &arguments.reference).await?;
    let known_good = match &arguments.good {
        Some(reference) => Some(place(&view, &turns, reference).await?),
        None => None,
    };
    let replayer = match otherwise.is_nothing() {
        true => None,
        false => Some(Replayer::open(context, &view.owner_name, &arguments.otherwise).await?),
    };
    let mut trial = Trial {
        view: &view,
        turns: &turns,
        otherwise: &otherwise,
        replayer: replayer.as_ref(),
        command: arguments,
        steps: Vec::new(),
    };
    let searched = trial.search(known_good).await;
    let steps = trial.steps;
    if let Some(replayer) = replayer {
        replayer.close().await;
    }
    print(context, &turns, &steps, searched?)
}

/// The turns that lead to what is named, the first one first.
async fn turns(view: &View<'_, AnyStore>, reference: &str) -> Result<Vec<Turn>, Failure> {
    let last = view.resolve_exchange(reference).await?;
    let not_linked = || {
        Failure::new(
            Kind::NotFound,
            format!("exchange `{}` is not linked yet", one_line(&last.id)),
        )
    };
    let link = view.find_link(last.number).await?.ok_or_else(not_linked)?;
    let mut turns = Vec::new();
    for link in view.path_to(link).await? {
        if !matches!(link.kind(), LinkKind::Turn | LinkKind::Retry) {
            continue;
        }
        if let Some(row) = view.find_row(link.exchange).await? {
            turns.push(Turn {
                turn: turns.len() + 1,
                exchange_id: row.id.clone(),
                row,
            });
        }
    }
    match turns.is_empty() {
        true => Err(Failure::new(Kind::NotFound, "no turn leads there")
            .hint("`ropewalk log --exchanges` says which exchanges are turns")),
        false => Ok(turns),
    }
}

/// Which of the turns a name is of.
async fn place(view: &View<'_, AnyStore>, turns: &[Turn], reference: &str) -> Result<usize, Failure> {
    let row = view.resolve_exchange(reference).await?;
    let found = turns.iter().position(|turn| turn.row.number == row.number);
    found.ok_or_else(|| {
        Failure::new(
            Kind::Usage,
            format!("`{}` is no turn on the way there", one_line(reference)),
        )
        .hint("a good turn stands before the bad one in the same branch")
    })
}

/// What a search came to: places of turns of which one is the first bad one; none where nothing is bad.
type Suspects = std::ops::Range<usize>;

struct Trial<'t> {
    view: &'t View<'t, AnyStore>,
    turns: &'t [Turn],
    otherwise: &'t Otherwise,
    replayer: Option<&'t Replayer>,
    command: &'t Bisect,
    steps: Vec<Step>,
}

impl Trial<'_> {
    /// Both ends are tried first, so that what is found is a change and no guess.
    async fn search(&mut self, known_good: Option<usize>) -> Result<Suspects, Failure> {
        let last = self.turns.len() - 1;
        match self.verdict(last).await? {
            Verdict::Bad => {}
            Verdict::Good => return Ok(0..0),
            Verdict::Skip => {
                return Err(Failure::new(Kind::NotFound, "the check cannot tell the last turn")
                    .hint("name an earlier one: REF~1"));
            }
        }
        let mut bad = last;
        // The first place that may be bad.
        let mut from = match known_good {
            Some(good) if good >= bad => {
                return Err(Failure::new(Kind::Usage, "the good turn is not before the bad one")
                    .hint("REF is the bad one, --good names one before it; `ropewalk log --graph` draws them"));
            }
            Some(good) => good + 1,
            None => 0,
        };
        if known_good.is_none() && bad > 0 {
            match self.verdict(0).await? {
                Verdict::Bad => return Ok(0..1),
                Verdict::Good | Verdict::Skip => from = 1,
            }
        }
        while let Some(next) = self.next(from, bad) {
            match self.verdict(next).await? {
                Verdict::Good => from = next + 1,
                Verdict::Bad => bad = next,
                Verdict::Skip => {}
            }
        }
        Ok(from..bad + 1)
    }

    /// The turn nearest to the middle of those that may be the first bad one and were not tried.
    fn next(&self, from: usize, bad: usize) -> Option<usize> {
        let middle = from + (bad - from) / 2;
        let is_tried = |at: &usize| self.steps.iter().any(|step| step.turn == at + 1);
        (from..bad)
            .filter(|at| !is_tried(at))
            .min_by_key(|at| at.abs_diff(middle))
    }

    async fn verdict(&mut self, at: usize) -> Result<Verdict, Failure> {
        let turn = &self.turns[at];
        let answered = self.answer(turn).await?;
        let verdict = match &answered {
            Some(answered) => self.check(turn, answered).await?,
            // Who was never answered said nothing that could be checked.
            None => Verdict::Skip,
        };
        let word = match verdict {
            Verdict::Good => "good",
            Verdict::Bad => "bad",
            Verdict::Skip => "skipped",
        };
        say(&format!(
            "turn {} of {} ({}): {word}",
            turn.turn,
            self.turns.len(),
            turn.exchange_id
        ));
        self.steps.push(Step {
            turn: turn.turn,
            exchange_id: turn.exchange_id.clone(),
            answer_exchange_id: answered.map(|answered| answered.exchange_id),
            verdict,
        });
        Ok(verdict)
    }

    async fn answer(&self, turn: &Turn) -> Result<Option<Answered>, Failure> {
        let Some(replayer) = self.replayer else {
            let text = self.view.heard(&turn.row).await?;
            return Ok(text.map(|text| Answered {
                exchange_id: turn.exchange_id.clone(),
                text,
            }));
        };
        let again = self.view.again(&turn.row, self.otherwise).await?;
        replayer.send(&again).await.map(Some)
    }

    async fn check(&self, turn: &Turn, answered: &Answered) -> Result<Verdict, Failure> {
        let [program, rest @ ..] = &*self.command.command else {
            return Err(Failure::new(Kind::Usage, "no check was given").hint("ropewalk bisect REF -- CMD"));
        };
        let cannot = |error: std::io::Error| {
            Failure::new(Kind::Usage, format!("cannot run {}: {error}", program.display()))
                .hint("is it installed, and on the PATH?")
        };
        let mut child = Command::new(program)
            .args(rest)
            .env("ROPEWALK_EXCHANGE", &turn.exchange_id)
            .env("ROPEWALK_ANSWER", &answered.exchange_id)
            .stdin(Stdio::piped())
            // What it says is talk; what we say on standard output is the result.
            .stdout(std::io::stderr())
            .kill_on_drop(true)
            .spawn()
            .map_err(cannot)?;
        if let Some(mut stdin) = child.stdin.take() {
            // A check that has seen enough closes its end.
            drop(stdin.write_all(answered.text.as_bytes()).await);
        }
        let status = child.wait().await.map_err(cannot)?;
        match status.code() {
            Some(0) => Ok(Verdict::Good),
            Some(1..=124) => Ok(Verdict::Bad),
            Some(125) => Ok(Verdict::Skip),
            _ => Err(Failure::new(
                Kind::Usage,
                format!("the check ended with {status}, which says nothing about the answer"),
            )
            .hint("exit code 0 is good, 1 to 124 is bad, 125 cannot be told")),
        }
    }
}

fn print(context: &Context, turns: &[Turn], steps: &[Step], suspects: Suspects) -> Result<(), Failure> {
    let first_bad: Vec<&Turn> = turns[suspects].iter().collect();
    let outcome = match first_bad.len() {
        0 => "good",
        1 => "found",
        _ => "skipped",
    };
    let mut out = Out::new();
    if context.json {
        out.json(&Found {
            v: 1,
            outcome,
            turns: turns.len(),
            first_bad: first_bad.clone(),
            steps,
        })?;
    } else {
        let headline = match outcome {
            "good" => "nothing is bad: the last turn passes the check".to_owned(),
            "found" => "the first bad turn:".to_owned(),
            _ => format!(
                "one of these {} turns is the first bad one; the others could not be told:",
                first_bad.len()
            ),
        };
        out.line(&headline)?;
        for turn in &first_bad {
            let name = out.name(&one_line(&turn.exchange_id));
            out.line(&format!("  turn {} of {}  {name}", turn.turn, turns.len()))?;
        }
    }
    out.finish()?;
    match outcome {
        "found" => Ok(()),
        // What there is to say is said; scripts read the code.
        _ => Err(Failure::of_command(Kind::NotFound as u8)),
    }
}
