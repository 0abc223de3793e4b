//! An evaluator with defaults for everything that a test does not care about.

use std::collections::BTreeMap;
use std::time::Duration;

use kelpie_core::prober::{
    AcceptedList, Decision, Delays, EgressState, Evaluator, FenceState, Lease, LeaseStatus,
    ListResult, ListSpan, Node, NodeConventions, NodeSet, Observation, ProbeResult, ProbeSettings,
};
use kelpie_core::{Fraction, Time};

pub const SECOND: i64 = 1_000_000;

/// Returns an instant in seconds.
pub fn at(seconds: f64) -> Time {
    Time::from_micros((seconds * SECOND as f64).round() as i64)
}

/// Returns settings without an initial delay and without jitter.
pub fn settings() -> ProbeSettings {
    ProbeSettings {
        initial_delay: Duration::ZERO,
        jitter: 0.0,
        ..ProbeSettings::default()
    }
}

pub fn name(index: usize) -> String {
    format!("node-{index:03}")
}

/// Returns nodes that are all candidates.
pub fn nodes(names: impl IntoIterator<Item = String>) -> Vec<Node> {
    names.into_iter().map(plain_node).collect()
}

fn plain_node(name: String) -> Node {
    Node {
        name,
        ..Node::default()
    }
}

pub fn node_set(nodes: &[Node]) -> NodeSet {
    NodeSet::new(nodes, None, &BTreeMap::new(), &NodeConventions::default())
}

/// Returns the observation of a round in which everything answered at once.
pub fn observation(start: Time, lists: ListResult) -> Observation {
    Observation {
        start,
        end: start,
        api_server: ProbeResult::Success,
        external: None,
        egress: EgressState::Works,
        lists,
        throttled: None,
        fence: FenceState::None,
        stands_by: false,
        released: None,
        delays: Delays::default(),
        jitter: 0.0,
    }
}

pub struct EvaluatorFixture {
    pub evaluator: Evaluator,
    pub fence: FenceState,
    /// Creates the node of a lease.
    pub node: fn(String) -> Node,
}

impl EvaluatorFixture {
    pub fn new(settings: ProbeSettings, now: Time) -> Self {
        Self {
            evaluator: Evaluator::new(settings, now),
            fence: FenceState::None,
            node: plain_node,
        }
    }

    /// Lists these leases in no time. Each has a node that is a candidate.
    pub fn list(&mut self, now: Time, leases: &[(String, Time)]) -> AcceptedList {
        let listed = self.evaluator.observe_leases(
            ListSpan {
                start: now,
                end: now,
            },
            None,
            lease_list(leases),
        );
        if self.evaluator.nodes_due(&listed, self.fence) {
            let names = leases.iter().map(|(name, _)| name.clone());
            let nodes: Vec<Node> = names.map(self.node).collect();
            self.evaluator.observe_nodes(node_set(&nodes), now);
        }
        listed
    }

    /// Runs a whole round with these leases.
    pub fn round(&mut self, now: Time, leases: &[(String, Time)]) -> Decision {
        let listed = self.list(now, leases);
        let fence = self.fence;
        self.evaluator.decide(&Observation {
            fence,
            ..observation(now, ListResult::Read(listed))
        })
    }

    pub fn lease_status(&self, grace: Duration, name: &str) -> LeaseStatus<'_> {
        self.evaluator
            .leases()
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

/// Returns the leases of `total` nodes. The first `silent` last renewed at 0, the others just
/// before `now`.
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

/// Runs rounds every 10 s over ten nodes, of which `silent` stop renewing at 0. Returns the
/// decision at 30 s.
pub fn after_silence(settings: ProbeSettings, silent: usize) -> (EvaluatorFixture, Decision) {
    let mut fixture = EvaluatorFixture::new(settings, at(-30.0));
    for now in [-30.0, -20.0, -10.0] {
        fixture.round(at(now), &leases(10, 0, now));
    }
    for now in [0.0, 10.0, 20.0] {
        fixture.round(at(now), &leases(10, silent, now));
    }
    let decision = fixture.round(at(30.0), &leases(10, silent, 30.0));
    (fixture, decision)
}
