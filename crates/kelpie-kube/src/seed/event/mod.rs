//! Kubernetes Events about what we do: best effort, never in anybody's way.

mod poster;
mod queue;
mod refusals;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Client;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::wall::WallClock;
use poster::Poster;
use queue::{Lost, Queue};

/// For what is left in the queue at the end.
const FAREWELL: Duration = Duration::from_secs(1);

/// Something to tell about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The object.
    pub about: ObjectRef,
    /// How grave it is.
    pub kind: NoteKind,
    /// Why, as one word for machines, such as `Fenced`.
    pub reason: &'static str,
    /// What happened, for people. Notes that differ only in the numbers here are counted as one.
    pub message: String,
    /// What was done, as one word for machines, such as `ScaleDown`.
    pub action: &'static str,
}

/// An object that an Event is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ObjectRef {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace, which is also the Event's. For an object of the whole cluster: empty, and the Event
    /// goes to `default`; or any namespace where Events are granted, which the API server takes too.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Its uid, if known.
    pub uid: Option<String>,
}

/// How grave a note is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoteKind {
    /// In order.
    Normal,
    /// Somebody should look.
    Warning,
}

/// Where Events are handed in. Clones share one queue.
#[derive(Clone)]
pub struct Events(Arc<Shared>);

struct Shared {
    client: Client,
    wall: WallClock,
    component: String,
    instance: String,
    queue: Mutex<Queue>,
    arrived: Notify,
    dropped: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    refusal_was_told: AtomicBool,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Events {
    pub(super) fn new(client: Client, wall: WallClock, component: &str, instance: &str) -> Self {
        Self(Arc::new(Shared {
            wall,
            client,
            component: component.to_owned(),
            instance: instance.to_owned(),
            queue: Mutex::default(),
            arrived: Notify::new(),
            dropped: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            refusal_was_told: AtomicBool::new(false),
        }))
    }

    /// Hands a note in and returns at once. What would be refused does not wait; if too many wait, one
    /// is dropped, first of all one that may be refused.
    pub fn publish(&self, note: Note) {
        let lost = self.0.queue().push(note, Instant::now());
        match lost {
            Lost::None => 0,
            Lost::Refused => self.0.refused.fetch_add(1, Ordering::Relaxed),
            Lost::Dropped => self.0.dropped.fetch_add(1, Ordering::Relaxed),
        };
        self.0.arrived.notify_one();
    }

    /// Notes dropped because too many waited.
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }

    /// Notes that the API server did not allow us to post.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Notes that could not be posted for another reason.
    pub fn failed(&self) -> u64 {
        self.0.failed.load(Ordering::Relaxed)
    }

    /// Posts what is handed in until the token is cancelled, then what is left within a second. To
    /// be spawned once.
    pub async fn run(self, token: CancellationToken) {
        let mut poster = Poster::new(self.0);
        tokio::select! {
            biased;
            () = token.cancelled() => {}
            () = poster.post_all(true) => {}
        }
        // Best effort: what is not posted by then stays untold.
        let _ = timeout(FAREWELL, poster.post_all(false)).await;
    }
}
