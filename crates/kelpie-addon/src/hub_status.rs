//! The hub status controller, `kelpie addon hop`: shows each cluster's addon in its
//! `ManagedClusterAddOn`, the hub's own kind.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use kelpie_core::addon::{AddonStatus, AvailableOwner, Condition, project_to_managed_addon};
use kelpie_health::{LoopHeartbeat, ReadyHandle};
use kelpie_kube::client::ApiError;
use kelpie_kube::client::ClusterClient;
use kelpie_kube::objects::{ObjectClient, ObjectError, ObjectKind};
use kelpie_kube::watch::WatchEvent;
use prometheus_client::registry::Registry;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::addon::{ADDON, ObservabilityAddon};
use crate::cluster_queue::{ClusterQueue, ClusterResult};
use crate::confirmed_read::ConfirmedReader;
use crate::context::{AddonOptions, ControllerContext, HEARTBEAT_INTERVAL, LeadershipWatch};
use crate::metrics::HubStatusMetrics;

/// The hub's kind for any add-on of a cluster.
pub(crate) const MANAGED_ADDON: ObjectKind = ObjectKind::new(
    "addon.open-cluster-management.io",
    "v1alpha1",
    "ManagedClusterAddOn",
    "managedclusteraddons",
);
/// The name of the `ManagedClusterAddOn` of the observability addon.
pub(crate) const MANAGED_ADDON_NAME: &str = "observability-controller";

/// The reporting component of Events.
const COMPONENT: &str = "kelpie-addon-hub";
/// The upper limit for the hub's `Retry-After`.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(10);
/// The number of attempts after conflicts.
const MAX_ATTEMPTS: usize = 5;

/// The hub status controller, ready to run on a hub.
pub struct HubStatusController {
    context: ControllerContext,
    metrics: HubStatusMetrics,
}

impl HubStatusController {
    /// Creates a controller; [`run`](Self::run) starts it. It handles the addons of all namespaces
    /// that have the name in `options`.
    pub fn new(hub: ClusterClient, options: AddonOptions, registry: &mut Registry) -> Self {
        Self {
            context: ControllerContext::new(hub, COMPONENT, options, registry),
            metrics: HubStatusMetrics::new(registry),
        }
    }

    /// Returns the route `GET /debug/state`, which shows if this replica is the leader.
    pub fn routes(&self) -> Router {
        self.context.routes(|| json!({}))
    }

    /// Runs until `shutdown`. `heartbeat` gets a beat in every iteration. `ready` is set once the
    /// addons were listed.
    pub async fn run(
        self,
        shutdown: CancellationToken,
        heartbeat: LoopHeartbeat,
        ready: ReadyHandle,
    ) {
        let objects = self.context.cluster.objects();
        let options = &self.context.options;
        let mut reconciler = HubStatusReconciler {
            clusters: WatchedClusters {
                name: options.addon.name.clone(),
                queue: ClusterQueue::new(options.resync),
                listed: None,
                is_watch_failing: false,
            },
            writer: ManagedAddonWriter {
                reader: ConfirmedReader::new(objects.clone()),
                objects,
                leadership: self.context.leadership.clone(),
                metrics: self.metrics.clone(),
            },
        };
        let work = reconciler.run(heartbeat, ready);
        self.context.run(shutdown, self.metrics.leader, work).await;
    }
}

/// Watches the addons of all clusters and updates their `ManagedClusterAddOn`s.
struct HubStatusReconciler {
    clusters: WatchedClusters,
    writer: ManagedAddonWriter,
}

/// The clusters that have an addon.
struct WatchedClusters {
    /// The name of the addons.
    name: String,
    queue: ClusterQueue,
    /// The namespaces seen so far, while a list arrives.
    listed: Option<BTreeSet<String>>,
    /// The last watch failed. Further failures are logged at debug level only.
    is_watch_failing: bool,
}

/// Writes `ManagedClusterAddOn`s.
struct ManagedAddonWriter {
    reader: ConfirmedReader,
    objects: ObjectClient,
    leadership: LeadershipWatch,
    metrics: HubStatusMetrics,
}

