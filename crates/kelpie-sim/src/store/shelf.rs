//! The objects of one resource, and what has become of them lately.

use std::collections::{BTreeMap, VecDeque};

use super::body::{Key, Stored};
use kelpie_bell::{Bell, Listener};

/// Changes that are kept while somebody watches.
const WATCHED: usize = 4_096;

/// Changes that are kept while nobody does: enough for a client that is about to come back.
const UNWATCHED: usize = 32;

/// What happened to an object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) key: Key,
    /// The store's version since it happened.
    pub(crate) version: u64,
    pub(crate) before: Option<Stored>,
    pub(crate) after: Option<Stored>,
}

/// Objects in the order of their keys, and a limited history.
#[derive(Debug)]
pub(crate) struct Shelf {
    objects: BTreeMap<Key, Stored>,
    changes: VecDeque<Change>,
    /// Changes up to this version are forgotten.
    floor: u64,
    /// Rung with the version of each change.
    bell: Bell<u64>,
}

impl Shelf {
    /// An empty shelf of a store that is at `version`.
    pub(crate) fn new(version: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            changes: VecDeque::new(),
            floor: version,
            bell: Bell::new(version),
        }
    }

    /// The same objects, without their history, in a store that is at `version`.
    pub(crate) fn copy(&self, version: u64) -> Self {
        Self {
            objects: self.objects.clone(),
            ..Self::new(version)
        }
    }

    pub(crate) fn objects(&self) -> &BTreeMap<Key, Stored> {
        &self.objects
    }

    /// Up to where the history is gone.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// Puts an object there, or takes it away.
    pub(crate) fn put(&mut self, key: Key, version: u64, after: Option<Stored>) {
        let before = match &after {
            Some(after) => self.objects.insert(Key::clone(&key), after.clone()),
            None => self.objects.remove(&key),
        };
        self.changes.push_back(Change {
            key,
            version,
            before,
            after,
        });
        let watched = self.bell.has_listeners();
        let most = if watched { WATCHED } else { UNWATCHED };
        while self.changes.len() > most
            && let Some(oldest) = self.changes.pop_front()
        {
            self.floor = oldest.version;
        }
        self.bell.ring(version);
    }

    /// Forgets everything that happened: who is behind has to list again.
    pub(crate) fn forget(&mut self, version: u64) {
        self.changes.clear();
        self.floor = version;
        self.bell.ring(version);
    }

    /// What happened after `version`; nothing if that is not known any more.
    pub(crate) fn since(&self, version: u64) -> Option<impl Iterator<Item = &Change>> {
        let from = self
            .changes
            .partition_point(|change| change.version <= version);
        (version >= self.floor).then(|| self.changes.range(from..))
    }

    /// The objects as they were at `version`; nothing if that is not known any more.
    pub(crate) fn at(&self, version: u64) -> Option<BTreeMap<Key, Stored>> {
        let mut objects = self.objects.clone();
        let mut undone: Vec<&Change> = self.since(version)?.collect();
        while let Some(change) = undone.pop() {
            match &change.before {
                Some(before) => objects.insert(Key::clone(&change.key), before.clone()),
                None => objects.remove(&change.key),
            };
        }
        Some(objects)
    }

    pub(crate) fn listen(&self) -> Listener<u64> {
        self.bell.listen()
    }
}
