//! Everything a store has, behind its lock.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use serde_json::Value;

use super::body::{Body, Key, Stored, key};
use super::preset;
use super::shelf::Shelf;
use crate::clock::Clock;
use crate::dice::Dice;
use crate::kind::{KINDS, Kind, Kinds};
use crate::refusal::Refusal;
use crate::resource::{DEFINITIONS, NAMESPACES, Resource};

/// All objects of one API server.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) clock: Clock,
    pub(super) dice: Dice,
    /// Shared with all others until a definition is created.
    kinds: Arc<Kinds>,
    /// Of the last write.
    pub(crate) version: u64,
    shelves: BTreeMap<Resource, Shelf>,
    /// What was applied to objects last, by whom.
    applied: BTreeMap<(Resource, Key), BTreeMap<String, Value>>,
}

/// An object and where it is kept.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) key: Key,
    pub(crate) stored: Stored,
}

impl Kept {
    pub(crate) fn value(&self, kind: &Kind) -> Value {
        self.stored.value(&self.key, kind)
    }

    /// The object as JSON text with its kind.
    pub(crate) fn text(&self, kind: &Kind) -> String {
        let mut text = String::new();
        self.stored.write(&self.key, Some(kind), &mut text);
        text
    }
}

impl State {
    pub(super) fn new(clock: Clock, seed: u64) -> Self {
        let mut state = Self {
            clock,
            dice: Dice::new(seed),
            kinds: Arc::clone(&KINDS),
            version: 1,
            shelves: BTreeMap::new(),
            applied: BTreeMap::new(),
        };
        preset::fill(&mut state);
        state
    }

    pub(crate) fn kinds(&self) -> Arc<Kinds> {
        Arc::clone(&self.kinds)
    }

    pub(crate) fn kind(&self, resource: &Resource) -> Result<Arc<Kind>, Refusal> {
        let kind = self.kinds.get(resource).cloned();
        kind.ok_or_else(|| Refusal::not_found(&DEFINITIONS, &resource.to_string()))
    }

    pub(crate) fn shelf(&self, resource: &Resource) -> Option<&Shelf> {
        self.shelves.get(resource)
    }

    /// The shelf of a kind, new if need be.
    pub(super) fn shelf_of(&mut self, kind: &Kind) -> &mut Shelf {
        let version = self.version;
        let shelf = self.shelves.entry(kind.shelf.clone());
        shelf.or_insert_with(|| Shelf::new(version))
    }

    pub(crate) fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Kept, Refusal> {
        let key = key(namespace, name);
        let found = self
            .shelf(&kind.shelf)
            .and_then(|shelf| shelf.objects().get(&key));
        match found {
            Some(stored) => Ok(Kept {
                stored: stored.clone(),
                key,
            }),
            None => Err(Refusal::not_found(&kind.resource, name)),
        }
    }

    /// The objects of a namespace, or all.
    pub(super) fn within(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = (&Key, &Stored)> {
        let prefix = namespace.map_or_else(String::new, |namespace| format!("{namespace}/"));
        let from: Key = prefix.as_str().into();
        let shelf = self.shelf(&kind.shelf).into_iter();
        let found = shelf.flat_map(move |shelf| {
            let range = (Bound::Included(Key::clone(&from)), Bound::Unbounded);
            shelf.objects().range::<Key, _>(range)
        });
        found.take_while(move |(key, _)| key.starts_with(&prefix))
    }

    /// Writes an object, or its end, under the next version. What is the same already is not written.
    pub(super) fn put(&mut self, kind: &Kind, key: &Key, body: Option<Body>) -> Stored {
        let present = self.shelf_of(kind).objects().get(key).cloned();
        if let (Some(present), Some(body)) = (&present, &body)
            && present.body == *body
        {
            return present.clone();
        }
        self.version += 1;
        let version = self.version;
        let after = body.map(|body| Stored { version, body });
        let last = after.clone().or_else(|| {
            let body = present?.body;
            Some(Stored { version, body })
        });
        if after.is_none() {
            self.applied.remove(&(kind.shelf.clone(), Key::clone(key)));
        }
        self.shelf_of(kind).put(Key::clone(key), version, after);
        let last = last.unwrap_or(Stored {
            version,
            body: Body::Json("{\"metadata\":{}}".into()),
        });
        if kind.shelf == DEFINITIONS {
            self.learn();
        }
        last
    }

    /// Remembers what somebody applied, and gives what they did last.
    pub(crate) fn apply(&mut self, kind: &Kind, key: &Key, who: &str, what: &Value) -> Value {
        let place = (kind.shelf.clone(), Key::clone(key));
        let applied = self.applied.entry(place).or_default();
        applied
            .insert(who.to_owned(), what.clone())
            .unwrap_or_default()
    }

    pub(super) fn copy(&self) -> Self {
        let shelves = self.shelves.iter();
        let shelves = shelves.map(|(resource, shelf)| (resource.clone(), shelf.copy(self.version)));
        Self {
            clock: self.clock.clone(),
            dice: Dice::new(self.version),
            kinds: Arc::clone(&self.kinds),
            version: self.version,
            shelves: shelves.collect(),
            applied: self.applied.clone(),
        }
    }

    /// Takes everything of a namespace away, and the namespace.
    pub(super) fn purge(&mut self, namespace: &str) {
        let kinds = self.kinds();
        let own = |kind: &&Arc<Kind>| kind.is_namespaced && kind.resource == kind.shelf;
        for kind in kinds.values().filter(own) {
            self.clear(kind, Some(namespace));
        }
        if let Ok(kind) = self.kind(&NAMESPACES)
            && let Ok(kept) = self.get(&kind, "", namespace)
        {
            self.put(&kind, &kept.key, None);
        }
    }

    pub(super) fn compact(&mut self, resource: &Resource) {
        let version = self.version;
        if let Some(shelf) = self.shelves.get_mut(resource) {
            shelf.forget(version);
        }
    }

    /// Knows what the definitions that are there define.
    fn learn(&mut self) {
        let Some(definition) = KINDS.get(&DEFINITIONS) else {
            return;
        };
        let mut kinds = Kinds::clone(&KINDS);
        for (key, stored) in self.within(definition, None) {
            if let Some(kind) = Kind::defined_by(&stored.value(key, definition)) {
                kinds.insert(kind.resource.clone(), Arc::new(kind));
            }
        }
        let before = std::mem::replace(&mut self.kinds, Arc::new(kinds));
        // What nobody defines any more is gone with all its objects.
        let gone = before
            .iter()
            .filter(|(resource, _)| !self.kinds.contains_key(*resource));
        let gone: Vec<&Arc<Kind>> = gone.map(|(_, kind)| kind).collect();
        for kind in gone {
            self.clear(kind, None);
        }
    }

    /// Takes all objects of a kind away, or those of a namespace.
    fn clear(&mut self, kind: &Kind, namespace: Option<&str>) {
        let keys = self.within(kind, namespace);
        let keys: Vec<Key> = keys.map(|(key, _)| Key::clone(key)).collect();
        for key in keys {
            self.put(kind, &key, None);
        }
    }
}
