//! A cluster of a landscape: its API server, its nodes and its controllers.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use kelpie_config::scenario::{Fault, Incident, NodeSelection};
use kelpie_core::Time;

use super::event::SimEventKind;
use super::report::Damage;
use super::{LandscapePlan, objects};
use crate::actor::{
    ApiServerPod, MONITOR_PERIOD, MachineAction, MachineController, MachineObjects,
    NodeLifecycleController, NodeReadiness, PodTransition, ServerLease, SimNode, node_name,
};
use crate::fault::ActiveFaults;
use crate::server::{FaultInjection, RequestInfo, SimServer, UserInfo};
use crate::store::ObjectStore;

/// kube-controller-manager exits when it cannot renew its leader Lease for this long. The process
/// that replaces it starts without its memory.
const LEADER_ELECTION_TIMEOUT: Duration = Duration::from_secs(15);

/// The number of pods on each node, used to count evicted pods.
const PODS_PER_NODE: u64 = 20;

/// One cluster with its nodes and controllers.
#[derive(Debug)]
pub(super) struct SimCluster {
    pub(super) name: Arc<str>,
    pub(super) server: SimServer,
    pub(super) faults: ActiveFaults,
    /// The nodes, sorted by name.
    pub(super) nodes: Vec<SimNode>,
    server_lease: ServerLease,
    lifecycle: NodeLifecycleController,
    machines: MachineController,
    api_server_pod: ApiServerPod,
    partitions: Vec<(usize, NodeSelection)>,
    clocks: Vec<(usize, NodeSelection, i64)>,
    down_since: Option<Time>,
    /// The API server's accumulated downtime, without the outage since `down_since`.
    total_downtime: Duration,
    next_tick: Time,
    /// The URL in the watchdog's kubeconfig.
    pub(super) url: String,
    /// The seconds between the last fence and its deadline. `None` if there was no deadline.
    pub(super) margin: Option<f64>,
    /// True while kube-controller-manager is stopped by the watchdog.
    pub(super) is_fenced: bool,
    token_number: u32,
    plan: Arc<LandscapePlan>,
    pub(super) rng: Rng,
}

/// The seed, the time, and the outputs of one step of a cluster.
pub(super) struct StepContext<'a> {
    pub(super) seed: &'a ObjectStore,
    pub(super) now: Time,
    pub(super) damage: &'a mut Damage,
    pub(super) events: &'a mut Vec<SimEventKind>,
}

impl SimCluster {
    /// Creates a healthy cluster with its objects in the seed.
    pub(super) fn new(
        (name, url): (Arc<str>, String),
        server: SimServer,
        plan: &Arc<LandscapePlan>,
        seed: &ObjectStore,
        mut rng: Rng,
        now: Time,
    ) -> Self {
        objects::create_namespace(seed, &name);
        let machines = MachineObjects::new(plan.platform, Arc::clone(&name));
        machines.create_health_checks(seed);
        let nodes = (0..plan.nodes).map(|number| {
            let identity = (node_name(number).into(), number);
            let node = SimNode::join(server.store(), identity, now, &mut rng);
            machines.create(seed, &node.name, "Running");
            node
        });
        let nodes = nodes.collect();
        let phase = MONITOR_PERIOD.mul_f64(rng.f64());
        Self {
            nodes,
            server_lease: ServerLease::new(server.store(), now),
            lifecycle: NodeLifecycleController::new(plan.grace_period),
            machines: MachineController::new(machines, plan.nodes),
            api_server_pod: ApiServerPod::new(seed, &name, now),
            name,
            server,
            faults: ActiveFaults::new(rng.fork()),
            partitions: Vec::new(),
            clocks: Vec::new(),
            down_since: None,
            total_downtime: Duration::ZERO,
            next_tick: now.after(phase),
            url,
            margin: None,
            is_fenced: false,
            token_number: 0,
            plan: Arc::clone(plan),
            rng,
        }
    }

    /// Writes a kubeconfig with a new token and revokes the previous token.
    pub(super) fn rotate_token(&mut self, seed: &ObjectStore, ca_pem: &str) {
        let users = self.server.users();
        let token = |name: &str, number: u32| format!("{name}-{number}");
        users.remove_token(&token(&self.name, self.token_number));
        self.token_number += 1;
        let token = token(&self.name, self.token_number);
        users.add_token(&token, UserInfo::new("watchdog", &["system:masters"]));
        let kubeconfig = objects::kubeconfig(&[(&self.name, &self.url)], ca_pem, &token);
        objects::write_kubeconfig_secret(seed, self.plan.platform, &self.name, &kubeconfig);
    }

