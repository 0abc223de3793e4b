//! Reports about a landscape: the state of its clusters, and the damage.

use serde::Serialize;

/// The state of one cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSnapshot {
    /// The cluster's name, which is its namespace in the seed.
    pub cluster: String,
    /// The number of Ready nodes.
    pub ready: usize,
    /// The number of Unknown nodes.
    pub unknown: usize,
    /// The number of kubelets that do not reach their API server.
    pub cut_off: usize,
    /// The number of nodes that kube-controller-manager would have turned Unknown in its last
    /// check, had the guard not denied it.
    pub held: usize,
    /// True while the API server is unreachable for all clients.
    pub is_down: bool,
    /// The controllers, in the order of
    /// [`LandscapePlan::CONTROLLERS`](super::LandscapePlan::CONTROLLERS). With Cluster API,
    /// kube-controller-manager and the MachineHealthCheck, which has no replica while it is paused.
    pub controllers: Vec<ControllerReplicas>,
    /// Descriptions of the faults that are active in the cluster.
    pub faults: Vec<String>,
    /// The seconds until the first Ready node may turn Unknown if no kubelet renews any more;
    /// negative if that time is past. `None` if no node is Ready.
    pub deadline: Option<f64>,
    /// True while kube-controller-manager is stopped, other than by a
    /// [`Fault::Scale`](crate::scenario::Fault::Scale) of the scenario.
    pub is_fenced: bool,
    /// The seconds between the last fence and its deadline; negative if the fence was late. `None`
    /// if no node was cut off at the time, or none was Ready.
    pub margin: Option<f64>,
}

/// The replicas of a cluster's controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerReplicas {
    /// The desired number of replicas.
    pub wanted: u32,
    /// The number of running pods.
    pub present: u32,
    /// The number of replicas at the start.
    pub usual: u32,
}

/// The damage that faults have caused.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Damage {
    /// The number of times that a node turned Unknown.
    pub nodes_unknown: u64,
    /// The number of machines that were replaced.
    pub machines_replaced: u64,
    /// The number of pods that were evicted.
    pub pods_evicted: u64,
    /// The total downtime of all API servers, in seconds.
    pub api_seconds_lost: f64,
    /// The seconds from the first fault until everything was back to normal. `None` if it is not.
    pub seconds_to_normal: Option<f64>,
    /// For each fence, the seconds between scaling kube-controller-manager down and its deadline;
    /// negative if the fence was late.
    pub margins: Vec<f64>,
}
