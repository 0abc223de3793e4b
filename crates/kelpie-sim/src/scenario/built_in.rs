//! The scenarios that come with it.

use std::time::Duration;

use super::{Incident, Scenario};
use crate::fault::{Clusters, Fault, Nodes, Site};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Twice the health timeout of machines, nearly: long enough for the damage to be done.
const LONG: Duration = seconds(900);

impl Scenario {
    /// The names of the scenarios that come with it.
    pub const BUILT_IN: [&str; 7] = [
        "partition",
        "zone",
        "flapping",
        "api-outage",
        "clock-step",
        "rotation",
        "seed-wide",
    ];

    /// A scenario that comes with it.
    pub fn built_in(name: &str) -> Option<Self> {
        let (summary, length, incidents) = match name {
            "partition" => (
                "the nodes of a third of the clusters are cut off for a quarter of an hour",
                seconds(1_500),
                vec![partition(60, LONG, Nodes::All).of(Clusters::Share(0.34))],
            ),
            "zone" => (
                "two of three zones are cut off in half of the clusters",
                seconds(1_500),
                vec![
                    partition(60, LONG, Nodes::Zone(0)).of(Clusters::Share(0.5)),
                    partition(60, LONG, Nodes::Zone(1)).of(Clusters::Share(0.5)),
                ],
            ),
            "flapping" => (
                "the nodes of a quarter of the clusters come and go every minute and a half",
                seconds(1_200),
                (0..6)
                    .map(|n| {
                        let flap = partition(60 + 90 * n, seconds(60), Nodes::All);
                        flap.of(Clusters::Share(0.25))
                    })
                    .collect(),
            ),
            "api-outage" => (
                "the API servers of half of the clusters are gone for five minutes",
                seconds(900),
                vec![
                    incident(60, seconds(300), Fault::Outage(Site::Shoot)).of(Clusters::Share(0.5)),
                ],
            ),
            "clock-step" => (
                "a third of all node clocks step by an hour, the watchdog's by ten minutes; then a partition",
                seconds(1_500),
                vec![
                    incident(30, LONG, Fault::NodeClock(Nodes::Share(0.34), -3_600_000)),
                    incident(40, LONG, Fault::WatchdogClock(600_000)),
                    partition(120, LONG, Nodes::All).of(Clusters::Share(0.25)),
                ],
            ),
            "rotation" => (
                "every kubeconfig is rotated; a minute later a third of the clusters is cut off",
                seconds(1_500),
                vec![
                    Incident::new(seconds(30), None, Fault::Rotation),
                    partition(90, LONG, Nodes::All).of(Clusters::Share(0.34)),
                ],
            ),
            "seed-wide" => (
                "the network of the seed fails: the nodes of every cluster are cut off at once",
                seconds(1_500),
                vec![partition(60, LONG, Nodes::All)],
            ),
            _ => return None,
        };
        Some(Self {
            name: name.to_owned(),
            summary: summary.to_owned(),
            length,
            incidents,
        })
    }
}

fn incident(at: u64, lasts: Duration, fault: Fault) -> Incident {
    Incident::new(seconds(at), Some(lasts), fault)
}

fn partition(at: u64, lasts: Duration, nodes: Nodes) -> Incident {
    incident(at, lasts, Fault::Partition(nodes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_its_scenario_which_ends_after_its_faults() {
        for name in Scenario::BUILT_IN {
            let scenario = Scenario::built_in(name).unwrap();
            assert_eq!(scenario.name, name);
            for incident in &scenario.incidents {
                let end = incident.at + incident.lasts.unwrap_or_default();
                assert!(end < scenario.length, "{name}: {incident}");
            }
        }
        assert_eq!(Scenario::built_in("earthquake"), None);
    }
}
