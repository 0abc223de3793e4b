//! The observation of a cluster in one round.

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::prober::delays::Delays;
use crate::prober::egress::EgressState;
use crate::prober::leases::AcceptedList;
use crate::prober::probe_status::ProbeResult;
use crate::prober::verdict::Throttle;

/// The state of a cluster's targets, taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FenceState {
    /// The targets were not read yet.
    Unknown,
    /// No target carries our marker.
    None,
    /// Some targets are fenced.
    Partial,
    /// All targets that can be fenced are.
    Full,
}

/// The result of listing the leases.
#[derive(Clone, Copy, Debug)]
pub enum ListResult {
    /// No list was answered. The last one is judged again, because time has passed.
    NotAsked,
    /// The list failed, which says nothing about the kubelets.
    Failed,
    /// The connection was refused, so no kubelet can have renewed its lease.
    Refused,
    /// The credentials do not allow to list leases.
    Denied,
    /// The list was read.
    Read(AcceptedList),
}

/// The observation of one round.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// The start of the round: of the request that was answered last.
    pub start: Time,
    /// The instant of the decision.
    pub end: Time,
    /// The result of the API-server probe. A list that was read is a success, whatever this says.
    pub api_server: ProbeResult,
    /// The result of the external probe; `None` if it is not configured.
    pub external: Option<ProbeResult>,
    /// The prober's own egress, which the external probe depends on.
    pub egress: EgressState,
    /// The result of the lists.
    pub lists: ListResult,
    /// Set if a request was answered with 429.
    pub throttled: Option<Throttle>,
    /// The targets as last read.
    pub fence: FenceState,
    /// This replica has no fence to make: it is a standby, or every target is fenced already.
    pub stands_by: bool,
    /// The instant of the last acknowledged release. kube-controller-manager started then, without
    /// a memory of earlier renewals.
    pub released: Option<Time>,
    /// The measured delays that a fence has to allow for.
    pub delays: Delays,
    /// A random number in [0, 1] that spreads the rounds of many clusters.
    pub jitter: f64,
}
