//! A judge on a stage: rounds in, decisions out, with everything a test does not care about filled in.

use std::collections::BTreeMap;
use std::time::Duration;

use kelpie_core::{
    Decision, Fence, Fraction, Judge, Lease, LeaseView, Listed, Listing, Lists, Node, Observation,
    Outcome, Roster, Settings, Time,
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
        stands_by: false,
        released: None,
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

pub fn fraction(value: f64) -> Fraction {
    Fraction::new(value).unwrap()
}

/// Leases of `total` nodes; the first `silent` last renewed at 0, the others just before `now`.
pub fn leases(total: usize, silent: usize, now: f64) -> Vec<(String, Time)> {
    (0..total)
        .map(|index| {
            (
                name(index),
                if index < silent {
                    at(0.0)
                } else {
                    at(now - 1.0)
                },
            )
        })
        .collect()
}

/// Rounds every 10 s over ten nodes of which `silent` stop renewing at 0; the decision at 30 s.
pub fn after_silence(settings: Settings, silent: usize) -> (Stage, Decision) {
    let mut stage = Stage::new(settings, at(-30.0));
    for now in [-30.0, -20.0, -10.0] {
        stage.round(at(now), &leases(10, 0, now));
    }
    for now in [0.0, 10.0, 20.0] {
        stage.round(at(now), &leases(10, silent, now));
    }
    let decision = stage.round(at(30.0), &leases(10, silent, 30.0));
    (stage, decision)
}
