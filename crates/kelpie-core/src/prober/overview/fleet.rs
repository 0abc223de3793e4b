//! The whole fleet, and one cluster in full, as the prober serves them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::condition::ClusterCondition;
use super::fleet_day::FleetDay;
use super::guidance::Guidance;
use super::history::Transition;
use super::last_fence::LastFence;
use super::node_list::NodeList;
use super::shared_cause::SharedCause;
use super::summary::ClusterSummary;
use crate::{PauseSwitch, Time};

/// The response of `/debug/state?summary`: all clusters, compact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetState {
    /// The replica that answers.
    pub replica: ReplicaInfo,
    /// The counts of all clusters.
    pub fleet: FleetSummary,
    /// Causes that fenced clusters may share.
    pub shared_causes: Vec<SharedCause>,
    /// The last 24 hours.
    pub day: FleetDay,
    /// The clusters, the most urgent ones first.
    pub clusters: Vec<ClusterSummary>,
}

/// The clusters of a fleet, counted by their condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetSummary {
    /// The clusters that are watched.
    pub clusters: u32,
    /// The clusters at which an operator should look.
    pub needs_you: u32,
    /// The clusters that are known and not watched, such as hibernated ones.
    #[serde(default)]
    pub not_watched: u32,
    /// The number of clusters in each condition that occurs.
    pub counts: BTreeMap<ClusterCondition, u32>,
}

impl FleetSummary {
    /// Creates a summary of these counts.
    pub fn new(mut counts: BTreeMap<ClusterCondition, u32>) -> Self {
        counts.retain(|_, count| *count > 0);
        let needing = counts.iter().filter(|(condition, _)| condition.needs_you());
        Self {
            clusters: counts.values().sum(),
            needs_you: needing.map(|(_, count)| count).sum(),
            not_watched: 0,
            counts,
        }
    }
}

/// Counts clusters by their condition.
impl FromIterator<ClusterCondition> for FleetSummary {
    fn from_iter<I: IntoIterator<Item = ClusterCondition>>(conditions: I) -> Self {
        let mut counts = BTreeMap::new();
        for condition in conditions {
            *counts.entry(condition).or_default() += 1;
        }
        Self::new(counts)
    }
}

/// The replica that answers, and the one that leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaInfo {
    /// The present instant by the clock of the replica.
    pub at: Time,
    /// The identity of the replica, usually the name of its pod.
    pub identity: String,
    /// The version of Kelpie.
    pub version: String,
    /// The part of the replica.
    pub part: ReplicaPart,
    /// The identity of the leader as last seen; `None` if there is none or it is not known.
    pub leader: Option<String>,
    /// The pause switch.
    #[serde(default)]
    pub pause: PauseSwitch,
    /// The reason if the clusters are not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
    /// The name of the shard, if several probers divide the clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
}

/// The part of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReplicaPart {
    /// It acts.
    Leader,
    /// It observes and acts when the leader does not.
    Standby,
    /// It decides and writes nothing.
    DryRun,
}

/// One cluster in full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDetail {
    /// The replica that answers.
    pub replica: ReplicaInfo,
    /// The cluster in one line.
    pub summary: ClusterSummary,
    /// The meaning of the condition, and advice.
    pub guidance: Guidance,
    /// The grace period after which a silent node turns Unknown, in seconds.
    pub grace_seconds: Option<f64>,
    /// The last fence that this replica has seen.
    pub last_fence: Option<LastFence>,
    /// The nodes; `None` if they could not be listed in time.
    pub nodes: Option<NodeList>,
    /// The transitions of the cluster, the oldest first.
    pub history: Vec<Transition>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_fleet() {
        let conditions = [
            ClusterCondition::Healthy,
            ClusterCondition::Fenced,
            ClusterCondition::Healthy,
            ClusterCondition::Restoring,
        ];
        let fleet: FleetSummary = conditions.into_iter().collect();
        assert_eq!((fleet.clusters, fleet.needs_you), (4, 1));
        let json = serde_json::to_string(&fleet).unwrap();
        assert_eq!(
            json,
            r#"{"clusters":4,"needsYou":1,"notWatched":0,"#.to_owned()
                + r#""counts":{"fenced":1,"restoring":1,"healthy":2}}"#
        );
        assert_eq!(serde_json::from_str::<FleetSummary>(&json).unwrap(), fleet);
    }
}
