//! The second hop, on the hub: every cluster's addon to the hub's own kind, `ManagedClusterAddOn`.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use futures_util::StreamExt;
use kelpie_core::addon::{Availability, Condition, Status, project};
use kelpie_health::{Pulse, ReadyHandle};
use kelpie_kube::objects::{CallError, Cause, Kind, Objects};
use kelpie_kube::seed::{Change, Seed};
use prometheus_client::registry::Registry;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::addon::{ADDON, Addon};
use crate::backoff::Backoff;
use crate::metrics::HopMetrics;
use crate::post::{Options, Post, Say};

/// The hub's kind for any add-on of a cluster.
pub(crate) const MANAGED: Kind = Kind::new(
    "addon.open-cluster-management.io",
    "v1alpha1",
    "ManagedClusterAddOn",
    "managedclusteraddons",
);
/// What this add-on is called there.
pub(crate) const MANAGED_NAME: &str = "observability-controller";

/// How Events are signed.
const COMPONENT: &str = "kelpie-addon-hub";
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
const TURN: Duration = Duration::from_secs(10);
/// When somebody was faster.
const AGAIN: usize = 5;

/// The hop, ready to run on a hub.
pub struct Hop {
    post: Post,
    metrics: HopMetrics,
}

impl Hop {
    /// Nothing runs yet. Of the options' addon the name counts: it is looked for in every namespace.
    pub fn new(hub: Seed, options: Options, registry: &mut Registry) -> Self {
        Self {
            post: Post::new(hub, COMPONENT, options),
            metrics: HopMetrics::new(registry),
        }
    }

    /// `GET /debug/state`: whether this replica acts.
    pub fn routes(&self) -> Router {
        let (say, dry_run) = (self.post.say(), self.post.options.dry_run);
        let show = move || {
            let state = json!({ "leads": say.may_act(), "dryRun": dry_run });
            std::future::ready(axum::Json(state))
        };
        Router::new().route("/debug/state", get(show))
    }

    /// Runs until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken, pulse: Pulse, ready: ReadyHandle) {
        let objects = self.post.spoke.objects();
        let options = &self.post.options;
        let mut lookout = Lookout {
            name: options.addon.name.clone(),
            resync: options.resync,
            dry_run: options.dry_run,
            say: self.post.say(),
            metrics: self.metrics.clone(),
            clusters: BTreeMap::new(),
            waiting: BTreeSet::new(),
            listed: None,
        };
        let work = async {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = lookout.follow(&objects, pulse, ready) => {}
            }
        };
        let leader = self.metrics.leader.clone();
        Box::pin(self.post.during(leader, work)).await;
    }
}

/// Follows the addons of all clusters.
struct Lookout {
    name: String,
    resync: Duration,
    dry_run: bool,
    say: Say,
    metrics: HopMetrics,
    /// By namespace.
    clusters: BTreeMap<String, Status>,
    /// Clusters that have yet to be shown.
    waiting: BTreeSet<String>,
    /// While a list comes in: who is in it.
    listed: Option<BTreeSet<String>>,
}

