//! The clusters of the seed: which of them get a probe, and with which inputs.
//!
//! The registry does no IO: watch events go in, actions come out.

mod kubeconfigs;
mod machines;
mod optional_input;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kelpie_config::ShardConfig;
use kelpie_core::prober::shard::Assignment;
use kelpie_core::prober::{Machines, PoolConditions};
use kelpie_core::{Time, WatchCache};
use kelpie_kube::client::ApiError;
use kelpie_kube::watch::WatchEvent;
use tokio::time::Instant;

use crate::inputs::ProbeInputs;
use crate::sharding::{Coverage, ShardClusters};
use crate::source::{
    ClusterIdentity, ClusterKubeconfig, ClusterMachine, ClusterObject, Eligibility, ProbePath,
    SourceTexts,
};
use kubeconfigs::KubeconfigStore;
use machines::MachineStore;
use optional_input::InputWatch;
pub(crate) use optional_input::OptionalInput;

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

/// What the registry expects of a source and of the configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegistrySettings {
    pub(crate) texts: SourceTexts,
    /// The external path is probed.
    pub(crate) has_external: bool,
    /// The source has machines.
    pub(crate) has_machines: bool,
    /// Clusters are fenced by targets that are found by namespace, so a namespace can have one
    /// cluster only.
    pub(crate) has_targets: bool,
}

/// The clusters of the seed with their kubeconfigs and machines, as the watches reported them.
#[derive(Debug)]
pub(crate) struct ClusterRegistry {
    settings: RegistrySettings,
    clusters: WatchCache<String, KnownCluster>,
    internal: KubeconfigStore,
    /// `None` if no external probe is configured.
    external: Option<KubeconfigStore>,
    external_watch: InputWatch,
    machines: MachineStore,
    machine_watch: InputWatch,
    /// True if the seed has the kind Machine; `None` before this is known.
    has_machine_kind: Option<bool>,
    /// The clusters of this shard; `None` if this prober watches all of them.
    pub(crate) shards: Option<ShardClusters>,
    /// The clusters with a probe, with their namespaces.
    running: BTreeMap<String, Arc<str>>,
    /// True once everything was listed, or is known to be absent. No probe starts before.
    has_synced: bool,
}

#[derive(Debug)]
struct KnownCluster {
    identity: Arc<ClusterIdentity>,
    /// `None` if the object could never be read.
    eligibility: Option<Eligibility>,
    grace: Option<Duration>,
    pools: Arc<PoolConditions>,
    /// The reason why the object cannot be read now. The other fields keep their last values.
    problem: Option<String>,
}

/// The reason why a second cluster of a namespace gets no probe.
const SHARED_NAMESPACE: &str = "another cluster of its namespace is probed, and targets are found \
                                by namespace: both would fence the same ones";

/// The reason of the end of a probe whose cluster has left the shard.
const MOVED: &str = "the selector of this shard no longer matches its labels";

impl KnownCluster {
    fn new(identity: ClusterIdentity) -> Self {
        Self {
            identity: Arc::new(identity),
            eligibility: None,
            grace: None,
            pools: Arc::default(),
            problem: None,
        }
    }
}

impl ClusterRegistry {
    pub(crate) fn new(settings: RegistrySettings, shard: Option<&ShardConfig>) -> Self {
        let has_external = settings.has_external;
        Self {
            shards: shard.map(ShardClusters::new),
            settings,
            clusters: WatchCache::default(),
            internal: KubeconfigStore::default(),
            external: has_external.then(KubeconfigStore::default),
            external_watch: InputWatch::default(),
            machines: MachineStore::default(),
            machine_watch: InputWatch::default(),
            has_machine_kind: None,
            running: BTreeMap::new(),
            has_synced: false,
        }
    }

    /// Returns the identity of a known cluster.
    pub(crate) fn identity(&self, cluster: &str) -> Option<Arc<ClusterIdentity>> {
        let known = self.clusters.get(&cluster.to_owned())?;
        Some(Arc::clone(&known.identity))
    }

    /// Returns whether probes are started: everything was listed, or is known to be absent.
    pub(crate) fn has_synced(&self) -> bool {
        self.has_synced
    }

