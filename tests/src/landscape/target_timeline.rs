//! The changes of the targets, in order.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::deployment_watch;
use super::shoot_cluster::{MARKER, RECORD};
use crate::poll;

/// A state of a Deployment that differs from the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetChange {
    /// The time at which the watch delivered the change.
    pub at: Instant,
    /// The control namespace, which has the name of the cluster.
    pub cluster: String,
    /// The name of the Deployment.
    pub name: String,
    /// The desired replicas, from `spec.replicas`.
    pub replicas: i32,
    /// True if the Deployment has the marker of a fence.
    pub marked: bool,
    /// The value of the record annotation.
    pub recorded: Option<String>,
}

/// The changes by control namespace, each list in order.
type Changes = Arc<Mutex<BTreeMap<String, Vec<TargetChange>>>>;

/// Records each change of replicas, marker and record of all Deployments of a seed cluster.
pub struct TargetTimeline {
    changes: Changes,
    _watch: JoinSet<()>,
}

impl TargetTimeline {
    /// Starts with the current state of the Deployments.
    pub fn start(client: &Client) -> Self {
        let changes = Changes::default();
        let mut watch = JoinSet::new();
        watch.spawn(record(client.clone(), Arc::clone(&changes)));
        Self {
            changes,
            _watch: watch,
        }
    }

    /// Returns all changes of a cluster.
    pub fn changes(&self, cluster: &str) -> Vec<TargetChange> {
        let changes = self.changes.lock();
        let changes = changes.unwrap_or_else(PoisonError::into_inner);
        changes.get(cluster).cloned().unwrap_or_default()
    }

    /// Returns the changes of a cluster since `start`.
    pub fn since(&self, cluster: &str, start: Instant) -> Vec<TargetChange> {
        let mut changes = self.changes(cluster);
        changes.retain(|change| change.at >= start);
        changes
    }

    /// Waits for the first change of a cluster since `start` that satisfies `predicate`.
    pub async fn until(
        &self,
        what: &str,
        cluster: &str,
        start: Instant,
        timeout: Duration,
        predicate: impl Fn(&TargetChange) -> bool,
    ) -> Result<TargetChange> {
        let found = poll::until(what, timeout, async || {
            let mut changes = self.since(cluster, start).into_iter();
            Ok(changes.find(|change| predicate(change)))
        });
        let found = found.await;
        found.with_context(|| format!("the timeline of {cluster}: {:#?}", self.changes(cluster)))
    }
}

async fn record(client: Client, changes: Changes) {
    let mut deployments = pin!(deployment_watch::changes(&client));
    while let Some(deployment) = deployments.next().await {
        let change = TargetChange::new(&deployment);
        let mut changes = changes.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = changes.entry(change.cluster.clone()).or_default();
        let mut earlier = changes.iter().rev();
        let before = earlier.find(|before| before.name == change.name);
        if before.is_none_or(|before| !before.has_same_state(&change)) {
            changes.push(change);
        }
    }
}

impl TargetChange {
    fn new(deployment: &Deployment) -> Self {
        let metadata = &deployment.metadata;
        let annotation = |key: &str| metadata.annotations.as_ref()?.get(key).cloned();
        Self {
            at: Instant::now(),
            cluster: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            replicas: deployment.spec.replicas.unwrap_or_default(),
            marked: annotation(MARKER).is_some(),
            recorded: annotation(RECORD),
        }
    }

    fn has_same_state(&self, other: &Self) -> bool {
        let state = |change: &Self| (change.replicas, change.marked, change.recorded.clone());
        state(self) == state(other)
    }
}
