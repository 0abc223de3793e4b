//! The probe manager: consumes the watches on the seed, and starts, updates and stops probes.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use kelpie_core::Time;
use kelpie_core::prober::shard::Assignment;
use kelpie_core::prober::{Evaluator, Target};
use kelpie_health::{LoopHeartbeat, ReadyHandle};
use kelpie_kube::AnchoredClock;
use kelpie_kube::client::{ApiError, ClusterClient};
use kelpie_kube::leader::Leadership;
use kelpie_kube::objects::ObjectClient;
use kelpie_kube::tenant::ConnectionReuse;
use kelpie_kube::watch::{OptionalEvent, WatchEvent};
use kelpie_net::Network;
use kelpie_runtime::watch::{Receiver, Sender};
use kelpie_runtime::{LastErrors, supervise};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::credential_refresher::{KubeconfigReader, ReadKubeconfig};
use crate::fence_executor::{FenceExecutor, SeedAccess};
use crate::guard_executor::GuardExecutor;
use crate::inputs::ProbeInputs;
use crate::metrics::ProberMetrics;
use crate::node_lists::NodeListLimit;
use crate::observer::Observer;
use crate::open_files::open_files_needed;
use crate::own_egress::OwnEgress;
use crate::probe::{Probe, ProbeCancellation, ProbeSchedule};
use crate::recording::{RecordQueue, RecordedEvaluator};
use crate::registry::{ClusterRegistry, OptionalInput, ProbeAction, RegistrySettings};
use crate::reporter::{ClusterEventSink, ProbeReporter};
use crate::sharding::{Coverage, ShardReport};
use crate::source::{ClusterIdentity, ClusterKubeconfig, ClusterObject, ClusterSource, ProbePath};
use crate::state_page::StatePage;
use crate::warm_up::{WarmUp, WarmUpHandle};

/// The number of clusters that are given away at once, every few seconds.
const MOST_RELEASED: usize = 50;
/// The longest time between two heartbeats of the loop.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

/// The configuration and the clients that all probes share.
pub(crate) struct ProbeContext {
    pub(crate) clock: AnchoredClock,
    pub(crate) config: kelpie_config::ProberConfig,
    pub(crate) source: Arc<dyn ClusterSource>,
    pub(crate) targets: Arc<[Target]>,
    pub(crate) connection_reuse: ConnectionReuse,
    pub(crate) network: Network,
    pub(crate) access: SeedAccess,
    pub(crate) kubeconfig_reader: KubeconfigReader,
    /// For the labels of clusters that the engine of a ring assigns.
    pub(crate) objects: ObjectClient,
    /// The identity of this watchdog on the guards that it keeps: the name of its Lease.
    pub(crate) guard_owner: Arc<str>,
    pub(crate) warm_up: WarmUp,
    pub(crate) own_egress: OwnEgress,
    pub(crate) node_lists: NodeListLimit,
    /// The limit on open files; `None` if it is not known.
    pub(crate) open_files_limit: Option<u64>,
    pub(crate) metrics: Arc<ProberMetrics>,
    /// `None` if nothing is recorded.
    pub(crate) record: Option<RecordQueue>,
    pub(crate) state_page: StatePage,
    /// `None` in a dry run, which writes nothing to the seed.
    pub(crate) events: Option<ClusterEventSink>,
}

/// Runs one probe for each eligible cluster.
pub(crate) struct ProbeManager {
    context: Arc<ProbeContext>,
    registry: ClusterRegistry,
    probes: BTreeMap<String, RunningProbe>,
    /// Cancelled probes that may still run. A cluster has one probe at a time, so a new one waits
    /// for them.
    ending: BTreeMap<String, JoinHandle<()>>,
    /// The current error of each failing watch. An error is logged once.
    watch_errors: LastErrors<&'static str>,
    /// The optional inputs that probes do without, as reported.
    unavailable: BTreeSet<OptionalInput>,
    /// Kubeconfigs that probes read directly.
    read_kubeconfigs: mpsc::UnboundedReceiver<ReadKubeconfig>,
    /// The Leases of shards, as the announcer reads them; closed without shards.
    shard_reports: mpsc::Receiver<ShardReport>,
    leadership: Receiver<Leadership>,
    coverage: Coverage,
    /// The number of changes of assignments that the state page shows.
    shown_changes: Option<u64>,
    /// True once all lists were read, which is logged.
    has_synced: bool,
    /// True if there are too many clusters for the limit on open files, which is logged once.
    lacks_files: bool,
    cancelled: CancellationToken,
    tracker: TaskTracker,
}