impl HubStatusReconciler {
    async fn run(&mut self, heartbeat: LoopHeartbeat, ready: ReadyHandle) {
        let Self { clusters, writer } = self;
        let writer = &*writer;
        let mut leadership = writer.leadership.clone();
        let mut events = pin!(writer.objects.watch(ADDON, "", None));
        let mut syncs = FuturesUnordered::new();
        loop {
            heartbeat.beat();
            let next_beat = Instant::now() + HEARTBEAT_INTERVAL;
            let may_decide = leadership.may_decide();
            while may_decide && clusters.queue.has_capacity(syncs.len()) {
                let Some((namespace, status)) = clusters.queue.next(Instant::now()) else {
                    break;
                };
                syncs.push(async move {
                    let result = writer.sync(&namespace, &status).await;
                    (namespace, result)
                });
            }
            // A standby, or a controller that is busy, does not wait for the next cluster.
            let can_start = may_decide && clusters.queue.has_capacity(syncs.len());
            let wake = clusters.queue.wake().filter(|_| can_start);
            tokio::select! {
                biased;
                () = leadership.changed() => {
                    if leadership.may_decide() {
                        clusters.queue.restart(Instant::now());
                    }
                }
                Some((namespace, result)) = syncs.next() => {
                    clusters.finish(&namespace, result);
                }
                Some(event) = events.next() => {
                    if matches!(event, WatchEvent::InitDone) {
                        ready.ready();
                    }
                    if matches!(event, WatchEvent::Error(_)) {
                        writer.metrics.watch_failures.inc();
                    }
                    clusters.handle_event(event);
                }
                () = sleep_until(wake.map_or(next_beat, |wake| wake.min(next_beat))) => {}
            }
            let (count, failing) = (clusters.queue.len(), clusters.queue.failing());
            writer.metrics.set_clusters(count, failing);
        }
    }
}

impl WatchedClusters {
    fn handle_event(&mut self, event: WatchEvent<Value>) {
        match event {
            WatchEvent::Init => self.listed = Some(BTreeSet::new()),
            WatchEvent::Apply(object) => {
                self.is_watch_failing = false;
                let text = |field: &str| {
                    let value = object["metadata"][field].as_str();
                    value.unwrap_or_default().to_owned()
                };
                let (namespace, name) = (text("namespace"), text("name"));
                if name != self.name {
                    return;
                }
                let status = ObservabilityAddon::read(object).status;
                self.queue.set(&namespace, status, Instant::now());
                if let Some(listed) = &mut self.listed {
                    listed.insert(namespace);
                }
            }
            WatchEvent::Delete { namespace, name } if name == self.name => {
                self.queue.remove(&namespace);
            }
            WatchEvent::Delete { .. } => {}
            WatchEvent::InitDone => {
                if let Some(listed) = self.listed.take() {
                    self.queue.retain(&listed);
                }
            }
            WatchEvent::Error(error) => {
                if self.is_watch_failing {
                    debug!(%error, "the watch on the addons still fails");
                } else {
                    warn!("{error}");
                }
                self.is_watch_failing = true;
            }
        }
    }

    /// Records the result of a synchronization. The first failure of a cluster is logged.
    fn finish(&mut self, namespace: &Arc<str>, result: Result<ClusterResult, ObjectError>) {
        let (result, error) = match result {
            Ok(result) => (result, None),
            Err(error) => (failure(&error.cause), Some(error)),
        };
        let now = Instant::now();
        let is_new = self.queue.finished(namespace, result, now, fastrand::f64());
        match error {
            Some(error) if is_new => warn!("{error}; retrying"),
            Some(error) => debug!(%error, "the cluster still fails"),
            None => {}
        }
    }
}

impl ManagedAddonWriter {
    async fn sync(
        &self,
        namespace: &str,
        status: &AddonStatus,
    ) -> Result<ClusterResult, ObjectError> {
        let result = self.write(namespace, status).await;
        if result.is_err() {
            self.metrics.failures.inc();
        }
        result
    }