impl Lookout {
    async fn follow(&mut self, objects: &Objects, pulse: Pulse, ready: ReadyHandle) {
        let mut changes = pin!(objects.watch(ADDON, "", None));
        let mut resync = interval(self.resync);
        resync.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut retry: Option<Instant> = None;
        loop {
            pulse.beat();
            let wake = retry.unwrap_or_else(|| Instant::now() + TURN);
            tokio::select! {
                Some(change) = changes.next() => {
                    if matches!(change, Change::Synced) {
                        ready.ready();
                    }
                    self.learn(change);
                }
                _ = resync.tick() => self.waiting.extend(self.clusters.keys().cloned()),
                () = sleep_until(wake) => {}
            }
            let is_due = retry.is_none_or(|at| at <= Instant::now());
            if !is_due || !(self.say.may_act() || self.dry_run) {
                continue;
            }
            retry = match self.show_all(objects, &pulse).await {
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

    fn learn(&mut self, change: Change<Value>) {
        match change {
            Change::Restarted => self.listed = Some(BTreeSet::new()),
            Change::Applied(object) => {
                let text = |field: &str| {
                    let value = object["metadata"][field].as_str();
                    value.unwrap_or_default().to_owned()
                };
                let (namespace, name) = (text("namespace"), text("name"));
                if name != self.name {
                    return;
                }
                let status = Addon::read(object).status;
                if let Some(listed) = &mut self.listed {
                    listed.insert(namespace.clone());
                }
                if self.clusters.get(&namespace) != Some(&status) {
                    self.waiting.insert(namespace.clone());
                    self.clusters.insert(namespace, status);
                }
            }
            Change::Deleted { namespace, name } if name == self.name => {
                self.clusters.remove(&namespace);
                self.waiting.remove(&namespace);
            }
            Change::Deleted { .. } => {}
            Change::Synced => {
                if let Some(listed) = self.listed.take() {
                    self.clusters
                        .retain(|namespace, _| listed.contains(namespace));
                    self.waiting.retain(|namespace| listed.contains(namespace));
                }
            }
            Change::Failed(error) => warn!("{error}"),
        }
    }

    /// One after the other; who fails stays in the list, and keeps nobody else from being shown
    /// unless it is the hub that fails.
    async fn show_all(&mut self, objects: &Objects, pulse: &Pulse) -> Result<(), CallError> {
        let mut failed = Ok(());
        for namespace in self.waiting.clone() {
            pulse.beat();
            if !(self.say.may_act() || self.dry_run) {
                break;
            }
            let shown = match self.clusters.get(&namespace) {
                Some(status) => self.show(objects, &namespace, status).await,
                None => Ok(()),
            };
            match shown {
                Ok(()) => {
                    self.waiting.remove(&namespace);
                }
                Err(error) if is_of_all(&error.cause) => return Err(error),
                Err(error) => failed = Err(error),
            }
        }
        failed
    }

    async fn show(
        &self,
        objects: &Objects,
        namespace: &str,
        status: &Status,
    ) -> Result<(), CallError> {
        let place = MANAGED.named(namespace, MANAGED_NAME);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let Some(object) = objects.get(&place).await? else {
                debug!(namespace, "there is no ManagedClusterAddOn to show it in");
                return Ok(());
            };
            let Some(shown) = shown(object, status, objects.now()) else {
                return Ok(());
            };
            if self.dry_run {
                info!(
                    namespace,
                    "dry run: its ManagedClusterAddOn would be written"
                );
                return Ok(());
            }
            match objects.replace_status(&place, &shown).await {
                Ok(_) => {
                    self.metrics.written.inc();
                    return Ok(());
                }
                Err(error) if error.cause == Cause::Conflict && attempts < AGAIN => {}
                Err(error) if error.cause == Cause::NotFound => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether every other cluster would fare the same now.
fn is_of_all(cause: &Cause) -> bool {
    match cause {
        Cause::Unauthorized(_) | Cause::Throttled(_) | Cause::Unavailable(_) => true,
        Cause::Forbidden(_) | Cause::NotFound | Cause::Conflict | Cause::Invalid(_) => false,
    }
}

/// The object with the addon's status in it; `None` if that is there already.
fn shown(mut object: Value, status: &Status, now: kelpie_core::Time) -> Option<Value> {
    let availability = if object["status"]["healthCheck"]["mode"] == "Customized" {
        Availability::Ours
    } else {
        Availability::OfTheHub
    };
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.cloned().unwrap_or_default();
    let readable = conditions.iter().map(Condition::deserialize);
    let before: Vec<Condition> = readable.filter_map(Result::ok).collect();
    let mut after = before.clone();
    project(status, availability, &mut after, now);
    if after == before {
        return None;
    }
    // One by one: those of others stay as they are written, also if they cannot be read.
    let changed = after.iter().filter(|condition| !before.contains(condition));
    for condition in changed {
        let written = serde_json::to_value(condition).ok()?;
        let mut places = conditions.iter_mut();
        match places.find(|place| place["type"] == condition.kind.as_str()) {
            Some(place) => *place = written,
            None => conditions.push(written),
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

    fn degraded() -> Status {
        let condition = json!({ "type": "Degraded", "status": "True", "reason": "ForwardFailure" });
        Status::deserialize(json!({ "conditions": [condition] })).unwrap()
    }

    #[test]
    fn conditions_of_others_stay_as_they_are_whatever_they_look_like() {
        let foreign = [
            json!({ "type": "Strange", "status": 7 }),
            json!("not even a condition"),
            json!({ "type": "Registered", "status": "True", "of": { "another": "version" } }),
        ];
        let mut conditions = foreign.to_vec();
        conditions.push(json!({ "type": "Degraded", "status": null }));
        let object = json!({ "status": { "conditions": conditions } });
        let shown = shown(object, &degraded(), Time::from_unix(1_700_000_000, 0)).unwrap();
        let after = shown["status"]["conditions"].as_array().unwrap();
        assert_eq!(after[..3], foreign);
        let ours = after[3..].iter().map(|one| (&one["type"], &one["status"]));
        let expected = [
            (&json!("Degraded"), &json!("True")),
            (&json!("Progressing"), &json!("False")),
        ];
        assert_eq!(ours.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_is_shown_already_is_not_written_again() {
        let now = Time::from_unix(1_700_000_000, 0);
        let first = shown(json!({}), &degraded(), now).unwrap();
        assert_eq!(shown(first, &degraded(), now), None);
    }
}
