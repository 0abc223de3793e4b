//! What happened to the controllers, in order.

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

use super::deployments;
use super::shoot::{MARKER, RECORD};
use crate::poll;

/// A state of a Deployment, and when it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub at: Instant,
    /// The control namespace.
    pub shoot: String,
    /// The name.
    pub name: String,
    /// Desired replicas.
    pub replicas: i32,
    /// It carries the marker of a fence.
    pub marked: bool,
    /// The recorded count, as it is written.
    pub recorded: Option<String>,
}

/// By control namespace, each in the order it was seen.
type Entries = Arc<Mutex<BTreeMap<String, Vec<Entry>>>>;

/// Keeps every state of every Deployment of a seed that differs from the one before.
pub struct Timeline {
    entries: Entries,
    _watch: JoinSet<()>,
}

impl Timeline {
    /// Begins with what is there.
    pub fn start(client: &Client) -> Self {
        let entries = Entries::default();
        let mut watch = JoinSet::new();
        watch.spawn(keep(client.clone(), Arc::clone(&entries)));
        Self {
            entries,
            _watch: watch,
        }
    }

    /// What happened so far in a control namespace.
    pub fn of(&self, shoot: &str) -> Vec<Entry> {
        let entries = self.entries.lock();
        let entries = entries.unwrap_or_else(PoisonError::into_inner);
        entries.get(shoot).cloned().unwrap_or_default()
    }

    /// What happened there since `start`.
    pub fn since(&self, shoot: &str, start: Instant) -> Vec<Entry> {
        let mut entries = self.of(shoot);
        entries.retain(|entry| entry.at >= start);
        entries
    }

    /// Waits for the first entry of that shoot since `start` that is such.
    pub async fn until(
        &self,
        what: &str,
        shoot: &str,
        start: Instant,
        patience: Duration,
        is_such: impl Fn(&Entry) -> bool,
    ) -> Result<Entry> {
        let found = poll::until(what, patience, async || {
            let mut entries = self.since(shoot, start).into_iter();
            Ok(entries.find(|entry| is_such(entry)))
        });
        let found = found.await;
        found.with_context(|| format!("the timeline of {shoot}: {:#?}", self.of(shoot)))
    }
}

async fn keep(client: Client, entries: Entries) {
    let mut changes = pin!(deployments::changes(&client));
    while let Some(deployment) = changes.next().await {
        let entry = Entry::of(&deployment);
        let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = entries.entry(entry.shoot.clone()).or_default();
        let mut earlier = entries.iter().rev();
        let before = earlier.find(|before| before.name == entry.name);
        if before.is_none_or(|before| !before.says_the_same_as(&entry)) {
            entries.push(entry);
        }
    }
}

impl Entry {
    fn of(deployment: &Deployment) -> Self {
        let metadata = &deployment.metadata;
        let annotation = |key: &str| metadata.annotations.as_ref()?.get(key).cloned();
        Self {
            at: Instant::now(),
            shoot: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            replicas: deployment.spec.replicas.unwrap_or_default(),
            marked: annotation(MARKER).is_some(),
            recorded: annotation(RECORD),
        }
    }

    fn says_the_same_as(&self, other: &Self) -> bool {
        let said = |entry: &Self| (entry.replicas, entry.marked, entry.recorded.clone());
        said(self) == said(other)
    }
}
