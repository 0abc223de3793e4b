//! The fleet: watches on the seed in, probes started, told and stopped.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use kelpie_core::{Judge, Target};
use kelpie_health::{Pulse, ReadyHandle};
use kelpie_kube::Clock;
use kelpie_kube::seed::{Change, ClusterFacts, MachineChange, Seed, WatchError};
use kelpie_kube::tenant::Keeping;
use kelpie_net::Network;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::board::Board;
use crate::eyes::Eyes;
use crate::hands::{Hands, Reach};
use crate::inputs::Inputs;
use crate::metrics::Metrics;
use crate::probe::Probe;
use crate::registry::{Effect, Registry, Way};
use crate::scribe::{EventLog, Scribe};

/// The loop beats at least this often.
const BEAT: Duration = Duration::from_secs(5);
/// A probe that ended by a defect is started again after this.
const RESTART: Duration = Duration::from_secs(10);

/// What all probes share.
pub(crate) struct Common {
    pub(crate) clock: Clock,
    pub(crate) config: kelpie_config::ProberConfig,
    pub(crate) targets: Arc<[Target]>,
    pub(crate) keeping: Keeping,
    pub(crate) network: Network,
    pub(crate) reach: Reach,
    pub(crate) metrics: Metrics,
    pub(crate) board: Board,
    /// `None`: nothing is written to the seed.
    pub(crate) events: Option<EventLog>,
}

/// The probes that run.
pub(crate) struct Fleet {
    common: Arc<Common>,
    registry: Registry,
    probes: BTreeMap<String, Running>,
    /// Cancelled, and perhaps not at their end yet. A cluster has one probe at a time.
    ending: BTreeMap<String, JoinHandle<()>>,
    /// What each watch last complained about.
    complaints: BTreeMap<&'static str, String>,
    cancelled: CancellationToken,
    tracker: TaskTracker,
}

struct Running {
    inputs: watch::Sender<Inputs>,
    cancelled: CancellationToken,
    ended: JoinHandle<()>,
}

impl Fleet {
    /// No probe runs yet; all hang on `cancelled` and `tracker`.
    pub(crate) fn new(common: Common, cancelled: CancellationToken, tracker: TaskTracker) -> Self {
        let has_external = common.config.external_kubeconfig_secret.is_some();
        Self {
            common: Arc::new(common),
            registry: Registry::new(has_external),
            probes: BTreeMap::new(),
            ending: BTreeMap::new(),
            complaints: BTreeMap::new(),
            cancelled,
            tracker,
        }
    }

    /// Follows the seed until cancelled.
    pub(crate) async fn run(mut self, seed: &Seed, pulse: Pulse, ready: ReadyHandle) {
        let config = &self.common.config;
        let only = config.namespace.as_deref();
        let mut clusters = pin!(seed.clusters(only));
        let mut internal = pin!(seed.secrets(&config.kubeconfig_secret, only));
        let external = config.external_kubeconfig_secret.as_ref();
        let mut external = pin!(match external {
            Some(name) => seed.secrets(name, only).left_stream(),
            None => stream::pending().right_stream(),
        });
        let mut machines = pin!(seed.machines(only));
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let cancelled = self.cancelled.clone();
        loop {
            let effects = tokio::select! {
                // In one order, so that a simulated run repeats itself. No stream is always ready.
                biased;
                () = cancelled.cancelled() => break,
                _ = beat.tick() => Vec::new(),
                Some(change) = clusters.next() => {
                    self.note("Clusters", &change);
                    let touched = touched(&change);
                    let effects = self.registry.cluster(change);
                    self.show_clusters(touched);
                    effects
                }
                Some(change) = internal.next() => {
                    self.note("kubeconfig Secrets", &change);
                    self.registry.secret(Way::Internal, change)
                }
                Some(change) = external.next() => {
                    self.note("external kubeconfig Secrets", &change);
                    self.registry.secret(Way::External, change)
                }
                Some(change) = machines.next() => match change {
                    MachineChange::KindAbsent => self.registry.machine_kind(false),
                    MachineChange::KindPresent => self.registry.machine_kind(true),
                    MachineChange::Machine(change) => {
                        self.note("Machines", &change);
                        self.registry.machine(change)
                    }
                },
            };
            pulse.beat();
            for effect in effects {
                self.carry_out(effect);
            }
            self.show_readiness(&ready);
        }
    }

    fn show_readiness(&self, ready: &ReadyHandle) {
        let missing = self.registry.missing();
        if missing.is_empty() {
            ready.ready();
            return;
        }
        let missing = missing.join(", ");
        let complaints: Vec<&str> = self.complaints.values().map(String::as_str).collect();
        let because = if complaints.is_empty() { "" } else { ": " };
        let complaints = complaints.join("; ");
        ready.not_ready(format!(
            "waiting for the first list of {missing}{because}{complaints}"
        ));
    }

