//! kube-controller-manager, as far as nodes are concerned.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use kelpie_core::Time;

use super::node::{Health, Memory, NAMESPACE, Node};
use crate::store::Store;

/// How often it looks.
pub(crate) const TICK: Duration = Duration::from_secs(5);

/// Seconds between two evictions in a zone that is well enough to be trusted.
const EVICTION_PAUSE: Duration = Duration::from_secs(10);

/// The node lifecycle controller of a cluster.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    grace: Duration,
    /// Pods of an unreachable node are evicted after so long.
    patience: Duration,
    is_running: bool,
    /// When the process that acts began to.
    pub(crate) since: Time,
    /// When it may evict from a zone again.
    next_eviction: BTreeMap<usize, Time>,
}

/// What a look came to: numbers of nodes in the list of nodes.
#[derive(Debug, Default)]
pub(crate) struct Deeds {
    pub(crate) unknown: Vec<usize>,
    pub(crate) ready: Vec<usize>,
    pub(crate) evicted: Vec<usize>,
}

impl Lifecycle {
    pub(crate) fn new(grace: Duration, patience: Duration) -> Self {
        Self {
            grace,
            patience,
            is_running: true,
            since: Time::MIN,
            next_eviction: BTreeMap::new(),
        }
    }

    /// Pods of it come up, or are gone. A new process remembers nothing.
    pub(crate) fn run(&mut self, is_running: bool, nodes: &mut [Node], now: Time) {
        if is_running && !self.is_running {
            self.forget(nodes, now);
        }
        self.is_running = is_running;
    }

    /// A new process takes over.
    pub(crate) fn forget(&mut self, nodes: &mut [Node], now: Time) {
        self.since = now;
        for node in nodes {
            node.memory = Memory {
                is_evicted: node.memory.is_evicted,
                ..Memory::default()
            };
        }
        self.next_eviction.clear();
    }

    /// Looks at every node.
    pub(crate) fn tick(
        &mut self,
        nodes: &mut [Node],
        store: &Store,
        now: Time,
        rng: &mut Rng,
    ) -> Deeds {
        let mut deeds = Deeds::default();
        if !self.is_running {
            return deeds;
        }
        store.renewals(NAMESPACE, |name, renew_time| {
            let found = nodes.binary_search_by(|node| (*node.name).cmp(name));
            let Some(node) = found.ok().and_then(|index| nodes.get_mut(index)) else {
                return;
            };
            node.memory.stamp.get_or_insert(now);
            if node.memory.renew_time != renew_time {
                node.memory.renew_time = renew_time;
                node.memory.stamp = Some(now);
            }
        });
        for (index, node) in nodes.iter_mut().enumerate() {
            if node.memory.reported != Some(node.reported) {
                node.memory.reported = Some(node.reported);
                node.memory.stamp = Some(now);
            }
            let stamp = *node.memory.stamp.get_or_insert(now);
            match node.health {
                Health::Ready if now > stamp.after(self.grace) => {
                    node.turn_unknown(store, now, rng);
                    node.memory.tainted = Some(now);
                    deeds.unknown.push(index);
                }
                Health::Ready => {
                    if node.memory.tainted.take().is_some() || node.memory.is_evicted {
                        node.taint(store, false);
                        node.memory.is_evicted = false;
                        deeds.ready.push(index);
                    }
                }
                Health::Unknown(_) => {
                    node.memory.tainted.get_or_insert(now);
                }
            }
        }
        self.evict(nodes, now, &mut deeds);
        deeds
    }