    /// Returns whether the API server is unreachable for all clients.
    pub(super) fn is_down(&self) -> bool {
        self.faults.is_down() || !self.api_server_pod.is_running()
    }

    /// Returns how long the API server has been unreachable, in total.
    pub(super) fn total_downtime(&self, now: Time) -> Duration {
        let this_time = self.down_since.map(|since| now.since(since));
        self.total_downtime + this_time.unwrap_or_default()
    }

    /// Makes the kubelets' renewals and reports that are due until `now`. They are computed lazily,
    /// before their effect can be seen.
    pub(super) fn catch_up(&mut self, now: Time) {
        let is_down = self.is_down();
        self.server_lease
            .catch_up(self.server.store(), is_down, now);
        for node in &mut self.nodes {
            node.catch_up(self.server.store(), now, &mut self.rng);
        }
    }

    /// Returns the faults to inject into a request of the watchdog.
    pub(super) fn injection(&mut self, request: &RequestInfo, now: Time) -> FaultInjection {
        self.catch_up(now);
        if self.is_down() {
            return FaultInjection::reset();
        }
        self.faults.injection(request)
    }

    pub(super) fn begin_fault(
        &mut self,
        number: usize,
        incident: &Incident,
        seed: &ObjectStore,
        now: Time,
    ) {
        self.catch_up(now);
        match &incident.fault {
            Fault::Partition(nodes) => self.partitions.push((number, *nodes)),
            Fault::NodeClock(nodes, by) => self.clocks.push((number, *nodes, *by)),
            Fault::EtcdOutage => self.api_server_pod.set_etcd_ready(seed, false, now),
            Fault::StaleReads { share, .. } => {
                let store = self.server.store().snapshot();
                self.faults.add_stale_store(number, store, *share);
            }
            _ => {}
        }
        self.faults.begin(number, incident);
        self.apply_faults(now);
    }

    pub(super) fn end_fault(
        &mut self,
        number: usize,
        fault: &Fault,
        seed: &ObjectStore,
        now: Time,
    ) {
        self.catch_up(now);
        self.partitions.retain(|(own, _)| *own != number);
        self.clocks.retain(|(own, ..)| *own != number);
        self.faults.end(number);
        if *fault == Fault::EtcdOutage && !self.faults.is_etcd_down() {
            self.api_server_pod.set_etcd_ready(seed, true, now);
        }
        self.apply_faults(now);
    }

    /// Applies the active faults to the API server's watches and to the nodes.
    fn apply_faults(&mut self, now: Time) {
        let is_down = self.is_down();
        match (is_down, self.down_since) {
            (true, None) => {
                self.down_since = Some(now);
                self.server.reset_watches(|_| true);
            }
            (false, Some(since)) => {
                self.down_since = None;
                self.total_downtime += now.since(since);
                if now >= since.after(LEADER_ELECTION_TIMEOUT) {
                    self.lifecycle.restart(&mut self.nodes, now);
                }
            }
            _ => {}
        }
        self.server.stall_watches(self.faults.is_stalled());
        for node in &mut self.nodes {
            let selects = |nodes: NodeSelection| self.plan.selects_node(nodes, node.number);
            let is_cut_off = is_down || self.partitions.iter().any(|(_, nodes)| selects(*nodes));
            let offsets = self.clocks.iter().filter(|(_, nodes, _)| selects(*nodes));
            let offset = offsets.map(|(.., by)| by * 1_000).sum();
            node.set_cut_off(is_cut_off, now, &mut self.rng);
            node.clock_offset = offset;
        }
    }

    /// Starts or stops the controller in this cluster as its pods come and go.
    pub(super) fn on_replicas_changed(&mut self, controller: &str, count: u32, now: Time) {
        let [lifecycle, machines, _] = LandscapePlan::CONTROLLERS;
        if controller == lifecycle {
            self.lifecycle.set_running(count > 0, &mut self.nodes, now);
        } else if controller == machines {
            self.machines.is_running = count > 0;
        }
    }

    /// Handles the deletion of a pod of the cluster's control plane.
    pub(super) fn on_pod_deleted(
        &mut self,
        seed: &ObjectStore,
        pod: &str,
        now: Time,
    ) -> Option<SimEventKind> {
        let transition = self.api_server_pod.on_pod_deleted(seed, pod, now)?;
        self.catch_up(now);
        self.apply_faults(now);
        Some(self.pod_event(transition))
    }

    fn pod_event(&self, transition: PodTransition) -> SimEventKind {
        SimEventKind::ApiServerPod {
            cluster: Arc::clone(&self.name),
            transition,
        }
    }

