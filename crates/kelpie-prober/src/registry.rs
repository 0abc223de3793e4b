//! The clusters of the seed: which of them get a probe, and with which inputs.
//!
//! The registry does no IO: watch events go in, actions come out.

mod machines;

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use kelpie_core::WatchCache;
use kelpie_core::prober::{Machines, PoolConditions};
use kelpie_kube::watch::WatchEvent;
use secrecy::ExposeSecret;

use crate::inputs::{LazyKubeconfig, ProbeInputs};
use crate::source::{ClusterKubeconfig, ClusterMachine, ClusterObject, Eligibility, ProbePath};
use machines::MachineStore;

/// An action that the manager performs on the probe of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProbeAction {
    /// Start a probe.
    Start { cluster: String },
    /// Send the probe its inputs, which may have changed.
    Update { cluster: String },
    /// Cancel the probe. Nothing is scaled back up: another actor, such as a hibernation or a
    /// deletion, is responsible for the cluster now.
    Stop { cluster: String, reason: String },
    /// Log that the cluster's object cannot be read. A running probe keeps its inputs.
    ReportUnreadable { cluster: String, problem: String },
}

/// The clusters of the seed with their kubeconfigs and machines, as the watches reported them.
#[derive(Debug, Default)]
pub(crate) struct ClusterRegistry {
    clusters: WatchCache<String, KnownCluster>,
    internal: WatchCache<String, Arc<LazyKubeconfig>>,
    /// `None` if no external probe is configured.
    external: Option<WatchCache<String, Arc<LazyKubeconfig>>>,
    /// Hashes kubeconfigs with random keys: the fingerprints are useless outside of this process.
    hasher: RandomState,
    machines: MachineStore,
    /// True if the seed has the kind Machine; `None` before this is known.
    has_machine_kind: Option<bool>,
    running: BTreeSet<String>,
    /// True once everything was listed. No probe starts before.
    has_synced: bool,
}

#[derive(Debug, Default)]
struct KnownCluster {
    /// `None` if the object could never be read.
    eligibility: Option<Eligibility>,
    grace: Option<Duration>,
    pools: Arc<PoolConditions>,
    /// The reason why the object cannot be read now. The other fields keep their last values.
    problem: Option<String>,
}

impl ClusterRegistry {
    pub(crate) fn new(has_external: bool) -> Self {
        Self {
            external: has_external.then(WatchCache::new),
            ..Self::default()
        }
    }

