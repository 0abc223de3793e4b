//! The readiness of services, and their recoveries.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use crate::WatchCache;

/// The number of ready endpoints that make a service ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadinessRule {
    /// One ready endpoint is enough.
    #[default]
    Any,
    /// All endpoints have to be ready, and there has to be at least one.
    All,
}

/// The fields of an EndpointSlice object that are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSlice {
    /// The name of the service that the slice belongs to.
    pub service: String,
    /// The uid, which is never reused.
    pub uid: String,
    /// The `metadata.generation`. Every change of the endpoints increases it by one.
    pub generation: i64,
    /// The number of endpoints.
    pub endpoints: u32,
    /// The number of ready endpoints.
    pub ready: u32,
}

/// A service, by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the doc of the type names the fields")]
pub struct ServiceRef {
    pub namespace: String,
    pub name: String,
}

/// A change of a service's readiness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceEvent {
    /// The first list showed the service ready.
    FoundReady(ServiceRef),
    /// The service is ready. Before, it was not, or may not have been between two lists.
    Recovered(ServiceRef),
    /// The service is no longer ready.
    Lost(ServiceRef),
    /// The service has no slices any more.
    Gone(ServiceRef),
}

/// The readiness of all watched services, by their EndpointSlices.
///
/// It takes in the events of a watch. Half a list proves nothing, so events are reported only at
/// the end of a list. A recovery that was missed between two lists is found by comparing the lists.
#[derive(Debug, Default)]
pub struct Services {
    readiness: ReadinessRule,
    /// The slices by namespace and name.
    slices: WatchCache<(String, String), EndpointSlice>,
    /// The readiness of each service as last evaluated.
    ready: BTreeMap<ServiceRef, bool>,
    /// The slices that the current list has named so far; `None` outside of a list. A list that
    /// breaks off and begins again goes on with the same map, because its slices have already
    /// replaced the earlier ones.
    list: Option<BTreeMap<(String, String), Continuity>>,
}

/// The readiness of a slice since the last complete list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Continuity {
    /// The slice was ready all the time.
    Kept,
    /// The slice is new, and was never changed since its creation.
    New,
    /// The slice may have been not ready for some time.
    Unknown,
}

impl Services {
    /// Creates an empty set of services.
    pub fn new(readiness: ReadinessRule) -> Self {
        Self {
            readiness,
            ..Self::default()
        }
    }

    /// Begins a list of slices.
    pub fn begin_list(&mut self) {
        self.slices.begin_list();
        self.list.get_or_insert_default();
    }

    /// Ends the list, and returns the changes since the last complete one.
    pub fn end_list(&mut self) -> Vec<ServiceEvent> {
        let is_first = !self.slices.has_synced();
        self.slices.end_list();
        let list = self.list.take().unwrap_or_default();
        let now: BTreeSet<ServiceRef> = self
            .slices
            .iter()
            .map(|((namespace, _), slice)| reference(namespace, slice))
            .collect();
        let before = self.ready.keys().cloned();
        let all: BTreeSet<ServiceRef> = before.chain(now).collect();
        let mut events = Vec::new();
        for service in all {
            events.extend(match self.evaluate(&service) {
                Some(ServiceEvent::Recovered(service)) if is_first => {
                    Some(ServiceEvent::FoundReady(service))
                }
                None if self.is_ready(&service) && !self.stayed_ready(&service, &list) => {
                    Some(ServiceEvent::Recovered(service))
                }
                event => event,
            });
        }
        events
    }

    /// Adds or updates a slice. Returns no events while a list is incomplete.
    pub fn put(&mut self, namespace: &str, name: &str, slice: EndpointSlice) -> Vec<ServiceEvent> {
        let key = (namespace.to_owned(), name.to_owned());
        let service = reference(namespace, &slice);
        if let Some(list) = &mut self.list {
            let latest = match self.slices.get(&key) {
                Some(before) if self.readiness.stayed_ready(before, &slice) => Continuity::Kept,
                None if slice.generation == 1 => Continuity::New,
                _ => Continuity::Unknown,
            };
            let entry = list.entry(key.clone());
            let downgrade = |continuity: &mut Continuity| {
                if latest != Continuity::Kept {
                    *continuity = Continuity::Unknown;
                }
            };
            entry.and_modify(downgrade).or_insert(latest);
        }
        let before = self.slices.put(key, slice);
        let before = before.map(|slice| reference(namespace, &slice));
        let moved = before.filter(|before| *before != service);
        self.evaluate_all([Some(service), moved])
    }

