//! The probe manager: consumes the watches on the seed, and starts, updates and stops probes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use kelpie_core::prober::{Evaluator, Target};
use kelpie_health::{LoopHeartbeat, ReadyHandle};
use kelpie_kube::AnchoredClock;
use kelpie_kube::client::ClusterClient;
use kelpie_kube::tenant::ConnectionReuse;
use kelpie_kube::watch::{OptionalEvent, WatchEvent};
use kelpie_net::Network;
use kelpie_runtime::{LastErrors, RESTART_DELAY, supervise};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::fence_executor::{FenceExecutor, SeedAccess};
use crate::inputs::ProbeInputs;
use crate::metrics::ProberMetrics;
use crate::observer::Observer;
use crate::probe::{Probe, ProbeSchedule};
use crate::registry::{ClusterRegistry, ProbeAction};
use crate::reporter::{ClusterEventSink, ProbeReporter};
use crate::source::{ClusterObject, ClusterSource, ProbePath};
use crate::state_page::StatePage;

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
    pub(crate) metrics: Arc<ProberMetrics>,
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
    cancelled: CancellationToken,
    tracker: TaskTracker,
}

struct RunningProbe {
    inputs: watch::Sender<ProbeInputs>,
    cancelled: CancellationToken,
    ended: JoinHandle<()>,
}

impl ProbeManager {
    /// Creates a manager without probes. `cancelled` stops all of them, and `tracker` tracks them.
    pub(crate) fn new(
        context: ProbeContext,
        cancelled: CancellationToken,
        tracker: TaskTracker,
    ) -> Self {
        let has_external = context.config.external_kubeconfig_secret.is_some();
        Self {
            context: Arc::new(context),
            registry: ClusterRegistry::new(has_external),
            probes: BTreeMap::new(),
            ending: BTreeMap::new(),
            watch_errors: LastErrors::default(),
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
        let mut machines = source.machines(seed);
        let mut beat = interval(HEARTBEAT_INTERVAL);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let cancelled = self.cancelled.clone();
        loop {
            let actions = tokio::select! {
                // Polled in a fixed order, so that a simulated run is repeatable. No stream is
                // always ready, so none can starve the others.
                biased;
                () = cancelled.cancelled() => break,
                _ = beat.tick() => Vec::new(),
                Some(event) = clusters.next() => {
                    self.track_watch("Clusters", &event);
                    let changed = changed_cluster(&event);
                    let actions = self.registry.cluster(event);
                    self.update_unprobed(changed);
                    actions
                }
                Some(event) = internal.next() => {
                    self.track_watch("kubeconfig Secrets", &event);
                    self.registry.kubeconfig(ProbePath::Internal, event)
                }
                Some(event) = external.next() => {
                    self.track_watch("external kubeconfig Secrets", &event);
                    self.registry.kubeconfig(ProbePath::External, event)
                }
                Some(event) = machines.next() => match event {
                    OptionalEvent::KindAbsent => self.registry.machine_kind(false),
                    OptionalEvent::KindPresent => self.registry.machine_kind(true),
                    OptionalEvent::Watch(event) => {
                        self.track_watch("Machines", &event);
                        self.registry.machine(event)
                    }
                },
            };
            heartbeat.beat();
            for action in actions {
                self.perform(action);
            }
            self.update_readiness(&ready);
        }
    }

    fn update_readiness(&self, ready: &ReadyHandle) {
        let pending = self.registry.pending_lists();
        if pending.is_empty() {
            ready.ready();
            return;
        }
        let pending = pending.join(", ");
        let errors: Vec<&str> = self.watch_errors.iter().map(|(_, error)| error).collect();
        let separator = if errors.is_empty() { "" } else { ": " };
        let errors = errors.join("; ");
        ready.not_ready(format!(
            "waiting for the first list of {pending}{separator}{errors}"
        ));
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
        info!(cluster, "probe started");
        let (sender, inputs) = watch::channel(self.registry.inputs(&cluster));
        let cancelled = self.cancelled.child_token();
        let predecessor = self.ending.remove(&cluster);
        let context = Arc::clone(&self.context);
        let (name, token): (Arc<str>, _) = (cluster.as_str().into(), cancelled.clone());
        let ended = self.tracker.spawn(async move {
            if let Some(predecessor) = predecessor {
                // A predecessor that panicked has ended too.
                let _ = predecessor.await;
            }
            run_probe(&context, &name, &inputs, &token).await;
        });
        let running = RunningProbe {
            inputs: sender,
            cancelled,
            ended,
        };
        self.probes.insert(cluster, running);
    }
}

/// Returns the cluster that an event is about; `None` if it is about all of them.
fn changed_cluster(event: &WatchEvent<ClusterObject>) -> Option<String> {
    match event {
        WatchEvent::Apply(ClusterObject { name, .. }) | WatchEvent::Delete { name, .. } => {
            Some(name.clone())
        }
        WatchEvent::Init | WatchEvent::InitDone | WatchEvent::Error(_) => None,
    }
}

/// Runs the probe of a cluster until it is cancelled. A probe that panics is restarted and does not
/// affect the others.
async fn run_probe(
    context: &ProbeContext,
    cluster: &Arc<str>,
    inputs: &watch::Receiver<ProbeInputs>,
    cancelled: &CancellationToken,
) {
    context.metrics.active_probes.inc();
    let start = || async {
        let mut probe = context.probe(cluster, inputs.clone(), cancelled.clone());
        probe.run().await;
    };
    let on_panic = || {
        context.metrics.probe_restarts.inc();
        let cluster = &**cluster;
        error!(cluster, "probe panicked; restarting in {RESTART_DELAY:?}");
    };
    supervise(start, cancelled, on_panic).await;
    context.metrics.active_probes.dec();
}

impl ProbeContext {
    fn probe(
        &self,
        cluster: &Arc<str>,
        inputs: watch::Receiver<ProbeInputs>,
        cancelled: CancellationToken,
    ) -> Probe {
        let settings = &self.config.probe;
        let reporter = ProbeReporter::new(
            Arc::clone(cluster),
            Arc::clone(&self.targets),
            self.state_page.place(cluster),
            self.metrics.of_cluster(cluster),
            self.events.clone(),
        );
        Probe {
            clock: self.clock,
            schedule: ProbeSchedule::new(self.clock.now()),
            evaluator: Evaluator::new(settings.clone(), self.clock.now()),
            observer: Observer::new(self),
            executor: FenceExecutor::new(
                Arc::clone(cluster),
                self.clock,
                Arc::clone(&self.targets),
                self.access.clone(),
                reporter,
            ),
            inputs,
            cancelled,
        }
    }
}
