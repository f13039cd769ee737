//! The queue between forwarding and the worker, bounded in bytes.
//!
//! A mutex around a vector: senders hold it for one push, the worker swaps the vector for an empty one. The worker is woken for
//! what somebody waits for and when much has come together; the rest it finds when it looks by itself, at least every
//! 25 ms. So a small exchange costs one waking, not six.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::event::Event;

/// How long an event that nobody waits for may lie.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// The worker is woken when this much lies in the queue, whether or not somebody waits.
const WAKE_BYTES: usize = 256 << 10;

/// The sending end.
#[derive(Debug, Clone)]
pub struct Tee {
    shared: Arc<Shared>,
}

/// The worker's end.
#[derive(Debug)]
pub struct Inbox {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    bytes_max: usize,
    /// What lies in the queue and what the worker has taken and not yet let go.
    bytes: AtomicUsize,
    queue: Mutex<Queue>,
    woken: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    events: Vec<Event>,
    /// Bodies that wait for room.
    waiting: Vec<Waker>,
    sleeping: Sleep,
    /// No more will come; the worker ends when it has done what is there.
    closed: bool,
    /// The worker is gone: nothing that is sent would ever be taken.
    abandoned: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Sleep {
    #[default]
    Awake,
    /// Looks again by itself soon.
    Dozing,
    /// Until something comes.
    Sound,
}

/// A queue of at most about this many bytes.
pub fn channel(bytes_max: usize) -> (Tee, Inbox) {
    let shared = Arc::new(Shared {
        bytes_max,
        bytes: AtomicUsize::new(0),
        queue: Mutex::default(),
        woken: Condvar::new(),
    });
    let inbox = Inbox {
        shared: Arc::clone(&shared),
    };
    (Tee { shared }, inbox)
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nobody panics while holding it.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tee {
    /// Never waits; an event over the bound is taken as well, because its bytes are in memory already.
    pub fn send(&self, event: Event) {
        let added = event.bytes();
        let urgent = event.is_urgent();
        let bytes = self.shared.bytes.fetch_add(added, Ordering::Relaxed) + added;
        let mut queue = self.shared.queue();
        if queue.abandoned {
            // Whoever waits for a release learns from its end that none will come.
            drop(queue);
            self.shared.bytes.fetch_sub(added, Ordering::Relaxed);
            return;
        }
        queue.events.push(event);
        let wake = match queue.sleeping {
            Sleep::Awake => false,
            Sleep::Dozing => urgent || bytes >= WAKE_BYTES,
            Sleep::Sound => true,
        };
        if wake {
            queue.sleeping = Sleep::Awake;
            drop(queue);
            self.shared.woken.notify_one();
        }
    }

    /// Whether a body may read on. Wakes the task when it may.
    pub fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        if self.has_room() {
            return Poll::Ready(());
        }
        let mut queue = self.shared.queue();
        // The worker lets go under the same lock, so its waking cannot be missed.
        if self.has_room() || queue.abandoned {
            return Poll::Ready(());
        }
        queue.waiting.push(cx.waker().clone());
        Poll::Pending
    }

    /// Says that no more will be sent. The worker does what is there and ends; what comes later is dropped. To be called when
    /// the last exchange has ended.
    pub fn close(&self) {
        let mut queue = self.shared.queue();
        queue.closed = true;
        queue.sleeping = Sleep::Awake;
        drop(queue);
        self.shared.woken.notify_one();
    }

    fn has_room(&self) -> bool {
        self.shared.bytes.load(Ordering::Relaxed) < self.shared.bytes_max
    }
}

impl Inbox {
    /// Everything that came since the last time, with its size, to be given back by [`Self::let_go`]. Waits for at most
    /// 25 ms if `soon`, else until something comes; what it gives may be empty.
    pub fn take(&self, soon: bool) -> (Vec<Event>, usize) {
        let mut queue = self.shared.queue();
        if queue.events.is_empty() && !queue.closed {
            queue.sleeping = if soon { Sleep::Dozing } else { Sleep::Sound };
            queue = if soon {
                let (queue, _) = self
                    .shared
                    .woken
                    .wait_timeout_while(queue, LOOK_EVERY, |queue| queue.sleeping != Sleep::Awake)
                    .unwrap_or_else(PoisonError::into_inner);
                queue
            } else {
                self.shared
                    .woken
                    .wait_while(queue, |queue| queue.sleeping != Sleep::Awake)
                    .unwrap_or_else(PoisonError::into_inner)
            };
            queue.sleeping = Sleep::Awake;
        }
        let events = std::mem::take(&mut queue.events);
        let bytes = events.iter().map(Event::bytes).sum();
        (events, bytes)
    }

    /// Whether no more will be sent.
    pub fn is_closed(&self) -> bool {
        self.shared.queue().closed
    }

    /// The bound of the queue.
    pub fn bytes_max(&self) -> usize {
        self.shared.bytes_max
    }

    /// Says that more bytes are held than were taken, as when a body is decoded.
    pub fn hold(&self, bytes: usize) {
        self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Says that bytes which were taken are no longer held.
    pub fn let_go(&self, bytes: usize) {
        self.shared.bytes.fetch_sub(bytes, Ordering::Relaxed);
        let waiting = std::mem::take(&mut self.shared.queue().waiting);
        for waker in waiting {
            waker.wake();
        }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.abandoned = true;
        let waiting = std::mem::take(&mut queue.waiting);
        let events = std::mem::take(&mut queue.events);
        drop(queue);
        drop(events);
        for waker in waiting {
            waker.wake();
        }
    }
}
