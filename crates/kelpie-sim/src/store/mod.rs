//! The objects of one API server, and the API's rules for them.
//!
//! [`ObjectStore`] is the interface for actors and the server. `state` holds everything behind one
//! lock. `write` has the rules for writes and `metadata` the part of them that all kinds share;
//! `list` and `watch` read. A `collection` has the objects of one resource with their history, and
//! `body` is the stored form of an object.

pub(crate) mod body;
mod collection;
mod defaults;
mod list;
mod metadata;
mod pruning;
mod state;
mod watch;
mod write;

use std::sync::Arc;

use kelpie_core::Time;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use crate::clock::SimClock;
use crate::field;
use crate::resource::{GroupResource, LEASES};
use crate::selector::ObjectSelector;
use crate::status_error::StatusError;
pub(crate) use list::{ListOptions, ListPage, VersionMatch};
use state::StoreState;
pub(crate) use state::StoredObject;
pub(crate) use watch::StoredEvent;
pub use watch::{ObjectWatch, StoreEvent};
pub(crate) use write::DeleteOutcome;
pub use write::{DeleteOptions, WriteScope};

/// The objects of one API server. Clones share the store, and every call is atomic.
#[derive(Clone, Debug)]
pub struct ObjectStore(Arc<Mutex<StoreState>>);

impl ObjectStore {
    /// Creates a store with the namespaces that every cluster has. `rng_seed` determines UIDs and
    /// generated names.
    pub fn new(clock: SimClock, rng_seed: u64) -> Self {
        Self(Arc::new(Mutex::new(StoreState::new(clock, rng_seed))))
    }

    /// Returns the clock that stamps objects.
    pub fn clock(&self) -> SimClock {
        self.lock().clock.clone()
    }

    /// Returns the version of the last write.
    pub fn version(&self) -> u64 {
        self.lock().version
    }

    /// Creates an object, whose name may come from `generateName`. `namespace` is empty for
    /// cluster-scoped objects.
    pub fn create(
        &self,
        resource: &GroupResource,
        namespace: &str,
        object: Value,
    ) -> Result<Value, StatusError> {
        let mut state = self.lock();
        let kind = state.kind(resource)?;
        let stored = state.create(&kind, namespace, object, false)?;
        Ok(stored.to_value(&kind))
    }

    /// Returns the current state of an object.
    pub fn get(
        &self,
        resource: &GroupResource,
        namespace: &str,
        name: &str,
    ) -> Result<Value, StatusError> {
        let state = self.lock();
        let kind = state.kind(resource)?;
        Ok(state.get(&kind, namespace, name)?.to_value(&kind))
    }

    /// Returns the selected objects, sorted by namespace and name, and the version of the list.
    pub fn list(
        &self,
        resource: &GroupResource,
        selector: &ObjectSelector,
    ) -> Result<(Vec<Value>, u64), StatusError> {
        let state = self.lock();
        let kind = state.kind(resource)?;
        let page = state.list(&kind, selector, &ListOptions::default())?;
        let objects = page.objects.iter().map(|stored| stored.to_value(&kind));
        Ok((objects.collect(), page.version))
    }

    /// Reads, changes and writes an object atomically. Its `resourceVersion`, if it keeps one, must
    /// be the current one.
    pub fn modify(
        &self,
        resource: &GroupResource,
        namespace: &str,
        name: &str,
        scope: WriteScope,
        change: impl FnOnce(&mut Value),
    ) -> Result<Value, StatusError> {
        let mut state = self.lock();
        let kind = state.kind(resource)?;
        let stored = state.update(&kind, namespace, name, scope, false, |mut object| {
            change(&mut object);
            Ok(object)
        })?;
        Ok(stored.to_value(&kind))
    }

    /// Deletes an object, or marks it as deleted while finalizers or a grace period hold it up.
    pub fn delete(
        &self,
        resource: &GroupResource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), StatusError> {
        let mut state = self.lock();
        let kind = state.kind(resource)?;
        state
            .delete(&kind, namespace, name, options, false)
            .map(|_| ())
    }

    /// Watches the selected objects after version `from`, as returned by [`ObjectStore::list`].
    /// Without a version the watch starts with a [`StoreEvent::Added`] for each existing object.
    pub fn watch(
        &self,
        resource: &GroupResource,
        selector: ObjectSelector,
        from: Option<u64>,
    ) -> Result<ObjectWatch, StatusError> {
        let kind = self.lock().kind(resource)?;
        Ok(ObjectWatch::new(self.clone(), kind, selector, from))
    }

    /// Renews a node's lease. Equivalent to an update of `renewTime`, and a thousand times cheaper.
    pub fn renew(&self, namespace: &str, name: &str, at: Time) -> Result<(), StatusError> {
        self.lock().renew(namespace, name, at)
    }

    /// Calls `visit` for each lease of a namespace, with its name and last renewal.
    pub fn for_each_renewal(&self, namespace: &str, mut visit: impl FnMut(&str, Option<Time>)) {
        self.lock().for_each_renewal(namespace, &mut visit);
    }

    /// Returns the number of objects of a resource.
    pub fn count(&self, resource: &GroupResource) -> usize {
        self.lock()
            .collection(resource)
            .map_or(0, |collection| collection.objects.len())
    }

    /// Discards the history of a resource, so that watches and pages that are behind fail with 410.
    pub fn compact(&self, resource: &GroupResource) {
        self.lock().compact(resource);
    }

    /// Copies the objects into an independent store without history, to serve stale reads from.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        Self(Arc::new(Mutex::new(self.lock().snapshot())))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.0.lock()
    }
}

impl StoreState {
    fn renew(&mut self, namespace: &str, name: &str, at: Time) -> Result<(), StatusError> {
        let kind = self.kind(&LEASES)?;
        let mut stored = self.get(&kind, namespace, name)?;
        if let body::ObjectBody::CompactLease(lease) = &mut stored.revision.body {
            lease.renew(at);
            self.put(&kind, &stored.key, Some(stored.revision.body));
            return Ok(());
        }
        let change = |mut lease: Value| {
            field::set(&mut lease, "/spec/renewTime", at.to_string());
            Ok(lease)
        };
        self.update(&kind, namespace, name, WriteScope::Object, false, change)?;
        Ok(())
    }

    fn for_each_renewal(&self, namespace: &str, visit: &mut dyn FnMut(&str, Option<Time>)) {
        let Ok(kind) = self.kind(&LEASES) else { return };
        for (key, revision) in self.in_namespace(&kind, Some(namespace)) {
            let renew_time = match &revision.body {
                body::ObjectBody::CompactLease(lease) => lease.renewed(),
                body::ObjectBody::Json(_) => {
                    let lease = revision.to_value(key, &kind);
                    lease["spec"]["renewTime"]
                        .as_str()
                        .and_then(crate::clock::parse)
                }
            };
            visit(body::split_key(key).1, renew_time);
        }
    }
}
