//! What goes wrong, and where.

mod weather;

use std::fmt;
use std::time::Duration;

pub(crate) use weather::Weather;

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
    /// The watchdog's lists show what was there when this began.
    StaleReads(Site),
    /// The clocks of nodes are wrong by so many milliseconds.
    NodeClock(Nodes, i64),
    /// The watchdog's clock is wrong by so many milliseconds.
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

impl Clusters {
    /// Their numbers, where there are `count`.
    pub(crate) fn numbers(&self, count: usize) -> Vec<usize> {
        match self {
            Self::All => (0..count).collect(),
            Self::Share(share) => (0..part(*share, count)).collect(),
            Self::Numbers(numbers) => {
                let there = numbers.iter().copied().filter(|number| *number < count);
                there.collect()
            }
        }
    }
}

impl Nodes {
    /// Whether the node of this number and zone is meant, where there are `count`.
    pub(crate) fn has(&self, (number, zone): (usize, usize), count: usize) -> bool {
        match self {
            Self::All => true,
            Self::Share(share) => number < part(*share, count),
            Self::Zone(meant) => zone == *meant,
        }
    }
}

/// A share of `count`, rounded up.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "counts of nodes and clusters"
)]
fn part(share: f64, count: usize) -> usize {
    // What is a whole number but for the last digit is that number.
    ((count as f64 * share.clamp(0.0, 1.0) - 1e-9).ceil()).max(0.0) as usize
}

impl Fault {
    /// It is done at once, and there is nothing to end.
    pub fn is_deed(&self) -> bool {
        matches!(self, Self::Rotation | Self::Scale { .. } | Self::WatchDrop)
    }

    /// It is about the seed or the watchdog, whatever clusters are named.
    pub fn is_everywhere(&self) -> bool {
        matches!(
            self,
            Self::Outage(Site::Seed)
                | Self::Latency(Site::Seed, _)
                | Self::Stall(Site::Seed)
                | Self::StaleReads(Site::Seed)
                | Self::Refusal {
                    site: Site::Seed,
                    ..
                }
                | Self::WatchDrop
                | Self::WatchdogClock(_)
                | Self::SlowPods(_)
                | Self::Crash
                | Self::Pause
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Partition(nodes) => write!(f, "partition of {nodes}"),
            Self::Outage(site) => write!(f, "outage of the {site}'s API server"),
            Self::Latency(site, by) => write!(f, "latency of {by:?} to the {site}"),
            Self::Stall(site) => write!(f, "connections to the {site} hang"),
            Self::Refusal {
                site,
                status,
                share,
            } => write!(f, "{status} from the {site} for {share} of all requests"),
            Self::WatchDrop => f.write_str("watches break off"),
            Self::StaleReads(site) => write!(f, "stale lists from the {site}"),
            Self::NodeClock(nodes, by) => write!(f, "clocks of {nodes} wrong by {by} ms"),
            Self::WatchdogClock(by) => write!(f, "the watchdog's clock wrong by {by} ms"),
            Self::Rotation => f.write_str("the kubeconfig is rotated"),
            Self::SlowPods(by) => write!(f, "pods take {by:?}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_up() {
        for (share, count, expected) in [(0.6, 5, 3), (0.61, 5, 4), (0.0, 5, 0), (1.0, 5, 5)] {
            assert_eq!(part(share, count), expected, "{share} of {count}");
        }
        assert_eq!(Clusters::Share(0.5).numbers(3), [0, 1]);
        assert_eq!(Clusters::Numbers(vec![2, 9]).numbers(3), [2]);
    }

    #[test]
    fn nodes_are_meant_by_number_or_zone() {
        assert!(Nodes::Share(0.5).has((1, 0), 4));
        assert!(!Nodes::Share(0.5).has((2, 0), 4));
        assert!(Nodes::Zone(1).has((5, 1), 9));
    }
}
