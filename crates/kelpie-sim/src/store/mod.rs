//! The objects of one API server, and the rules they live by.
//!
//! [`Store`] is what actors and the server call. `state` has all of it behind one lock; `write` has the
//! rules for writes, `metadata` the part of them that is the same for every kind, `shelf` the objects of
//! one resource and their history, `body` the way an object is kept, `watch` who is told of changes.

pub(crate) mod body;
mod metadata;
mod preset;
mod read;
mod shelf;
mod state;
mod watch;
mod write;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kelpie_core::Time;
use serde_json::Value;

use crate::clock::Clock;
use crate::field;
use crate::refusal::Refusal;
use crate::resource::{LEASES, Resource};
use crate::selection::Selection;
pub(crate) use read::{Page, Paging, Since};
pub(crate) use state::Kept;
use state::State;
pub use watch::{Event, Watch};
pub(crate) use watch::{Start, Told};
pub(crate) use write::Deleted;
pub use write::{Deletion, Part};

/// One API server's objects. Clones are the same store; every call is done at once, as a whole.
#[derive(Clone, Debug)]
pub struct Store(Arc<Mutex<State>>);

impl Store {
    /// A store with the namespaces that every cluster has. `seed` decides uids and generated names.
    pub fn new(clock: Clock, seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State::new(clock, seed))))
    }

    /// The clock that stamps objects.
    pub fn clock(&self) -> Clock {
        self.lock().clock.clone()
    }

    /// The version of the last write.
    pub fn version(&self) -> u64 {
        self.lock().version
    }

    /// Creates an object; its name may be left to `generateName`. `namespace` is empty for what
    /// belongs to the whole cluster.
    pub fn create(
        &self,
        resource: &Resource,
        namespace: &str,
        object: Value,
    ) -> Result<Value, Refusal> {
        let mut state = self.lock();
        let kind = state.kind(resource)?;
        let kept = state.create(&kind, namespace, object, false)?;
        Ok(kept.value(&kind))
    }

    /// An object as it is.
    pub fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Result<Value, Refusal> {
        let state = self.lock();
        let kind = state.kind(resource)?;
        Ok(state.get(&kind, namespace, name)?.value(&kind))
    }

    /// The selected objects in the order of namespaces and names, and the version they have this at.
    pub fn list(
        &self,
        resource: &Resource,
        selection: &Selection,
    ) -> Result<(Vec<Value>, u64), Refusal> {
        let state = self.lock();
        let kind = state.kind(resource)?;
        let page = state.list(&kind, selection, &Paging::default())?;
        let objects = page.objects.iter().map(|kept| kept.value(&kind)).collect();
        Ok((objects, page.version))
    }

    /// Replaces an object. If it has a `resourceVersion`, the present one must be the same.
    pub fn update(&self, resource: &Resource, object: Value, part: Part) -> Result<Value, Refusal> {
        let metadata = &object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        self.modify(resource, &namespace, &name, part, |present| {
            *present = object;
        })
    }

    /// Reads, changes and writes an object at once: nobody comes between.
    pub fn modify(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        part: Part,
        change: impl FnOnce(&mut Value),
    ) -> Result<Value, Refusal> {
        let mut state = self.lock();
        let kind = state.kind(resource)?;
        let kept = state.update(&kind, namespace, name, part, false, |mut object| {
            change(&mut object);
            Ok(object)
        })?;
        Ok(kept.value(&kind))
    }

    /// Deletes an object, or marks it if somebody has to finish something first.
    pub fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        how: &Deletion,
    ) -> Result<(), Refusal> {
        let mut state = self.lock();
        let kind = state.kind(resource)?;
        state.delete(&kind, namespace, name, how, false).map(|_| ())
    }

    /// Watches the selected objects from a version on, as [`Store::list`] gives it; from the present
    /// objects on, each of them told as added, if there is none.
    pub fn watch(
        &self,
        resource: &Resource,
        selection: Selection,
        from: Option<u64>,
    ) -> Result<Watch, Refusal> {
        let kind = self.lock().kind(resource)?;
        let start = from.map_or(Start::Present, Start::After);
        Ok(Watch::new(self.clone(), kind, selection, start))
    }

    /// Renews a node's lease: like an update of its `renewTime`, a thousand times cheaper.
    pub fn renew(&self, namespace: &str, name: &str, at: Time) -> Result<(), Refusal> {
        self.lock().renew(namespace, name, at)
    }

    /// Shows each lease of a namespace: its name and when it was renewed.
    pub fn renewals(&self, namespace: &str, mut show: impl FnMut(&str, Option<Time>)) {
        self.lock().renewals(namespace, &mut show);
    }

    /// How many objects of a resource there are.
    pub fn count(&self, resource: &Resource) -> usize {
        self.lock()
            .shelf(resource)
            .map_or(0, |shelf| shelf.objects().len())
    }

    /// Forgets the history of a resource, so that watches and pages that are behind are told 410.
    pub fn compact(&self, resource: &Resource) {
        self.lock().compact(resource);
    }

    /// A store of its own with the same objects and no history: what an old cache would say later.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self(Arc::new(Mutex::new(self.lock().copy())))
    }

    /// Takes a namespace away with everything in it, as its controller does at the end.
    pub fn purge(&self, namespace: &str) {
        self.lock().purge(namespace);
    }

    /// Whether there is such a resource.
    pub fn knows(&self, resource: &Resource) -> bool {
        self.lock().kind(resource).is_ok()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn renew(&mut self, namespace: &str, name: &str, at: Time) -> Result<(), Refusal> {
        let kind = self.kind(&LEASES)?;
        let mut kept = self.get(&kind, namespace, name)?;
        if let body::Body::Lease(thin) = &mut kept.stored.body {
            thin.renew(at);
            self.put(&kind, &kept.key, Some(kept.stored.body));
            return Ok(());
        }
        let renewed = at.to_string();
        self.update(&kind, namespace, name, Part::Object, false, |mut lease| {
            field::set(&mut lease, "/spec/renewTime", renewed);
            Ok(lease)
        })?;
        Ok(())
    }

    fn renewals(&self, namespace: &str, show: &mut dyn FnMut(&str, Option<Time>)) {
        let Ok(kind) = self.kind(&LEASES) else { return };
        for (key, stored) in self.within(&kind, Some(namespace)) {
            let renewed = match &stored.body {
                body::Body::Lease(thin) => thin.renewed(),
                body::Body::Json(_) => {
                    let lease = stored.value(key, &kind);
                    lease["spec"]["renewTime"]
                        .as_str()
                        .and_then(crate::clock::parse)
                }
            };
            show(body::parts(key).1, renewed);
        }
    }
}
