//! The clusters of the seed and their shards: events in, assignments out.

use std::collections::BTreeMap;
use std::sync::Arc;

use kelpie_config::{LabelSelector, ShardConfig};
use kelpie_core::Time;
use kelpie_core::prober::shard::{
    Announcement, Assignment, ClusterClaim, HANDOVER_LIMIT, Handover, ShardTable,
};
#[cfg(test)]
use kelpie_core::prober::shard::{LEASE_DURATION, ObservedShard};
use kelpie_kube::shard_leases::ShardLease;

use serde_json::{Value, json};

use super::announcement::{self, names, read_shard};
use super::{ShardEntry, ShardState};
use crate::source::ClusterLabels;

/// The labels of kubernetes-controller-sharding, without the ring. One names the shard of an
/// object, the other one asks that shard to let go of it.
const SHARD: &str = "shard.alpha.sharding.timebertt.dev";
const DRAIN: &str = "drain.alpha.sharding.timebertt.dev";

/// The number of clusters that the state page names.
const MOST_NAMED: usize = 20;

/// The clusters of the seed, and what this shard does for each of them.
#[derive(Debug)]
pub(crate) struct ShardClusters {
    table: ShardTable<LabelSelector>,
    clusters: BTreeMap<String, ShardedCluster>,
    /// A list is coming in, before which events may have been missed.
    is_listing: bool,
    /// The number of assignments that have changed.
    changes: u64,
    /// The ring whose engine assigns the clusters.
    ring: Option<String>,
}

#[derive(Debug)]
struct ShardedCluster {
    labels: ClusterLabels,
    follows_gap: bool,
    handover: Handover,
    assignment: Assignment,
}

/// The clusters that are not watched by exactly one shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coverage {
    /// No live shard selects them.
    pub(crate) unwatched: Vec<String>,
    /// Several live shards select them.
    pub(crate) contested: Vec<String>,
    /// The number of live shards.
    pub(crate) live: usize,
}

impl ShardClusters {
    pub(crate) fn new(shard: &ShardConfig) -> Self {
        Self {
            table: ShardTable::new(shard.name.as_str(), shard.selector.clone()),
            clusters: BTreeMap::new(),
            is_listing: false,
            changes: 0,
            ring: shard.ring().map(str::to_owned),
        }
    }

