//! What a landscape is made of.

use std::time::Duration;

/// Sizes and paces of a landscape; by default those of Gardener.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Decides everything that is random.
    pub seed: u64,
    /// How many clusters.
    pub clusters: usize,
    /// How many nodes each has.
    pub nodes: usize,
    /// Over how many zones they are spread.
    pub zones: usize,
    /// How many pods a node has, for the count of evicted ones.
    pub pods_per_node: u64,
    /// G: a node turns Unknown after so long without a sign of life.
    pub grace: Duration,
    /// P: how often a kubelet renews its lease.
    pub renewal: Duration,
    /// How long a request is under way, on the average.
    pub latency: Duration,
    /// How long a controller's pod takes from the scale to its start.
    pub pod_start: Duration,
    /// How long it lives on after the scale.
    pub pod_stop: Duration,
    /// Pods are evicted from a node that is unreachable for so long.
    pub eviction: Duration,
    /// A machine is replaced when its node is not ready for so long.
    pub machine_health: Duration,
    /// A new machine takes so long to become a node.
    pub machine_boot: Duration,
    /// How many replicas each of [`Plan::CONTROLLERS`] has.
    pub replicas: [u32; 3],
}

impl Plan {
    /// The Deployments of a control plane that the shipped configuration fences.
    pub const CONTROLLERS: [&str; 3] = kelpie_config::scenario::CONTROLLERS;

    /// The Secret with the kubeconfig.
    pub const SECRET: &str = "shoot-access-dependency-watchdog-probe";

    /// So many clusters with so many nodes each.
    pub fn of(clusters: usize, nodes: usize) -> Self {
        Self {
            clusters,
            nodes,
            ..Self::default()
        }
    }

    /// The name of a cluster, from its number.
    pub fn cluster_name(&self, number: usize) -> String {
        format!("shoot--sim--c{number:04}")
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            seed: 0,
            clusters: 12,
            nodes: 5,
            zones: 3,
            pods_per_node: 20,
            grace: Duration::from_secs(40),
            renewal: Duration::from_secs(10),
            latency: Duration::from_millis(5),
            pod_start: Duration::from_secs(5),
            pod_stop: Duration::from_secs(2),
            eviction: Duration::from_mins(5),
            machine_health: Duration::from_mins(10),
            machine_boot: Duration::from_mins(3),
            replicas: [1; 3],
        }
    }
}
