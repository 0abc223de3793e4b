//! Kubernetes Events about a component's actions. They are best effort and never delay its work.

mod publisher;
mod queue;
mod refusals;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::system_clock::SystemClock;

use publisher::EventPublisher;
use queue::EventQueue;

/// The time for sending the rest of the queue at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// An Event to be recorded.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NewEvent {
    /// The object that the Event is about.
    pub about: ObjectRef,
    /// The field `type` of the Event.
    pub kind: EventType,
    /// A CamelCase word for machines that says why, such as `Fenced`.
    pub reason: &'static str,
    /// A description for people. Events that differ only in the digits of their messages are
    /// recorded as one Event with a count.
    pub message: String,
    /// A CamelCase word for machines that names the action, such as `Fence`.
    pub action: &'static str,
}

/// The object that an Event is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ObjectRef {
    /// The API group and version, such as `apps/v1`.
    pub api_version: String,
    /// The kind, such as `Deployment`.
    pub kind: String,
    /// The namespace of the object and of the Event. For a cluster-scoped object it is either
    /// empty, and the Event goes to `default`, or any namespace in which Events may be created,
    /// which the API server accepts too.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The uid of the object, if known.
    pub uid: Option<String>,
}

/// The type of an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// An expected action or state.
    Normal,
    /// A problem that an operator should look at.
    Warning,
}

/// Records Events in the background. Clones share one queue.
#[derive(Clone)]
pub struct EventRecorder(Arc<RecorderState>);

/// An Event that waits to be sent.
#[derive(Debug)]
struct QueuedEvent {
    event: NewEvent,
    /// Dropped once the Event was sent or given up.
    _done: Option<oneshot::Sender<()>>,
}

struct RecorderState {
    client: Client,
    clock: SystemClock,
    component: String,
    instance: String,
    queue: Mutex<EventQueue>,
    pushed: Notify,
}

/// The number of Events that were not recorded, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DroppedEvents {
    /// Events that were refused for lack of permission.
    pub refused: u64,
    /// Events that were dropped because the queue was full.
    pub dropped: u64,
    /// Events that failed for another reason.
    pub failed: u64,
}

impl EventRecorder {
    pub(super) fn new(client: Client, clock: SystemClock, component: &str, instance: &str) -> Self {
        Self(Arc::new(RecorderState {
            clock,
            client,
            component: component.to_owned(),
            instance: instance.to_owned(),
            queue: Mutex::default(),
            pushed: Notify::new(),
        }))
    }

    /// Queues an Event and returns at once. An Event that would be refused is not queued. If the
    /// queue is full, another Event is dropped, preferably one that may be refused.
    pub fn publish(&self, event: NewEvent) {
        self.enqueue(QueuedEvent { event, _done: None });
    }

    /// Queues an Event and waits until it was sent or given up.
    pub async fn deliver(&self, event: NewEvent) {
        let (done, dropped) = oneshot::channel();
        self.enqueue(QueuedEvent {
            event,
            _done: Some(done),
        });
        // The sender is only ever dropped.
        let _ = dropped.await;
    }

    fn enqueue(&self, event: QueuedEvent) {
        self.0.queue.lock().push(event, Instant::now());
        self.0.pushed.notify_one();
    }

    /// Returns the number of Events that were not recorded since the recorder was created.
    pub fn dropped(&self) -> DroppedEvents {
        self.0.queue.lock().dropped
    }

    /// Sends queued Events until the token is cancelled, then the rest of the queue for at most a
    /// second. Must be spawned once.
    pub async fn run(self, token: CancellationToken) {
        let mut publisher = EventPublisher::new(self.0);
        tokio::select! {
            biased;
            () = token.cancelled() => {}
            () = publisher.publish_all(true) => {}
        }
        // Best effort: Events that are still queued after that are lost.
        let _ = timeout(SHUTDOWN_TIMEOUT, publisher.publish_all(false)).await;
    }
}