    /// Returns the number of assignments that have changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    pub(crate) fn begin_list(&mut self) {
        self.is_listing = true;
    }

    pub(crate) fn end_list(&mut self) {
        self.is_listing = false;
    }

    /// Takes in the labels of a cluster. [`assign`](Self::assign) has to follow.
    pub(crate) fn applied(&mut self, cluster: &str, labels: ClusterLabels) {
        self.table.saw(labels.revision);
        if let Some(known) = self.clusters.get_mut(cluster) {
            known.follows_gap |= self.is_listing && known.labels.revision != labels.revision;
            known.labels = labels;
            return;
        }
        let new = ShardedCluster {
            labels,
            follows_gap: false,
            handover: Handover::default(),
            assignment: Assignment::Elsewhere,
        };
        self.clusters.insert(cluster.to_owned(), new);
    }

    pub(crate) fn remove(&mut self, cluster: &str) {
        self.clusters.remove(cluster);
    }

    /// Returns what this shard does for a cluster, as last assigned.
    pub(crate) fn assignment(&self, cluster: &str) -> Assignment {
        let known = self.clusters.get(cluster);
        known.map_or(Assignment::Elsewhere, |known| known.assignment)
    }

    /// Decides again what this shard does for a cluster. Returns whether that has changed.
    pub(crate) fn assign(&mut self, cluster: &str, has_record: bool, now: Time) -> bool {
        let Some(known) = self.clusters.get_mut(cluster) else {
            return false;
        };
        let labels = &known.labels.labels;
        let claim = ClusterClaim {
            id: cluster,
            is_claimed: self.table.selector().matches(labels),
            revision: known.labels.revision,
            follows_gap: std::mem::take(&mut known.follows_gap),
            has_record,
        };
        let selects = |selector: &LabelSelector| selector.matches(labels);
        let assignment = known.handover.update(&self.table, &claim, selects, now);
        let has_changed = std::mem::replace(&mut known.assignment, assignment) != assignment;
        self.changes += u64::from(has_changed);
        has_changed
    }

    /// Returns the clusters that the engine of the ring takes from this shard, each with the patch
    /// that lets go of it: the engine demands that the shard removes both of its labels.
    pub(crate) fn drained(&self) -> impl Iterator<Item = (&str, Value)> {
        let rings = self.ring.iter();
        rings.flat_map(|ring| {
            let (shard, drain) = (format!("{SHARD}/{ring}"), format!("{DRAIN}/{ring}"));
            let owned = self.clusters.iter();
            let owned = owned.filter(|(_, it)| it.assignment == Assignment::Owner);
            owned.filter_map(move |(name, known)| {
                let labels = &known.labels;
                let is_drained = labels.labels.contains_key(&drain);
                let version = labels.revision.get().to_string();
                let removed = json!({ &shard: null, &drain: null });
                let metadata = json!({ "resourceVersion": version, "labels": removed });
                is_drained.then(|| (name.as_str(), json!({ "metadata": metadata })))
            })
        })
    }

    /// Takes in the Leases of all shards.
    pub(crate) fn observe(&mut self, leases: &[ShardLease], start: Time, now: Time) {
        let shards = leases.iter().map(read_shard).collect();
        self.table.observe(shards, start, now);
    }

    /// Takes in the own Lease, as if it was the only one.
    #[cfg(test)]
    pub(crate) fn observe_own(&mut self, now: Time) {
        let announcement = Announcement {
            selector: Some(self.table.selector().clone()),
            seen: self.table.seen(),
            unready: announcement::named([].iter()),
            retained: announcement::named([].iter()),
        };
        let own = ObservedShard {
            name: Arc::clone(self.table.own()),
            renewal: format!("{now:?}"),
            duration: LEASE_DURATION,
            announcement,
        };
        self.table.observe(vec![own], now, now);
    }

    /// Notes that all clusters were listed.
    pub(crate) fn listed(&mut self, now: Time) {
        self.table.listed(now);
    }

    /// Notes that the own Lease was renewed by a write that was sent at `start`.
    pub(crate) fn renewed(&mut self, start: Time) {
        self.table.announced(start);
    }

    /// Returns the end of the time in which this shard may own clusters.
    pub(crate) fn owner_until(&self) -> Time {
        self.table.owner_until()
    }

    /// Returns whether another process announces a different selector under the name of this shard.
    pub(crate) fn is_contradicted(&self) -> bool {
        self.table.is_contradicted()
    }

    /// Returns the content of the own Lease.
    pub(crate) fn content(
        &self,
        is_judged: impl Fn(&str) -> bool,
        now: Time,
    ) -> BTreeMap<String, String> {
        let unready = self.clusters.iter();
        let unready = unready.filter(|(name, it)| it.handover.is_unready(is_judged(name), now));
        let retained = self.clusters.iter();
        let retained = retained.filter(|(_, known)| known.handover.retains());
        announcement::format(&Announcement {
            selector: Some(self.table.selector().clone()),
            seen: self.table.seen(),
            unready: announcement::named(unready.map(|(name, _)| name)),
            retained: announcement::named(retained.map(|(name, _)| name)),
        })
    }

    /// Finds the clusters that are not watched by exactly one shard. Only clusters that would get a
    /// probe count.
    pub(crate) fn coverage(&self, is_eligible: impl Fn(&str) -> bool, now: Time) -> Coverage {
        let mut coverage = Coverage {
            live: self.table.live().count(),
            ..Coverage::default()
        };
        if !self.table.is_complete(now) {
            return coverage;
        }
        for (name, known) in self.clusters.iter().filter(|(name, _)| is_eligible(name)) {
            match self.claimants(known).len() {
                0 => coverage.unwatched.push(name.clone()),
                1 => {}
                _ => coverage.contested.push(name.clone()),
            }
        }
        coverage
    }

    fn claimants(&self, known: &ShardedCluster) -> Vec<&Arc<str>> {
        let selects = |selector: &LabelSelector| selector.matches(&known.labels.labels);
        self.table.claimants(selects)
    }

    /// Describes the part of this shard in all clusters that it probes, but not alone.
    pub(crate) fn notes(&self) -> BTreeMap<String, String> {
        let probed = self.clusters.iter();
        let probed = probed.filter(|(_, known)| known.assignment != Assignment::Elsewhere);
        let names = probed.map(|(name, _)| name);
        let notes = names.filter_map(|name| Some((name.clone(), self.note(name)?)));
        notes.collect()
    }

    /// Describes the part of this shard in a cluster; `None` if it is the only one that watches it.
    pub(crate) fn note(&self, cluster: &str) -> Option<String> {
        let known = self.clusters.get(cluster)?;
        let claimants = self.claimants(known);
        let limit = HANDOVER_LIMIT.as_secs() / 60;
        Some(match (known.handover, claimants.as_slice()) {
            (Handover::Elsewhere, []) => "no live shard selects its labels".to_owned(),
            (Handover::Elsewhere, others) => format!("watched by shard {}", names(others)),
            (Handover::Leaving { retains: true, .. }, _) => {
                "moved away; owned here until the record of its fence has left the leader Lease"
                    .to_owned()
            }
            (Handover::Leaving { .. }, []) => {
                format!("no live shard selects its labels; probed here for {limit} min at most")
            }
            (Handover::Leaving { .. }, others) => format!(
                "moved away; probed here until shard {} judges it, {limit} min at most",
                names(others)
            ),
            (Handover::Claimed { .. }, [_, _, ..]) => format!(
                "selected by shards {}; only {} restores",
                names(&claimants),
                claimants[0]
            ),
            (Handover::Claimed { .. }, _) if known.assignment == Assignment::Owner => return None,
            (Handover::Claimed { .. }, _) => {
                "moved here; nothing is restored until all shards have seen that".to_owned()
            }
        })
    }

    /// Describes the shards for the state page.
    pub(crate) fn state(&self, coverage: &Coverage) -> ShardState {
        let some = |clusters: &[String]| clusters.iter().take(MOST_NAMED).cloned().collect();
        let live = self.table.live().map(|(name, it)| ShardEntry {
            name: name.to_string(),
            selector: it.selector.as_ref().map(ToString::to_string),
        });
        ShardState {
            name: self.table.own().to_string(),
            selector: self.table.selector().to_string(),
            live: live.collect(),
            unwatched: coverage.unwatched.len(),
            unwatched_clusters: some(&coverage.unwatched),
            contested: coverage.contested.len(),
            contested_clusters: some(&coverage.contested),
        }
    }
}