    /// Removes a slice. Returns no events while a list is incomplete.
    pub fn remove(&mut self, namespace: &str, name: &str) -> Vec<ServiceEvent> {
        let key = (namespace.to_owned(), name.to_owned());
        let gone = self.slices.remove(&key);
        if let Some(list) = &mut self.list {
            list.insert(key, Continuity::Unknown);
        }
        self.evaluate_all([gone.map(|slice| reference(namespace, &slice)), None])
    }

    /// Returns all known services, each with whether it is ready.
    pub fn iter(&self) -> impl Iterator<Item = (&ServiceRef, bool)> {
        self.ready.iter().map(|(service, ready)| (service, *ready))
    }

    /// Returns whether a list was ever complete.
    pub fn has_synced(&self) -> bool {
        self.slices.has_synced()
    }

    fn evaluate_all(&mut self, services: [Option<ServiceRef>; 2]) -> Vec<ServiceEvent> {
        if self.list.is_some() {
            return Vec::new();
        }
        let services = services.into_iter().flatten();
        services
            .filter_map(|service| self.evaluate(&service))
            .collect()
    }

    /// Evaluates the slices of a service, and returns the change.
    fn evaluate(&mut self, service: &ServiceRef) -> Option<ServiceEvent> {
        let (mut slices, mut endpoints, mut ready) = (0_u32, 0_u64, 0_u64);
        for (_, slice) in self.slices_of(service) {
            slices += 1;
            endpoints += u64::from(slice.endpoints);
            ready += u64::from(slice.ready);
        }
        if slices == 0 {
            self.ready.remove(service)?;
            return Some(ServiceEvent::Gone(service.clone()));
        }
        let is_ready = match self.readiness {
            ReadinessRule::Any => ready > 0,
            ReadinessRule::All => endpoints > 0 && ready == endpoints,
        };
        let was_ready = self.ready.insert(service.clone(), is_ready);
        match (was_ready.unwrap_or(false), is_ready) {
            (false, true) => Some(ServiceEvent::Recovered(service.clone())),
            (true, false) => Some(ServiceEvent::Lost(service.clone())),
            _ => None,
        }
    }

    fn is_ready(&self, service: &ServiceRef) -> bool {
        self.ready.get(service) == Some(&true)
    }

    /// Returns whether a service that is ready before and after a list was ready in between.
    fn stayed_ready(
        &self,
        service: &ServiceRef,
        list: &BTreeMap<(String, String), Continuity>,
    ) -> bool {
        let is_kept = |(key, slice): (&_, &EndpointSlice)| {
            slice.endpoints > 0 && list.get(key) == Some(&Continuity::Kept)
        };
        let is_ready_or_new =
            |(key, _): (&_, _)| matches!(list.get(key), Some(Continuity::Kept | Continuity::New));
        self.slices_of(service).any(is_kept)
            && match self.readiness {
                ReadinessRule::Any => true,
                ReadinessRule::All => self.slices_of(service).all(is_ready_or_new),
            }
    }

    fn slices_of<'a>(
        &'a self,
        service: &'a ServiceRef,
    ) -> impl Iterator<Item = (&'a (String, String), &'a EndpointSlice)> {
        let from = (service.namespace.clone(), String::new());
        let in_namespace = self.slices.range_from(from);
        let in_namespace =
            in_namespace.take_while(|((namespace, _), _)| *namespace == service.namespace);
        in_namespace.filter(|(_, slice)| slice.service == service.name)
    }
}

impl ReadinessRule {
    /// Returns whether a slice was ready all the time between two states. One change cannot hide an
    /// outage, two can.
    fn stayed_ready(self, before: &EndpointSlice, after: &EndpointSlice) -> bool {
        let is_ready = |slice: &EndpointSlice| match self {
            Self::Any => slice.ready > 0,
            Self::All => slice.ready == slice.endpoints,
        };
        let changes = after.generation.saturating_sub(before.generation);
        before.uid == after.uid && (0..=1).contains(&changes) && is_ready(before) && is_ready(after)
    }
}

impl fmt::Display for ServiceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

fn reference(namespace: &str, slice: &EndpointSlice) -> ServiceRef {
    ServiceRef {
        namespace: namespace.to_owned(),
        name: slice.service.clone(),
    }
}
