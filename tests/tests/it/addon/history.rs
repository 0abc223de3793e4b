//! Every state of an addon that a watcher sees, and what must hold in each.

use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use kelpie_e2e::poll;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher;
use serde_json::Value;
use tokio::task::JoinSet;

use super::stage::{NAME, PATIENCE, trues};

pub(super) struct History {
    states: Arc<Mutex<Vec<Value>>>,
    _watch: JoinSet<()>,
}

impl History {
    pub(super) async fn start(client: &Client, namespace: &str) -> Self {
        let kind = GroupVersionKind::gvk(
            "observability.open-cluster-management.io",
            "v1beta1",
            "ObservabilityAddon",
        );
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let config = watcher::Config::default().fields(&format!("metadata.name={NAME}"));
        let states = Arc::<Mutex<Vec<Value>>>::default();
        let mut watch = JoinSet::new();
        let kept = Arc::clone(&states);
        watch.spawn(async move {
            let mut events = Box::pin(watcher(api, config));
            while let Some(event) = events.next().await {
                let Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) = event
                else {
                    continue;
                };
                kept.lock()
                    .unwrap()
                    .push(serde_json::to_value(object).unwrap());
            }
        });
        let history = Self {
            states,
            _watch: watch,
        };
        let begun = poll::until("the first state", PATIENCE, async || {
            Ok((!history.states().is_empty()).then_some(()))
        });
        begun.await.unwrap();
        history
    }

    pub(super) fn states(&self) -> Vec<Value> {
        self.states.lock().unwrap().clone()
    }

    /// Waits until the watcher has seen this version.
    pub(super) async fn until_seen(&self, addon: &Value) {
        let version = &addon["metadata"]["resourceVersion"];
        let seen = poll::until("the watcher to catch up", PATIENCE, async || {
            let states = self.states.lock().unwrap();
            let versions = states.iter().rev();
            let mut versions = versions.map(|state| &state["metadata"]["resourceVersion"]);
            Ok(versions.any(|seen| seen == version).then_some(()))
        });
        seen.await.unwrap();
    }

    /// The standard types that held, one after the other; and nothing was ever wrong.
    pub(super) fn standings(&self) -> Vec<String> {
        let mut standings: Vec<String> = Vec::new();
        let states = self.states();
        for state in &states {
            assert_valid(state);
            let now = trues(state).first().map_or("-", |kind| *kind).to_owned();
            if standings.last() != Some(&now) {
                standings.push(now);
            }
        }
        for pair in states.windows(2) {
            let (before, after) = (&pair[0], &pair[1]);
            if before["metadata"]["resourceVersion"] != after["metadata"]["resourceVersion"] {
                let same = before["status"] == after["status"]
                    && before["spec"] == after["spec"]
                    && before["metadata"]["deletionTimestamp"]
                        == after["metadata"]["deletionTimestamp"]
                    && before["metadata"]["generation"] == after["metadata"]["generation"];
                assert!(!same, "an update that changed nothing: {after:#}");
            }
        }
        standings
    }
}

/// Never two Trues, never a type twice.
pub(super) fn assert_valid(addon: &Value) {
    assert!(trues(addon).len() <= 1, "{:#}", addon["status"]);
    let conditions = addon["status"]["conditions"].as_array();
    let mut kinds: Vec<&str> = conditions
        .into_iter()
        .flatten()
        .filter_map(|condition| condition["type"].as_str())
        .collect();
    let count = kinds.len();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), count, "{:#}", addon["status"]);
}
