//! Messages as they are, for programs that show them: along a conversation's active path, and as seed 004's session.
//!
//! Of a long conversation that simply goes on only the page is read (see the engine's `Thread`). Which messages others have, and in
//! which order, is only known when all of them were looked at; that is kept, in little room, until something changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ropewalk_engine::view::session::Amount;
use ropewalk_engine::view::{Course, MessageView, SessionMessages, SessionTree, Target, Thread, View};
use ropewalk_store::Store;
use ropewalk_store::facts::ExchangeNumber;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use utoipa::{IntoParams, ToSchema};

use super::bounded;
use super::kept::{Kept, Key, Weighed};
use super::messages::named;
use super::written::Written;
use crate::problem::Problem;
use crate::source::Owned;

const MESSAGES: usize = 100;
const MESSAGES_MAX: usize = 500;

/// Of a page; one message always fits.
const PAGE_BYTES_MAX: usize = 4 << 20;

/// Conversations with fewer exchanges are read whole, which takes no longer.
const THREAD_EXCHANGES_MIN: u64 = 64;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Paged {
    pub limit: Option<usize>,
    /// What the page before named as the next.
    pub cursor: Option<String>,
    pub as_of: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct WholeMessages {
    #[schema(value_type = Vec<MessageView>)]
    pub messages: Vec<Box<RawValue>>,
    /// Of all pages together.
    pub total: usize,
    pub next_cursor: Option<String>,
}

/// What is known of a conversation beside its messages.
#[derive(Debug)]
enum Shape {
    Path(Written),
    Tree(SessionTree),
    /// And in which of both ways it cannot be read, although it looks straight.
    Course(Course, [AtomicBool; 2]),
}

/// What the messages of a course are read as: places among those above.
const AS_PATH: usize = 0;
const AS_TREE: usize = 1;

impl Weighed for Shape {
    fn bytes(&self) -> usize {
        match self {
            Shape::Path(written) => written.bytes(),
            Shape::Tree(tree) => tree.bytes(),
            Shape::Course(course, _) => course.thread().map_or(0, Thread::bytes),
        }
    }
}

impl Shape {
    fn thread(&self, read_as: usize) -> Option<&Thread> {
        match self {
            Shape::Course(course, refuted) if !refuted[read_as].load(Ordering::Relaxed) => course.thread(),
            _ => None,
        }
    }

    fn refute(&self, read_as: usize) {
        if let Shape::Course(_, refuted) = self {
            refuted[read_as].store(true, Ordering::Relaxed);
        }
    }
}

/// Conversations that were asked for last.
#[derive(Debug, Default)]
pub struct Shapes {
    kept: Kept<Shape>,
}

impl Shapes {
    /// How a conversation goes on, from what was known before.
    async fn course<S: Store>(
        &self,
        owned: &Owned<S>,
        view: &View<'_, S>,
        root: ExchangeNumber,
    ) -> Result<Arc<Shape>, Problem> {
        let key = Key {
            kind: "course",
            name: root.0.to_string(),
            as_of: None,
        };
        let find = async |before: Option<Arc<Shape>>| {
            let (known, refuted) = match before.as_deref() {
                Some(Shape::Course(Course::Tangled, _)) => {
                    return Ok(Shape::Course(Course::Tangled, Default::default()));
                }
                Some(Shape::Course(known, refuted)) => {
                    let refuted = refuted.each_ref().map(|flag| flag.load(Ordering::Relaxed));
                    (known.thread(), refuted)
                }
                _ => (None, [false; 2]),
            };
            let course = view.course(root, known, THREAD_EXCHANGES_MIN).await?;
            Ok(Shape::Course(course, refuted.map(AtomicBool::new)))
        };
        self.kept.get(owned, key, find).await
    }

    async fn whole<S: Store>(
        &self,
        owned: &Owned<S>,
        kind: &'static str,
        (name, asked): (&str, &Paged),
        find: impl Future<Output = Result<Shape, Problem>>,
    ) -> Result<Arc<Shape>, Problem> {
        let key = Key {
            kind,
            name: name.to_owned(),
            as_of: asked.as_of.clone(),
        };
        self.kept.get(owned, key, |_| find).await
    }
}

/// Where a page begins: behind the message of that place and name.
struct Behind<'c> {
    place: usize,
    uuid: &'c str,
}

impl<'c> Behind<'c> {
    fn read(cursor: Option<&'c str>) -> Result<Option<Self>, Problem> {
        let Some(cursor) = cursor else { return Ok(None) };
        let (place, uuid) = cursor.split_once('.').ok_or_else(Problem::bad_cursor)?;
        let place = place.parse().map_err(|_| Problem::bad_cursor())?;
        Ok(Some(Behind { place, uuid }))
    }

