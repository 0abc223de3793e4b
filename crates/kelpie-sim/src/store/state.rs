//! The state of a store, behind its lock.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use serde_json::Value;

use super::body::{ObjectBody, ObjectKey, ObjectRevision, object_key};
use super::collection::Collection;
use super::defaults;
use crate::clock::SimClock;
use crate::ids::IdGenerator;
use crate::kind::{KINDS, ResourceKind, ResourceKinds};
use crate::resource::{DEFINITIONS, GroupResource};
use crate::status_error::StatusError;

/// All objects of one API server.
#[derive(Debug)]
pub(crate) struct StoreState {
    pub(crate) clock: SimClock,
    pub(super) ids: IdGenerator,
    /// Shared between stores until a CRD is created.
    kinds: Arc<ResourceKinds>,
    /// The version of the last write.
    pub(crate) version: u64,
    collections: BTreeMap<GroupResource, Collection>,
    /// The configuration that each manager applied last, by object.
    applied: BTreeMap<(GroupResource, ObjectKey), BTreeMap<String, Value>>,
}

/// An object with its key.
#[derive(Clone, Debug)]
pub(crate) struct StoredObject {
    pub(crate) key: ObjectKey,
    pub(crate) revision: ObjectRevision,
}

impl StoredObject {
    pub(crate) fn to_value(&self, kind: &ResourceKind) -> Value {
        self.revision.to_value(&self.key, kind)
    }

    /// Returns the object as JSON text with its kind.
    pub(crate) fn to_json(&self, kind: &ResourceKind) -> String {
        let mut json = String::new();
        self.revision.write_json(&self.key, Some(kind), &mut json);
        json
    }
}

impl StoreState {
    pub(super) fn new(clock: SimClock, rng_seed: u64) -> Self {
        let mut state = Self {
            clock,
            ids: IdGenerator::new(rng_seed),
            kinds: Arc::clone(&KINDS),
            version: 1,
            collections: BTreeMap::new(),
            applied: BTreeMap::new(),
        };
        defaults::create_namespaces(&mut state);
        state
    }

    pub(crate) fn kinds(&self) -> Arc<ResourceKinds> {
        Arc::clone(&self.kinds)
    }

    pub(crate) fn kind(&self, resource: &GroupResource) -> Result<Arc<ResourceKind>, StatusError> {
        let kind = self.kinds.get(resource).cloned();
        kind.ok_or_else(|| StatusError::not_found(&DEFINITIONS, &resource.to_string()))
    }

    pub(crate) fn collection(&self, resource: &GroupResource) -> Option<&Collection> {
        self.collections.get(resource)
    }

    /// Returns the collection of a kind, and creates it if there is none.
    pub(super) fn collection_mut(&mut self, kind: &ResourceKind) -> &mut Collection {
        let version = self.version;
        let collection = self.collections.entry(kind.storage.clone());
        collection.or_insert_with(|| Collection::new(version))
    }

    pub(crate) fn get(
        &self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
    ) -> Result<StoredObject, StatusError> {
        let key = object_key(namespace, name);
        let collection = self.collection(&kind.storage);
        let found = collection.and_then(|collection| collection.objects.get(&key).cloned());
        match found {
            Some(revision) => Ok(StoredObject { key, revision }),
            None => Err(StatusError::not_found(&kind.resource, name)),
        }
    }

    /// Returns the objects of a namespace, or all objects of the kind.
    pub(super) fn in_namespace(
        &self,
        kind: &ResourceKind,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = (&ObjectKey, &ObjectRevision)> {
        let prefix = namespace.map_or_else(String::new, |namespace| format!("{namespace}/"));
        let from: ObjectKey = prefix.as_str().into();
        let collection = self.collection(&kind.storage).into_iter();
        let found = collection.flat_map(move |collection| {
            let range = (Bound::Included(ObjectKey::clone(&from)), Bound::Unbounded);
            collection.objects.range::<ObjectKey, _>(range)
        });
        found.take_while(move |(key, _)| key.starts_with(&prefix))
    }

    /// Writes or, with `None`, removes an object, and returns the new version. An unchanged object
    /// is not written and keeps its version.
    pub(super) fn put(
        &mut self,
        kind: &ResourceKind,
        key: &ObjectKey,
        body: Option<ObjectBody>,
    ) -> u64 {
        let present = self.collection_mut(kind).objects.get(key);
        if let (Some(present), Some(body)) = (present, &body)
            && present.body == *body
        {
            return present.version;
        }
        self.version += 1;
        let version = self.version;
        if body.is_none() {
            self.applied
                .remove(&(kind.storage.clone(), ObjectKey::clone(key)));
        }
        let after = body.map(|body| ObjectRevision { version, body });
        self.collection_mut(kind)
            .put(ObjectKey::clone(key), version, after);
        if kind.storage == DEFINITIONS {
            self.update_kinds();
        }
        version
    }

    /// Returns the configuration that a manager applied to an object last; null if there is none.
    pub(crate) fn last_applied(
        &self,
        kind: &ResourceKind,
        key: &ObjectKey,
        manager: &str,
    ) -> Value {
        let entry = (kind.storage.clone(), ObjectKey::clone(key));
        let applied = self.applied.get(&entry);
        applied
            .and_then(|by| by.get(manager))
            .cloned()
            .unwrap_or_default()
    }

    /// Stores the configuration that a manager has applied to an object.
    pub(crate) fn set_last_applied(
        &mut self,
        kind: &ResourceKind,
        key: &ObjectKey,
        manager: &str,
        configuration: Value,
    ) {
        let entry = (kind.storage.clone(), ObjectKey::clone(key));
        let applied = self.applied.entry(entry).or_default();
        applied.insert(manager.to_owned(), configuration);
    }

    pub(super) fn snapshot(&self) -> Self {
        let collections = self.collections.iter();
        let collections = collections
            .map(|(resource, collection)| (resource.clone(), collection.snapshot(self.version)));
        Self {
            clock: self.clock.clone(),
            ids: IdGenerator::new(self.version),
            kinds: Arc::clone(&self.kinds),
            version: self.version,
            collections: collections.collect(),
            applied: self.applied.clone(),
        }
    }

    pub(super) fn compact(&mut self, resource: &GroupResource) {
        let version = self.version;
        if let Some(collection) = self.collections.get_mut(resource) {
            collection.compact(version);
        }
    }

    /// Updates the kinds after a change of the CRDs.
    fn update_kinds(&mut self) {
        let Some(definition) = KINDS.get(&DEFINITIONS) else {
            return;
        };
        let mut kinds = ResourceKinds::clone(&KINDS);
        for (key, revision) in self.in_namespace(definition, None) {
            if let Some(kind) = ResourceKind::from_crd(&revision.to_value(key, definition)) {
                kinds.insert(kind.resource.clone(), Arc::new(kind));
            }
        }
        let before = std::mem::replace(&mut self.kinds, Arc::new(kinds));
        // The objects of a kind go with its definition.
        for (resource, kind) in before.iter() {
            if self.kinds.contains_key(resource) {
                continue;
            }
            let keys = self.in_namespace(kind, None);
            let keys: Vec<ObjectKey> = keys.map(|(key, _)| ObjectKey::clone(key)).collect();
            for key in keys {
                self.put(kind, &key, None);
            }
        }
    }
}
