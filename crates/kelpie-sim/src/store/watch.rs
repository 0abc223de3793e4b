//! Watches on a store.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use super::ObjectStore;
use super::body::{ObjectKey, ObjectRevision};
use super::collection::ObjectChange;
use super::list::ListOptions;
use super::state::StoredObject;
use crate::kind::ResourceKind;
use crate::selector::ObjectSelector;
use crate::status_error::StatusError;
use kelpie_runtime::watch::Receiver;

/// A change, as a watch reports it.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreEvent {
    /// The object exists, or is newly selected.
    Added(Value),
    /// The object has changed.
    Modified(Value),
    /// The object was deleted, or is no longer selected. This is its last state.
    Deleted(Value),
    /// The history since the last event is gone: list again.
    Expired,
}

/// A change in the stored form of its object.
#[derive(Clone, Debug)]
pub(crate) enum StoredEvent {
    Added(StoredObject),
    Modified(StoredObject),
    Deleted(StoredObject),
    Expired(StatusError),
}

/// A watch. It reports every change in order, however late it is polled.
#[derive(Debug)]
pub struct ObjectWatch {
    store: ObjectStore,
    kind: Arc<ResourceKind>,
    selector: ObjectSelector,
    versions: Receiver<u64>,
    /// The version up to which changes have been reported or queued.
    seen_version: u64,
    queue: VecDeque<StoredEvent>,
    /// Set when the history that the watch needs is gone. The watch reports nothing else from then
    /// on.
    expired: Option<StatusError>,
}

impl ObjectWatch {
    /// Watches the changes after version `from`. Without a version the watch starts with all
    /// existing objects, as added.
    pub(crate) fn new(
        store: ObjectStore,
        kind: Arc<ResourceKind>,
        selector: ObjectSelector,
        from: Option<u64>,
    ) -> Self {
        let mut state = store.lock();
        let versions = state.collection_mut(&kind).subscribe();
        let seen_version = from.unwrap_or(state.version);
        let mut queue = VecDeque::new();
        if from.is_none() {
            let page = state.list(&kind, &selector, &ListOptions::default());
            let existing = page.map(|page| page.objects).unwrap_or_default();
            queue.extend(existing.into_iter().map(StoredEvent::Added));
        }
        drop(state);
        Self {
            store,
            kind,
            selector,
            versions,
            seen_version,
            queue,
            expired: None,
        }
    }

    /// Waits for the next change. After [`StoreEvent::Expired`] no other event follows.
    pub async fn next(&mut self) -> StoreEvent {
        let event = self.next_stored().await;
        self.to_event(event)
    }

    /// Returns the next change, if there is one.
    pub fn try_next(&mut self) -> Option<StoreEvent> {
        let event = self.try_next_stored()?;
        Some(self.to_event(event))
    }

    /// Waits until [`ObjectWatch::try_next`] returns a change.
    pub async fn ready(&mut self) {
        let event = self.next_stored().await;
        self.queue.push_front(event);
    }

    pub(crate) async fn next_stored(&mut self) -> StoredEvent {
        loop {
            // Marks the version as seen before polling, so that a later change wakes us.
            self.versions.borrow_and_update();
            if let Some(event) = self.try_next_stored() {
                return event;
            }
            self.versions.changed().await;
        }
    }

    pub(crate) fn try_next_stored(&mut self) -> Option<StoredEvent> {
        if self.queue.is_empty() {
            self.poll_changes();
        }
        self.queue.pop_front()
    }

    /// Returns the version up to which all changes have been reported, or `None` if some are
    /// queued.
    pub(crate) fn caught_up(&mut self) -> Option<u64> {
        let version = self.poll_changes();
        version.filter(|_| self.queue.is_empty())
    }

    /// Queues the changes since the last poll and returns the version they lead to. Returns `None`
    /// if the history is gone.
    fn poll_changes(&mut self) -> Option<u64> {
        if let Some(error) = &self.expired {
            self.queue.push_back(StoredEvent::Expired(error.clone()));
            return None;
        }
        let state = self.store.lock();
        let collection = state.collection(&self.kind.storage)?;
        let Some(changes) = collection.changes_since(self.seen_version) else {
            let (from, compacted_version) = (self.seen_version, collection.compacted_version);
            let message = format!("too old resource version: {from} ({compacted_version})");
            let error = StatusError::expired(message);
            self.queue.push_back(StoredEvent::Expired(error.clone()));
            self.expired = Some(error);
            return None;
        };
        for change in changes {
            self.queue
                .extend(event_for(&self.kind, &self.selector, change));
        }
        // A watch that starts at a future version reports nothing before it.
        self.seen_version = self.seen_version.max(state.version);
        Some(state.version)
    }

    fn to_event(&self, event: StoredEvent) -> StoreEvent {
        match event {
            StoredEvent::Added(stored) => StoreEvent::Added(stored.to_value(&self.kind)),
            StoredEvent::Modified(stored) => StoreEvent::Modified(stored.to_value(&self.kind)),
            StoredEvent::Deleted(stored) => StoreEvent::Deleted(stored.to_value(&self.kind)),
            StoredEvent::Expired(_) => StoreEvent::Expired,
        }
    }
}

/// Returns the event of a change under a selector.
fn event_for(
    kind: &ResourceKind,
    selector: &ObjectSelector,
    change: &ObjectChange,
) -> Option<StoredEvent> {
    let matches = |revision: &ObjectRevision| {
        selector.matches(&change.key, || revision.to_value(&change.key, kind))
    };
    let stored = |revision: &ObjectRevision| {
        let mut revision = revision.clone();
        // A deleted object has the version of its deletion.
        revision.version = change.version;
        StoredObject {
            key: ObjectKey::clone(&change.key),
            revision,
        }
    };
    let before = change.before.as_ref().filter(|revision| matches(revision));
    let after = change.after.as_ref().filter(|revision| matches(revision));
    match (before, after) {
        (None, Some(after)) => Some(StoredEvent::Added(stored(after))),
        (Some(_), Some(after)) => Some(StoredEvent::Modified(stored(after))),
        (Some(before), None) => Some(StoredEvent::Deleted(stored(before))),
        (None, None) => None,
    }
}
