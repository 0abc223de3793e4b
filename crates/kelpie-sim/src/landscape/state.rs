//! The mutable state of a landscape, and the schedule that drives it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use kelpie_config::scenario::{Fault, Incident};
use kelpie_core::Time;
use kelpie_runtime::watch::Sender;
use serde_json::Value;

use super::authority::CertificateAuthority;
use super::cluster::{SimCluster, StepContext};
use super::event::{SimEvent, SimEventKind};
use super::pause_on_write::PauseOnWrite;
use super::report::{ClusterSnapshot, ControllerReplicas, Damage};
use super::timeline::FaultTimeline;
use super::{LandscapePlan, Platform, ReplicaCommand};
use crate::actor::{DeploymentController, DeploymentKey, ServerLease};
use crate::fault::ActiveFaults;
use crate::field;
use crate::resource::DEPLOYMENTS;
use crate::server::{FaultInjection, ListenerHandle, RequestInfo, SimServer, UserInfo};
use crate::store::WriteScope;

/// The address on which API servers listen.
const LOOPBACK: &str = "127.0.0.1";

/// The actors, in the order in which they run at the same instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WakeTarget {
    Timeline,
    Deployments,
    Cluster(usize),
}

/// A landscape's state. Every change is made at once; nothing here waits.
#[derive(Debug)]
pub(super) struct LandscapeState {
    pub(super) plan: Arc<LandscapePlan>,
    pub(super) seed: SimServer,
    pub(super) clusters: Vec<SimCluster>,
    pub(super) cluster_numbers: BTreeMap<Arc<str>, usize>,
    /// The CA of all API servers.
    pub(super) authority: CertificateAuthority,
    /// The numbers of the clusters by their ports on loopback.
    pub(super) ports: BTreeMap<u16, usize>,
    /// The faults of the seed's API server.
    pub(super) faults: ActiveFaults,
    seed_lease: ServerLease,
    deployments: DeploymentController,
    /// The faults during which the watchdog's processes get no CPU, and whether there are any.
    starvations: BTreeSet<usize>,
    pub(super) is_starved: Sender<bool>,
    /// The scalings that the scenario has made. Any other scaling is the watchdog's.
    scripted_scales: BTreeSet<(DeploymentKey, u32)>,
    timeline: FaultTimeline,
    wakeups: BinaryHeap<Reverse<(Time, WakeTarget)>>,
    rng: Rng,
    /// Randomizes the order of connections that are ready at the same instant, if set.
    pub(super) connection_rng: Option<Rng>,
    /// The error of the watchdog's clock, in milliseconds.
    pub(super) clock_offset: i64,
    damage: Damage,
    /// The time at which the first fault began.
    first_fault: Option<Time>,
    /// The last time at which something was not normal.
    last_disturbance: Time,
    /// The largest delay of any actor since the last report.
    pub(super) lag: Duration,
    /// The events that the observer has not seen yet.
    pub(super) pending_events: Vec<SimEvent>,
    /// Processes that are to pause at their next write, by name.
    pub(super) write_pauses: BTreeMap<Arc<str>, PauseOnWrite>,
    /// The commands that the watchdog's owner has not taken yet.
    pub(super) commands: Vec<ReplicaCommand>,
}

impl LandscapeState {
    pub(super) fn new(
        plan: Arc<LandscapePlan>,
        seed: SimServer,
        authority: CertificateAuthority,
    ) -> Self {
        super::objects::create_platform_resources(seed.store(), plan.platform);
        let mut rng = Rng::with_seed(plan.rng_seed);
        Self {
            seed_lease: ServerLease::new(seed.store(), seed.store().clock().now()),
            starvations: BTreeSet::new(),
            is_starved: Sender::default(),
            deployments: DeploymentController::default(),
            faults: ActiveFaults::new(rng.fork()),
            scripted_scales: BTreeSet::new(),
            rng,
            plan,
            seed,
            clusters: Vec::new(),
            cluster_numbers: BTreeMap::new(),
            authority,
            ports: BTreeMap::new(),
            timeline: FaultTimeline::default(),
            wakeups: BinaryHeap::new(),
            connection_rng: None,
            clock_offset: 0,
            damage: Damage::default(),
            first_fault: None,
            last_disturbance: Time::MIN,
            lag: Duration::ZERO,
            pending_events: Vec::new(),
            write_pauses: BTreeMap::new(),
            commands: Vec::new(),
        }
    }

