//! Incidents in words.

use std::fmt;
use std::time::Duration;

use super::{Clusters, Fault, Incident, Nodes, Site};
use crate::GoDuration;

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}", GoDuration(self.at))?;
        if !self.fault.is_everywhere() {
            match &self.clusters {
                Clusters::All => f.write_str(" in all clusters")?,
                Clusters::Share(share) => write!(f, " in {share} of the clusters")?,
                Clusters::Numbers(numbers) => write!(f, " in clusters {numbers:?}")?,
            }
        }
        write!(f, ": {}", self.fault)?;
        match self.lasts {
            Some(lasts) if !self.fault.is_deed() => write!(f, " for {}", GoDuration(lasts)),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Partition(nodes) => write!(f, "partition of {nodes}"),
            Self::Outage(site) => write!(f, "outage of the {site}'s API server"),
            Self::Latency(site, by) => write!(f, "latency of {} to the {site}", GoDuration(*by)),
            Self::Stall(site) => write!(f, "connections to the {site} hang"),
            Self::Refusal {
                site,
                status,
                share,
            } => write!(f, "{status} from the {site} for {share} of all requests"),
            Self::WatchDrop => f.write_str("watches break off"),
            Self::StaleReads(site) => write!(f, "stale reads from the {site}"),
            Self::NodeClock(nodes, by) => write!(f, "clocks of {nodes} {}", Ahead(*by)),
            Self::WatchdogClock(by) => write!(f, "the watchdog's clock {}", Ahead(*by)),
            Self::Rotation => f.write_str("the kubeconfig is rotated"),
            Self::SlowPods(by) => write!(f, "pods take {}", GoDuration(*by)),
            Self::Scale {
                controller,
                replicas,
            } => write!(f, "somebody scales {controller} to {replicas}"),
            Self::EtcdOutage => f.write_str("etcd is gone"),
            Self::Crash => f.write_str("the leading watchdog crashes"),
            Self::Pause => f.write_str("the leading watchdog is paused"),
        }
    }
}

/// By how many milliseconds a clock is ahead, or behind if that is below zero.
struct Ahead(i64);

impl fmt::Display for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.0 < 0 { "behind" } else { "ahead" };
        let by = Duration::from_millis(self.0.unsigned_abs());
        write!(f, "{direction} by {}", GoDuration(by))
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seed => "seed",
            Self::Shoot => "cluster",
        })
    }
}

impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all nodes"),
            Self::Share(share) => write!(f, "{share} of the nodes"),
            Self::Zone(zone) => write!(f, "zone {zone}"),
        }
    }
}
