//! Watch requests.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use kelpie_net::BodyAborted;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::format::ResponseFormat;
use super::response::ServerResponse;
use super::route::ResourcePath;
use super::{RequestInfo, ServerRequest, ServerResult, SimServer, lists, objects, table};
use crate::clock::SimClock;
use crate::kind::ResourceKind;
use crate::status_error::{StatusError, StatusReason};
use crate::store::{ObjectWatch, StoredEvent, StoredObject};
use kelpie_runtime::watch::{Receiver, Sender};

/// The longest duration of a watch, which is also the default.
const MAX_DURATION: Duration = Duration::from_mins(30);

/// The interval between bookmarks, and the time of the last one before the watch ends.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);
const FINAL_BOOKMARK_LEAD: Duration = Duration::from_secs(2);

/// The annotation of the bookmark that ends the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The open watches of a server. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenWatches {
    open: Arc<Mutex<Vec<OpenWatch>>>,
    stalled: Sender<bool>,
}

/// The request of a watch, and the sender that resets the watch when it is dropped.
type OpenWatch = (RequestInfo, oneshot::Sender<()>);

impl OpenWatches {
    /// Resets the watches that `predicate` selects.
    pub(super) fn reset(&self, predicate: &dyn Fn(&RequestInfo) -> bool) {
        let mut open = self.open.lock();
        open.retain(|(info, end)| !end.is_closed() && !predicate(info));
    }

    pub(super) fn set_stalled(&self, stalled: bool) {
        self.stalled.send(stalled);
    }

    /// Registers a watch. The receiver completes when the watch is to be reset.
    fn register(&self, info: RequestInfo) -> oneshot::Receiver<()> {
        let (end, ended) = oneshot::channel();
        let mut open = self.open.lock();
        open.retain(|(_, end)| !end.is_closed());
        open.push((info, end));
        ended
    }
}

/// The response of a watch request.
struct WatchStream {
    watch: ObjectWatch,
    kind: Arc<ResourceKind>,
    format: ResponseFormat,
    clock: SimClock,
    /// True if the client requested the initial events, and their end is still to be sent.
    initial_events_end_pending: bool,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    reset: oneshot::Receiver<()>,
    stalled: Receiver<bool>,
    /// Keeps the registry alive, which can reset and stall this watch.
    _watches: OpenWatches,
    columns_pending: bool,
}

impl SimServer {
    pub(super) fn watch(&self, request: &ServerRequest, path: &ResourcePath) -> ServerResult {
        let kind = Arc::clone(&path.kind);
        let format = match ResponseFormat::negotiate(&request.head.headers, &kind)? {
            ResponseFormat::Protobuf => ResponseFormat::Json,
            other => other,
        };
        let selector = lists::selector(request, path)?;
        let version = lists::version(request)?;
        let initial_events_end_pending = wants_initial_events(request)?;
        let from = version.filter(|version| *version > 0 && !initial_events_end_pending);
        let now = Instant::now();
        let requested = request.query.duration_seconds("timeoutSeconds");
        let timeout = requested.unwrap_or(MAX_DURATION).min(MAX_DURATION);
        let deadline = now + timeout;
        let bookmarks = request.query.flag("allowWatchBookmarks");
        let stream = WatchStream {
            watch: ObjectWatch::new(self.store.clone(), Arc::clone(&kind), selector, from),
            kind,
            format,
            clock: self.store.clock(),
            initial_events_end_pending,
            bookmarks,
            next_bookmark: next_bookmark(now, deadline),
            deadline,
            reset: self.watches.register(request.info.clone()),
            stalled: self.watches.stalled.subscribe(),
            _watches: self.watches.clone(),
            columns_pending: true,
        };
        let chunks = stream::unfold(Some(stream), |stream| async {
            let mut stream = stream?;
            let (chunk, is_last) = stream.next().await?;
            Some((chunk, Some(stream).filter(|_| !is_last)))
        });
        Ok(ServerResponse::stream(format.content_type(), chunks))
    }
}

