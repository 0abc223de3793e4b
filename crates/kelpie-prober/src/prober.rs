//! The prober as a component of a process.

use std::future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kelpie_config::ProberConfig;
use kelpie_core::prober::Target;
use kelpie_health::{LoopHeartbeat, ReadyHandle};
use kelpie_kube::client::ClusterClient;
use kelpie_kube::leader::{CallLatency, ElectionHandle, ElectionSettings, LeaseName, ReplicaRole};
use kelpie_kube::replica::Replica;
use kelpie_kube::shard_leases::ShardLeases;
use kelpie_kube::tenant::ConnectionReuse;
use kelpie_runtime::drain;
use kelpie_runtime::watch::Receiver;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::credential_refresher::{KubeconfigReader, ReadKubeconfig};
use crate::fence_executor::SeedAccess;
use crate::manager::{ProbeContext, ProbeManager};
use crate::metrics::{PREFIX, ProberMetrics};
use crate::node_lists::NodeListLimit;
use crate::own_egress::OwnEgress;
use crate::recording::{self, RecordEnd, RecordSettings};
use crate::reporter::ClusterEventSink;
use crate::sharding::{Announcer, ShardReport};
use crate::source::cluster_source;
use crate::state_page::{ReplicaPage, StatePage};
use crate::warm_up::WarmUp;

/// The Lease of the leader has dependency-watchdog's name, so that the two never act at the same
/// time.
pub const LEADER_LEASE: &str = "dwd-prober-leader-election";
/// The reporting component of Events.
const COMPONENT: &str = "kelpie-prober";
/// Probes get this long to reach a step boundary.
const DRAIN: Duration = Duration::from_secs(3);
/// The pause between two requests that measure the seed.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// A request that waits for longer counts before it is answered, and again after the same time.
const PING_PATIENCE: Duration = Duration::from_secs(1);

/// Options beside the configuration file.
#[derive(Clone, Debug)]
pub struct ProberOptions {
    /// Decide and report everything, but write nothing.
    pub dry_run: bool,
    /// Open new connections in every round.
    pub fresh_connections: bool,
    /// Connect to clusters on loopback and link-local addresses, too.
    pub allow_local_clusters: bool,
    /// Act only as the elected leader; `None`: always.
    pub election: Option<ElectionSettings>,
    /// The Lease of the leader. It also has the records of targets that cannot be annotated.
    pub lease: LeaseName,
    /// The reporting instance of Events.
    pub identity: String,
    /// The namespace of Events about cluster-scoped objects.
    pub event_namespace: String,
}

/// The prober, ready to run.
pub struct Prober {
    pub(crate) context: ProbeContext,
    seed: ClusterClient,
    /// Serves the reads of targets that can wait.
    batch_reads: BoxFuture<'static, ()>,
    read_kubeconfigs: mpsc::UnboundedReceiver<ReadKubeconfig>,
    /// Watches the targets of all clusters.
    target_watches: BoxFuture<'static, ()>,
    /// Writes records to the leader Lease.
    record_writes: BoxFuture<'static, ()>,
    /// Passes the records on the leader Lease to the probes.
    record_updates: BoxFuture<'static, ()>,
    /// Measures the latency of the seed.
    measurement: BoxFuture<'static, ()>,
    /// Reads the Leases of shards and renews that of this one.
    announcing: BoxFuture<'static, ()>,
    shard_reports: mpsc::Receiver<ShardReport>,
    replica: Replica,
    identity: String,
}

/// Returns the name of the leader Lease: each set of probes with a name has one of its own, as each
/// shard has.
pub fn leader_lease(config: &ProberConfig) -> String {
    match config.name.as_str() {
        "" => LEADER_LEASE.to_owned(),
        name => format!("{LEADER_LEASE}-{name}"),
    }
}