    /// Names the kinds that have not been listed yet.
    pub(crate) fn pending_lists(&self) -> Vec<&'static str> {
        let external = self.external.as_ref().is_none_or(WatchCache::has_synced);
        let has_kind = self.has_machine_kind;
        let machines = has_kind.is_some_and(|has_kind| !has_kind || self.machines.has_synced());
        [
            (self.clusters.has_synced(), "Clusters"),
            (self.internal.has_synced(), "kubeconfig Secrets"),
            (external, "external kubeconfig Secrets"),
            (machines, "Machines"),
        ]
        .into_iter()
        .filter_map(|(has_synced, what)| (!has_synced).then_some(what))
        .collect()
    }

    /// Counts the clusters whose object cannot be read now.
    pub(crate) fn unreadable_count(&self) -> usize {
        let clusters = self.clusters.iter();
        let unreadable = clusters.filter(|(_, cluster)| cluster.problem.is_some());
        unreadable.count()
    }

    /// Returns the reason why an existing cluster gets no probe. Returns `None` if it gets one, or
    /// if there is no such cluster.
    pub(crate) fn unprobed_reason(&self, cluster: &str) -> Option<String> {
        let cluster = self.clusters.get(&cluster.to_owned())?;
        match (cluster.eligibility, &cluster.problem) {
            (Some(eligibility), _) => eligibility.reason().map(str::to_owned),
            (None, Some(problem)) => Some(format!("its object cannot be read: {problem}")),
            (None, None) => None,
        }
    }

    /// Returns the current inputs for the probe of a cluster.
    pub(crate) fn inputs(&mut self, cluster: &str) -> ProbeInputs {
        let machines = self.machines_of(cluster);
        let key = cluster.to_owned();
        let known = self.clusters.get(&key);
        let external = self.external.as_ref().and_then(|cache| cache.get(&key));
        ProbeInputs {
            grace: known.and_then(|known| known.grace),
            pools: known.map_or_else(Arc::default, |known| Arc::clone(&known.pools)),
            internal: self.internal.get(&key).cloned(),
            external: external.cloned(),
            machines,
        }
    }

    fn machines_of(&mut self, cluster: &str) -> Option<Arc<Machines>> {
        // A kind that has just appeared is not listed yet. An empty list would exclude every node.
        let is_listed = self.has_machine_kind == Some(true) && self.machines.has_synced();
        is_listed.then(|| self.machines.of(cluster))
    }

    /// Processes an event of the clusters.
    pub(crate) fn cluster(&mut self, event: WatchEvent<ClusterObject>) -> Vec<ProbeAction> {
        match event {
            WatchEvent::Init => self.clusters.begin_list(),
            WatchEvent::Apply(object) => return self.cluster_applied(object),
            WatchEvent::Delete { name, .. } => {
                self.clusters.remove(&name);
                return self.actions_for([name]);
            }
            WatchEvent::InitDone => {
                let gone = self.clusters.end_list();
                return self.actions_for(gone);
            }
            WatchEvent::Error(_) => {}
        }
        Vec::new()
    }

    fn cluster_applied(&mut self, object: ClusterObject) -> Vec<ProbeAction> {
        let ClusterObject { name, spec } = object;
        let mut cluster = self.clusters.remove(&name).unwrap_or_default();
        let mut unreadable = None;
        match spec {
            Ok(spec) => {
                // Equal conditions keep their pointer, by which probes detect a change.
                if *cluster.pools != spec.pools {
                    cluster.pools = Arc::new(spec.pools);
                }
                cluster.eligibility = Some(spec.eligibility);
                cluster.grace = spec.grace;
                cluster.problem = None;
            }
            Err(problem) if cluster.problem.as_ref() == Some(&problem) => {}
            Err(problem) => {
                cluster.problem = Some(problem.clone());
                let cluster = name.clone();
                unreadable = Some(ProbeAction::ReportUnreadable { cluster, problem });
            }
        }
        self.clusters.put(name.clone(), cluster);
        let mut actions = self.actions_for([name]);
        actions.extend(unreadable);
        actions
    }

    /// Processes an event of the kubeconfigs of one path.
    pub(crate) fn kubeconfig(
        &mut self,
        path: ProbePath,
        event: WatchEvent<ClusterKubeconfig>,
    ) -> Vec<ProbeAction> {
        let cache = match (path, &mut self.external) {
            (ProbePath::Internal, _) => &mut self.internal,
            (ProbePath::External, Some(external)) => external,
            (ProbePath::External, None) => return Vec::new(),
        };
        match event {
            WatchEvent::Init => {
                cache.begin_list();
                Vec::new()
            }
            WatchEvent::Apply(ClusterKubeconfig { cluster, text }) => {
                // An equal text keeps its pointer: no probe reconnects because of a new list.
                let exposed = text.as_ref().map(ExposeSecret::expose_secret);
                let fingerprint = self.hasher.hash_one(exposed);
                let kept = cache.remove(&cluster);
                let kept = kept.filter(|before| before.fingerprint == fingerprint);
                let changed = kept.is_none().then(|| cluster.clone());
                let new = || Arc::new(LazyKubeconfig::new(fingerprint, text));
                cache.put(cluster, kept.unwrap_or_else(new));
                self.actions_for(changed)
            }
            WatchEvent::Delete { name, .. } => {
                cache.remove(&name);
                self.actions_for([name])
            }
            WatchEvent::InitDone => {
                let gone = cache.end_list();
                self.actions_for(gone)
            }
            WatchEvent::Error(_) => Vec::new(),
        }
    }

    /// Processes the discovery that the seed has the kind Machine, or does not have it.
    pub(crate) fn machine_kind(&mut self, is_present: bool) -> Vec<ProbeAction> {
        if self.has_machine_kind.replace(is_present) == Some(is_present) {
            return Vec::new();
        }
        self.machines = MachineStore::default();
        let names = self.names();
        self.actions_for(names)
    }

    /// Processes an event of the machines.
    pub(crate) fn machine(&mut self, event: WatchEvent<ClusterMachine>) -> Vec<ProbeAction> {
        match event {
            WatchEvent::Init => {
                self.machines.begin_list();
                Vec::new()
            }
            WatchEvent::Apply(machine) => {
                let cluster = machine.cluster.clone();
                // Machines are written often, but the fields that are used rarely change.
                let has_changed = self.machines.put(machine);
                self.actions_for(has_changed.then_some(cluster))
            }
            WatchEvent::Delete { namespace, name } => {
                self.machines.remove(&namespace, &name);
                self.actions_for([namespace])
            }
            WatchEvent::InitDone => {
                let is_first = !self.machines.has_synced();
                let gone = self.machines.end_list();
                // From the first list on, the machine rule applies to all clusters.
                let changed = if is_first { self.names() } else { gone };
                self.actions_for(changed)
            }
            WatchEvent::Error(_) => Vec::new(),
        }
    }

    fn names(&self) -> Vec<String> {
        self.clusters.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Returns the actions for the clusters that changed. Returns none before everything was
    /// listed, and those of all clusters at that moment.
    fn actions_for(&mut self, changed: impl IntoIterator<Item = String>) -> Vec<ProbeAction> {
        let has_just_synced = !self.has_synced && self.pending_lists().is_empty();
        self.has_synced |= has_just_synced;
        let names = if has_just_synced {
            self.names()
        } else {
            changed.into_iter().filter(|_| self.has_synced).collect()
        };
        let actions = names.into_iter().filter_map(|name| self.action(name));
        actions.collect()
    }

    fn action(&mut self, cluster: String) -> Option<ProbeAction> {
        let is_running = self.running.contains(&cluster);
        let known = self.clusters.get(&cluster);
        let eligibility = known.and_then(|known| known.eligibility);
        let reason = match (known, eligibility, is_running) {
            (None, _, true) => "the Cluster was deleted".to_owned(),
            (_, Some(Eligibility::Remove(reason)), true) => reason.to_owned(),
            (_, _, true) => return Some(ProbeAction::Update { cluster }),
            (_, Some(Eligibility::Run), false) => {
                self.running.insert(cluster.clone());
                return Some(ProbeAction::Start { cluster });
            }
            (_, _, false) => return None,
        };
        self.running.remove(&cluster);
        Some(ProbeAction::Stop { cluster, reason })
    }
}

#[cfg(test)]
mod tests;