    /// Adds a cluster with the API server `server`, which the watchdog reaches at `url`.
    pub(super) fn add_cluster(&mut self, server: SimServer, url: String, now: Time) {
        let number = self.clusters.len();
        let name: Arc<str> = self.plan.cluster_name(number).into();
        let seed = self.seed.store();
        let name_and_url = (Arc::clone(&name), url);
        let mut cluster =
            SimCluster::new(name_and_url, server, &self.plan, seed, self.rng.fork(), now);
        let controllers = LandscapePlan::CONTROLLERS.into_iter();
        let controllers = controllers.zip(self.plan.replicas);
        // The control planes of Cluster API do not run in the management cluster.
        for (controller, count) in controllers.filter(|_| self.plan.platform == Platform::Gardener)
        {
            super::objects::create_deployment(seed, &name, controller, count);
            let key = (Arc::clone(&name), controller.into());
            self.deployments.add(seed, key, count, now);
        }
        cluster.rotate_token(seed, &self.authority.pem);
        let (platform, grace) = (self.plan.platform, self.plan.grace_period);
        super::objects::create_cluster(seed, platform, &name, grace);
        self.clusters.push(cluster);
        self.cluster_numbers.insert(name, number);
        self.wake_for_cluster(number);
    }

    fn wake_for_cluster(&mut self, number: usize) {
        if let Some(cluster) = self.clusters.get(number) {
            let wakeup = (cluster.next_action(), WakeTarget::Cluster(number));
            self.wakeups.push(Reverse(wakeup));
        }
    }

    fn wake_for_deployments(&mut self) {
        if let Some(at) = self.deployments.next_change() {
            self.wakeups.push(Reverse((at, WakeTarget::Deployments)));
        }
    }

    /// Points the clusters' kubeconfigs to the listeners, of which the seed's is the first. Returns
    /// a kubeconfig for all servers.
    pub(super) fn set_listeners(&mut self, handles: &[ListenerHandle]) -> String {
        const TOKEN: &str = "admin";
        let urls: Vec<String> = handles.iter().map(ListenerHandle::url).collect();
        self.seed.users().add_token(TOKEN, UserInfo::admin());
        let shoot_handles = handles.iter().zip(&urls).skip(1);
        for ((number, cluster), (handle, url)) in
            self.clusters.iter_mut().enumerate().zip(shoot_handles)
        {
            cluster.server.users().add_token(TOKEN, UserInfo::admin());
            self.ports.insert(handle.address().port(), number);
            cluster.url.clone_from(url);
            cluster.rotate_token(self.seed.store(), &self.authority.pem);
        }
        let names = self.clusters.iter().map(|cluster| &*cluster.name);
        let names = [super::SEED].into_iter().chain(names);
        let servers: Vec<(&str, &str)> = names.zip(urls.iter().map(String::as_str)).collect();
        super::objects::kubeconfig(&servers, &self.authority.pem, TOKEN)
    }

    /// Returns the number of the cluster that a link reaches under this host and port.
    pub(super) fn cluster_at(&self, host: &str, port: u16) -> Option<usize> {
        match host {
            LOOPBACK => self.ports.get(&port).copied(),
            name => self.cluster_numbers.get(name).copied(),
        }
    }

    /// Puts incidents on the timeline, relative to `now`.
    pub(super) fn play(&mut self, incidents: &[Incident], now: Time) {
        for incident in incidents {
            self.timeline.add(incident, now);
        }
        self.wake_for_timeline();
    }

