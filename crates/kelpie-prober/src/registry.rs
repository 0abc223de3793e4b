//! Which clusters get a probe, and what each probe is given. Pure: changes in, effects out.

mod machines;

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use kelpie_core::{Eligibility, Machines, Mirror, PoolConditions, eligibility};
use kelpie_kube::seed::{Change, ClusterFacts, KubeconfigSecret, MachineFacts};
use secrecy::ExposeSecret;

use crate::inputs::{Inputs, Kubeconfig};
use machines::MachineBook;

/// What is to be done with a cluster's probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Start one.
    Start { cluster: String },
    /// Its inputs may have changed.
    Update { cluster: String },
    /// Cancel it. Nothing is scaled back up: somebody else acts on the cluster now.
    Stop { cluster: String, why: String },
    /// The Shoot cannot be read; the probe goes on with what it knew.
    Unreadable { cluster: String, why: String },
}

/// Which of a cluster's two ways in a Secret describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the seed, inside.
    Internal,
    /// The one the nodes use.
    External,
}

/// What is known of the seed's clusters, their Secrets and their machines.
#[derive(Debug)]
pub(crate) struct Registry {
    clusters: Mirror<String, Cluster>,
    internal: Mirror<String, Arc<Kubeconfig>>,
    /// `None`: there is no external probe.
    external: Option<Mirror<String, Arc<Kubeconfig>>>,
    /// Makes fingerprints that mean nothing outside of this process.
    hasher: RandomState,
    machines: MachineBook,
    machine_kind: Kind,
    running: BTreeSet<String>,
    /// Everything was listed once, and probes run.
    is_open: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Unknown,
    Absent,
    Present,
}

#[derive(Debug)]
struct Cluster {
    /// `None`: its Shoot could never be read.
    eligibility: Option<Eligibility>,
    grace: Option<Duration>,
    pools: Arc<PoolConditions>,
    problem: Option<String>,
}

impl Registry {
    /// Nothing is known yet.
    pub(crate) fn new(has_external: bool) -> Self {
        Self {
            clusters: Mirror::new(),
            internal: Mirror::new(),
            external: has_external.then(Mirror::new),
            hasher: RandomState::new(),
            machines: MachineBook::default(),
            machine_kind: Kind::Unknown,
            running: BTreeSet::new(),
            is_open: false,
        }
    }

