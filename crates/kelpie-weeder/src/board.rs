//! What the weeder knows, for people: `/debug/state`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kelpie_core::Time;
use kelpie_core::weeder::{ServiceRef, Sum};
use serde::Serialize;

/// Things done for a service that are remembered.
const REMEMBERED: usize = 10;

/// The services that are watched. Clones are the same board.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board {
    services: Arc<Mutex<BTreeMap<ServiceRef, ServiceState>>>,
}

/// What is known of a service.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceState {
    /// Whether it is ready.
    pub ready: bool,
    /// When it was last seen to come back.
    pub recovered: Option<Time>,
    /// Its window, while one is open.
    pub window: Option<Sum>,
    /// What was last done with its dependants, the newest first.
    pub last: VecDeque<Last>,
}

/// Something that was done, or not.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Last {
    /// When.
    pub at: Time,
    /// Which pod.
    pub pod: String,
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}

/// Everything at one instant, as `/debug/state` shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// The instant.
    pub at: Time,
    /// This replica acts.
    pub leads: bool,
    /// Nothing is deleted.
    pub dry_run: bool,
    /// By namespace and name.
    pub namespaces: BTreeMap<String, BTreeMap<String, ServiceState>>,
}

impl Board {
    /// Changes what is known of a service.
    pub(crate) fn update(&self, service: &ServiceRef, change: impl FnOnce(&mut ServiceState)) {
        let mut services = self.lock();
        if let Some(state) = services.get_mut(service) {
            change(state);
        }
    }

    /// A service is there, ready or not.
    pub(crate) fn show(&self, service: &ServiceRef, ready: bool) {
        let mut services = self.lock();
        services.entry(service.clone()).or_default().ready = ready;
    }

    /// A service is gone.
    pub(crate) fn wipe(&self, service: &ServiceRef) {
        self.lock().remove(service);
    }

    /// All services, or those of one namespace.
    pub(crate) fn namespaces(
        &self,
        only: Option<&str>,
    ) -> BTreeMap<String, BTreeMap<String, ServiceState>> {
        let mut namespaces = BTreeMap::<String, BTreeMap<String, ServiceState>>::new();
        for (service, state) in &*self.lock() {
            if only.is_none_or(|only| only == service.namespace) {
                let namespace = namespaces.entry(service.namespace.clone()).or_default();
                namespace.insert(service.name.clone(), state.clone());
            }
        }
        namespaces
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ServiceRef, ServiceState>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServiceState {
    /// Remembers what was done.
    pub(crate) fn remember(&mut self, last: Last) {
        self.last.push_front(last);
        self.last.truncate(REMEMBERED);
    }
}
