//! Rounds over many leases in which everything answers at once.

use std::collections::BTreeMap;

use kelpie_core::{
    Decision, Fence, Judge, Lease, Listing, Lists, Node, Observation, Outcome, Roster, Settings,
    Time,
};

pub const SECOND: i64 = 1_000_000;

pub struct Rounds {
    judge: Judge,
    names: Vec<String>,
}

impl Rounds {
    /// A judge that has read the nodes at the beginning of time.
    pub fn over(leases: usize) -> Self {
        let names: Vec<_> = (0..leases)
            .map(|index| format!("shoot--project--cluster-worker-a-z1-5f7b9-{index:05}"))
            .collect();
        let node = |name: &String| Node {
            name: name.clone(),
            ..Node::default()
        };
        let nodes: Vec<_> = names.iter().map(node).collect();
        let mut judge = Judge::new(Settings::default(), Time::from_micros(0));
        let roster = Roster::new(&nodes, None, &BTreeMap::new());
        judge.learn(roster, Time::from_micros(0));
        Self { judge, names }
    }

    /// One round at `now` seconds; `renewed` says when each lease was, in microseconds.
    pub fn round(&mut self, now: i64, renewed: impl Fn(usize) -> i64) -> Decision {
        let start = Time::from_micros(now * SECOND);
        let leases = self.names.iter().enumerate().map(|(index, name)| Lease {
            name,
            renew_time: Some(Time::from_micros(renewed(index))),
            duration_seconds: Some(40),
        });
        let listed = self.judge.read(Listing { start, end: start }, leases);
        self.judge.decide(&Observation {
            start,
            end: start,
            api_server: Outcome::Success,
            external: None,
            lists: Lists::Read(listed),
            throttled: None,
            fence: Fence::None,
            stands_by: false,
            released: None,
            jitter: 0.5,
        })
    }
}
