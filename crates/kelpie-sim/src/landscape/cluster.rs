//! A cluster of a landscape: its API server, its nodes and its controllers.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use kelpie_config::scenario::{Fault, Nodes};
use kelpie_core::Time;

use super::happening::What;
use super::report::Damage;
use super::{Plan, objects};
use crate::actor::{
    Deed, Dependants, Health, Lifecycle, MachineController, Node, Pace, TICK, create_machine,
    node_name,
};
use crate::fault::{Weather, is_meant};
use crate::server::{Fate, Server, User};
use crate::store::Store;

/// kube-controller-manager gives up when it has not reached the API server for so long; another process
/// begins without what this one remembered.
const ELECTION: Duration = Duration::from_secs(15);

/// One cluster with everybody who acts in it.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) name: Arc<str>,
    pub(super) server: Server,
    pub(super) weather: Weather,
    /// In the order of their names.
    pub(super) nodes: Vec<Node>,
    lifecycle: Lifecycle,
    machines: MachineController,
    dependants: Dependants,
    partitions: Vec<(usize, Nodes)>,
    clocks: Vec<(usize, Nodes, i64)>,
    down_since: Option<Time>,
    /// For how long its API server was there for nobody, until `down_since`.
    down: Duration,
    next_tick: Time,
    /// How the watchdog reaches it.
    pub(super) url: String,
    /// How long before its deadline it was fenced the last time, in seconds, if there was one.
    pub(super) margin: Option<f64>,
    /// The watchdog has stopped kube-controller-manager.
    pub(super) is_fenced: bool,
    rotations: u32,
    pace: Pace,
    pods_per_node: u64,
    size: usize,
    pub(super) rng: Rng,
}

/// What a cluster's actors work with.
pub(super) struct Scene<'a> {
    pub(super) seed: &'a Store,
    pub(super) now: Time,
    pub(super) damage: &'a mut Damage,
    pub(super) happened: &'a mut Vec<What>,
}

impl Cluster {
    /// Everything is made and well.
    pub(super) fn new(
        (name, url): (Arc<str>, String),
        server: Server,
        plan: &Plan,
        seed: &Store,
        mut rng: Rng,
        now: Time,
    ) -> Self {
        objects::namespace(seed, &name);
        let pace = Pace {
            renewal: plan.renewal,
            lease_seconds: plan.renewal.as_secs().max(1) * 4,
        };
        let nodes = (0..plan.nodes).map(|number| {
            let place = (node_name(number).into(), number, number % plan.zones.max(1));
            let node = Node::join(server.store(), place, pace, now, &mut rng);
            create_machine(seed, &name, &node.name, "Running");
            node
        });
        let nodes = nodes.collect();
        let phase = TICK.mul_f64(rng.f64());
        Self {
            nodes,
            lifecycle: Lifecycle::new(plan.grace, plan.eviction),
            machines: MachineController::new(plan.machine_health, plan.machine_boot, plan.nodes),
            dependants: Dependants::new(seed, &name, plan.pod_start, now),
            name,
            server,
            weather: Weather::new(plan.latency, rng.fork()),
            partitions: Vec::new(),
            clocks: Vec::new(),
            down_since: None,
            down: Duration::ZERO,
            next_tick: now.after(phase),
            url,
            margin: None,
            is_fenced: false,
            rotations: 0,
            pace,
            pods_per_node: plan.pods_per_node,
            size: plan.nodes,
            rng,
        }
    }

    /// The kubeconfig gets a token that was worth nothing before; the one before is worth nothing now.
    pub(super) fn rotate(&mut self, seed: &Store, authority: &str) {
        let users = self.server.users();
        let token = |name: &str, number: u32| format!("{name}-{number}");
        users.remove_token(&token(&self.name, self.rotations));
        self.rotations += 1;
        let token = token(&self.name, self.rotations);
        users.add_token(&token, User::new("watchdog", &["system:masters"]));
        let kubeconfig = objects::kubeconfig(&[(&self.name, &self.url)], authority, &token);
        objects::secret(seed, &self.name, &kubeconfig);
    }