struct RunningProbe {
    inputs: watch::Sender<ProbeInputs>,
    /// The right to write, of a shard; `None` if it is that of the process.
    leadership: Option<Sender<Leadership>>,
    warm_up: WarmUpHandle,
    cancelled: CancellationToken,
    ended: JoinHandle<()>,
}

impl ProbeManager {
    /// Creates a manager without probes. `cancelled` stops all of them, and `tracker` tracks them.
    pub(crate) fn new(
        context: ProbeContext,
        read_kubeconfigs: mpsc::UnboundedReceiver<ReadKubeconfig>,
        shard_reports: mpsc::Receiver<ShardReport>,
        cancelled: CancellationToken,
        tracker: TaskTracker,
    ) -> Self {
        let settings = RegistrySettings {
            texts: context.source.texts(),
            has_external: context.source.probes(ProbePath::External),
            has_machines: context.source.has_machines(),
            has_targets: context
                .targets
                .iter()
                .any(|target| !target.actuator.is_by_cluster()),
        };
        Self {
            registry: ClusterRegistry::new(settings, context.config.shard.as_ref()),
            shard_reports,
            leadership: context.access.leadership(),
            coverage: Coverage::default(),
            shown_changes: None,
            context: Arc::new(context),
            probes: BTreeMap::new(),
            ending: BTreeMap::new(),
            watch_errors: LastErrors::default(),
            unavailable: BTreeSet::new(),
            read_kubeconfigs,
            has_synced: false,
            lacks_files: false,
            cancelled,
            tracker,
        }
    }

    /// Follows the watches on the seed until cancelled.
    pub(crate) async fn run(
        mut self,
        seed: &ClusterClient,
        heartbeat: LoopHeartbeat,
        ready: ReadyHandle,
    ) {
        let source = Arc::clone(&self.context.source);
        let mut clusters = source.clusters(seed);
        let kubeconfigs = |path| source.kubeconfigs(seed, path);
        let never = || stream::pending().boxed();
        let mut internal = kubeconfigs(ProbePath::Internal).unwrap_or_else(never);
        let mut external = kubeconfigs(ProbePath::External).unwrap_or_else(never);
        let mut machines = source
            .machines(seed)
            .unwrap_or_else(|| stream::pending().boxed());
        let texts = source.texts();
        let mut beat = interval(HEARTBEAT_INTERVAL);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let cancelled = self.cancelled.clone();
        let warm_up = self.context.warm_up.clone();
        loop {
            let actions = tokio::select! {
                // Polled in a fixed order, so that a simulated run is repeatable. No stream is
                // always ready, so none can starve the others.
                biased;
                () = cancelled.cancelled() => break,
                _ = beat.tick() => self.registry.tick(Instant::now()),
                () = warm_up.judged() => self.registry.tick(Instant::now()),
                Some(event) = clusters.next() => {
                    self.track_watch(texts.clusters, &event);
                    let changed = changed_cluster(&event);
                    let mut actions = self.registry.cluster(event);
                    actions.extend(self.assign(changed.clone()));
                    self.update_leaderships(changed.as_deref());
                    self.update_unprobed(changed);
                    actions
                }
                Some(report) = self.shard_reports.recv() => {
                    let actions = self.shard_report(report);
                    self.update_leaderships(None);
                    actions
                }
                () = self.leadership.changed() => {
                    self.update_leaderships(None);
                    Vec::new()
                }
                Some(event) = internal.next() => {
                    self.track_watch("kubeconfig Secrets", &event);
                    self.registry.kubeconfig(ProbePath::Internal, event)
                }
                Some(event) = external.next() => {
                    self.track_watch(OptionalInput::ExternalKubeconfigs.name(), &event);
                    if let WatchEvent::Error(error) = &event {
                        let input = OptionalInput::ExternalKubeconfigs;
                        self.registry.watch_failed(input, &error.cause, Instant::now())
                    } else {
                        self.registry.kubeconfig(ProbePath::External, event)
                    }
                }
                Some((path, kubeconfig)) = self.read_kubeconfigs.recv() => {
                    self.kubeconfig_read(path, kubeconfig)
                }
                Some(event) = machines.next() => match event {
                    OptionalEvent::KindAbsent => self.registry.machine_kind(false),
                    OptionalEvent::KindPresent => self.registry.machine_kind(true),
                    OptionalEvent::Watch(event) => {
                        self.track_watch(OptionalInput::Machines.name(), &event);
                        if let WatchEvent::Error(error) = &event {
                            let input = OptionalInput::Machines;
                            self.registry.watch_failed(input, &error.cause, Instant::now())
                        } else {
                            self.registry.machine(event)
                        }
                    }
                },
            };
            heartbeat.beat();
            self.report_unavailable();
            for action in actions {
                self.perform(action);
            }
            self.update_readiness(&ready);
        }
    }

