//! Scenarios for the simulated landscape: timelines of faults.

mod built_in;
mod display;
mod parse;

use std::time::Duration;

use crate::{ConfigError, Parsed, Strictness};
use parse::SCHEMAS;

/// The controllers of a simulated cluster.
pub const CONTROLLERS: [&str; 3] = [
    "kube-controller-manager",
    "machine-controller-manager",
    "cluster-autoscaler",
];

/// The maximum number of replicas of the watchdog.
pub const MAX_REPLICAS: u16 = 3;

/// A timeline of faults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scenario {
    /// The name under which the scenario is listed; empty if the file has none.
    pub name: String,
    /// One sentence about what the scenario shows.
    pub summary: String,
    /// The number of replicas of the watchdog that the scenario is about; `None` if it does not
    /// depend on it.
    pub replicas: Option<u16>,
    /// The duration of the whole scenario.
    pub length: Duration,
    /// The incidents, in no particular order.
    pub incidents: Vec<Incident>,
}

/// A fault with its start, duration and clusters.
#[derive(Clone, Debug, PartialEq)]
pub struct Incident {
    /// The start, relative to the start of the scenario.
    pub at: Duration,
    /// The duration; `None` lasts until the end of the scenario. A fault of no duration begins and
    /// ends at the same instant. Instant faults ignore it.
    pub lasts: Option<Duration>,
    /// The clusters in which the fault occurs. Global faults ignore them.
    pub clusters: ClusterSelection,
    /// The requests of the watchdog that the fault affects, if it is one of requests.
    pub requests: RequestSelection,
    /// The fault that occurs.
    pub fault: Fault,
}

/// Something that goes wrong between the kubelets of a cluster, its API server and the watchdog.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Kubelets cannot reach their API server, but the watchdog can.
    Partition(NodeSelection),
    /// The API server is down for all clients.
    Outage(FaultSite),
    /// The watchdog's requests are delayed by this duration.
    Latency(FaultSite, Duration),
    /// The watchdog's connections hang: requests are neither refused nor answered.
    Stall(FaultSite),
    /// A share of the watchdog's requests is refused with an HTTP status.
    Refusal {
        /// The API server that refuses.
        site: FaultSite,
        /// The HTTP status: 401, 403, 429, 500, 503 or 504.
        status: u16,
        /// The share of requests that are refused, from 0 to 1.
        share: f64,
    },
    /// The watchdog's watches are dropped, and the API server forgets older events.
    WatchDrop,
    /// The bodies of lists stop midway.
    BodyCut {
        /// The API server that sends them.
        site: FaultSite,
        /// Resets the connection at that point. Otherwise it stays open without a further byte.
        resets: bool,
    },
    /// A share of the watchdog's reads returns the state at the start of the fault, as if some
    /// replicas of the API server had stopped following the others.
    StaleReads {
        /// The API server with the stale replicas.
        site: FaultSite,
        /// The share of reads that a stale replica serves, from 0 to 1.
        share: f64,
    },
    /// The clocks of nodes are ahead by this many milliseconds, or behind if negative.
    NodeClock(NodeSelection, i64),
    /// The watchdog's clock is ahead by this many milliseconds, or behind if negative.
    WatchdogClock(i64),
    /// The token in the kubeconfig Secret is replaced, and the old one becomes invalid.
    Rotation,
    /// Pods of controllers take this long to start and to stop.
    SlowPods(Duration),
    /// Another client scales a controller.
    Scale {
        /// The name of the Deployment.
        controller: String,
        /// The new number of replicas.
        replicas: u32,
    },
    /// The seed's admission webhook has no backend: writes to Deployments fail, those to their
    /// `scale` subresource do not.
    WebhookOutage,
    /// The seed's admission webhook hangs: writes to Deployments fail after 10 s, those to their
    /// `scale` subresource are not affected.
    WebhookTimeout,
    /// The seed's kube-controller-manager is down: pods do not follow their Deployments.
    ControllerManagerOutage,
    /// Host names cannot be resolved: new connections of the watchdog fail, open ones go on.
    Dns,
    /// The watchdog's processes get no CPU: nothing that they send or wait for moves.
    CpuStarvation,
    /// The etcd of the API server is down, and the pods that depend on it crash.
    EtcdOutage,
    /// The leading replica of the watchdog crashes. A replacement starts at the end of the fault.
    Crash,
    /// The leading replica of the watchdog is paused: it neither receives nor sends anything.
    Pause,
}

/// The API servers that a fault affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultSite {
    /// The API server of the seed.
    Seed,
    /// The API servers of the incident's clusters.
    Shoot,
}

/// The requests that a fault affects: [`Fault::Latency`], [`Fault::Stall`] and [`Fault::Refusal`]
/// can be limited to some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestSelection {
    /// Every one of them.
    #[default]
    All,
    /// Those for Leases.
    Leases,
    /// Those for Nodes.
    Nodes,
    /// Those for `/version`.
    Version,
}

/// The nodes of a cluster that a fault affects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NodeSelection {
    /// Every one of them.
    All,
    /// A share of them from 0 to 1, rounded up.
    Share(f64),
    /// The nodes of the zone with this number, counted from 0.
    Zone(usize),
}

/// The clusters that an incident affects.
#[derive(Clone, Debug, PartialEq)]
pub enum ClusterSelection {
    /// Every one of them.
    All,
    /// A share of them from 0 to 1, rounded up.
    Share(f64),
    /// The clusters with these numbers, counted from 0. Unknown numbers are ignored.
    Numbers(Vec<usize>),
}

impl Scenario {
    /// Parses a scenario file.
    pub fn parse(bytes: &[u8]) -> Result<Parsed<Self>, ConfigError> {
        crate::parse::parse(bytes, Strictness::Strict, SCHEMAS, parse::scenario)
    }
}

impl Incident {
    /// Creates an incident in all clusters.
    pub fn new(at: Duration, lasts: Option<Duration>, fault: Fault) -> Self {
        Self {
            at,
            lasts,
            clusters: ClusterSelection::All,
            requests: RequestSelection::All,
            fault,
        }
    }

    /// Limits the incident to some requests.
    #[must_use]
    pub fn for_requests(mut self, requests: RequestSelection) -> Self {
        self.requests = requests;
        self
    }

    /// Limits the incident to some clusters.
    #[must_use]
    pub fn in_clusters(mut self, clusters: ClusterSelection) -> Self {
        self.clusters = clusters;
        self
    }
}

impl Fault {
    /// Returns true if the fault is a single event without a duration.
    pub fn is_instant(&self) -> bool {
        matches!(self, Self::Rotation | Self::Scale { .. } | Self::WatchDrop)
    }

    /// Returns true if the fault concerns the seed or the watchdog, so that the incident's clusters
    /// do not matter.
    pub fn is_global(&self) -> bool {
        match self {
            Self::Outage(site)
            | Self::Latency(site, _)
            | Self::Stall(site)
            | Self::BodyCut { site, .. }
            | Self::StaleReads { site, .. }
            | Self::Refusal { site, .. } => *site == FaultSite::Seed,
            Self::WatchDrop
            | Self::WebhookOutage
            | Self::WebhookTimeout
            | Self::ControllerManagerOutage
            | Self::Dns
            | Self::CpuStarvation
            | Self::WatchdogClock(_)
            | Self::SlowPods(_)
            | Self::Crash
            | Self::Pause => true,
            Self::Partition(_)
            | Self::NodeClock(..)
            | Self::Rotation
            | Self::Scale { .. }
            | Self::EtcdOutage => false,
        }
    }
}
