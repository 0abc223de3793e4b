//! Displays incidents and faults as text.

use std::fmt;
use std::time::Duration;

use super::{ClusterSelection, Fault, FaultSite, Incident, NodeSelection, RequestSelection};
use crate::GoDuration;

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}", GoDuration(self.at))?;
        if !self.fault.is_global() {
            match &self.clusters {
                ClusterSelection::All => f.write_str(" in all clusters")?,
                ClusterSelection::Share(share) => write!(f, " in {share} of the clusters")?,
                ClusterSelection::Numbers(numbers) => write!(f, " in clusters {numbers:?}")?,
            }
        }
        write!(f, ": {}", self.fault)?;
        f.write_str(match self.requests {
            RequestSelection::All => "",
            RequestSelection::Leases => " (requests for leases)",
            RequestSelection::Nodes => " (requests for nodes)",
            RequestSelection::Version => " (requests for /version)",
        })?;
        match self.lasts {
            Some(lasts) if !self.fault.is_instant() => write!(f, " for {}", GoDuration(lasts)),
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
            Self::WatchDrop => f.write_str("watches are dropped"),
            Self::BodyCut { site, resets } => {
                let then = if *resets { "reset" } else { "left open" };
                write!(f, "lists of the {site} stop midway, connection {then}")
            }
            Self::StaleReads { site, share } if *share < 1.0 => {
                write!(f, "stale reads from the {site} for {share} of all requests")
            }
            Self::StaleReads { site, .. } => write!(f, "stale reads from the {site}"),
            Self::NodeClock(nodes, by) => write!(f, "clocks of {nodes} {}", ClockOffset(*by)),
            Self::WatchdogClock(by) => write!(f, "the watchdog's clock {}", ClockOffset(*by)),
            Self::Rotation => f.write_str("the kubeconfig is rotated"),
            Self::SlowPods(by) => write!(f, "pods take {} to start and stop", GoDuration(*by)),
            Self::Scale {
                controller,
                replicas,
            } => write!(f, "another client scales {controller} to {replicas}"),
            Self::WebhookOutage => f.write_str("the seed's admission webhook has no backend"),
            Self::WebhookTimeout => f.write_str("the seed's admission webhook hangs"),
            Self::ControllerManagerOutage => f.write_str("the seed's controller-manager is down"),
            Self::Dns => f.write_str("host names cannot be resolved"),
            Self::CpuStarvation => f.write_str("the watchdog gets no CPU"),
            Self::EtcdOutage => f.write_str("etcd is down"),
            Self::Crash => f.write_str("the leading watchdog crashes"),
            Self::Pause => f.write_str("the leading watchdog is paused"),
        }
    }
}

/// Displays the milliseconds by which a clock is ahead, or behind if negative.
struct ClockOffset(i64);

impl fmt::Display for ClockOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.0 < 0 { "behind" } else { "ahead" };
        let by = Duration::from_millis(self.0.unsigned_abs());
        write!(f, "{direction} by {}", GoDuration(by))
    }
}

impl fmt::Display for FaultSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seed => "seed",
            Self::Shoot => "cluster",
        })
    }
}

impl fmt::Display for NodeSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all nodes"),
            Self::Share(share) => write!(f, "{share} of the nodes"),
            Self::Zone(zone) => write!(f, "zone {zone}"),
        }
    }
}