    /// Shows what is known of Clusters, also of those without a probe.
    fn show_clusters(&self, touched: Option<String>) {
        let board = &self.common.board;
        let why = |cluster: &str| self.registry.why_unprobed(cluster);
        match touched {
            Some(cluster) => {
                let why = why(&cluster);
                board.explain_absence(cluster, why);
            }
            // After a new list.
            None => board.keep_absent(|cluster| why(cluster).is_some()),
        }
        let unreadable = i64::try_from(self.registry.unreadable());
        let unreadable = unreadable.unwrap_or(i64::MAX);
        self.common.metrics.unreadable_clusters.set(unreadable);
    }

    /// Logs what is new about a watch.
    fn note<T>(&mut self, what: &'static str, change: &Change<T>) {
        match change {
            Change::Failed(error) => self.complain(what, error),
            Change::Restarted | Change::Applied(_) | Change::Deleted { .. } | Change::Synced => {
                if self.complaints.remove(what).is_some() {
                    info!("the watch on {what} works again");
                }
            }
        }
    }

    fn complain(&mut self, what: &'static str, error: &WatchError) {
        self.common.metrics.watch_failures.inc();
        let text = error.to_string();
        if self.complaints.get(what) != Some(&text) {
            warn!("the watch on {what} broke and is begun again: {text}");
            self.complaints.insert(what, text);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Start { cluster } => self.start(cluster),
            Effect::Update { cluster } => {
                let inputs = self.registry.inputs(&cluster);
                if let Some(running) = self.probes.get(&cluster) {
                    running.inputs.send_replace(inputs);
                }
            }
            Effect::Stop { cluster, why } => {
                let Some(running) = self.probes.remove(&cluster) else {
                    return;
                };
                info!(cluster, "probe removed: {why}");
                running.cancelled.cancel();
                self.ending.retain(|_, ended| !ended.is_finished());
                self.ending.insert(cluster, running.ended);
            }
            Effect::Unreadable { cluster, why } => {
                warn!(
                    cluster,
                    "its Shoot cannot be read, its probe stays as it is: {why}"
                );
            }
        }
    }

    fn start(&mut self, cluster: String) {
        info!(cluster, "probe started");
        let (sender, inputs) = watch::channel(self.registry.inputs(&cluster));
        let cancelled = self.cancelled.child_token();
        let predecessor = self.ending.remove(&cluster);
        let common = Arc::clone(&self.common);
        let (name, token): (Arc<str>, _) = (cluster.as_str().into(), cancelled.clone());
        let ended = self.tracker.spawn(async move {
            if let Some(predecessor) = predecessor {
                // However it ended.
                let _ = predecessor.await;
            }
            supervise(&common, &name, &inputs, &token).await;
        });
        let running = Running {
            inputs: sender,
            cancelled,
            ended,
        };
        self.probes.insert(cluster, running);
    }
}

/// The Cluster that a change is about.
fn touched(change: &Change<ClusterFacts>) -> Option<String> {
    match change {
        Change::Applied(ClusterFacts { name, .. }) | Change::Deleted { name, .. } => {
            Some(name.clone())
        }
        Change::Restarted | Change::Synced | Change::Failed(_) => None,
    }
}

/// Runs a cluster's probe until it is cancelled. A defect in one must not end the others.
async fn supervise(
    common: &Common,
    cluster: &Arc<str>,
    inputs: &watch::Receiver<Inputs>,
    cancelled: &CancellationToken,
) {
    common.metrics.active_probes.inc();
    loop {
        let mut probe = common.probe(cluster, inputs.clone(), cancelled.clone());
        if AssertUnwindSafe(probe.run()).catch_unwind().await.is_ok() {
            break;
        }
        common.metrics.probe_restarts.inc();
        error!(
            cluster = &**cluster,
            "probe ended by a defect, started again in {RESTART:?}"
        );
        if cancelled
            .run_until_cancelled(sleep(RESTART))
            .await
            .is_none()
        {
            break;
        }
    }
    common.metrics.active_probes.dec();
}

impl Common {
    fn probe(
        &self,
        cluster: &Arc<str>,
        inputs: watch::Receiver<Inputs>,
        cancelled: CancellationToken,
    ) -> Probe {
        let settings = &self.config.probe;
        let scribe = Scribe::new(
            Arc::clone(cluster),
            Arc::clone(&self.targets),
            self.board.place(cluster),
            self.metrics.of_cluster(cluster),
            self.events.clone(),
        );
        Probe {
            clock: self.clock,
            grace: settings.grace,
            judge: Judge::new(settings.clone(), self.clock.now()),
            eyes: Eyes::new(
                self.clock,
                settings.probe_timeout,
                self.config.external_kubeconfig_secret.is_some(),
                self.keeping,
                &self.network,
            ),
            hands: Hands::new(
                Arc::clone(cluster),
                self.clock,
                Arc::clone(&self.targets),
                self.reach.clone(),
                scribe,
            ),
            inputs,
            cancelled,
        }
    }
}