    /// Evicts pods of nodes that have been unreachable for long, zone by zone: not where most of a
    /// zone is gone, unless all of it is, and not at all when there is no zone left.
    fn evict(&mut self, nodes: &mut [Node], now: Time, deeds: &mut Deeds) {
        let mut zones: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
        for node in &*nodes {
            let (lost, all) = zones.entry(node.zone).or_default();
            *lost += usize::from(node.health != Health::Ready);
            *all += 1;
        }
        if zones.values().all(|(lost, all)| lost == all) {
            return;
        }
        for (index, node) in nodes.iter_mut().enumerate() {
            let (lost, all) = zones.get(&node.zone).copied().unwrap_or_default();
            // 55 % of at least three, as the flag has it by default.
            let is_torn = lost > 2 && lost < all && lost * 100 >= all * 55;
            let is_due = node
                .memory
                .tainted
                .is_some_and(|tainted| now >= tainted.after(self.patience));
            let is_free = self
                .next_eviction
                .get(&node.zone)
                .is_none_or(|next| now >= *next);
            if is_due && is_free && !is_torn && !node.memory.is_evicted {
                node.memory.is_evicted = true;
                self.next_eviction
                    .insert(node.zone, now.after(EVICTION_PAUSE));
                deeds.evicted.push(index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::Pace;
    use super::*;
    use crate::clock::Clock;

    const GRACE: Duration = Duration::from_secs(40);
    const PACE: Pace = Pace {
        renewal: Duration::from_secs(10),
        lease_seconds: 40,
    };

    fn at(seconds: u64) -> Time {
        Time::from_unix(1_700_000_000, 0).after(Duration::from_secs(seconds))
    }

    struct Stage {
        store: Store,
        nodes: Vec<Node>,
        lifecycle: Lifecycle,
        rng: Rng,
    }

    impl Stage {
        fn new(count: usize) -> Self {
            let store = Store::new(Clock::new(|| at(0)), 1);
            let mut rng = Rng::with_seed(1);
            let join = |number: usize| {
                let place = (format!("node-{number}").into(), number, number % 3);
                Node::join(&store, place, PACE, at(0), &mut rng)
            };
            Self {
                nodes: (0..count).map(join).collect(),
                store,
                lifecycle: Lifecycle::new(GRACE, Duration::from_mins(5)),
                rng,
            }
        }

        fn tick(&mut self, now: Time) -> Deeds {
            for node in &mut self.nodes {
                node.settle(&self.store, PACE, now, &mut self.rng);
            }
            self.lifecycle
                .tick(&mut self.nodes, &self.store, now, &mut self.rng)
        }

        fn cut(&mut self, is_cut: bool, now: Time) {
            for node in &mut self.nodes {
                node.set_cut(is_cut, now, &mut self.rng);
            }
        }
    }

    #[test]
    fn nodes_that_renew_stay_ready() {
        let mut stage = Stage::new(3);
        for second in (0..600).step_by(5) {
            assert!(stage.tick(at(second)).unknown.is_empty());
        }
    }

    #[test]
    fn a_silent_node_turns_unknown_at_the_first_tick_later_than_stamp_and_grace() {
        let mut stage = Stage::new(1);
        stage.tick(at(0));
        stage.tick(at(60));
        stage.cut(true, at(61));
        // Seen at 60: not yet at 100, but at 105.
        for second in (65..=100).step_by(5) {
            assert!(stage.tick(at(second)).unknown.is_empty(), "{second}");
        }
        assert_eq!(stage.tick(at(105)).unknown, [0]);
        let node = stage.store.get(&crate::resource::NODES, "", "node-0");
        assert_eq!(
            node.unwrap()["status"]["conditions"][0]["status"],
            "Unknown"
        );
        stage.cut(false, at(106));
        assert_eq!(stage.tick(at(120)).ready, [0]);
    }

    #[test]
    fn a_new_process_waits_for_the_whole_grace_period() {
        let mut stage = Stage::new(1);
        stage.tick(at(0));
        stage.cut(true, at(1));
        stage.lifecycle.run(false, &mut stage.nodes, at(1));
        assert!(stage.tick(at(300)).unknown.is_empty());
        stage.lifecycle.run(true, &mut stage.nodes, at(300));
        assert!(stage.tick(at(305)).unknown.is_empty());
        assert!(stage.tick(at(345)).unknown.is_empty());
        assert_eq!(stage.tick(at(350)).unknown, [0]);
    }

    #[test]
    fn nobody_is_evicted_when_everybody_is_gone_and_a_lost_zone_is_emptied() {
        let mut stage = Stage::new(6);
        stage.tick(at(0));
        stage.cut(true, at(1));
        let evicted = |stage: &mut Stage, from: u64| -> usize {
            let ticks = (from..from + 600).step_by(5);
            ticks
                .map(|second| stage.tick(at(second)).evicted.len())
                .sum()
        };
        assert_eq!(evicted(&mut stage, 5), 0);
        // Two zones come back, one stays away.
        for node in &mut stage.nodes {
            node.set_cut(node.zone == 0, at(605), &mut stage.rng);
        }
        assert_eq!(evicted(&mut stage, 605), 2);
    }
}