    /// Processes a kubeconfig that a probe read directly.
    fn kubeconfig_read(
        &mut self,
        path: ProbePath,
        kubeconfig: ClusterKubeconfig,
    ) -> Vec<ProbeAction> {
        let cluster = kubeconfig.cluster.clone();
        let actions = self.registry.kubeconfig_read(path, kubeconfig);
        if !actions.is_empty() {
            info!(
                cluster,
                "the cluster rejected its credentials; using new ones, read from the Secret"
            );
        }
        actions
    }

    /// Logs optional inputs that probes begin or cease to do without.
    fn report_unavailable(&mut self) {
        for input in OptionalInput::ALL {
            let is_unavailable = self.registry.is_unavailable(input);
            let (name, consequence) = (input.name(), input.consequence());
            if !is_unavailable {
                if self.unavailable.remove(&input) {
                    self.context.metrics.set_unavailable(input, false);
                    info!("{name} are available");
                }
                continue;
            }
            if self.unavailable.insert(input) {
                self.context.metrics.set_unavailable(input, true);
                warn!("continuing without {name}: {consequence}");
            }
        }
    }

    /// This replica is ready when it judges its clusters.
    fn update_readiness(&mut self, ready: &ReadyHandle) {
        if self.registry.has_synced() {
            if !mem::replace(&mut self.has_synced, true) {
                self.context.state_page.set_waiting(None);
                info!("watching over {} clusters", self.probes.len());
            }
            match self.context.warm_up.finish(self.context.clock.now()) {
                Ok(()) => ready.ready(),
                Err(reason) => ready.not_ready(format!("{reason}{}", self.missing_inputs())),
            }
            return;
        }
        let pending = self.registry.pending_lists();
        let pending = pending.join(", ");
        let errors: Vec<&str> = self.watch_errors.iter().map(|(_, error)| error).collect();
        let separator = if errors.is_empty() { "" } else { ": " };
        let errors = errors.join("; ");
        let waiting = format!("waiting for the first list of {pending}{separator}{errors}");
        let state_page = &self.context.state_page;
        state_page.set_waiting(Some(format!("the prober is {waiting}")));
        ready.not_ready(waiting);
    }

    /// Names the optional inputs that probes do without, for the reason of readyz.
    fn missing_inputs(&self) -> String {
        let names: Vec<&str> = self.unavailable.iter().map(|input| input.name()).collect();
        if names.is_empty() {
            return String::new();
        }
        format!("; without {}", names.join(" and "))
    }

    /// Warns once if the limit on open files is too low for this many clusters.
    fn check_open_files(&mut self) {
        let (clusters, limit) = (self.probes.len(), self.context.open_files_limit);
        let needed = open_files_needed(clusters);
        let Some(limit) = limit.filter(|limit| *limit < needed && !self.lacks_files) else {
            return;
        };
        self.lacks_files = true;
        warn!(
            limit,
            needed, "the limit on open files is too low for {clusters} clusters; raise it"
        );
    }

    /// Updates the state page and the metric of clusters without a probe. `changed` is the cluster
    /// of the last event; `None` if the event was about all of them.
    fn update_unprobed(&self, changed: Option<String>) {
        let state_page = &self.context.state_page;
        let reason = |cluster: &str| self.registry.unprobed_reason(cluster);
        match changed {
            Some(cluster) => {
                let reason = reason(&cluster);
                state_page.explain_absence(cluster, reason);
            }
            // After a new list.
            None => state_page.keep_absent(|cluster| reason(cluster).is_some()),
        }
        let unreadable = i64::try_from(self.registry.unreadable_count());
        let unreadable = unreadable.unwrap_or(i64::MAX);
        self.context.metrics.unreadable_clusters.set(unreadable);
    }

