//! `ropewalk title`: another title for a conversation, whose friendly id stays.

use serde_json::json;

use crate::audit;
use crate::changes::client::{Changer, Way};
use crate::cli::Title;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::out::Out;
use crate::print::text::one_line;

pub(crate) async fn run(context: &Context, arguments: &Title) -> Result<(), Failure> {
    let title = arguments.text.join(" ");
    let title = title.trim();
    if title.is_empty() {
        return Err(
            Failure::new(Kind::Usage, "a title has to say something").hint("ropewalk title REF How we made it fast")
        );
    }
    // Only a reader finds out that there is nothing, without making a store.
    let (owner, conversation) = {
        let store = context.read().await?;
        let view = context.view_to_find(&store).await?;
        let root = view.resolve_root(&arguments.reference).await?;
        let conversation = view.find_conversation(root).await?;
        (
            view.owner_name,
            conversation.map(|conversation| conversation.conversation_id),
        )
    };
    let mut way = Way::open(context).await?;
    let friendly_id = Changer::new(context, &mut way)
        .title(&owner, &arguments.reference, title)
        .await?;
    audit::note(
        &context.config,
        "title",
        Some(&owner),
        conversation.as_deref(),
        json!({}),
    );
    let mut out = Out::new();
    match context.json {
        true => out.json(&json!({"v": 1, "friendly_id": friendly_id, "title": title}))?,
        false => out.line(&format!("{} is called {} now", out.name(&friendly_id), one_line(title)))?,
    }
    out.finish()
}