    /// Nobody reaches its API server.
    pub(super) fn is_down(&self) -> bool {
        self.weather.is_down() || !self.dependants.is_up()
    }

    /// For how long that was so.
    pub(super) fn down(&self, now: Time) -> Duration {
        let this_time = self.down_since.map(|since| now.since(since));
        self.down + this_time.unwrap_or_default()
    }

    /// Lets the kubelets work until now: they are as far as anybody can see.
    pub(super) fn settle(&mut self, now: Time) {
        let (store, pace) = (self.server.store(), self.pace);
        for node in &mut self.nodes {
            node.settle(store, pace, now, &mut self.rng);
        }
    }

    /// What becomes of a request of the watchdog.
    pub(super) fn fate(&mut self, now: Time) -> Fate {
        self.settle(now);
        if self.is_down() {
            return Fate::reset();
        }
        self.weather.fate()
    }

    pub(super) fn begin(&mut self, number: usize, fault: &Fault, seed: &Store, now: Time) {
        self.settle(now);
        match fault {
            Fault::Partition(nodes) => self.partitions.push((number, *nodes)),
            Fault::NodeClock(nodes, by) => self.clocks.push((number, *nodes, *by)),
            Fault::EtcdOutage => self.dependants.serve(seed, false, now),
            Fault::StaleReads(_) => self.weather.remember(number, self.server.store().copy()),
            _ => {}
        }
        self.weather.begin(number, fault);
        self.adjust(now);
    }

    pub(super) fn end(&mut self, number: usize, fault: &Fault, seed: &Store, now: Time) {
        self.settle(now);
        self.partitions.retain(|(own, _)| *own != number);
        self.clocks.retain(|(own, ..)| *own != number);
        self.weather.end(number);
        if *fault == Fault::EtcdOutage && !self.weather.lacks_etcd() {
            self.dependants.serve(seed, true, now);
        }
        self.adjust(now);
    }

    /// Makes everybody feel what the faults of the moment are.
    fn adjust(&mut self, now: Time) {
        let is_down = self.is_down();
        match (is_down, self.down_since) {
            (true, None) => {
                self.down_since = Some(now);
                self.server.cut_watches(|_| true);
            }
            (false, Some(since)) => {
                self.down_since = None;
                self.down += now.since(since);
                if now >= since.after(ELECTION) {
                    self.lifecycle.forget(&mut self.nodes, now);
                }
            }
            _ => {}
        }
        self.server.hold_watches(self.weather.hangs());
        for node in &mut self.nodes {
            let place = (node.number, node.zone);
            let is_cut = is_down || is_in(&self.partitions, place, self.size);
            node.set_cut(is_cut, now, &mut self.rng);
            let meant = |(_, nodes, _): &&(usize, Nodes, i64)| is_meant(*nodes, place, self.size);
            let wrong = self.clocks.iter().filter(meant).map(|(.., by)| by * 1_000);
            node.set_offset(wrong.sum());
        }
    }

    /// Pods of a controller have come or gone.
    pub(super) fn pods(&mut self, controller: &str, count: u32, now: Time) {
        let [lifecycle, machines, _] = Plan::CONTROLLERS;
        if controller == lifecycle {
            self.lifecycle.run(count > 0, &mut self.nodes, now);
        } else if controller == machines {
            self.machines.run(count > 0);
        }
    }

    /// A pod of its control plane is gone.
    pub(super) fn miss(&mut self, seed: &Store, pod: &str, now: Time) -> Option<What> {
        let turn = self.dependants.miss(seed, pod, now)?;
        self.settle(now);
        self.adjust(now);
        let cluster = Arc::clone(&self.name);
        Some(What::Dependant { cluster, turn })
    }

    /// When it next has to act.
    pub(super) fn next(&self) -> Time {
        let next = self.dependants.next().unwrap_or(Time::MAX);
        self.next_tick.min(next)
    }

