//! Scenarios for the simulated landscape: what goes wrong there, and when.

mod built_in;
mod read;
mod words;

use std::time::Duration;

use crate::reader;
use crate::{Parsed, Report, Strictness};
pub(crate) use read::TABLES;

/// The controllers that a simulated cluster has.
pub const CONTROLLERS: [&str; 3] = [
    "kube-controller-manager",
    "machine-controller-manager",
    "cluster-autoscaler",
];

/// A timeline of faults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scenario {
    /// What it is called.
    pub name: String,
    /// What it shows, in a sentence.
    pub summary: String,
    /// How long it goes on, from its beginning.
    pub length: Duration,
    /// What happens, in any order.
    pub incidents: Vec<Incident>,
}

/// A fault with its time and place.
#[derive(Clone, Debug, PartialEq)]
pub struct Incident {
    /// From the beginning of the scenario.
    pub at: Duration,
    /// How long it lasts; `None`: to the end. What is done at once has no length.
    pub lasts: Option<Duration>,
    /// Where.
    pub clusters: Clusters,
    /// What.
    pub fault: Fault,
}

/// Something that goes wrong. Three parties are in it: the kubelets of a cluster, its API server, and the
/// watchdog; each fault says between which of them it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Kubelets do not reach their API server, while the watchdog does.
    Partition(Nodes),
    /// The API server is there for nobody.
    Outage(Site),
    /// The watchdog's requests take this much longer.
    Latency(Site, Duration),
    /// The watchdog's connections hang: nothing is refused, nothing is answered.
    Stall(Site),
    /// A share of the watchdog's requests is refused with an HTTP status.
    Refusal {
        /// By whom.
        site: Site,
        /// 401, 403, 429, 500, 503 or 504.
        status: u16,
        /// From 0 to 1.
        share: f64,
    },
    /// The watchdog's watches break off, and the history before is forgotten.
    WatchDrop,
    /// The watchdog's reads show what was there when this began.
    StaleReads(Site),
    /// The clocks of nodes are ahead by so many milliseconds; behind if that is below zero.
    NodeClock(Nodes, i64),
    /// The watchdog's clock is ahead by so many milliseconds; behind if that is below zero.
    WatchdogClock(i64),
    /// The token in the kubeconfig Secret is replaced, and the old one is worth nothing.
    Rotation,
    /// Pods of controllers take this long to start and to stop.
    SlowPods(Duration),
    /// Somebody else scales a controller.
    Scale {
        /// The name of the Deployment.
        controller: String,
        /// To how many.
        replicas: u32,
    },
    /// The etcd behind the API server is gone, and what needs it crashes.
    EtcdOutage,
    /// The leading replica of the watchdog dies, and another one is started when this is over.
    Crash,
    /// The leading replica of the watchdog hears and says nothing.
    Pause,
}

/// Which API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// That of the seed.
    Seed,
    /// Those of the clusters that are meant.
    Shoot,
}

/// Which nodes of a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Nodes {
    /// All.
    All,
    /// A share of them from 0 to 1, rounded up.
    Share(f64),
    /// Those of a zone, from 0.
    Zone(usize),
}

/// Which clusters.
#[derive(Clone, Debug, PartialEq)]
pub enum Clusters {
    /// All.
    All,
    /// A share of them from 0 to 1, rounded up.
    Share(f64),
    /// Those of these numbers, from 0; numbers of none are ignored.
    Numbers(Vec<usize>),
}

impl Scenario {
    /// Reads a scenario's file.
    pub fn parse(bytes: &[u8]) -> Result<Parsed<Self>, Report> {
        reader::read(bytes, Strictness::Strict, TABLES, read::scenario)
    }
}

impl Incident {
    /// A fault of all clusters.
    pub fn new(at: Duration, lasts: Option<Duration>, fault: Fault) -> Self {
        Self {
            at,
            lasts,
            clusters: Clusters::All,
            fault,
        }
    }

    /// The same of only these clusters.
    #[must_use]
    pub fn of(mut self, clusters: Clusters) -> Self {
        self.clusters = clusters;
        self
    }
}

impl Fault {
    /// It is done at once, and there is nothing to end.
    pub fn is_deed(&self) -> bool {
        matches!(self, Self::Rotation | Self::Scale { .. } | Self::WatchDrop)
    }

    /// It is about the seed or the watchdog, whatever clusters are named.
    pub fn is_everywhere(&self) -> bool {
        match self {
            Self::Outage(site)
            | Self::Latency(site, _)
            | Self::Stall(site)
            | Self::StaleReads(site)
            | Self::Refusal { site, .. } => *site == Site::Seed,
            Self::WatchDrop
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
