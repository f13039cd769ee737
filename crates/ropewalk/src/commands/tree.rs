//! `ropewalk tree`: agents under those that started them.

use std::collections::HashMap;

use ropewalk_engine::view::{AgentView, Directory, View};
use ropewalk_store::derived::ConversationRow;
use ropewalk_store::facts::ExchangeNumber;
use unicode_width::UnicodeWidthStr as _;

use super::follow;
use crate::any_store::AnyStore;
use crate::cli::Tree;
use crate::context::Context;
use crate::failure::Failure;
use crate::print::number::{counted, dollars, short};
use crate::print::out::Out;
use crate::print::screen::Screen;
use crate::print::text::one_line;
use crate::print::words::{Missed, Words};

pub(crate) async fn run(context: &Context, arguments: &Tree) -> Result<(), Failure> {
    if arguments.live {
        return live(context, arguments).await;
    }
    let store = context.read().await?;
    let mut out = context.out();
    match arguments.reference {
        Some(_) => {
            let view = context.view_to_find(&store).await?;
            trees(context, &view, arguments, &mut out).await?;
        }
        None => {
            let Some(view) = context.view(&store).await? else {
                return Ok(());
            };
            trees(context, &view, arguments, &mut out).await?;
        }
    }
    out.finish()
}

async fn trees(context: &Context, view: &View<'_, AnyStore>, arguments: &Tree, out: &mut Out) -> Result<(), Failure> {
    if let Some(reference) = &arguments.reference {
        let root = view.resolve_root(reference).await?;
        return tree(context, view, root, out).await;
    }
    for row in newest(view, arguments.count).await? {
        tree(context, view, row.root, out).await?;
    }
    Ok(())
}

/// Again and again, whenever something was linked and looks otherwise.
async fn live(context: &Context, arguments: &Tree) -> Result<(), Failure> {
    let store = Some(follow::store(context).await?);
    let view = context.view_to_find(&store).await?;
    let mut out = Out::new();
    let mut screen = (!context.json).then(Screen::find).flatten();
    let (mut seen, mut shown) = (None, String::new());
    loop {
        follow::changed(&view, &mut seen).await?;
        let mut drawing = out.beside();
        trees(context, &view, arguments, &mut drawing).await?;
        let text = drawing.written();
        if text == shown {
            continue;
        }
        match &mut screen {
            Some(screen) => out.bytes(screen.drawn(&text).as_bytes())?,
            None => out.bytes(text.as_bytes())?,
        }
        if screen.is_none() && !context.json {
            out.line("")?;
        }
        out.flush()?;
        shown = text;
    }
}

async fn newest(view: &View<'_, AnyStore>, count: usize) -> Result<Vec<ConversationRow>, Failure> {
    match count {
        0 => Ok(Vec::new()),
        count => Ok(view.conversations_before(None, count).await?),
    }
}

async fn tree(
    context: &Context,
    view: &View<'_, AnyStore>,
    root: ExchangeNumber,
    out: &mut Out,
) -> Result<(), Failure> {
    let agents = view.agents(root, &mut Directory::default()).await?;
    if context.json {
        return agents.iter().try_for_each(|agent| out.versioned(agent));
    }
    let Some(conversation) = view.find_conversation(root).await? else {
        return Ok(());
    };
    let id = out.name(&conversation.conversation_id[..8]);
    let title = out.strong(&one_line(conversation.title.as_deref().unwrap_or("(no words)")));
    let friendly_id = out.faint(conversation.friendly_id.as_deref().unwrap_or_default());
    out.fitted(format!("{id}  {title}  {friendly_id}").trim_end())?;
    draw(&agents, out)
}

/// Without recursion: a chain of agents may be as long as somebody likes.
fn draw(agents: &[AgentView], out: &mut Out) -> Result<(), Failure> {
    let known: HashMap<ExchangeNumber, ()> = agents.iter().map(|agent| (agent.first, ())).collect();
    let mut children: HashMap<Option<ExchangeNumber>, Vec<&AgentView>> = HashMap::new();
    for agent in agents {
        let parent = agent
            .parent
            .filter(|parent| known.contains_key(parent) && *parent != agent.first);
        children.entry(parent).or_default().push(agent);
    }
    let roots = children.remove(&None).unwrap_or_default();
    let mut waiting: Vec<(String, bool, &AgentView)> = with_last("", &roots);
    while let Some((before, is_last, agent)) = waiting.pop() {
        let (corner, below) = if is_last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        let lines = format!("{before}{corner}");
        let told = described(agent, out).line(out.room_behind(lines.width()));
        out.fitted(&format!("{lines}{told}"))?;
        let inside = children.remove(&Some(agent.first)).unwrap_or_default();
        waiting.extend(with_last(&format!("{before}{below}"), &inside));
    }
    Ok(())
}

/// Last in, first out: in reverse, so that the first is drawn first.
fn with_last<'a>(before: &str, agents: &[&'a AgentView]) -> Vec<(String, bool, &'a AgentView)> {
    let last = agents.len().saturating_sub(1);
    let placed = agents
        .iter()
        .enumerate()
        .map(|(at, agent)| (before.to_owned(), at == last, *agent));
    let mut placed: Vec<_> = placed.collect();
    placed.reverse();
    placed
}

fn described(agent: &AgentView, out: &Out) -> Words {
    let name = agent.name.as_deref().unwrap_or(&agent.id);
    let mut words = Words::default();
    words.push(Missed::Most, out.strong(&one_line(name)));
    let branch = agent.branch_id.iter().filter(|branch| *branch != name);
    words.extend(Missed::Less, branch.map(|branch| one_line(branch)));
    words.extend(Missed::Some, agent.model.iter().map(|model| one_line(model)));
    words.push(Missed::Some, counted(agent.exchanges, "exchange", "exchanges"));
    let (sent, answered) = (short(agent.input_tokens), short(agent.output_tokens));
    words.push(Missed::Some, format!("{sent} in, {answered} out"));
    words.push(Missed::More, dollars(agent.cost_usd));
    match agent.status {
        "complete" => {}
        "error" => words.push(Missed::Most, out.alarm("error")),
        other => words.push(Missed::Most, other),
    }
    if !agent.is_main {
        words.push(Missed::Least, out.faint(&format!("by {}", agent.link.method)));
    }
    if agent.orphan {
        words.push(Missed::More, out.alarm("started by nobody that was recorded"));
    }
    words
}