    /// Returns the faults to inject into a request to the seed.
    pub(super) fn seed_injection(&mut self, request: &RequestInfo, now: Time) -> FaultInjection {
        self.catch_up_seed(now);
        let pause = self.write_pauses.get_mut(&*request.user.name);
        if let Some(resumed) = pause.and_then(|pause| pause.intercept(request)) {
            return FaultInjection::held(resumed);
        }
        self.faults.injection(request)
    }

    /// Makes the renewals of the seed's API server that are due until `now`.
    fn catch_up_seed(&mut self, now: Time) {
        let is_down = self.faults.is_down();
        self.seed_lease.catch_up(self.seed.store(), is_down, now);
    }

    pub(super) fn record_event(&mut self, at: Time, kind: SimEventKind) {
        self.pending_events.push(SimEvent { at, kind });
    }

    /// Handles a write to a Deployment.
    pub(super) fn on_deployment_written(
        &mut self,
        key: DeploymentKey,
        wanted: u32,
        is_observed: bool,
        now: Time,
    ) {
        let (before, _) = self.deployments.replica_count(&key);
        let is_scripted = self.scripted_scales.remove(&(key.clone(), wanted));
        if *key.1 == *LandscapePlan::CONTROLLERS[0]
            && let Some(number) = self.cluster_numbers.get(&key.0)
            && let Some(cluster) = self.clusters.get_mut(*number)
        {
            if wanted > 0 {
                cluster.is_fenced = false;
            } else if before > 0 && !is_scripted {
                cluster.is_fenced = true;
                let deadline = cluster.deadline().filter(|_| cluster.cut_off() > 0);
                cluster.margin = deadline.map(|deadline| seconds_until(deadline, now));
                self.damage.margins.extend(cluster.margin);
            }
        }
        self.deployments.on_write(key, wanted, is_observed, now);
        self.wake_for_deployments();
    }

    /// Handles the deletion of a pod in a cluster's namespace.
    pub(super) fn on_pod_deleted(&mut self, namespace: &str, pod: &str, now: Time) {
        let Some(number) = self.cluster_numbers.get(namespace).copied() else {
            return;
        };
        let Some(cluster) = self.clusters.get_mut(number) else {
            return;
        };
        if let Some(kind) = cluster.on_pod_deleted(self.seed.store(), pod, now) {
            self.wake_for_cluster(number);
            self.last_disturbance = now;
            self.record_event(now, kind);
        }
    }

    /// Runs all actors that are due. Returns the time of the next one.
    pub(super) fn step(&mut self, now: Time) -> Time {
        while let Some(Reverse((at, actor))) = self.wakeups.peek().copied() {
            if at > now {
                return at;
            }
            self.wakeups.pop();
            self.lag = self.lag.max(now.since(at));
            match actor {
                WakeTarget::Timeline => self.step_timeline(now),
                WakeTarget::Deployments => self.step_deployments(now),
                WakeTarget::Cluster(number) => self.step_cluster(number, now),
            }
        }
        Time::MAX
    }

    fn wake_for_timeline(&mut self) {
        if let Some(at) = self.timeline.next_change() {
            self.wakeups.push(Reverse((at, WakeTarget::Timeline)));
        }
    }

    fn step_timeline(&mut self, now: Time) {
        while let Some((begins, number, incident)) = self.timeline.pop_due(now) {
            self.last_disturbance = now;
            let fault = incident.to_string();
            if begins {
                self.first_fault.get_or_insert(now);
                self.record_event(now, SimEventKind::FaultBegan { fault });
                self.begin_fault(number, &incident, now);
            } else {
                self.record_event(now, SimEventKind::FaultEnded { fault });
                self.end_fault(number, &incident, now);
            }
        }
        self.wake_for_timeline();
    }

