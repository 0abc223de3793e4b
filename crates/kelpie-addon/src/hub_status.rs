//! The hub status controller, `kelpie addon hop`: shows each cluster's addon in its
//! `ManagedClusterAddOn`, the hub's own kind.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use futures_util::StreamExt;
use kelpie_core::addon::{AddonStatus, AvailableOwner, Condition, project_to_managed_addon};
use kelpie_health::{LoopHeartbeat, ReadyHandle};
use kelpie_kube::client::ApiError;
use kelpie_kube::client::ClusterClient;
use kelpie_kube::objects::{ObjectClient, ObjectError, ObjectKind};
use kelpie_kube::watch::WatchEvent;
use prometheus_client::registry::Registry;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::addon::{ADDON, ObservabilityAddon};
use crate::backoff::Backoff;
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
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
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
            context: ControllerContext::new(hub, COMPONENT, options),
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
            name: options.addon.name.clone(),
            resync: options.resync,
            leadership: self.context.leadership.clone(),
            metrics: self.metrics.clone(),
            clusters: BTreeMap::new(),
            pending: BTreeSet::new(),
            listed: None,
        };
        let work = reconciler.run(&objects, heartbeat, ready);
        self.context.run(shutdown, self.metrics.leader, work).await;
    }
}

/// Watches the addons of all clusters and updates their `ManagedClusterAddOn`s.
struct HubStatusReconciler {
    name: String,
    resync: Duration,
    leadership: LeadershipWatch,
    metrics: HubStatusMetrics,
    /// The status of each cluster's addon, by namespace.
    clusters: BTreeMap<String, AddonStatus>,
    /// The namespaces of clusters whose `ManagedClusterAddOn` may be outdated.
    pending: BTreeSet<String>,
    /// The namespaces seen so far, while a list arrives.
    listed: Option<BTreeSet<String>>,
}

impl HubStatusReconciler {
    async fn run(&mut self, objects: &ObjectClient, heartbeat: LoopHeartbeat, ready: ReadyHandle) {
        let mut events = pin!(objects.watch(ADDON, "", None));
        let mut resync = interval(self.resync);
        resync.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut retry: Option<Instant> = None;
        loop {
            heartbeat.beat();
            let wake = retry.unwrap_or_else(|| Instant::now() + HEARTBEAT_INTERVAL);
            tokio::select! {
                biased;
                _ = resync.tick() => self.pending.extend(self.clusters.keys().cloned()),
                Some(event) = events.next() => {
                    if matches!(event, WatchEvent::InitDone) {
                        ready.ready();
                    }
                    self.handle_event(event);
                }
                () = sleep_until(wake) => {}
            }
            let is_due = retry.is_none_or(|at| at <= Instant::now());
            if !is_due || !self.leadership.may_decide() {
                continue;
            }
            retry = match self.sync_all(objects, &heartbeat).await {
                Ok(()) => {
                    backoff.reset();
                    None
                }
                Err(error) => {
                    warn!("{error}");
                    Some(Instant::now() + backoff.pause(fastrand::f64()))
                }
            };
        }
    }

    fn handle_event(&mut self, event: WatchEvent<Value>) {
        match event {
            WatchEvent::Init => self.listed = Some(BTreeSet::new()),
            WatchEvent::Apply(object) => {
                let text = |field: &str| {
                    let value = object["metadata"][field].as_str();
                    value.unwrap_or_default().to_owned()
                };
                let (namespace, name) = (text("namespace"), text("name"));
                if name != self.name {
                    return;
                }
                let status = ObservabilityAddon::read(object).status;
                if let Some(listed) = &mut self.listed {
                    listed.insert(namespace.clone());
                }
                if self.clusters.get(&namespace) != Some(&status) {
                    self.pending.insert(namespace.clone());
                    self.clusters.insert(namespace, status);
                }
            }
            WatchEvent::Delete { namespace, name } if name == self.name => {
                self.clusters.remove(&namespace);
                self.pending.remove(&namespace);
            }
            WatchEvent::Delete { .. } => {}
            WatchEvent::InitDone => {
                if let Some(listed) = self.listed.take() {
                    self.clusters
                        .retain(|namespace, _| listed.contains(namespace));
                    self.pending.retain(|namespace| listed.contains(namespace));
                }
            }
            WatchEvent::Error(error) => warn!("{error}"),
        }
    }

    /// Updates all pending clusters, one after the other. A cluster that fails stays pending and
    /// does not block the others, unless the error concerns the hub as a whole.
    async fn sync_all(
        &mut self,
        objects: &ObjectClient,
        heartbeat: &LoopHeartbeat,
    ) -> Result<(), ObjectError> {
        let mut failed = Ok(());
        for namespace in self.pending.clone() {
            heartbeat.beat();
            if !self.leadership.may_decide() {
                break;
            }
            let result = match self.clusters.get(&namespace) {
                Some(status) => self.sync(objects, &namespace, status).await,
                None => Ok(()),
            };
            match result {
                Ok(()) => {
                    self.pending.remove(&namespace);
                }
                Err(error) if concerns_all_clusters(&error.cause) => return Err(error),
                Err(error) => failed = Err(error),
            }
        }
        failed
    }

    async fn sync(
        &self,
        objects: &ObjectClient,
        namespace: &str,
        status: &AddonStatus,
    ) -> Result<(), ObjectError> {
        let path = MANAGED_ADDON.named(namespace, MANAGED_ADDON_NAME);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let Some(object) = objects.get(&path).await? else {
                debug!(namespace, "the cluster has no ManagedClusterAddOn");
                return Ok(());
            };
            let Some(updated) = updated_object(object, status, objects.now()) else {
                return Ok(());
            };
            if self.leadership.is_dry_run {
                info!(
                    namespace,
                    "dry run: the status of the ManagedClusterAddOn would be written"
                );
                return Ok(());
            }
            match objects.replace_status(&path, &updated).await {
                Ok(_) => {
                    self.metrics.written.inc();
                    return Ok(());
                }
                Err(error) if error.cause == ApiError::Conflict && attempts < MAX_ATTEMPTS => {}
                Err(error) if error.cause == ApiError::NotFound => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns true for errors that all other clusters would get as well.
fn concerns_all_clusters(cause: &ApiError) -> bool {
    match cause {
        ApiError::Unauthorized(_)
        | ApiError::Throttled(_)
        | ApiError::TimedOut
        | ApiError::Webhook(_)
        | ApiError::Unavailable(_) => true,
        ApiError::Forbidden(_)
        | ApiError::NotFound
        | ApiError::Conflict
        | ApiError::Expired
        | ApiError::Invalid { .. } => false,
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