impl Prober {
    /// Creates a prober whose metrics go to `registry`. Nothing runs yet.
    pub fn new(
        config: ProberConfig,
        options: ProberOptions,
        seed: ClusterClient,
        registry: &mut Registry,
    ) -> Self {
        let role = ReplicaRole::new(options.election, options.dry_run);
        let is_alone = role == ReplicaRole::Alone;
        let events = || seed.events(COMPONENT, &options.identity);
        let replica = Replica::new(&seed, role, events);
        let registry = match &config.shard {
            Some(shard) => {
                let label = ("shard".into(), shard.name.clone().into());
                registry.sub_registry_with_label(label)
            }
            None => registry,
        };
        let metrics = ProberMetrics::new(registry, replica.clock());
        replica.register_metrics(&seed, registry, PREFIX);
        let (batch_reader, batch_reads) = seed.batch_reader();
        let source = cluster_source(&config);
        let (kubeconfig_reader, read_kubeconfigs) =
            KubeconfigReader::new(&seed, Arc::clone(&source));
        let access = SeedAccess::new(
            &seed,
            batch_reader,
            replica.leadership(),
            replica.clock(),
            &config.probe,
            options.dry_run,
        )
        .with_pause(replica.pause());
        let targets: Arc<[Target]> = config.targets.clone().into();
        // Shards share it: a guard goes on when its cluster moves.
        let guard_owner = LeaseName {
            name: LEADER_LEASE.to_owned(),
            ..options.lease.clone()
        };
        let guard_owner = guard_owner.to_string().into();
        let (reports, shard_reports) = mpsc::channel(1);
        let announcing = config.shard.as_ref().map(|shard| {
            let lease = LeaseName {
                name: shard.lease_name(),
                ..options.lease.clone()
            };
            let announcer = Announcer {
                leases: ShardLeases::new(&seed, lease, shard.name.as_str(), shard.ring()),
                leadership: replica.leadership(),
                clock: replica.clock(),
                reports,
            };
            announcer.run().boxed()
        });
        let (records, record_writes) = replica.lease_records(&seed, options.lease);
        let waiting = metrics.records_on_lease.clone();
        let count = move |count| {
            waiting.set(i64::try_from(count).unwrap_or(i64::MAX));
        };
        let (access, record_updates) = access.with_records(records, Arc::clone(&targets), count);
        let target_watches = access.watch(Arc::clone(&targets), config.namespace.clone());
        let measurement = if is_alone {
            measure_by_pings(access.clone(), seed.clone()).boxed()
        } else {
            measure_by_election(access.clone(), replica.election_latency()).boxed()
        };
        let context = ProbeContext {
            clock: replica.clock(),
            targets,
            config,
            source,
            connection_reuse: connection_reuse(options.fresh_connections),
            network: if options.allow_local_clusters {
                seed.network().clone()
            } else {
                seed.network().clone().refusing_local_addresses()
            },
            access,
            kubeconfig_reader,
            objects: seed.objects(),
            guard_owner,
            warm_up: WarmUp::new(replica.standing()),
            node_lists: NodeListLimit::default(),
            own_egress: OwnEgress::new(metrics.own_egress_suspected.clone()),
            open_files_limit: None,
            metrics,
            record: None,
            state_page: StatePage::default(),
            events: replica.events().cloned().map(|events| ClusterEventSink {
                events,
                namespace: options.event_namespace.into(),
            }),
        };
        Self {
            context,
            seed,
            batch_reads: batch_reads.boxed(),
            read_kubeconfigs,
            target_watches: target_watches.boxed(),
            record_writes: record_writes.boxed(),
            record_updates: record_updates.boxed(),
            measurement,
            announcing: announcing.unwrap_or_else(|| future::ready(()).boxed()),
            shard_reports,
            replica,
            identity: options.identity,
        }
    }

    /// Sets the limit on open files, which is checked against the number of clusters.
    #[must_use]
    pub fn with_open_files_limit(mut self, limit: u64) -> Self {
        self.context.metrics.set_open_files_limit(limit);
        self.context.open_files_limit = Some(limit);
        self
    }