    /// Logs a new error of the watch on `what`, and its recovery.
    fn track_watch<T>(&mut self, what: &'static str, event: &WatchEvent<T>) {
        if let WatchEvent::Error(error) = event {
            self.context.metrics.watch_failures.inc();
            let text = error.to_string();
            if self.watch_errors.fail(what, &text) {
                warn!("watch on {what} failed; retrying: {text}");
            }
        } else if self.watch_errors.recover(&what).is_some() {
            info!("watch on {what} recovered");
        }
    }

    /// Decides again what this shard does for a cluster, or for all of them.
    fn assign(&mut self, only: Option<String>) -> Vec<ProbeAction> {
        let (access, now) = (&self.context.access, self.context.clock.now());
        let has_record = |namespace: &str| access.has_record(namespace);
        self.registry.assign(only, has_record, now)
    }

    /// Processes a report of the announcer.
    fn shard_report(&mut self, report: ShardReport) -> Vec<ProbeAction> {
        const WHAT: &str = "Leases of shards";
        let now = self.context.clock.now();
        let has_listed = self.registry.has_listed_clusters();
        let Some(shards) = &mut self.registry.shards else {
            return Vec::new();
        };
        match report {
            ShardReport::Read {
                leases,
                start,
                content,
            } => {
                shards.observe(&leases, start, now);
                if has_listed {
                    shards.listed(now);
                }
                if shards.is_contradicted() {
                    self.report_shards(
                        "another prober announces a different clusterSelector \
                         under the name of this shard; give each shard a name of its own",
                    );
                } else if self.watch_errors.recover(&WHAT).is_some() {
                    info!("{WHAT} are read and renewed again");
                }
                let actions = self.assign(None);
                let is_judged = |cluster: &str| match self.probes.get(cluster) {
                    Some(running) => running.warm_up.is_judged(),
                    None => self.registry.is_removed(cluster),
                };
                let shards = self.registry.shards.as_ref().filter(|_| has_listed);
                let own = shards.map(|shards| shards.content(is_judged, now));
                // An announcer that has ended needs no content.
                let _ = content.send(own);
                self.release_drained();
                self.show_shards(now);
                actions
            }
            ShardReport::Renewed { start } => {
                shards.renewed(start);
                Vec::new()
            }
            ShardReport::Failed { lease, cause } => {
                self.report_shards(&format!(
                    "cannot renew Lease {lease} or list those of the other shards: {cause}; it \
                     takes list on leases, and create, get and update. Nothing is restored until \
                     this works"
                ));
                self.assign(None)
            }
        }
    }

    /// Removes the labels of clusters that the engine of a ring takes from this shard. It has
    /// assigned them to another one when the patch is answered, or does so soon.
    fn release_drained(&self) {
        if !self.leadership.borrow().may_act(Instant::now()) {
            return;
        }
        let Some(shards) = &self.registry.shards else {
            return;
        };
        for (cluster, patch) in shards.drained().take(MOST_RELEASED) {
            let Some(identity) = self.registry.identity(cluster) else {
                continue;
            };
            let (objects, source) = (self.context.objects.clone(), &self.context.source);
            let kind = source.kind(&identity.object.api_version);
            self.tracker.spawn(async move {
                let object = &identity.object;
                let path = kind.named(&object.namespace, &object.name);
                let cluster = &*identity.id;
                match objects.merge(&path, &patch).await {
                    Ok(_) => info!(cluster, "given away: the engine of the ring drains it"),
                    // It is tried again with the newer version.
                    Err(error) if error.cause == ApiError::Conflict => {}
                    Err(error) => warn!(cluster, %error, "cannot give the cluster away; retrying"),
                }
            });
        }
    }

    /// Logs a problem with the Leases of shards once.
    fn report_shards(&mut self, problem: &str) {
        if self.watch_errors.fail("Leases of shards", problem) {
            warn!("{problem}");
        }
    }