    /// Returns the next time at which [`SimCluster::step`] has work to do.
    pub(super) fn next_action(&self) -> Time {
        let next = self.api_server_pod.next_action().unwrap_or(Time::MAX);
        self.next_tick.min(next)
    }

    /// Does the work that is due at the context's time.
    pub(super) fn step(&mut self, context: &mut StepContext<'_>) {
        let now = context.now;
        self.catch_up(now);
        if let Some(transition) = self.api_server_pod.step(context.seed, now) {
            self.apply_faults(now);
            context.events.push(self.pod_event(transition));
        }
        if now < self.next_tick {
            return;
        }
        self.next_tick = self.next_tick.after(MONITOR_PERIOD).max(now);
        if !self.is_down() {
            self.monitor_nodes(context);
            self.monitor_machines(context);
        }
    }

    fn monitor_nodes(&mut self, context: &mut StepContext<'_>) {
        let StepContext {
            now,
            damage,
            events,
            ..
        } = context;
        let (store, lifecycle) = (self.server.store(), &mut self.lifecycle);
        let changes = lifecycle.tick(&mut self.nodes, store, *now, &mut self.rng);
        let at = |index: usize| {
            let node = self.nodes.get(index).map(|node| Arc::clone(&node.name));
            (Arc::clone(&self.name), node.unwrap_or_default())
        };
        for (cluster, node) in changes.unknown.into_iter().map(at) {
            damage.nodes_unknown += 1;
            events.push(SimEventKind::NodeUnknown { cluster, node });
        }
        for (cluster, node) in changes.ready.into_iter().map(at) {
            events.push(SimEventKind::NodeReady { cluster, node });
        }
        for (cluster, node) in changes.evicted.into_iter().map(at) {
            damage.pods_evicted += PODS_PER_NODE;
            events.push(SimEventKind::PodsEvicted {
                cluster,
                node,
                count: PODS_PER_NODE,
            });
        }
    }

    fn monitor_machines(&mut self, context: &mut StepContext<'_>) {
        let (partitions, plan) = (&self.partitions, &self.plan);
        let can_join = |number| {
            !partitions
                .iter()
                .any(|(_, nodes)| plan.selects_node(*nodes, number))
        };
        let StepContext {
            seed,
            now,
            damage,
            events,
        } = context;
        let action = self.machines.tick(seed, &self.nodes, *now, can_join);
        let cluster = Arc::clone(&self.name);
        match action {
            None => {}
            Some(MachineAction::Replace(index)) => {
                let node = self.nodes.remove(index);
                node.leave(self.server.store());
                damage.machines_replaced += 1;
                if !node.health_data.is_evicted {
                    damage.pods_evicted += PODS_PER_NODE;
                }
                let node = node.name;
                events.push(SimEventKind::MachineReplaced { cluster, node });
            }
            Some(MachineAction::Join(name, number)) => {
                let identity = (Arc::clone(&name), number);
                let node = SimNode::join(self.server.store(), identity, *now, &mut self.rng);
                let index = self.nodes.partition_point(|other| other.name < node.name);
                self.nodes.insert(index, node);
                let node = name;
                events.push(SimEventKind::NodeJoined { cluster, node });
            }
        }
    }

    /// Returns the pause of what replaces the machines; `None` if it is not paused.
    pub(super) fn machine_pause(&self, seed: &ObjectStore) -> Option<String> {
        self.machines.objects.pause(seed)
    }

    /// Returns whether all nodes exist and are Ready, and the API server is reachable.
    pub(super) fn is_healthy(&self) -> bool {
        self.ready().count() == self.plan.nodes && !self.is_down()
    }

    /// Returns the nodes that are Ready.
    pub(super) fn ready(&self) -> impl Iterator<Item = &SimNode> {
        let nodes = self.nodes.iter();
        nodes.filter(|node| node.readiness == NodeReadiness::Ready)
    }

    /// Returns the number of kubelets that do not reach their API server.
    pub(super) fn cut_off(&self) -> usize {
        self.nodes.iter().filter(|node| node.is_cut_off).count()
    }

    /// Returns the number of nodes that only the guard keeps from turning Unknown.
    pub(super) fn held(&self) -> usize {
        self.lifecycle.denied
    }

    /// Returns when the first Ready node may turn Unknown if no kubelet renews any more. A
    /// kube-controller-manager that has just started gives each node the full grace period.
    pub(super) fn deadline(&self) -> Option<Time> {
        let seen = self
            .ready()
            .map(|node| node.renewed.max(self.lifecycle.started));
        seen.map(|seen| seen.after(self.lifecycle.grace_period))
            .min()
    }
}
