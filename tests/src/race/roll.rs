//! Which nodes the node controller gave up, and when.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::landscape::deployments;

#[derive(Default)]
struct Seen {
    /// Every time a node turned Unknown.
    lost: Vec<(String, Instant)>,
    /// Those that are Unknown now.
    missing: BTreeSet<String>,
}

/// Calls the roll of the nodes of one API server, all the time.
pub struct Roll {
    seen: Arc<Mutex<Seen>>,
    _watch: JoinSet<()>,
}

impl Roll {
    /// Begins to watch.
    pub fn start(client: &Client) -> Self {
        let seen = Arc::<Mutex<Seen>>::default();
        let mut watch = JoinSet::new();
        watch.spawn(keep(client.clone(), Arc::clone(&seen)));
        Self {
            seen,
            _watch: watch,
        }
    }

    /// The nodes that turned Unknown since then, each time they did.
    pub fn lost_since(&self, start: Instant) -> Vec<(String, Instant)> {
        let seen = lock(&self.seen);
        let lost = seen.lost.iter().filter(|(_, at)| *at >= start);
        lost.cloned().collect()
    }

    /// The nodes that are Unknown now.
    pub fn missing(&self) -> BTreeSet<String> {
        lock(&self.seen).missing.clone()
    }
}

async fn keep(client: Client, seen: Arc<Mutex<Seen>>) {
    let nodes: Api<Node> = Api::all(client);
    let mut changes = pin!(watcher(nodes, watcher::Config::default()));
    while let Some(event) = changes.next().await {
        let node = match event {
            Ok(Event::Apply(node) | Event::InitApply(node)) => node,
            Ok(_) => continue,
            // A broken watch is begun again, with all there is.
            Err(_) => {
                sleep(deployments::PAUSE).await;
                continue;
            }
        };
        let name = node.metadata.name.clone().unwrap_or_default();
        let mut seen = lock(&seen);
        if !is_unknown(&node) {
            seen.missing.remove(&name);
        } else if seen.missing.insert(name.clone()) {
            seen.lost.push((name, Instant::now()));
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_unknown(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| &status.conditions);
    let mut conditions = conditions.flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "Unknown")
}