    /// Updates the metrics, the state page and the log of shards.
    fn show_shards(&mut self, now: Time) {
        let Some(shards) = &self.registry.shards else {
            return;
        };
        let coverage = self.registry.coverage(now);
        let metrics = &self.context.metrics.shards;
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        metrics
            .unwatched_clusters
            .set(count(coverage.unwatched.len()));
        metrics
            .contested_clusters
            .set(count(coverage.contested.len()));
        metrics.live_shards.set(count(coverage.live));
        let changes = Some(shards.changes());
        if coverage == self.coverage && changes == self.shown_changes {
            return;
        }
        let before = &self.coverage;
        if coverage.unwatched.len() > before.unwatched.len() {
            let (count, first) = (coverage.unwatched.len(), coverage.unwatched.first());
            warn!(count, first, "clusters are watched by no shard");
        }
        if coverage.contested.len() > before.contested.len() {
            let (count, first) = (coverage.contested.len(), coverage.contested.first());
            warn!(count, first, "clusters are selected by several shards");
        }
        let state_page = &self.context.state_page;
        state_page.set_shards(shards.state(&coverage), shards.notes());
        for cluster in self.registry.names() {
            let reason = self.registry.unprobed_reason(&cluster);
            state_page.explain_absence(cluster, reason);
        }
        (self.coverage, self.shown_changes) = (coverage, changes);
    }

    /// Returns the right to write of a cluster's probe: that of the process, while the shard owns
    /// the cluster.
    fn leadership_of(&self, cluster: &str) -> Leadership {
        let Some(shards) = &self.registry.shards else {
            return self.leadership.borrow();
        };
        match (self.leadership.borrow(), shards.assignment(cluster)) {
            (Leadership::Leader { until }, Assignment::Owner) => {
                let owner_until = self.context.clock.instant(shards.owner_until());
                Leadership::Leader {
                    until: until.min(owner_until),
                }
            }
            _ => Leadership::Standby,
        }
    }

    /// Passes on the right to write of a cluster, or of all of them. A renewal wakes no probe.
    fn update_leaderships(&self, only: Option<&str>) {
        match only {
            Some(cluster) => {
                if let Some(running) = self.probes.get(cluster) {
                    self.update_leadership(cluster, running);
                }
            }
            None => {
                for (cluster, running) in &self.probes {
                    self.update_leadership(cluster, running);
                }
            }
        }
    }

    fn update_leadership(&self, cluster: &str, running: &RunningProbe) {
        let Some(sender) = &running.leadership else {
            return;
        };
        let (now, leadership) = (Instant::now(), self.leadership_of(cluster));
        if sender.borrow().may_act(now) == leadership.may_act(now) {
            sender.send_silently(leadership);
        } else {
            sender.send(leadership);
        }
    }

    fn perform(&mut self, action: ProbeAction) {
        match action {
            ProbeAction::Start { cluster } => self.start(cluster),
            ProbeAction::Update { cluster } => {
                let inputs = self.registry.inputs(&cluster);
                if let Some(running) = self.probes.get(&cluster) {
                    running.inputs.send_replace(inputs);
                }
            }
            ProbeAction::Stop { cluster, reason } => {
                let Some(running) = self.probes.remove(&cluster) else {
                    return;
                };
                info!(cluster, "probe stopped: {reason}");
                running.cancelled.cancel();
                self.ending.retain(|_, ended| !ended.is_finished());
                self.ending.insert(cluster, running.ended);
            }
            ProbeAction::ReportUnreadable { cluster, problem } => {
                warn!(
                    cluster,
                    "the cluster's object cannot be read; a running probe continues: {problem}"
                );
            }
        }
    }

