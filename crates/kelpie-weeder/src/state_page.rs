//! The state of all services, served at `/debug/state`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use kelpie_core::weeder::{ServiceRef, WindowSummary};
use kelpie_core::{PauseSwitch, Time};
use kelpie_kube::replica::ReplicaState;
use parking_lot::Mutex;
use serde::Serialize;

/// The number of actions remembered per service.
const REMEMBERED: usize = 10;

/// The watched services. Clones share the page.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServiceStatePage {
    services: Arc<Mutex<BTreeMap<ServiceRef, ServiceState>>>,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceState {
    pub(crate) ready: bool,
    /// The instant of its last recovery.
    pub(crate) recovered: Option<Time>,
    /// Its window, while one is open.
    pub(crate) window: Option<WindowSummary>,
    /// The last actions on its dependants, newest first.
    pub(crate) last: VecDeque<LastAction>,
}

/// An action on a pod, or the reason why there was none, with the evidence for it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LastAction {
    pub(crate) at: Time,
    pub(crate) pod: String,
    pub(crate) what: String,
    pub(crate) why: String,
}

/// The response of `/debug/state`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WeederState {
    #[serde(flatten)]
    pub(crate) replica: ReplicaState,
    /// The pause switch.
    pub(crate) pause: PauseSwitch,
    /// The services by namespace and name.
    pub(crate) namespaces: BTreeMap<String, BTreeMap<String, ServiceState>>,
}

impl ServiceStatePage {
    pub(crate) fn update(&self, service: &ServiceRef, change: impl FnOnce(&mut ServiceState)) {
        if let Some(state) = self.services.lock().get_mut(service) {
            change(state);
        }
    }

    /// Adds a service, or updates whether it is ready.
    pub(crate) fn show(&self, service: &ServiceRef, ready: bool) {
        let mut services = self.services.lock();
        services.entry(service.clone()).or_default().ready = ready;
    }

    /// Removes a service that no longer exists.
    pub(crate) fn remove(&self, service: &ServiceRef) {
        self.services.lock().remove(service);
    }

    /// Returns all services, or those of one namespace.
    pub(crate) fn namespaces(
        &self,
        only: Option<&str>,
    ) -> BTreeMap<String, BTreeMap<String, ServiceState>> {
        let mut namespaces = BTreeMap::<String, BTreeMap<String, ServiceState>>::new();
        for (service, state) in &*self.services.lock() {
            if only.is_none_or(|only| only == service.namespace) {
                let namespace = namespaces.entry(service.namespace.clone()).or_default();
                namespace.insert(service.name.clone(), state.clone());
            }
        }
        namespaces
    }
}

impl ServiceState {
    /// Remembers an action and drops the oldest one.
    pub(crate) fn remember(&mut self, last: LastAction) {
        self.last.push_front(last);
        self.last.truncate(REMEMBERED);
    }
}