    /// Does what is due.
    pub(super) fn step(&mut self, scene: &mut Scene<'_>) {
        let now = scene.now;
        self.settle(now);
        if let Some(turn) = self.dependants.step(scene.seed, now) {
            self.adjust(now);
            let cluster = Arc::clone(&self.name);
            scene.happened.push(What::Dependant { cluster, turn });
        }
        if now < self.next_tick {
            return;
        }
        self.next_tick = self.next_tick.after(TICK).max(now);
        if !self.is_down() {
            self.look_after_nodes(scene);
            self.look_after_machines(scene);
        }
    }

    fn look_after_nodes(&mut self, scene: &mut Scene<'_>) {
        let store = self.server.store();
        let deeds = self
            .lifecycle
            .tick(&mut self.nodes, store, scene.now, &mut self.rng);
        let at = |index: usize| {
            let node = self.nodes.get(index).map(|node| Arc::clone(&node.name));
            (Arc::clone(&self.name), node.unwrap_or_default())
        };
        for (cluster, node) in deeds.unknown.into_iter().map(at) {
            scene.damage.nodes_unknown += 1;
            scene.happened.push(What::NodeUnknown { cluster, node });
        }
        for (cluster, node) in deeds.ready.into_iter().map(at) {
            scene.happened.push(What::NodeReady { cluster, node });
        }
        for (cluster, node) in deeds.evicted.into_iter().map(at) {
            let count = self.pods_per_node;
            scene.damage.pods_evicted += count;
            scene.happened.push(What::PodsEvicted {
                cluster,
                node,
                count,
            });
        }
    }

    fn look_after_machines(&mut self, scene: &mut Scene<'_>) {
        let (partitions, size) = (&self.partitions, self.size);
        let reaches = |number, zone| !is_in(partitions, (number, zone), size);
        let place = (scene.seed, &*self.name);
        let deed = self.machines.tick(place, &self.nodes, scene.now, reaches);
        let cluster = Arc::clone(&self.name);
        match deed {
            None => {}
            Some(Deed::Replace(index)) => {
                let node = self.nodes.remove(index);
                node.leave(self.server.store());
                scene.damage.machines_replaced += 1;
                if !node.memory.is_evicted {
                    scene.damage.pods_evicted += self.pods_per_node;
                }
                let node = node.name;
                scene.happened.push(What::MachineReplaced { cluster, node });
            }
            Some(Deed::Join(name, number, zone)) => {
                let place = (Arc::clone(&name), number, zone);
                let store = self.server.store();
                let node = Node::join(store, place, self.pace, scene.now, &mut self.rng);
                let index = self.nodes.partition_point(|other| other.name < node.name);
                self.nodes.insert(index, node);
                let node = name;
                scene.happened.push(What::NodeJoined { cluster, node });
            }
        }
    }

    /// All of its nodes are there and well.
    pub(super) fn is_whole(&self) -> bool {
        let ready = |node: &Node| node.health == Health::Ready;
        self.nodes.len() == self.size && self.nodes.iter().all(ready) && !self.is_down()
    }

    /// Its kubelets that do not reach their API server.
    pub(super) fn cut_off(&self) -> usize {
        self.nodes.iter().filter(|node| node.is_cut()).count()
    }

    /// When the first of its nodes that are Ready may turn Unknown if nobody renews any more: a process
    /// that has just been started gives each of them the whole grace period.
    pub(super) fn deadline(&self, grace: Duration) -> Option<Time> {
        let ready = self
            .nodes
            .iter()
            .filter(|node| node.health == Health::Ready);
        let seen = ready.map(|node| node.renewed.max(self.lifecycle.since));
        seen.map(|seen| seen.after(grace)).min()
    }
}

/// Whether a fault is about the node of this number and zone.
fn is_in(faults: &[(usize, Nodes)], place: (usize, usize), size: usize) -> bool {
    let meant = |(_, nodes): &(usize, Nodes)| is_meant(*nodes, place, size);
    faults.iter().any(meant)
}
