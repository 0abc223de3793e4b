//! The weeder as a component of a process.

use std::future;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Query;
use axum::routing::get;
use axum::{Json, Router};
use kelpie_config::WeederConfig;
use kelpie_core::weeder::{ReadinessRule, WindowRules};
use kelpie_health::{LoopHeartbeat, ReadyHandle};
use kelpie_kube::client::ClusterClient;
use kelpie_kube::leader::{ElectionHandle, ElectionSettings, ReplicaRole};
use kelpie_kube::replica::Replica;
use kelpie_runtime::drain;
use prometheus_client::registry::Registry;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::deletion_limiter::DeletionLimiter;
use crate::metrics::{PREFIX, WeederMetrics};
use crate::namespace_worker::WeederContext;
use crate::reporter::WeederTelemetry;
use crate::service_watcher::ServiceWatcher;
use crate::state_page::{ServiceStatePage, WeederState};
use crate::watch_pool::WatchPools;

/// The reporting component of Events.
const COMPONENT: &str = "kelpie-weeder";
/// Deletions under way get this long to finish.
const DRAIN: Duration = Duration::from_secs(3);

/// Options beside the configuration file.
#[derive(Clone, Debug)]
pub struct WeederOptions {
    /// Decide and report everything, but delete nothing.
    pub dry_run: bool,
    /// Watch only this namespace.
    pub namespace: Option<String>,
    /// Act only as the elected leader; `None`: always.
    pub election: Option<ElectionSettings>,
    /// The reporting instance of Events.
    pub identity: String,
}

/// The weeder, ready to run.
pub struct Weeder {
    context: WeederContext,
    namespace: Option<String>,
    readiness: ReadinessRule,
    replica: Replica,
}

impl Weeder {
    /// Creates a weeder whose metrics go to `registry`. Nothing runs yet. It ends when `shutdown`
    /// is cancelled.
    pub fn new(
        config: WeederConfig,
        options: WeederOptions,
        seed: ClusterClient,
        registry: &mut Registry,
        shutdown: CancellationToken,
    ) -> Self {
        let dry_run = options.dry_run || config.dry_run;
        let role = ReplicaRole::new(options.election, dry_run);
        let events = || seed.priority_events(COMPONENT, &options.identity);
        let replica = Replica::new(&seed, role, events);
        let services = config.services.keys().map(String::as_str);
        let metrics = WeederMetrics::new(registry, services);
        replica.register_metrics(&seed, registry, PREFIX);
        let context = WeederContext {
            clock: replica.clock(),
            seed,
            rules: WindowRules {
                watch_duration: config.watch_duration,
                max_deletions_per_pod: config.max_deletions_per_pod,
                dry_run,
            },
            selectors: config.services,
            watch_pools: WatchPools::new(None),
            limiter: DeletionLimiter::default(),
            leadership: replica.leadership(),
            pause: Some(replica.pause()),
            telemetry: WeederTelemetry {
                metrics,
                state_page: ServiceStatePage::default(),
                events: replica.events().cloned(),
            },
            cancelled: shutdown,
        };
        Self {
            context,
            namespace: options.namespace,
            readiness: config.readiness,
            replica,
        }
    }

    /// Sets the limit on open files, which watches on pods keep to.
    #[must_use]
    pub fn with_open_files_limit(mut self, limit: u64) -> Self {
        self.context.watch_pools = WatchPools::new(Some(limit));
        self
    }

    /// Serves `GET /debug/state`: all services and their windows, or those of one namespace with
    /// `?namespace=NAME`.
    pub fn routes(&self) -> Router {
        let state_page = self.context.telemetry.state_page.clone();
        let replica = self.replica.status();
        let state = move |Query(query): Query<NamespaceQuery>| {
            future::ready(Json(WeederState {
                replica: replica.now(),
                pause: replica.pause().switch(),
                namespaces: state_page.namespaces(query.namespace.as_deref()),
            }))
        };
        Router::new().route("/debug/state", get(state))
    }

    /// Runs until the shutdown. Then deletions under way may finish, and the Lease is released.
    /// `heartbeat` beats while the main loop turns; `ready` is ready once the services are known.
    pub async fn run(self, heartbeat: LoopHeartbeat, ready: ReadyHandle) {
        let leader = self.context.telemetry.metrics.leader.clone();
        let workers = TaskTracker::new();
        let (context, namespace) = (Arc::new(self.context), self.namespace);
        let watcher = ServiceWatcher::new(context, namespace, self.readiness, workers.clone());
        let work = |_: &ElectionHandle| async move {
            watcher.run(heartbeat, ready).await;
            if !drain(&workers, DRAIN).await {
                warn!(
                    "shutdown timed out with deletions in flight; the next start re-reads the pods"
                );
            }
        };
        self.replica.run(leader, work).await;
    }
}

#[derive(Deserialize)]
struct NamespaceQuery {
    namespace: Option<String>,
}
