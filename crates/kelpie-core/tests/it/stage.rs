//! A judge on a stage: rounds in, decisions out, with everything a test does not care about filled in.

use std::collections::BTreeMap;
use std::time::Duration;

use kelpie_core::{
    Decision, Fence, Judge, Lease, LeaseView, Listed, Listing, Lists, Node, Observation, Outcome,
    Roster, Settings, Time,
};

pub const SECOND: i64 = 1_000_000;

/// An instant, in seconds.
pub fn at(seconds: f64) -> Time {
    Time::from_micros((seconds * SECOND as f64).round() as i64)
}

/// Settings without an initial delay and without jitter.
pub fn settings() -> Settings {
    Settings {
        initial_delay: Duration::ZERO,
        jitter: 0.0,
        ..Settings::default()
    }
}

pub fn name(index: usize) -> String {
    format!("node-{index:03}")
}

/// Nodes that all count.
pub fn nodes(names: impl IntoIterator<Item = String>) -> Vec<Node> {
    names
        .into_iter()
        .map(|name| Node {
            name,
            ..Node::default()
        })
        .collect()
}

pub fn roster(nodes: &[Node]) -> Roster {
    Roster::new(nodes, None, &BTreeMap::new())
}

/// A round in which everything answered at once.
pub fn seen(start: Time, lists: Lists) -> Observation {
    Observation {
        start,
        end: start,
        api_server: Outcome::Success,
        external: None,
        lists,
        throttled: None,
        fence: Fence::None,
        jitter: 0.0,
    }
}

pub struct Stage {
    pub judge: Judge,
    pub fence: Fence,
}

impl Stage {
    pub fn new(settings: Settings, now: Time) -> Self {
        Self {
            judge: Judge::new(settings, now),
            fence: Fence::None,
        }
    }

    /// Lists these leases in no time; all have a node that counts.
    pub fn list(&mut self, now: Time, leases: &[(String, Time)]) -> Listed {
        let listed = self.judge.read(
            Listing {
                start: now,
                end: now,
            },
            lease_list(leases),
        );
        if self.judge.nodes_due(&listed, self.fence) {
            let nodes = nodes(leases.iter().map(|(name, _)| name.clone()));
            self.judge.learn(roster(&nodes), now);
        }
        listed
    }

    /// A whole round over these leases.
    pub fn round(&mut self, now: Time, leases: &[(String, Time)]) -> Decision {
        let listed = self.list(now, leases);
        let fence = self.fence;
        self.judge.decide(&Observation {
            fence,
            ..seen(now, Lists::Read(listed))
        })
    }

    pub fn view(&self, grace: Duration, name: &str) -> LeaseView<'_> {
        self.judge
            .book()
            .leases(grace)
            .find(|lease| lease.name == name)
            .unwrap()
    }
}

pub fn lease_list(leases: &[(String, Time)]) -> impl Iterator<Item = Lease<'_>> {
    leases.iter().map(|(name, renewed)| Lease {
        name,
        renew_time: Some(*renewed),
        duration_seconds: Some(40),
    })
}
