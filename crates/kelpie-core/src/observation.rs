//! What one round saw of a cluster.

use serde::Serialize;

use crate::Time;
use crate::book::Listed;
use crate::schedule::Throttle;
use crate::status::Outcome;

/// What the targets look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Fence {
    /// They were not read yet.
    Unknown,
    /// None carries our marker.
    None,
    /// Some are fenced.
    Partial,
    /// All that can be are fenced.
    Full,
}

/// What came of listing leases, and of listing nodes and machines where those were due.
#[derive(Clone, Copy, Debug)]
pub enum Lists {
    /// The API server did not answer the probe, so nothing was listed.
    NotAsked,
    /// One of the lists failed.
    Failed,
    /// All were read.
    Read(Listed),
}

/// What one round saw.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// When the round began.
    pub start: Time,
    /// When its last answer had come.
    pub end: Time,
    /// The API-server probe.
    pub api_server: Outcome,
    /// The external probe, when configured.
    pub external: Option<Outcome>,
    /// The lists.
    pub lists: Lists,
    /// One of the requests was answered with 429.
    pub throttled: Option<Throttle>,
    /// The targets, as last read.
    pub fence: Fence,
    /// This replica has no fence to make: another one leads, or nothing is left that could be scaled down.
    pub stands_by: bool,
    /// When a release was last acknowledged: kube-controller-manager started then, without a memory of
    /// earlier renewals.
    pub released: Option<Time>,
    /// A random number in [0, 1] that spreads the rounds of many clusters.
    pub jitter: f64,
}
