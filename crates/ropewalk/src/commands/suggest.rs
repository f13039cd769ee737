//! `ropewalk suggest`: conversations that are nearly the same.

use ropewalk_engine::insight::suggest::{Settings, Suggested, Suggestions};

use crate::cli::Suggest;
use crate::context::Context;
use crate::failure::Failure;
use crate::print::number::counted;
use crate::print::out::Out;
use crate::print::text::cut;

pub(crate) async fn run(context: &Context, arguments: &Suggest) -> Result<(), Failure> {
    let store = context.read().await?;
    let Some(view) = context.view(&store).await? else {
        return Ok(());
    };
    let settings = Settings {
        given_max: arguments.count,
        score_min: arguments.score,
        ..Settings::default()
    };
    let suggestions = view.suggest(&settings).await?;
    let mut out = context.out();
    match context.json {
        true => out.json(&suggestions)?,
        false => print(&suggestions, &mut out)?,
    }
    out.finish()
}

fn print(suggestions: &Suggestions, out: &mut Out) -> Result<(), Failure> {
    for pair in &suggestions.pairs {
        let score = out.strong(&format!("{:.2}", pair.score));
        let words = counted(pair.shared_words as u64, "word", "words");
        out.line(&format!("{score}  {}, {words} in both", pair.kind.name()))?;
        for side in [&pair.a, &pair.b] {
            out.line(&format!("      {}", described(side, out)))?;
        }
        let room = out.width.saturating_sub(8);
        let excerpt = out.faint(&format!("\"{}\"", cut(&pair.excerpt, room)));
        out.line(&format!("      {excerpt}"))?;
    }
    let looked_at = counted(suggestions.conversations as u64, "conversation", "conversations");
    let mut words = vec![format!("{looked_at} looked at")];
    if !suggestions.is_all {
        words.push("older ones were not".to_owned());
    }
    if suggestions.pairs_left_out > 0 {
        words.push(format!(
            "{} more",
            counted(suggestions.pairs_left_out as u64, "pair", "pairs")
        ));
    }
    if suggestions.not_compared > 0 {
        let pairs = counted(suggestions.not_compared as u64, "pair", "pairs");
        words.push(format!("{pairs} with less in common not compared"));
    }
    if suggestions.pairs.is_empty() {
        words.push("none is nearly the same as another".to_owned());
    }
    out.line(&words.join(", "))
}

fn described(side: &Suggested, out: &Out) -> String {
    let id = out.name(&side.conversation_id[..8]);
    let turns = counted(side.turns, "turn", "turns");
    let room = out.width.saturating_sub(turns.len() + 20);
    format!(
        "{id}  {}  {turns}",
        cut(side.title.as_deref().unwrap_or("(no words)"), room)
    )
}