    fn begin_fault(&mut self, number: usize, incident: &Incident, now: Time) {
        let fault = &incident.fault;
        match fault {
            Fault::WatchdogClock(by) => self.clock_offset += by,
            Fault::SlowPods(by) => self.deployments.add_slowdown(number, *by),
            Fault::Crash => self.commands.push(ReplicaCommand::Crash),
            Fault::Pause => self.commands.push(ReplicaCommand::Pause),
            Fault::WatchDrop => self.drop_watches(),
            Fault::ControllerManagerOutage => self.deployments.add_outage(number),
            Fault::CpuStarvation => {
                self.starvations.insert(number);
                self.is_starved.send(true);
            }
            _ if fault.is_global() => {
                self.catch_up_seed(now);
                self.faults.begin(number, incident);
                if let Fault::StaleReads { share, .. } = fault {
                    let store = self.seed.store().snapshot();
                    self.faults.add_stale_store(number, store, *share);
                }
                self.apply_seed_faults();
            }
            _ => {
                for cluster_number in self.plan.cluster_numbers(&incident.clusters) {
                    self.begin_fault_in(cluster_number, number, incident, now);
                }
            }
        }
    }

    fn begin_fault_in(
        &mut self,
        cluster_number: usize,
        number: usize,
        incident: &Incident,
        now: Time,
    ) {
        let Some(cluster) = self.clusters.get_mut(cluster_number) else {
            return;
        };
        let seed = self.seed.store();
        match &incident.fault {
            Fault::Rotation => cluster.rotate_token(seed, &self.authority.pem),
            Fault::Scale {
                controller,
                replicas,
            } => {
                let key = (Arc::clone(&cluster.name), controller.as_str().into());
                if self.deployments.replica_count(&key).0 != *replicas {
                    self.scripted_scales.insert((key, *replicas));
                }
                let scale = |object: &mut Value| field::set(object, "/spec/replicas", *replicas);
                let (namespace, scope) = (&cluster.name, WriteScope::Object);
                // A controller that does not exist is not scaled.
                let _ = seed.modify(&DEPLOYMENTS, namespace, controller, scope, scale);
            }
            _ => {
                cluster.begin_fault(number, incident, seed, now);
                self.wake_for_cluster(cluster_number);
            }
        }
    }

    fn end_fault(&mut self, number: usize, incident: &Incident, now: Time) {
        match &incident.fault {
            Fault::WatchdogClock(by) => self.clock_offset -= by,
            Fault::SlowPods(_) => self.deployments.remove_slowdown(number),
            Fault::Crash => self.commands.push(ReplicaCommand::Start),
            Fault::Pause => self.commands.push(ReplicaCommand::Resume),
            Fault::ControllerManagerOutage => {
                self.deployments.remove_outage(number, now);
                self.wake_for_deployments();
            }
            Fault::CpuStarvation => {
                self.starvations.remove(&number);
                self.is_starved.send(!self.starvations.is_empty());
            }
            fault if fault.is_global() => {
                self.catch_up_seed(now);
                self.faults.end(number);
                self.apply_seed_faults();
            }
            fault => {
                for cluster_number in self.plan.cluster_numbers(&incident.clusters) {
                    if let Some(cluster) = self.clusters.get_mut(cluster_number) {
                        cluster.end_fault(number, fault, self.seed.store(), now);
                        self.wake_for_cluster(cluster_number);
                    }
                }
            }
        }
    }

    fn apply_seed_faults(&mut self) {
        if self.faults.is_down() {
            self.seed.reset_watches(|_| true);
        }
        self.seed.stall_watches(self.faults.is_stalled());
    }

    fn drop_watches(&mut self) {
        use super::objects::cluster_place;
        use crate::actor::{CAPI_MACHINES, MACHINES};
        use crate::resource::{ENDPOINT_SLICES, HEALTH_CHECKS, PODS, SECRETS};

        self.seed.reset_watches(|_| true);
        let (clusters, _) = cluster_place(self.plan.platform);
        let own: &[_] = match self.plan.platform {
            Platform::Gardener => &[MACHINES],
            Platform::ClusterApi => &[CAPI_MACHINES, HEALTH_CHECKS],
        };
        for resource in [SECRETS, ENDPOINT_SLICES, PODS]
            .iter()
            .chain(own)
            .chain([&clusters])
        {
            self.seed.store().compact(resource);
        }
    }

