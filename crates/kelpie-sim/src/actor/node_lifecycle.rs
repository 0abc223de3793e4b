//! The node lifecycle controller of kube-controller-manager.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use kelpie_core::Time;

use super::node::{NAMESPACE, NodeHealthData, NodeReadiness, SimNode};
use crate::admission;
use crate::store::ObjectStore;

/// The interval of the controller, as its flag `--node-monitor-period` by default.
pub(crate) const MONITOR_PERIOD: Duration = Duration::from_secs(5);

/// The time after which pods are evicted from an unreachable node.
const EVICTION_TIMEOUT: Duration = Duration::from_mins(5);

/// The time between two evictions in a healthy zone.
const EVICTION_INTERVAL: Duration = Duration::from_secs(10);

/// The node lifecycle controller of a cluster.
#[derive(Debug)]
pub(crate) struct NodeLifecycleController {
    is_running: bool,
    /// G: the time without a sign of life after which a node turns Unknown, as
    /// `--node-monitor-grace-period`.
    pub(crate) grace_period: Duration,
    /// The number of nodes that the last check would have turned Unknown, had the guard's policy
    /// not denied it.
    pub(crate) denied: usize,
    /// The start of the current process.
    pub(crate) started: Time,
    /// The time of the next allowed eviction, by zone.
    next_eviction: BTreeMap<usize, Time>,
}

/// The nodes that a tick has changed, as indexes into the list of nodes.
#[derive(Debug, Default)]
pub(crate) struct NodeChanges {
    pub(crate) unknown: Vec<usize>,
    pub(crate) ready: Vec<usize>,
    pub(crate) evicted: Vec<usize>,
}

impl NodeLifecycleController {
    pub(crate) fn new(grace_period: Duration) -> Self {
        Self {
            is_running: true,
            grace_period,
            denied: 0,
            started: Time::MIN,
            next_eviction: BTreeMap::new(),
        }
    }

    /// Starts or stops the controller. A new process starts without memory.
    pub(crate) fn set_running(&mut self, is_running: bool, nodes: &mut [SimNode], now: Time) {
        if is_running && !self.is_running {
            self.restart(nodes, now);
        }
        self.is_running = is_running;
    }

    /// Replaces the process by a new one, which has no memory of the nodes.
    pub(crate) fn restart(&mut self, nodes: &mut [SimNode], now: Time) {
        self.started = now;
        for node in nodes {
            node.health_data = NodeHealthData {
                is_evicted: node.health_data.is_evicted,
                ..NodeHealthData::default()
            };
        }
        self.next_eviction.clear();
    }

    /// Checks the leases and status reports of all nodes.
    pub(crate) fn tick(
        &mut self,
        nodes: &mut [SimNode],
        store: &ObjectStore,
        now: Time,
        rng: &mut Rng,
    ) -> NodeChanges {
        let mut changes = NodeChanges::default();
        self.denied = 0;
        if !self.is_running {
            return changes;
        }
        store.for_each_renewal(NAMESPACE, |name, renew_time| {
            let found = nodes.binary_search_by(|node| (*node.name).cmp(name));
            let Some(node) = found.ok().and_then(|index| nodes.get_mut(index)) else {
                return;
            };
            node.health_data.probe_timestamp.get_or_insert(now);
            if node.health_data.renew_time != renew_time {
                node.health_data.renew_time = renew_time;
                node.health_data.probe_timestamp = Some(now);
            }
        });
        let may_turn_unknown = admission::node_permits(store, now);
        for (index, node) in nodes.iter_mut().enumerate() {
            if node.health_data.reported != Some(node.reported) {
                node.health_data.reported = Some(node.reported);
                node.health_data.probe_timestamp = Some(now);
            }
            let probe_timestamp = *node.health_data.probe_timestamp.get_or_insert(now);
            match node.readiness {
                NodeReadiness::Ready
                    if now > probe_timestamp.after(self.grace_period)
                        && !may_turn_unknown(&node.name) =>
                {
                    self.denied += 1;
                }
                NodeReadiness::Ready if now > probe_timestamp.after(self.grace_period) => {
                    node.turn_unknown(store, now, rng);
                    node.health_data.tainted_since = Some(now);
                    changes.unknown.push(index);
                }
                NodeReadiness::Ready => {
                    if node.health_data.tainted_since.take().is_some()
                        || node.health_data.is_evicted
                    {
                        node.taint(store, false);
                        node.health_data.is_evicted = false;
                        changes.ready.push(index);
                    }
                }
                NodeReadiness::Unknown(_) => {
                    node.health_data.tainted_since.get_or_insert(now);
                }
            }
        }
        self.evict(nodes, now, &mut changes);
        changes
    }