/// Returns whether the client requests the existing objects first, with a bookmark at their end.
fn wants_initial_events(request: &ServerRequest) -> Result<bool, StatusError> {
    if !request.query.flag("sendInitialEvents") {
        return Ok(false);
    }
    if request.query.get("resourceVersionMatch") != "NotOlderThan" {
        let message = "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: \
                       sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        return Err(StatusError::new(StatusReason::Invalid, message));
    }
    Ok(true)
}

impl WatchStream {
    /// Returns the next part of the response and whether it is the last. Returns `None` at the
    /// watch's deadline.
    async fn next(&mut self) -> Option<(Result<Bytes, BodyAborted>, bool)> {
        loop {
            let is_stalled = self.stalled.borrow_and_update();
            if self.initial_events_end_pending
                && !is_stalled
                && let Some(version) = self.watch.caught_up()
            {
                self.initial_events_end_pending = false;
                return Some((Ok(self.bookmark(version, true)), false));
            }
            let wake = self.next_bookmark.min(self.deadline);
            tokio::select! {
                biased;
                _ = &mut self.reset => return Some((Err(BodyAborted), true)),
                () = self.stalled.changed() => {}
                // Cancelling this loses nothing: a change is only taken when it is returned.
                event = self.watch.next_stored(), if !is_stalled => {
                    let is_last = matches!(event, StoredEvent::Expired(_));
                    return Some((Ok(self.encode_event(event)), is_last));
                }
                () = sleep_until(wake), if !is_stalled => {
                    if wake == self.deadline {
                        return None;
                    }
                    self.next_bookmark = next_bookmark(wake, self.deadline);
                    if let Some(version) = self.watch.caught_up().filter(|_| self.bookmarks) {
                        return Some((Ok(self.bookmark(version, false)), false));
                    }
                }
            }
        }
    }

    fn bookmark(&self, version: u64, ends_initial_events: bool) -> Bytes {
        let mut metadata = json!({ "resourceVersion": version.to_string() });
        if ends_initial_events {
            metadata["annotations"] = json!({ INITIAL_EVENTS_END: "true" });
        }
        let object = json!({
            "kind": self.kind.name,
            "apiVersion": self.kind.api_version(),
            "metadata": metadata,
        });
        line("BOOKMARK", &object.to_string())
    }

    fn encode_event(&mut self, event: StoredEvent) -> Bytes {
        match event {
            StoredEvent::Added(stored) => line("ADDED", &self.object_json(&stored)),
            StoredEvent::Modified(stored) => line("MODIFIED", &self.object_json(&stored)),
            StoredEvent::Deleted(stored) => line("DELETED", &self.object_json(&stored)),
            StoredEvent::Expired(error) => line("ERROR", &error.to_status().to_string()),
        }
    }

    fn object_json(&mut self, stored: &StoredObject) -> String {
        match self.format {
            ResponseFormat::Json | ResponseFormat::Protobuf => {
                objects::object_json(&self.kind, stored)
            }
            ResponseFormat::Metadata => {
                objects::partial_metadata(&stored.to_value(&self.kind)).to_string()
            }
            ResponseFormat::Table => {
                let metadata = json!({ "resourceVersion": stored.revision.version.to_string() });
                let objects = [stored.to_value(&self.kind)];
                let mut table = table::table(&self.kind, &objects, &metadata, self.clock.now());
                // The column definitions are only sent with the first event.
                if !self.columns_pending {
                    table["columnDefinitions"] = Value::Null;
                }
                self.columns_pending = false;
                table.to_string()
            }
        }
    }
}

fn next_bookmark(after: Instant, deadline: Instant) -> Instant {
    let last = deadline
        .checked_sub(FINAL_BOOKMARK_LEAD)
        .unwrap_or(deadline);
    match after + BOOKMARK_INTERVAL {
        regular if regular < last => regular,
        _ if last > after => last,
        _ => deadline,
    }
}

fn line(kind: &str, object: &str) -> Bytes {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into()
}