    /// Records what the probes take in and decide. `replica` identifies this process.
    pub fn recording(
        mut self,
        settings: &RecordSettings,
        replica: &str,
    ) -> io::Result<(Self, RecordEnd)> {
        let context = &mut self.context;
        let (started, lost) = (context.clock.now(), context.metrics.record_lost.clone());
        let (queue, end) = recording::start(settings, &context.config, replica, started, lost)?;
        context.record = Some(queue);
        Ok((self, end))
    }

    /// Serves `GET /debug/state`: the raw state of all clusters; all of them in one line each with
    /// `?summary`; or one in full with `?cluster=NAME`. And the fleet page, at `/ui/`.
    pub fn routes(&self) -> Router {
        let page = ReplicaPage {
            state_page: self.context.state_page.clone(),
            replica: self.replica.status(),
            identity: self.identity.as_str().into(),
        };
        page.routes()
    }

    /// Runs until `shutdown`. Then the Lease is released, and the probes stop at a step boundary.
    /// `heartbeat` beats while the main loop turns; `ready` is ready once the clusters are judged.
    pub async fn run(
        self,
        shutdown: CancellationToken,
        heartbeat: LoopHeartbeat,
        ready: ReadyHandle,
    ) {
        let (context, seed, batch_reads) = (self.context, self.seed, self.batch_reads);
        let measurement = self.measurement;
        let (read_kubeconfigs, target_watches) = (self.read_kubeconfigs, self.target_watches);
        let (record_writes, record_updates) = (self.record_writes, self.record_updates);
        let (announcing, shard_reports) = (self.announcing, self.shard_reports);
        let leader = context.metrics.leader.clone();
        let record = context.record.clone();
        let work = |background: &ElectionHandle| {
            background.spawn(|over| over.run_until_cancelled_owned(batch_reads));
            background.spawn(|over| over.run_until_cancelled_owned(target_watches));
            background.spawn(|over| over.run_until_cancelled_owned(record_writes));
            background.spawn(|over| over.run_until_cancelled_owned(record_updates));
            background.spawn(|over| over.run_until_cancelled_owned(measurement));
            background.spawn(|over| over.run_until_cancelled_owned(announcing));
            // Before the probes end: a warm standby takes over while they finish their calls.
            background.release_on(shutdown.clone());
            async move {
                let probes = TaskTracker::new();
                let tracker = probes.clone();
                let manager =
                    ProbeManager::new(context, read_kubeconfigs, shard_reports, shutdown, tracker);
                manager.run(&seed, heartbeat, ready).await;
                if !drain(&probes, DRAIN).await {
                    warn!(
                        "shutdown timed out with requests in flight; the next start re-reads the \
                         targets"
                    );
                }
            }
        };
        self.replica.run(leader, work).await;
        if let Some(record) = record {
            record.stop();
        }
    }
}

fn connection_reuse(is_fresh: bool) -> ConnectionReuse {
    if is_fresh {
        ConnectionReuse::FreshEachRound
    } else {
        ConnectionReuse::Keep
    }
}

/// Measures the seed by the calls of the election, which are made even if nothing is fenced.
async fn measure_by_election(access: SeedAccess, mut latency: Receiver<Option<CallLatency>>) {
    loop {
        latency.changed().await;
        if let Some(call) = latency.borrow_and_update() {
            access.record_latency(call.elapsed);
        }
    }
}

/// Measures the seed where no election does. A request counts while it waits, too.
async fn measure_by_pings(access: SeedAccess, seed: ClusterClient) {
    loop {
        let start = Instant::now();
        let mut ping = pin!(seed.ping());
        while timeout(PING_PATIENCE, &mut ping).await.is_err() {
            access.record_latency(start.elapsed());
        }
        access.record_latency(start.elapsed());
        sleep(PING_INTERVAL).await;
    }
}