    fn step_deployments(&mut self, now: Time) {
        for ((cluster, controller), count) in self.deployments.step(self.seed.store(), now) {
            self.last_disturbance = now;
            if let Some(number) = self.cluster_numbers.get(&cluster)
                && let Some(cluster) = self.clusters.get_mut(*number)
            {
                cluster.on_replicas_changed(&controller, count, now);
            }
            let event = SimEventKind::ControllerScaled {
                cluster,
                controller,
                count,
            };
            self.record_event(now, event);
        }
        self.wake_for_deployments();
    }

    fn step_cluster(&mut self, number: usize, now: Time) {
        let Some(cluster) = self.clusters.get_mut(number) else {
            return;
        };
        // An earlier wake-up has superseded this one.
        if cluster.next_action() > now {
            return;
        }
        let mut events = Vec::new();
        let mut context = StepContext {
            seed: self.seed.store(),
            now,
            damage: &mut self.damage,
            events: &mut events,
        };
        cluster.step(&mut context);
        self.wake_for_cluster(number);
        if !events.is_empty() || !self.is_normal(number) {
            self.last_disturbance = now;
        }
        for kind in events {
            self.record_event(now, kind);
        }
    }

    /// Returns whether a cluster is in the same state as at the start.
    fn is_normal(&self, number: usize) -> bool {
        let Some(cluster) = self.clusters.get(number) else {
            return true;
        };
        let usual = |one: ControllerReplicas| one.wanted == one.usual && one.present == one.usual;
        cluster.is_healthy() && self.controllers(cluster).into_iter().all(usual)
    }

    fn controllers(&self, cluster: &SimCluster) -> Vec<ControllerReplicas> {
        if self.plan.platform == Platform::ClusterApi {
            let is_paused = cluster.machine_pause(self.seed.store()).is_some();
            let one_if = |runs: bool| ControllerReplicas {
                wanted: u32::from(runs),
                present: u32::from(runs),
                usual: 1,
            };
            return vec![one_if(true), one_if(!is_paused)];
        }
        let controllers = LandscapePlan::CONTROLLERS.into_iter();
        let controllers = controllers.zip(self.plan.replicas).map(|(name, usual)| {
            let key = (Arc::clone(&cluster.name), name.into());
            let (wanted, present) = self.deployments.replica_count(&key);
            ControllerReplicas {
                wanted,
                present,
                usual,
            }
        });
        controllers.collect()
    }

    pub(super) fn snapshot(&self, now: Time) -> Vec<ClusterSnapshot> {
        let cluster_snapshot = |(number, cluster): (usize, &SimCluster)| {
            let ready = cluster.ready().count();
            let deadline = cluster.deadline();
            ClusterSnapshot {
                cluster: cluster.name.to_string(),
                ready,
                unknown: cluster.nodes.len() - ready,
                cut_off: cluster.cut_off(),
                held: cluster.held(),
                is_down: cluster.is_down(),
                controllers: self.controllers(cluster),
                faults: self.timeline.active_in(number, &self.plan),
                deadline: deadline.map(|deadline| seconds_until(deadline, now)),
                is_fenced: cluster.is_fenced,
                margin: cluster.margin,
            }
        };
        let clusters = self.clusters.iter().enumerate();
        clusters.map(cluster_snapshot).collect()
    }

    pub(super) fn damage(&self, now: Time) -> Damage {
        let is_normal =
            self.timeline.is_finished() && (0..self.clusters.len()).all(|n| self.is_normal(n));
        let first_fault = self.first_fault.filter(|_| is_normal);
        let disturbance = first_fault.map(|since| self.last_disturbance.since(since));
        let clusters = self.clusters.iter();
        let downtime: Duration = clusters.map(|cluster| cluster.total_downtime(now)).sum();
        Damage {
            api_seconds_lost: downtime.as_secs_f64(),
            seconds_to_normal: disturbance.map(|disturbance| disturbance.as_secs_f64()),
            ..self.damage.clone()
        }
    }
}

/// Returns the seconds from `now` to `then`; negative if that is past.
fn seconds_until(then: Time, now: Time) -> f64 {
    then.since(now).as_secs_f64() - now.since(then).as_secs_f64()
}