    async fn write(
        &self,
        namespace: &str,
        status: &AddonStatus,
    ) -> Result<ClusterResult, ObjectError> {
        let path = MANAGED_ADDON.named(namespace, MANAGED_ADDON_NAME);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let Some(object) = self.reader.read(&path).await? else {
                debug!(namespace, "the cluster has no ManagedClusterAddOn");
                return Ok(ClusterResult::Synced);
            };
            let Some(updated) = updated_object(object, status, self.objects.now()) else {
                return Ok(ClusterResult::Synced);
            };
            if self.leadership.is_dry_run {
                info!(
                    namespace,
                    "dry run: the status of the ManagedClusterAddOn would be written"
                );
                return Ok(ClusterResult::Synced);
            }
            if !self.leadership.may_act() {
                return Ok(ClusterResult::Interrupted);
            }
            match self.objects.replace_status(&path, &updated).await {
                Ok(_) => {
                    self.metrics.written.inc();
                    return Ok(ClusterResult::Synced);
                }
                Err(error) if error.cause == ApiError::Conflict && attempts < MAX_ATTEMPTS => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns if an error concerns one cluster or the hub.
fn failure(cause: &ApiError) -> ClusterResult {
    match cause {
        ApiError::Unauthorized(_) => ClusterResult::HubRejects(None),
        ApiError::Throttled(after) => {
            ClusterResult::HubRejects(after.map(|after| after.min(LONGEST_RETRY_AFTER)))
        }
        ApiError::Tls(_) | ApiError::TimedOut | ApiError::Webhook(_) | ApiError::Unavailable(_) => {
            ClusterResult::HubFailed
        }
        ApiError::Forbidden(_)
        | ApiError::NotFound
        | ApiError::Conflict
        | ApiError::Expired
        | ApiError::Invalid { .. } => ClusterResult::ClusterFailed,
    }
}

/// Returns the `ManagedClusterAddOn` with the addon's status, or `None` if it is up to date.
fn updated_object(
    mut object: Value,
    status: &AddonStatus,
    now: kelpie_core::Time,
) -> Option<Value> {
    let available_owner = if object["status"]["healthCheck"]["mode"] == "Customized" {
        AvailableOwner::Addon
    } else {
        AvailableOwner::Hub
    };
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.cloned().unwrap_or_default();
    let readable = conditions.iter().map(Condition::deserialize);
    let before: Vec<Condition> = readable.filter_map(Result::ok).collect();
    let mut after = before.clone();
    project_to_managed_addon(status, available_owner, &mut after, now);
    if after == before {
        return None;
    }
    // Only changed conditions are replaced. Those of other writers stay as they are, even if they
    // cannot be parsed.
    let changed = after.iter().filter(|condition| !before.contains(condition));
    for condition in changed {
        let serialized = serde_json::to_value(condition).ok()?;
        let mut entries = conditions.iter_mut();
        match entries.find(|entry| entry["type"] == condition.type_.as_str()) {
            Some(entry) => *entry = serialized,
            None => conditions.push(serialized),
        }
    }
    if !object["status"].is_object() {
        object["status"] = json!({});
    }
    object["status"]["conditions"] = conditions.into();
    Some(object)
}

#[cfg(test)]
mod tests {
    use kelpie_core::Time;

    use super::*;

    fn degraded() -> AddonStatus {
        let condition = json!({ "type": "Degraded", "status": "True", "reason": "ForwardFailure" });
        AddonStatus::deserialize(json!({ "conditions": [condition] })).unwrap()
    }

    #[test]
    fn foreign_conditions_are_kept_verbatim() {
        let foreign = [
            json!({ "type": "Strange", "status": 7 }),
            json!("not even a condition"),
            json!({ "type": "Registered", "status": "True", "of": { "another": "version" } }),
        ];
        let mut conditions = foreign.to_vec();
        conditions.push(json!({ "type": "Degraded", "status": null }));
        let object = json!({ "status": { "conditions": conditions } });
        let updated =
            updated_object(object, &degraded(), Time::from_unix(1_700_000_000, 0)).unwrap();
        let after = updated["status"]["conditions"].as_array().unwrap();
        assert_eq!(after[..3], foreign);
        let ours = after[3..].iter().map(|one| (&one["type"], &one["status"]));
        let expected = [
            (&json!("Degraded"), &json!("True")),
            (&json!("Progressing"), &json!("False")),
        ];
        assert_eq!(ours.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn current_status_is_not_written_again() {
        let now = Time::from_unix(1_700_000_000, 0);
        let first = updated_object(json!({}), &degraded(), now).unwrap();
        assert_eq!(updated_object(first, &degraded(), now), None);
    }
}