    fn cursor(place: usize, uuid: &str) -> String {
        format!("{place}.{uuid}")
    }
}

/// Takes the message off that a page is behind, and says where the rest begins.
fn without_it<T>(
    messages: &mut Vec<T>,
    behind: Option<&Behind<'_>>,
    uuid: impl Fn(&T) -> &str,
) -> Result<usize, Problem> {
    let Some(behind) = behind else { return Ok(0) };
    match messages.first().is_some_and(|first| uuid(first) == behind.uuid) {
        true => drop(messages.remove(0)),
        // A conversation that went on in another way has other messages.
        false => return Err(Problem::bad_cursor()),
    }
    Ok(behind.place + 1)
}

pub async fn messages<S: Store>(
    owned: &Owned<S>,
    shapes: &Shapes,
    name: &str,
    asked: &Paged,
) -> Result<WholeMessages, Problem> {
    let limit = bounded(asked.limit, MESSAGES, MESSAGES_MAX);
    let view = owned.view_to_find(name)?;
    let behind = Behind::read(asked.cursor.as_deref())?;
    let first = behind.as_ref().map_or(0, |behind| behind.place);
    let wanted = limit + usize::from(behind.is_some());
    if asked.as_of.is_none()
        && let Target::Conversation(row) = view.resolve(name).await?
    {
        let course = shapes.course(owned, &view, row.root).await?;
        if let Some(thread) = course.thread(AS_PATH) {
            if let Some(mut slice) = view.slice(thread, first, wanted).await? {
                let first = without_it(&mut slice.messages, behind.as_ref(), |message| &message.uuid)?;
                let written = slice.messages.iter().filter_map(|message| to_raw_value(message).ok());
                return Ok(page(written.collect(), first, slice.total));
            }
            course.refute(AS_PATH);
        }
    }
    let path = async {
        let (_, all) = named(&view, name).await?;
        Ok(Shape::Path(Written::of(&all)))
    };
    let path = shapes.whole(owned, "path", (name, asked), path).await?;
    let Shape::Path(written) = &*path else {
        return Err(Problem::not_found(name));
    };
    let mut messages = written.messages(first, wanted);
    let first = without_it(&mut messages, behind.as_ref(), |message| uuid_of(message))?;
    Ok(page(messages, first, written.total()))
}

/// A message's own name, which it begins with.
fn uuid_of(message: &RawValue) -> &str {
    let rest = message.get().strip_prefix("{\"uuid\":\"").unwrap_or_default();
    rest.split('"').next().unwrap_or_default()
}

fn page(mut messages: Vec<Box<RawValue>>, first: usize, total: usize) -> WholeMessages {
    let mut bytes = 0;
    let fitting = messages.iter().take_while(|message| {
        let is_first = bytes == 0;
        bytes += message.get().len();
        is_first || bytes <= PAGE_BYTES_MAX
    });
    messages.truncate(fitting.count());
    let end = first + messages.len();
    let last = messages.last().filter(|_| end < total);
    WholeMessages {
        next_cursor: last.map(|last| Behind::cursor(end - 1, uuid_of(last))),
        messages,
        total,
    }
}

pub async fn session_messages<S: Store>(
    owned: &Owned<S>,
    shapes: &Shapes,
    session: &str,
    asked: &Paged,
) -> Result<SessionMessages, Problem> {
    let limit = bounded(asked.limit, MESSAGES, MESSAGES_MAX);
    let view = owned.view_to_find(session)?;
    let behind = Behind::read(asked.cursor.as_deref())?;
    let first = behind.as_ref().map_or(0, |behind| behind.place);
    let wanted = limit + usize::from(behind.is_some());
    let mut found = None;
    if asked.as_of.is_none()
        && let Some(root) = view.find_session_root(session).await?
    {
        let course = shapes.course(owned, &view, root).await?;
        if let Some(thread) = course.thread(AS_TREE) {
            found = view.thread_messages(thread, first, wanted).await?;
            if found.is_none() {
                course.refute(AS_TREE);
            }
        }
    }
    let mut page = match found {
        Some(page) => page,
        None => {
            let tree = async { Ok(Shape::Tree(view.session(session).await?)) };
            let tree = shapes.whole(owned, "tree", (session, asked), tree).await?;
            let Shape::Tree(tree) = &*tree else {
                return Err(Problem::not_found(session));
            };
            view.session_page(tree, first, wanted, Amount::Everything).await?
        }
    };
    let first = without_it(&mut page.messages, behind.as_ref(), |message| &message.uuid)?;
    let end = first + page.messages.len();
    page.next = page.next.map(|uuid| Behind::cursor(end - 1, &uuid));
    Ok(page)
}
