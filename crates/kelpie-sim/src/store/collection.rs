//! The objects of one resource, and their recent history.

use std::collections::{BTreeMap, VecDeque};

use super::body::{ObjectKey, ObjectRevision};
use kelpie_runtime::watch::{Receiver, Sender};

/// The number of changes that are kept while the collection is watched.
const WATCHED_HISTORY: usize = 4_096;

/// The number of changes that are kept otherwise: enough for a client that is about to reconnect.
const UNWATCHED_HISTORY: usize = 32;

/// A change of one object.
#[derive(Clone, Debug)]
pub(crate) struct ObjectChange {
    pub(crate) key: ObjectKey,
    /// The store's version after the change.
    pub(crate) version: u64,
    pub(crate) before: Option<ObjectRevision>,
    pub(crate) after: Option<ObjectRevision>,
}

/// The objects of a resource, sorted by key, with a limited history.
#[derive(Debug)]
pub(crate) struct Collection {
    pub(super) objects: BTreeMap<ObjectKey, ObjectRevision>,
    changes: VecDeque<ObjectChange>,
    /// The newest version whose change is no longer in the history.
    pub(super) compacted_version: u64,
    /// Sends the version of each change.
    versions: Sender<u64>,
}

impl Collection {
    /// Creates an empty collection in a store at `version`.
    pub(crate) fn new(version: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            changes: VecDeque::new(),
            compacted_version: version,
            versions: Sender::new(version),
        }
    }

    /// Copies the objects, without their history, for a store at `version`.
    pub(crate) fn snapshot(&self, version: u64) -> Self {
        Self {
            objects: self.objects.clone(),
            ..Self::new(version)
        }
    }

    /// Writes or, with `None`, removes an object.
    pub(crate) fn put(&mut self, key: ObjectKey, version: u64, after: Option<ObjectRevision>) {
        let before = match &after {
            Some(after) => self.objects.insert(ObjectKey::clone(&key), after.clone()),
            None => self.objects.remove(&key),
        };
        self.changes.push_back(ObjectChange {
            key,
            version,
            before,
            after,
        });
        let watched = self.versions.has_receivers();
        let limit = if watched {
            WATCHED_HISTORY
        } else {
            UNWATCHED_HISTORY
        };
        while self.changes.len() > limit
            && let Some(oldest) = self.changes.pop_front()
        {
            self.compacted_version = oldest.version;
        }
        self.versions.send(version);
    }

    /// Discards the history. Watches that are behind have to list again.
    pub(crate) fn compact(&mut self, version: u64) {
        self.changes.clear();
        self.compacted_version = version;
        self.versions.send(version);
    }

    /// Returns the changes after `version`, or `None` if some of them are no longer in the history.
    pub(crate) fn changes_since(
        &self,
        version: u64,
    ) -> Option<impl Iterator<Item = &ObjectChange>> {
        let from = self
            .changes
            .partition_point(|change| change.version <= version);
        (version >= self.compacted_version).then(|| self.changes.range(from..))
    }

    /// Returns the objects as of `version`, or `None` if the history does not go back that far.
    pub(crate) fn objects_at(&self, version: u64) -> Option<BTreeMap<ObjectKey, ObjectRevision>> {
        let mut objects = self.objects.clone();
        let mut undone: Vec<&ObjectChange> = self.changes_since(version)?.collect();
        while let Some(change) = undone.pop() {
            match &change.before {
                Some(before) => objects.insert(ObjectKey::clone(&change.key), before.clone()),
                None => objects.remove(&change.key),
            };
        }
        Some(objects)
    }

    pub(crate) fn subscribe(&self) -> Receiver<u64> {
        self.versions.subscribe()
    }
}
