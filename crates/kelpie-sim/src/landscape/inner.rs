//! The state that the servers, the links and the driver of a landscape share.

use std::fmt;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kelpie_core::Time;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::event::{SimEvent, SimEventKind};
use super::state::LandscapeState;
use crate::clock::SimClock;
use crate::server::{FaultInjection, RequestInfo, ServerHooks, SimServer};
use crate::store::{ObjectStore, StoreEvent};

/// The interval at which a connection attempt to a stalled server is retried.
const STALL_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Identifies an API server of the landscape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerId {
    Seed,
    Shoot(usize),
}

type Observer = Box<dyn FnMut(&SimEvent) + Send>;

/// The shared part of a [`Landscape`](super::Landscape).
pub(super) struct LandscapeInner {
    pub(super) clock: SimClock,
    pub(super) seed: SimServer,
    /// Wakes the driver after a change of the timeline.
    pub(super) wake_driver: Notify,
    state: Mutex<LandscapeState>,
    observer: Mutex<Option<Observer>>,
}

impl LandscapeInner {
    pub(super) fn new(clock: SimClock, seed: SimServer, state: LandscapeState) -> Self {
        Self {
            clock,
            seed,
            wake_driver: Notify::new(),
            state: Mutex::new(state),
            observer: Mutex::new(None),
        }
    }

    /// Creates an API server with an empty store, into whose requests the active faults are
    /// injected.
    pub(super) fn server(
        weak: &Weak<Self>,
        clock: &SimClock,
        rng_seed: u64,
        id: ServerId,
    ) -> SimServer {
        let (injecting, logging) = (weak.clone(), weak.clone());
        let injection = move |request: &RequestInfo| {
            let inner = injecting.upgrade();
            inner.map_or_else(FaultInjection::default, |inner| {
                inner.injection(id, request)
            })
        };
        let log = move |request: &RequestInfo, status: u16| {
            if let Some(inner) = logging.upgrade() {
                inner.record_request(id, request, status);
            }
        };
        let hooks = ServerHooks {
            faults: Some(Arc::new(injection)),
            authorizer: None,
            log: Some(Arc::new(log)),
        };
        SimServer::new(ObjectStore::new(clock.clone(), rng_seed), hooks)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, LandscapeState> {
        self.state.lock()
    }

    pub(super) fn set_observer(&self, observer: Observer) {
        *self.observer.lock() = Some(observer);
    }

    fn injection(&self, id: ServerId, request: &RequestInfo) -> FaultInjection {
        let now = self.clock.now();
        let mut state = self.state();
        match id {
            ServerId::Seed => state.seed_injection(request, now),
            ServerId::Shoot(number) => {
                let cluster = state.clusters.get_mut(number);
                cluster.map_or_else(FaultInjection::default, |cluster| {
                    cluster.injection(request, now)
                })
            }
        }
    }

    fn record_request(&self, id: ServerId, request: &RequestInfo, status: u16) {
        if self.observer.lock().is_none() {
            return;
        }
        let at = self.clock.now();
        let mut state = self.state();
        let server = match id {
            ServerId::Seed => super::SEED.into(),
            ServerId::Shoot(number) => {
                let name = state.clusters.get(number).map(|cluster| &cluster.name);
                name.cloned().unwrap_or_default()
            }
        };
        let kind = SimEventKind::Request {
            server,
            received_at: request.received_at,
            was_held: request.is_held,
            user: request.user.name.clone(),
            verb: request.verb,
            path: request.path.clone(),
            status,
        };
        state.record_event(at, kind);
        drop(state);
        self.notify_observer();
    }

    /// Passes the pending events to the observer.
    fn notify_observer(&self) {
        let events = std::mem::take(&mut self.state().pending_events);
        if events.is_empty() {
            return;
        }
        if let Some(observer) = &mut *self.observer.lock() {
            events.iter().for_each(observer);
        }
    }

    /// Runs all actors that are due. Returns the time of the next one.
    pub(super) fn step(&self) -> Time {
        let next = self.state().step(self.clock.now());
        self.notify_observer();
        next
    }

    /// Handles an event of the watch on Deployments. Returns false if the watch has expired.
    pub(super) fn on_deployment_event(&self, event: &StoreEvent) -> bool {
        let (object, is_gone) = match event {
            StoreEvent::Added(object) | StoreEvent::Modified(object) => (object, false),
            StoreEvent::Deleted(object) => (object, true),
            StoreEvent::Expired => return false,
        };
        let wanted = object["spec"]["replicas"].as_u64().unwrap_or(1);
        let wanted = if is_gone { 0 } else { wanted };
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        let (namespace, name) = namespaced_name(object);
        let key = (namespace.into(), name.into());
        let observed = &object["status"]["observedGeneration"];
        let is_observed = is_gone || *observed == object["metadata"]["generation"];
        let now = self.clock.now();
        self.state()
            .on_deployment_written(key, wanted, is_observed, now);
        true
    }

    /// Handles an event of the watch on pods. Returns false if the watch has expired.
    pub(super) fn on_pod_event(&self, event: &StoreEvent) -> bool {
        if let StoreEvent::Deleted(pod) = event {
            let (namespace, name) = namespaced_name(pod);
            self.state()
                .on_pod_deleted(namespace, name, self.clock.now());
        }
        *event != StoreEvent::Expired
    }

    /// Returns whether host names can be looked up.
    pub(super) fn resolves_names(&self) -> bool {
        !self.state().faults.is_dns_down()
    }

    /// Returns the server behind a host and port. Fails if it is down, and waits while it is
    /// stalled.
    pub(super) async fn connect(&self, host: &str, port: u16) -> io::Result<SimServer> {
        loop {
            let (is_down, is_stalled, server) = {
                let state = self.state();
                if host == super::SEED {
                    let faults = &state.faults;
                    (faults.is_down(), faults.is_stalled(), self.seed.clone())
                } else {
                    let number = state.cluster_at(host, port);
                    let cluster = number.and_then(|number| state.clusters.get(number));
                    let cluster = cluster.ok_or(io::ErrorKind::HostUnreachable)?;
                    let is_stalled = cluster.faults.is_stalled();
                    (cluster.is_down(), is_stalled, cluster.server.clone())
                }
            };
            if is_down {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            if !is_stalled {
                return Ok(server);
            }
            sleep(STALL_POLL_INTERVAL).await;
        }
    }
}

/// Returns the namespace and name of an object.
fn namespaced_name(object: &Value) -> (&str, &str) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    (text("namespace"), text("name"))
}

impl fmt::Debug for LandscapeInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Landscape").finish_non_exhaustive()
    }
}
