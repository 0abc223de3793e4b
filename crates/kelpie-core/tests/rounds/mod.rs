//! Rounds over many leases, in which every request is answered at once.

use std::collections::BTreeMap;

use kelpie_core::Time;
use kelpie_core::prober::{
    Decision, Delays, EgressState, Evaluator, FenceState, Lease, ListResult, ListSpan, Node,
    NodeConventions, NodeSet, Observation, ProbeResult, ProbeSettings,
};

pub const SECOND: i64 = 1_000_000;

pub struct Rounds {
    evaluator: Evaluator,
    names: Vec<String>,
}

impl Rounds {
    /// Creates an evaluator that has read the nodes at time zero.
    pub fn with_leases(leases: usize) -> Self {
        let names: Vec<_> = (0..leases)
            .map(|index| format!("shoot--project--cluster-worker-a-z1-5f7b9-{index:05}"))
            .collect();
        let node = |name: &String| Node {
            name: name.clone(),
            ..Node::default()
        };
        let nodes: Vec<_> = names.iter().map(node).collect();
        let mut evaluator = Evaluator::new(ProbeSettings::default(), Time::from_micros(0));
        let nodes = NodeSet::new(&nodes, None, &BTreeMap::new(), &NodeConventions::default());
        evaluator.observe_nodes(nodes, Time::from_micros(0));
        Self { evaluator, names }
    }

    /// Runs a round at `now`, in seconds. `renewed` returns the renewal of each lease, in
    /// microseconds.
    pub fn round(&mut self, now: i64, renewed: impl Fn(usize) -> i64) -> Decision {
        let start = Time::from_micros(now * SECOND);
        let leases = self.names.iter().enumerate().map(|(index, name)| Lease {
            name,
            renew_time: Some(Time::from_micros(renewed(index))),
            duration_seconds: Some(40),
        });
        let listed = self
            .evaluator
            .observe_leases(ListSpan { start, end: start }, None, leases);
        self.evaluator.decide(&Observation {
            start,
            end: start,
            api_server: ProbeResult::Success,
            external: None,
            egress: EgressState::Works,
            lists: ListResult::Read(listed),
            throttled: None,
            fence: FenceState::None,
            stands_by: false,
            released: None,
            delays: Delays::default(),
            jitter: 0.5,
        })
    }
}