    /// Evicts the pods of nodes that have been unreachable for too long, zone by zone. A zone in
    /// partial disruption is left alone, and no pod is evicted if all zones are fully disrupted.
    fn evict(&mut self, nodes: &mut [SimNode], now: Time, changes: &mut NodeChanges) {
        let mut zones: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
        for node in &*nodes {
            let (lost, all) = zones.entry(node.zone).or_default();
            *lost += usize::from(node.readiness != NodeReadiness::Ready);
            *all += 1;
        }
        if zones.values().all(|(lost, all)| lost == all) {
            return;
        }
        for (index, node) in nodes.iter_mut().enumerate() {
            let (lost, all) = zones.get(&node.zone).copied().unwrap_or_default();
            // 55 % of at least three nodes, the default of `--unhealthy-zone-threshold`.
            let is_partially_disrupted = lost > 2 && lost < all && lost * 100 >= all * 55;
            let tainted_since = node.health_data.tainted_since;
            let is_due = tainted_since.is_some_and(|since| now >= since.after(EVICTION_TIMEOUT));
            let next_eviction = self.next_eviction.get(&node.zone);
            let may_evict = next_eviction.is_none_or(|next| now >= *next);
            if is_due && may_evict && !is_partially_disrupted && !node.health_data.is_evicted {
                node.health_data.is_evicted = true;
                self.next_eviction
                    .insert(node.zone, now.after(EVICTION_INTERVAL));
                changes.evicted.push(index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SimClock;

    fn at(seconds: u64) -> Time {
        Time::from_unix(1_700_000_000, 0).after(Duration::from_secs(seconds))
    }

    struct Fixture {
        store: ObjectStore,
        nodes: Vec<SimNode>,
        lifecycle: NodeLifecycleController,
        rng: Rng,
    }

    impl Fixture {
        fn new(count: usize) -> Self {
            let store = ObjectStore::new(SimClock::new(|| at(0)), 1);
            let mut rng = Rng::with_seed(1);
            let join = |number: usize| {
                let identity = (format!("node-{number}").into(), number);
                SimNode::join(&store, identity, at(0), &mut rng)
            };
            Self {
                nodes: (0..count).map(join).collect(),
                store,
                lifecycle: NodeLifecycleController::new(Duration::from_secs(40)),
                rng,
            }
        }

        fn tick(&mut self, now: Time) -> NodeChanges {
            for node in &mut self.nodes {
                node.catch_up(&self.store, now, &mut self.rng);
            }
            self.lifecycle
                .tick(&mut self.nodes, &self.store, now, &mut self.rng)
        }

        fn cut_off(&mut self, is_cut_off: bool, now: Time) {
            for node in &mut self.nodes {
                node.set_cut_off(is_cut_off, now, &mut self.rng);
            }
        }
    }

    #[test]
    fn renewing_nodes_stay_ready() {
        let mut fixture = Fixture::new(3);
        for second in (0..600).step_by(5) {
            assert!(fixture.tick(at(second)).unknown.is_empty());
        }
    }

    #[test]
    fn silent_node_turns_unknown_after_grace_period() {
        let mut fixture = Fixture::new(1);
        fixture.tick(at(0));
        fixture.tick(at(60));
        fixture.cut_off(true, at(61));
        // Last seen at 60: not yet at 100, but at 105.
        for second in (65..=100).step_by(5) {
            assert!(fixture.tick(at(second)).unknown.is_empty(), "{second}");
        }
        assert_eq!(fixture.tick(at(105)).unknown, [0]);
        let node = fixture.store.get(&crate::resource::NODES, "", "node-0");
        assert_eq!(
            node.unwrap()["status"]["conditions"][0]["status"],
            "Unknown"
        );
        fixture.cut_off(false, at(106));
        assert_eq!(fixture.tick(at(120)).ready, [0]);
    }

    #[test]
    fn new_process_waits_full_grace_period() {
        let mut fixture = Fixture::new(1);
        fixture.tick(at(0));
        fixture.cut_off(true, at(1));
        fixture
            .lifecycle
            .set_running(false, &mut fixture.nodes, at(1));
        assert!(fixture.tick(at(300)).unknown.is_empty());
        fixture
            .lifecycle
            .set_running(true, &mut fixture.nodes, at(300));
        assert!(fixture.tick(at(305)).unknown.is_empty());
        assert!(fixture.tick(at(345)).unknown.is_empty());
        assert_eq!(fixture.tick(at(350)).unknown, [0]);
    }

    #[test]
    fn evicts_lost_zone_unless_all_are_lost() {
        let mut fixture = Fixture::new(6);
        fixture.tick(at(0));
        fixture.cut_off(true, at(1));
        let evicted = |fixture: &mut Fixture, from: u64| -> usize {
            let ticks = (from..from + 600).step_by(5);
            ticks
                .map(|second| fixture.tick(at(second)).evicted.len())
                .sum()
        };
        assert_eq!(evicted(&mut fixture, 5), 0);
        // Two zones recover, one stays disrupted.
        for node in &mut fixture.nodes {
            node.set_cut_off(node.zone == 0, at(605), &mut fixture.rng);
        }
        assert_eq!(evicted(&mut fixture, 605), 2);
    }
}