    fn start(&mut self, cluster: String) {
        let Some(identity) = self.registry.identity(&cluster) else {
            return;
        };
        info!(cluster, "probe started");
        let (sender, inputs) = watch::channel(self.registry.inputs(&cluster));
        let cancelled = self.cancelled.child_token();
        let predecessor = self.ending.remove(&cluster);
        let context = Arc::clone(&self.context);
        let cancellation = ProbeCancellation {
            cancelled: cancelled.clone(),
            shutdown: self.cancelled.clone(),
        };
        let judging_from = context
            .clock
            .now()
            .after(context.config.probe.initial_delay);
        let warm_up = context.warm_up.start(&identity.id, judging_from);
        let (leadership, access) = if self.registry.shards.is_some() {
            let leadership = Sender::new(self.leadership_of(&cluster));
            let access = context.access.clone();
            let access = access.with_leadership(leadership.subscribe());
            (Some(leadership), access)
        } else {
            (None, context.access.clone())
        };
        let judged = warm_up.clone();
        let ended = self.tracker.spawn(async move {
            if let Some(predecessor) = predecessor {
                // A predecessor that panicked has ended too.
                let _ = predecessor.await;
            }
            run_probe(
                &context,
                &access,
                &identity,
                &warm_up,
                &inputs,
                &cancellation,
            )
            .await;
            warm_up.end();
        });
        let running = RunningProbe {
            inputs: sender,
            leadership,
            warm_up: judged,
            cancelled,
            ended,
        };
        self.probes.insert(cluster, running);
        self.check_open_files();
    }
}

/// Returns the cluster that an event is about; `None` if it is about all of them.
fn changed_cluster(event: &WatchEvent<ClusterObject>) -> Option<String> {
    match event {
        WatchEvent::Apply(ClusterObject { identity, .. }) => Some(identity.id.to_string()),
        WatchEvent::Delete { name, .. } => Some(name.clone()),
        WatchEvent::Init | WatchEvent::InitDone | WatchEvent::Error(_) => None,
    }
}

/// Runs the probe of a cluster until it is cancelled. A probe that panics is restarted and does not
/// affect the others. It judges without a new initial delay: that was spent by its predecessor.
async fn run_probe(
    context: &ProbeContext,
    access: &SeedAccess,
    cluster: &Arc<ClusterIdentity>,
    warm_up: &WarmUpHandle,
    inputs: &watch::Receiver<ProbeInputs>,
    cancellation: &ProbeCancellation,
) {
    context.metrics.active_probes.inc();
    let started = context.clock.now();
    let start = || async {
        let inputs = inputs.clone();
        let cancellation = cancellation.clone();
        let mut probe = context.probe(access, cluster, started, warm_up, inputs, cancellation);
        probe.run().await;
    };
    let on_panic = |delay| {
        context.metrics.probe_restarts.inc();
        let cluster = &*cluster.id;
        error!(cluster, "probe panicked; restarting in {delay:?}");
    };
    supervise(start, &cancellation.cancelled, on_panic).await;
    context.metrics.active_probes.dec();
}

impl ProbeContext {
    /// Creates the probe of a cluster. The initial delay counts from `started`.
    fn probe(
        &self,
        access: &SeedAccess,
        cluster: &Arc<ClusterIdentity>,
        started: Time,
        warm_up: &WarmUpHandle,
        inputs: watch::Receiver<ProbeInputs>,
        cancellation: ProbeCancellation,
    ) -> Probe {
        let settings = &self.config.probe;
        let reporter = ProbeReporter::new(
            Arc::clone(cluster),
            Arc::clone(&self.targets),
            self.state_page
                .place(&cluster.id)
                .with_namespace(&cluster.namespace),
            self.metrics.of_cluster(&cluster.id),
            self.events.clone(),
        )
        .with_warm_up(warm_up.clone());
        Probe {
            clock: self.clock,
            schedule: ProbeSchedule::new(self.clock.now()),
            evaluator: RecordedEvaluator::new(
                Evaluator::new(settings.clone(), started),
                self.record
                    .as_ref()
                    .map(|record| record.cluster(&cluster.id)),
            ),
            observer: Observer::new(self, &cluster.id),
            executor: FenceExecutor::new(
                cluster,
                self.clock,
                Arc::clone(&self.targets),
                access.clone(),
                reporter,
            )
            .recording_calls(self.record.as_ref().map(|record| record.calls(&cluster.id))),
            guard: self.guard(access),
            inputs,
            cancellation,
        }
    }

    fn guard(&self, access: &SeedAccess) -> Option<Box<GuardExecutor>> {
        let settings = self.config.guard.clone().filter(|_| !access.is_dry_run())?;
        let (leadership, owner) = (access.leadership(), Arc::clone(&self.guard_owner));
        let guard = GuardExecutor::new(self.clock, leadership, settings, owner);
        Some(Box::new(guard))
    }
}

#[cfg(test)]
mod tests;
