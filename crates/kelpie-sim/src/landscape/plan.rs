//! The size and the platform of a landscape.

use std::time::Duration;

use kelpie_config::scenario::{ClusterSelection, NodeSelection};

/// The size and the platform of a landscape. Its other timings are those of the platform; the
/// actors define them.
#[derive(Clone, Debug, PartialEq)]
pub struct LandscapePlan {
    /// The seed of all random numbers.
    pub rng_seed: u64,
    /// The number of clusters.
    pub clusters: usize,
    /// The number of nodes of each cluster.
    pub nodes: usize,
    /// The replica counts of [`LandscapePlan::CONTROLLERS`].
    pub replicas: [u32; 3],
    /// G: the time without a sign of life after which a node turns Unknown. It is the
    /// `nodeMonitorGracePeriod` of every Shoot.
    pub grace_period: Duration,
    /// The platform that the seed belongs to.
    pub platform: Platform,
}

/// The platform that a seed belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Platform {
    /// A seed of Gardener: each cluster has a namespace with its control plane.
    #[default]
    Gardener,
    /// A management cluster of Cluster API: the clusters share a namespace. Their control planes
    /// run elsewhere, and MachineHealthChecks replace machines.
    ClusterApi,
}

impl Platform {
    /// Returns the namespace that the clusters share; `None` if each has its own.
    pub const fn shared_namespace(self) -> Option<&'static str> {
        match self {
            Self::Gardener => None,
            Self::ClusterApi => Some("fleet"),
        }
    }
}

impl LandscapePlan {
    /// The control plane's Deployments that the shipped configuration fences.
    pub const CONTROLLERS: [&str; 3] = kelpie_config::scenario::CONTROLLERS;

    /// The number of zones over which the nodes of a cluster are spread.
    pub const ZONES: usize = 3;

    /// The name of the Secret with the kubeconfig.
    pub const SECRET: &str = "shoot-access-dependency-watchdog-probe";

    /// Returns the default plan with another size: `nodes` is per cluster.
    pub fn with_size(clusters: usize, nodes: usize) -> Self {
        Self {
            clusters,
            nodes,
            ..Self::default()
        }
    }

    /// Returns the name of the cluster with this number.
    pub fn cluster_name(&self, number: usize) -> String {
        format!("shoot--sim--c{number:04}")
    }

    /// Returns the numbers of the selected clusters.
    pub fn cluster_numbers(&self, clusters: &ClusterSelection) -> Vec<usize> {
        match clusters {
            ClusterSelection::All => (0..self.clusters).collect(),
            ClusterSelection::Share(share) => (0..rounded_share(*share, self.clusters)).collect(),
            ClusterSelection::Numbers(numbers) => {
                let existing = numbers.iter().copied();
                existing.filter(|number| *number < self.clusters).collect()
            }
        }
    }

    /// Returns whether the node with this number is selected.
    pub fn selects_node(&self, nodes: NodeSelection, number: usize) -> bool {
        match nodes {
            NodeSelection::All => true,
            NodeSelection::Share(share) => number < rounded_share(share, self.nodes),
            NodeSelection::Zone(zone) => number % Self::ZONES == zone,
        }
    }
}

impl Default for LandscapePlan {
    fn default() -> Self {
        Self {
            rng_seed: 0,
            clusters: 12,
            nodes: 5,
            replicas: [1; 3],
            grace_period: Duration::from_secs(40),
            platform: Platform::Gardener,
        }
    }
}

/// Returns a share of `count`, rounded up.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "counts of nodes and clusters"
)]
fn rounded_share(share: f64, count: usize) -> usize {
    // Rounding errors must not push a whole number up to the next one.
    ((count as f64 * share.clamp(0.0, 1.0) - 1e-9).ceil()).max(0.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_up() {
        for (share, count, expected) in [(0.6, 5, 3), (0.61, 5, 4), (0.0, 5, 0), (1.0, 5, 5)] {
            assert_eq!(rounded_share(share, count), expected, "{share} of {count}");
        }
        let plan = LandscapePlan::with_size(3, 1);
        let numbers = |clusters| plan.cluster_numbers(&clusters);
        assert_eq!(numbers(ClusterSelection::Share(0.5)), [0, 1]);
        assert_eq!(numbers(ClusterSelection::Numbers(vec![2, 9])), [2]);
    }

    #[test]
    fn nodes_are_selected_by_number_or_zone() {
        let plan = LandscapePlan::with_size(1, 4);
        assert!(plan.selects_node(NodeSelection::Share(0.5), 1));
        assert!(!plan.selects_node(NodeSelection::Share(0.5), 2));
        assert!(plan.selects_node(NodeSelection::Zone(1), 4));
        assert!(!plan.selects_node(NodeSelection::Zone(1), 5));
    }
}