    /// Names the kinds that probes still wait for. Optional ones that cannot be listed are not
    /// waited for.
    pub(crate) fn pending_lists(&self) -> Vec<&'static str> {
        let has_no_kind = !self.settings.has_machines || self.has_machine_kind == Some(false);
        let external = self.external.is_some() && self.external_watch.is_pending();
        [
            (!self.clusters.has_synced(), self.settings.texts.clusters),
            (!self.internal.has_synced(), "kubeconfig Secrets"),
            (external, OptionalInput::ExternalKubeconfigs.name()),
            (
                !has_no_kind && self.machine_watch.is_pending(),
                OptionalInput::Machines.name(),
            ),
        ]
        .into_iter()
        .filter_map(|(is_pending, what)| is_pending.then_some(what))
        .collect()
    }

    /// Returns true if probes do without this input.
    pub(crate) fn is_unavailable(&self, input: OptionalInput) -> bool {
        match input {
            OptionalInput::Machines => {
                let is_absent =
                    self.has_machine_kind == Some(false) || self.machine_watch.is_absent();
                self.settings.has_machines && is_absent
            }
            OptionalInput::ExternalKubeconfigs => {
                self.external.is_some() && self.external_watch.is_absent()
            }
        }
    }

    /// Processes an error of the watch on an optional input.
    pub(crate) fn watch_failed(
        &mut self,
        input: OptionalInput,
        cause: &ApiError,
        now: Instant,
    ) -> Vec<ProbeAction> {
        let watch = match input {
            OptionalInput::Machines => &mut self.machine_watch,
            OptionalInput::ExternalKubeconfigs => &mut self.external_watch,
        };
        let was_current = watch.is_current();
        watch.fail(cause, now);
        let has_changed = was_current != watch.is_current();
        self.actions_for_all(has_changed)
    }

    /// Processes the time. Probes do not wait for ever for an optional input.
    pub(crate) fn tick(&mut self, now: Instant) -> Vec<ProbeAction> {
        let is_awaited = self.clusters.has_synced() && self.internal.has_synced();
        self.external_watch.tick(is_awaited, now);
        let was_current = self.machine_watch.is_current();
        self.machine_watch.tick(is_awaited, now);
        let has_changed = was_current != self.machine_watch.is_current();
        self.actions_for_all(has_changed)
    }

    fn actions_for_all(&mut self, has_changed: bool) -> Vec<ProbeAction> {
        let names = if has_changed {
            self.names()
        } else {
            Vec::new()
        };
        self.actions_for(names)
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
        let known = self.clusters.get(&cluster.to_owned())?;
        match (known.eligibility, &known.problem) {
            (Some(Eligibility::Run), _) if self.is_elsewhere(cluster) => {
                let shards = self.shards.as_ref()?;
                shards.note(cluster)
            }
            (Some(Eligibility::Run), _) => {
                let is_barred = self.is_barred(cluster, &known.identity.namespace);
                is_barred.then(|| SHARED_NAMESPACE.to_owned())
            }
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
        let external = self.external.as_ref();
        ProbeInputs {
            grace: known.and_then(|known| known.grace),
            pools: known.map_or_else(Arc::default, |known| Arc::clone(&known.pools)),
            internal: self.internal.get(&key),
            external: external.and_then(|kubeconfigs| kubeconfigs.get(&key)),
            machines,
            machines_current: self.machine_watch.is_current(),
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
            WatchEvent::Init => {
                self.clusters.begin_list();
                if let Some(shards) = &mut self.shards {
                    shards.begin_list();
                }
            }
            WatchEvent::Apply(object) => return self.cluster_applied(object),
            WatchEvent::Delete { name, .. } => {
                self.clusters.remove(&name);
                self.forget_shard(&name);
                self.forget_kubeconfigs(&name);
                return self.actions_for([name]);
            }
            WatchEvent::InitDone => {
                let gone = self.clusters.end_list();
                for cluster in &gone {
                    self.forget_shard(cluster);
                    self.forget_kubeconfigs(cluster);
                }
                if let Some(shards) = &mut self.shards {
                    shards.end_list();
                }
                return self.actions_for(gone);
            }
            WatchEvent::Error(_) => {}
        }
        Vec::new()
    }

    fn cluster_applied(&mut self, object: ClusterObject) -> Vec<ProbeAction> {
        let ClusterObject {
            identity,
            spec,
            labels,
        } = object;
        let name = identity.id.to_string();
        if let Some(shards) = &mut self.shards {
            shards.applied(&name, labels);
        }
        let mut cluster = match self.clusters.remove(&name) {
            Some(known) if *known.identity == identity => known,
            Some(known) => KnownCluster {
                identity: Arc::new(identity),
                ..known
            },
            None => KnownCluster::new(identity),
        };
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

    fn forget_shard(&mut self, cluster: &str) {
        if let Some(shards) = &mut self.shards {
            shards.remove(cluster);
        }
    }

    /// Decides again what this shard does for a cluster, or for all of them. `has_record` tells
    /// which namespaces have a record on the leader Lease.
    pub(crate) fn assign(
        &mut self,
        only: Option<String>,
        has_record: impl Fn(&str) -> bool,
        now: Time,
    ) -> Vec<ProbeAction> {
        let Some(shards) = &mut self.shards else {
            return Vec::new();
        };
        let mut changed = Vec::new();
        let mut assign = |name: &String, known: &KnownCluster| {
            if shards.assign(name, has_record(&known.identity.namespace), now) {
                changed.push(name.clone());
            }
        };
        match only {
            Some(name) => {
                if let Some(known) = self.clusters.get(&name) {
                    assign(&name, known);
                }
            }
            None => {
                for (name, known) in self.clusters.iter() {
                    assign(name, known);
                }
            }
        }
        self.actions_for(changed)
    }

    /// Returns whether this shard has no part in a cluster.
    fn is_elsewhere(&self, cluster: &str) -> bool {
        let shards = self.shards.as_ref();
        shards.is_some_and(|shards| shards.assignment(cluster) == Assignment::Elsewhere)
    }

    /// Returns whether a cluster gets no probe, and loses one that runs.
    pub(crate) fn is_removed(&self, cluster: &str) -> bool {
        let known = self.clusters.get(&cluster.to_owned());
        let eligibility = known.and_then(|known| known.eligibility);
        matches!(eligibility, Some(Eligibility::Remove(_)))
    }

    /// Finds the clusters that are not watched by exactly one shard.
    pub(crate) fn coverage(&self, now: Time) -> Coverage {
        let Some(shards) = &self.shards else {
            return Coverage::default();
        };
        let is_eligible = |cluster: &str| {
            let known = self.clusters.get(&cluster.to_owned());
            known.and_then(|known| known.eligibility) == Some(Eligibility::Run)
        };
        shards.coverage(is_eligible, now)
    }

    /// Returns whether the clusters were listed.
    pub(crate) fn has_listed_clusters(&self) -> bool {
        self.clusters.has_synced()
    }

    fn forget_kubeconfigs(&mut self, cluster: &str) {
        self.internal.forget(cluster);
        if let Some(external) = &mut self.external {
            external.forget(cluster);
        }
    }

    /// Processes an event of the kubeconfigs of one path.
    pub(crate) fn kubeconfig(
        &mut self,
        path: ProbePath,
        event: WatchEvent<ClusterKubeconfig>,
    ) -> Vec<ProbeAction> {
        let kubeconfigs = match (path, &mut self.external) {
            (ProbePath::Internal, _) => &mut self.internal,
            (ProbePath::External, Some(external)) => {
                self.external_watch.track(&event);
                external
            }
            (ProbePath::External, None) => return Vec::new(),
        };
        let clusters = &self.clusters;
        match event {
            WatchEvent::Init => {
                kubeconfigs.begin_list();
                Vec::new()
            }
            WatchEvent::Apply(kubeconfig) => {
                let cluster = kubeconfig.cluster.clone();
                let has_changed = kubeconfigs.put(kubeconfig);
                self.actions_for(has_changed.then_some(cluster))
            }
            WatchEvent::Delete { name, .. } => {
                kubeconfigs.remove(&name, clusters.get(&name).is_some());
                self.actions_for([name])
            }
            WatchEvent::InitDone => {
                let gone = kubeconfigs.end_list(|cluster| clusters.get(cluster).is_some());
                self.actions_for(gone)
            }
            WatchEvent::Error(_) => Vec::new(),
        }
    }

    /// Processes a kubeconfig that was read directly. A Secret without one changes nothing.
    pub(crate) fn kubeconfig_read(
        &mut self,
        path: ProbePath,
        kubeconfig: ClusterKubeconfig,
    ) -> Vec<ProbeAction> {
        if kubeconfig.text.is_err() || self.clusters.get(&kubeconfig.cluster).is_none() {
            return Vec::new();
        }
        self.kubeconfig(path, WatchEvent::Apply(kubeconfig))
    }

    /// Processes the discovery that the seed has the kind Machine, or does not have it.
    pub(crate) fn machine_kind(&mut self, is_present: bool) -> Vec<ProbeAction> {
        if self.has_machine_kind.replace(is_present) == Some(is_present) {
            return Vec::new();
        }
        self.machines = MachineStore::default();
        self.machine_watch = InputWatch::default();
        let names = self.names();
        self.actions_for(names)
    }

    /// Processes an event of the machines.
    pub(crate) fn machine(&mut self, event: WatchEvent<ClusterMachine>) -> Vec<ProbeAction> {
        let was_current = self.machine_watch.is_current();
        self.machine_watch.track(&event);
        let mut concerns_all = was_current != self.machine_watch.is_current();
        let changed = match event {
            WatchEvent::Init => {
                self.machines.begin_list();
                Vec::new()
            }
            WatchEvent::Apply(machine) => {
                let cluster = machine.cluster.clone();
                // Machines are written often, but the fields that are used rarely change.
                let has_changed = self.machines.put(machine);
                has_changed.then_some(cluster).into_iter().collect()
            }
            WatchEvent::Delete { namespace, name } => {
                self.machines.remove(&namespace, &name);
                vec![namespace]
            }
            WatchEvent::InitDone => {
                // From the first list on, the machine rule applies to all clusters.
                concerns_all |= !self.machines.has_synced();
                self.machines.end_list()
            }
            WatchEvent::Error(_) => Vec::new(),
        };
        if concerns_all {
            return self.actions_for_all(true);
        }
        self.actions_for(changed)
    }

    /// Returns the ids of all clusters.
    pub(crate) fn names(&self) -> Vec<String> {
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
        let (mut names, mut actions) = (VecDeque::from(names), Vec::new());
        while let Some(name) = names.pop_front() {
            let namespace = self.running.get(&name).cloned();
            let action = self.action(name);
            if let (Some(ProbeAction::Stop { .. }), Some(namespace)) = (&action, namespace) {
                names.extend(self.barred_in(&namespace));
            }
            actions.extend(action);
        }
        actions
    }

    /// Returns whether another cluster of the namespace has a probe that fences the same targets.
    fn is_barred(&self, cluster: &str, namespace: &Arc<str>) -> bool {
        let mut running = self.running.iter();
        self.settings.has_targets
            && running.any(|(other, used)| other != cluster && used == namespace)
    }

    /// Returns the clusters of a namespace that may have waited for the probe of another one to
    /// end.
    fn barred_in(&self, namespace: &Arc<str>) -> Vec<String> {
        if !self.settings.has_targets {
            return Vec::new();
        }
        let clusters = self.clusters.iter();
        let waiting = clusters.filter(|(id, known)| {
            known.identity.namespace == *namespace && !self.running.contains_key(*id)
        });
        waiting.map(|(id, _)| id.clone()).collect()
    }

    fn action(&mut self, cluster: String) -> Option<ProbeAction> {
        let is_running = self.running.contains_key(&cluster);
        let known = self.clusters.get(&cluster);
        let eligibility = known.and_then(|known| known.eligibility);
        let namespace = known.map(|known| Arc::clone(&known.identity.namespace));
        let is_elsewhere = self.is_elsewhere(&cluster);
        let reason = match (known, eligibility, is_running) {
            (None, _, true) => self.settings.texts.deleted.to_owned(),
            (_, Some(Eligibility::Remove(reason)), true) => reason.to_owned(),
            (_, _, true) if is_elsewhere => MOVED.to_owned(),
            (_, _, false) if is_elsewhere => return None,
            (_, _, true) => return Some(ProbeAction::Update { cluster }),
            (_, Some(Eligibility::Run), false) => {
                let namespace = namespace?;
                if self.is_barred(&cluster, &namespace) {
                    return None;
                }
                self.running.insert(cluster.clone(), namespace);
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
