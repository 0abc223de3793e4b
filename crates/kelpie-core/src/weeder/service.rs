//! Which services are ready, and when one comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use crate::Mirror;

/// How many endpoints make a service ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Readiness {
    /// One ready endpoint is enough.
    #[default]
    Any,
    /// Every endpoint is ready, and there is at least one.
    All,
}

/// What is kept of an EndpointSlice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The service it belongs to.
    pub service: String,
    /// Its uid.
    pub uid: String,
    /// Goes up by one with every change of its endpoints.
    pub generation: i64,
    /// Its endpoints.
    pub endpoints: u32,
    /// Those of them that are ready.
    pub ready: u32,
}

/// A service and its namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceRef {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// What became of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swing {
    /// It was ready already when we began to look.
    FoundReady(ServiceRef),
    /// It is ready, and was not, or may have been away while we could not see.
    Recovered(ServiceRef),
    /// It is not ready any more.
    Lost(ServiceRef),
    /// It is gone.
    Gone(ServiceRef),
}

/// Every service that is watched, as its slices show it.
///
/// It is told what a watch tells. Half a list proves nothing, so nothing is said before its end; what
/// was missed between two lists is found by comparing them.
#[derive(Debug, Default)]
pub struct Services {
    readiness: Readiness,
    /// By namespace and name.
    slices: Mirror<(String, String), Slice>,
    /// Whether each was ready when we last looked.
    ready: BTreeMap<ServiceRef, bool>,
    /// While a list comes in: what is known of the slices that it has named. One that breaks off and
    /// begins again is part of it, for it has taken the place of what was known before.
    list: Option<BTreeMap<(String, String), Proof>>,
}

/// What a slice proves about the time since the last complete list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    /// It cannot have stopped being ready.
    Kept,
    /// It is new, and cannot have stopped being ready since it is there.
    Fresh,
    /// Nothing.
    Nothing,
}

impl Services {
    /// Nothing is known yet.
    pub fn new(readiness: Readiness) -> Self {
        Self {
            readiness,
            ..Self::default()
        }
    }

    /// A list begins.
    pub fn begin_list(&mut self) {
        self.slices.begin_list();
        self.list.get_or_insert_default();
    }

    /// The list is complete.
    pub fn end_list(&mut self) -> Vec<Swing> {
        let is_first = !self.slices.is_known();
        self.slices.end_list();
        let list = self.list.take().unwrap_or_default();
        let now: BTreeSet<ServiceRef> = self
            .slices
            .iter()
            .map(|((namespace, _), slice)| reference(namespace, slice))
            .collect();
        let before = self.ready.keys().cloned();
        let all: BTreeSet<ServiceRef> = before.chain(now).collect();
        let mut swings = Vec::new();
        for service in all {
            swings.extend(match self.look(&service) {
                Some(Swing::Recovered(service)) if is_first => Some(Swing::FoundReady(service)),
                None if self.is_ready(&service) && !self.stayed_ready(&service, &list) => {
                    Some(Swing::Recovered(service))
                }
                swing => swing,
            });
        }
        swings
    }

    /// A slice is there, or has changed.
    pub fn put(&mut self, namespace: &str, name: &str, slice: Slice) -> Vec<Swing> {
        let key = (namespace.to_owned(), name.to_owned());
        let service = reference(namespace, &slice);
        if let Some(list) = &mut self.list {
            let step = match self.slices.get(&key) {
                Some(before) if self.readiness.is_kept(before, &slice) => Proof::Kept,
                None if slice.generation == 1 => Proof::Fresh,
                _ => Proof::Nothing,
            };
            let so_far = list.entry(key.clone());
            let and_now = |proof: &mut Proof| {
                if step != Proof::Kept {
                    *proof = Proof::Nothing;
                }
            };
            so_far.and_modify(and_now).or_insert(step);
        }
        let before = self.slices.put(key, slice);
        let before = before.map(|slice| reference(namespace, &slice));
        let moved = before.filter(|before| *before != service);
        self.look_at([Some(service), moved])
    }

    /// A slice is gone.
    pub fn remove(&mut self, namespace: &str, name: &str) -> Vec<Swing> {
        let key = (namespace.to_owned(), name.to_owned());
        let gone = self.slices.remove(&key);
        if let Some(list) = &mut self.list {
            list.insert(key, Proof::Nothing);
        }
        self.look_at([gone.map(|slice| reference(namespace, &slice)), None])
    }

    /// Every known service and whether it is ready.
    pub fn iter(&self) -> impl Iterator<Item = (&ServiceRef, bool)> {
        self.ready.iter().map(|(service, ready)| (service, *ready))
    }

    /// Whether there ever was a complete list.
    pub fn is_known(&self) -> bool {
        self.slices.is_known()
    }

    fn look_at(&mut self, services: [Option<ServiceRef>; 2]) -> Vec<Swing> {
        if self.list.is_some() {
            return Vec::new();
        }
        let services = services.into_iter().flatten();
        services.filter_map(|service| self.look(&service)).collect()
    }

    /// Takes over what the slices of a service say, and tells what has changed.
    fn look(&mut self, service: &ServiceRef) -> Option<Swing> {
        let (mut slices, mut endpoints, mut ready) = (0_u32, 0_u64, 0_u64);
        for (_, slice) in self.slices_of(service) {
            slices += 1;
            endpoints += u64::from(slice.endpoints);
            ready += u64::from(slice.ready);
        }
        if slices == 0 {
            self.ready.remove(service)?;
            return Some(Swing::Gone(service.clone()));
        }
        let is_ready = match self.readiness {
            Readiness::Any => ready > 0,
            Readiness::All => endpoints > 0 && ready == endpoints,
        };
        let was_ready = self.ready.insert(service.clone(), is_ready);
        match (was_ready.unwrap_or(false), is_ready) {
            (false, true) => Some(Swing::Recovered(service.clone())),
            (true, false) => Some(Swing::Lost(service.clone())),
            _ => None,
        }
    }

    fn is_ready(&self, service: &ServiceRef) -> bool {
        self.ready.get(service) == Some(&true)
    }

    /// Whether a service that was ready before a list and is ready after it was so in between.
    fn stayed_ready(&self, service: &ServiceRef, list: &BTreeMap<(String, String), Proof>) -> bool {
        let is_proof =
            |(key, slice): (&_, &Slice)| slice.endpoints > 0 && list.get(key) == Some(&Proof::Kept);
        let is_well = |(key, _): (&_, _)| matches!(list.get(key), Some(Proof::Kept | Proof::Fresh));
        self.slices_of(service).any(is_proof)
            && match self.readiness {
                Readiness::Any => true,
                Readiness::All => self.slices_of(service).all(is_well),
            }
    }

    fn slices_of<'a>(
        &'a self,
        service: &'a ServiceRef,
    ) -> impl Iterator<Item = (&'a (String, String), &'a Slice)> {
        let from = (service.namespace.clone(), String::new());
        let of_namespace = self.slices.range_from(from);
        let of_namespace =
            of_namespace.take_while(|((namespace, _), _)| *namespace == service.namespace);
        of_namespace.filter(|(_, slice)| slice.service == service.name)
    }
}

impl Readiness {
    /// Whether a slice that was changed at most once in between cannot have stopped being ready.
    fn is_kept(self, before: &Slice, after: &Slice) -> bool {
        let is_ready = |slice: &Slice| match self {
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

fn reference(namespace: &str, slice: &Slice) -> ServiceRef {
    ServiceRef {
        namespace: namespace.to_owned(),
        name: slice.service.clone(),
    }
}