    /// What has not been listed yet, for people.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let external = self.external.as_ref().is_none_or(Mirror::is_known);
        let machines = match self.machine_kind {
            Kind::Unknown => false,
            Kind::Absent => true,
            Kind::Present => self.machines.is_known(),
        };
        [
            (self.clusters.is_known(), "Clusters"),
            (self.internal.is_known(), "kubeconfig Secrets"),
            (external, "external kubeconfig Secrets"),
            (machines, "Machines"),
        ]
        .into_iter()
        .filter_map(|(is_known, what)| (!is_known).then_some(what))
        .collect()
    }

    /// How many Clusters have a Shoot that cannot be read.
    pub(crate) fn unreadable(&self) -> usize {
        let clusters = self.clusters.iter();
        let unreadable = clusters.filter(|(_, cluster)| cluster.problem.is_some());
        unreadable.count()
    }

    /// Why a Cluster that is there gets no probe.
    pub(crate) fn why_unprobed(&self, cluster: &str) -> Option<String> {
        let cluster = self.clusters.get(&cluster.to_owned())?;
        match (cluster.eligibility, &cluster.problem) {
            (Some(Eligibility::Run), _) | (None, None) => None,
            (Some(Eligibility::NotYet(why)), _) => Some(why.to_string()),
            (Some(Eligibility::Remove(why)), _) => Some(why.to_string()),
            (None, Some(problem)) => Some(format!("its Shoot cannot be read: {problem}")),
        }
    }

    /// What a probe of the cluster is given.
    pub(crate) fn inputs(&mut self, cluster: &str) -> Inputs {
        let machines = self.machines_of(cluster);
        let key = cluster.to_owned();
        let known = self.clusters.get(&key);
        Inputs {
            grace: known.and_then(|known| known.grace),
            pools: known
                .map(|known| Arc::clone(&known.pools))
                .unwrap_or_default(),
            internal: self.internal.get(&key).cloned(),
            external: self
                .external
                .as_ref()
                .and_then(|mirror| mirror.get(&key))
                .cloned(),
            machines,
        }
    }

    fn machines_of(&mut self, namespace: &str) -> Option<Arc<Machines>> {
        // A kind that has just appeared is not listed yet; empty would leave every node out.
        let is_listed = self.machine_kind == Kind::Present && self.machines.is_known();
        is_listed.then(|| self.machines.of(namespace))
    }

    /// A change of the Clusters.
    pub(crate) fn cluster(&mut self, change: Change<ClusterFacts>) -> Vec<Effect> {
        match change {
            Change::Restarted => self.clusters.begin_list(),
            Change::Applied(facts) => return self.cluster_applied(facts),
            Change::Deleted { name, .. } => {
                self.clusters.remove(&name);
                return self.settle([name]);
            }
            Change::Synced => {
                let gone = self.clusters.end_list();
                return self.settle(gone);
            }
            Change::Failed(_) => {}
        }
        Vec::new()
    }

    fn cluster_applied(&mut self, facts: ClusterFacts) -> Vec<Effect> {
        let ClusterFacts { name, shoot } = facts;
        let before = self.clusters.remove(&name);
        let (cluster, complaint) = match shoot {
            Ok(shoot) => {
                // The same conditions stay the same part: probes tell a change by the pointer.
                let eligibility = Some(eligibility(&shoot));
                let pools = before
                    .map(|before| before.pools)
                    .filter(|pools| **pools == shoot.pools)
                    .unwrap_or_else(|| Arc::new(shoot.pools));
                let cluster = Cluster {
                    eligibility,
                    grace: shoot.node_monitor_grace,
                    pools,
                    problem: None,
                };
                (cluster, None)
            }
            Err(why) => {
                let is_news = before
                    .as_ref()
                    .is_none_or(|before| before.problem.as_ref() != Some(&why));
                let problem = Some(why.clone());
                let cluster = match before {
                    Some(before) => Cluster { problem, ..before },
                    None => Cluster {
                        eligibility: None,
                        grace: None,
                        pools: Arc::default(),
                        problem,
                    },
                };
                let cluster_name = name.clone();
                let complaint = is_news.then_some(Effect::Unreadable {
                    cluster: cluster_name,
                    why,
                });
                (cluster, complaint)
            }
        };
        self.clusters.put(name.clone(), cluster);
        let mut effects = self.settle([name]);
        effects.extend(complaint);
        effects
    }

    /// A change of the Secrets that hold kubeconfigs.
    pub(crate) fn secret(&mut self, way: Way, change: Change<KubeconfigSecret>) -> Vec<Effect> {
        let mirror = match way {
            Way::Internal => Some(&mut self.internal),
            Way::External => self.external.as_mut(),
        };
        let Some(mirror) = mirror else {
            return Vec::new();
        };
        match change {
            Change::Restarted => {
                mirror.begin_list();
                Vec::new()
            }
            Change::Applied(secret) => {
                let namespace = secret.namespace;
                let problem = secret.problem.unwrap_or("it is empty");
                let text = secret.kubeconfig.ok_or(problem);
                // The same text stays the same part: no probe connects anew for a mere new list.
                let exposed = text.as_ref().map(ExposeSecret::expose_secret);
                let fingerprint = self.hasher.hash_one(exposed);
                let kept = mirror.remove(&namespace);
                let kept = kept.filter(|before| before.fingerprint == fingerprint);
                let is_same = kept.is_some();
                let kubeconfig =
                    kept.unwrap_or_else(|| Arc::new(Kubeconfig::new(fingerprint, text)));
                mirror.put(namespace.clone(), kubeconfig);
                self.settle((!is_same).then_some(namespace))
            }
            Change::Deleted { namespace, .. } => {
                mirror.remove(&namespace);
                self.settle([namespace])
            }
            Change::Synced => {
                let gone = mirror.end_list();
                self.settle(gone)
            }
            Change::Failed(_) => Vec::new(),
        }
    }

    /// The seed has, or does not have, the kind Machine.
    pub(crate) fn machine_kind(&mut self, is_present: bool) -> Vec<Effect> {
        let kind = if is_present {
            Kind::Present
        } else {
            Kind::Absent
        };
        if self.machine_kind == kind {
            return Vec::new();
        }
        self.machine_kind = kind;
        self.machines = MachineBook::default();
        let names = self.names();
        self.settle(names)
    }

    /// A change of the Machines.
    pub(crate) fn machine(&mut self, change: Change<MachineFacts>) -> Vec<Effect> {
        match change {
            Change::Restarted => {
                self.machines.begin_list();
                Vec::new()
            }
            Change::Applied(facts) => {
                let namespace = facts.namespace.clone();
                // Machines are written often; what is used of them changes seldom.
                let is_news = self.machines.put(facts);
                self.settle(is_news.then_some(namespace))
            }
            Change::Deleted { namespace, name } => {
                self.machines.remove(&namespace, &name);
                self.settle([namespace])
            }
            Change::Synced => {
                let is_first = !self.machines.is_known();
                let gone = self.machines.end_list();
                if is_first {
                    // From now on the machine rule holds for all.
                    let names = self.names();
                    return self.settle(names);
                }
                self.settle(gone)
            }
            Change::Failed(_) => Vec::new(),
        }
    }

    fn names(&self) -> Vec<String> {
        self.clusters.iter().map(|(name, _)| name.clone()).collect()
    }

    /// What follows for these clusters; for all of them at the moment when everything is known.
    fn settle(&mut self, touched: impl IntoIterator<Item = String>) -> Vec<Effect> {
        let is_opening = !self.is_open && self.missing().is_empty();
        self.is_open |= is_opening;
        if is_opening {
            self.names()
                .into_iter()
                .filter_map(|name| self.effect(name))
                .collect()
        } else if self.is_open {
            touched
                .into_iter()
                .filter_map(|name| self.effect(name))
                .collect()
        } else {
            Vec::new()
        }
    }

    fn effect(&mut self, cluster: String) -> Option<Effect> {
        let is_running = self.running.contains(&cluster);
        let known = self.clusters.get(&cluster);
        let eligibility = known.and_then(|known| known.eligibility);
        let why = match (known, eligibility, is_running) {
            (None, _, true) => "the Cluster is gone".to_owned(),
            (_, Some(Eligibility::Remove(why)), true) => why.to_string(),
            (_, _, true) => return Some(Effect::Update { cluster }),
            (_, Some(Eligibility::Run), false) => {
                self.running.insert(cluster.clone());
                return Some(Effect::Start { cluster });
            }
            (_, _, false) => return None,
        };
        self.running.remove(&cluster);
        Some(Effect::Stop { cluster, why })
    }
}

#[cfg(test)]
mod tests;
