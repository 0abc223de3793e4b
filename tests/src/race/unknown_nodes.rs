//! The nodes that the node controller marks Unknown.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::landscape::deployment_watch;

#[derive(Default)]
struct NodeStates {
    /// Each transition of a node to Unknown.
    transitions: Vec<(String, Instant)>,
    /// The nodes that are Unknown now.
    current: BTreeSet<String>,
}

/// Records the transitions to Unknown of the nodes of one API server, until dropped.
pub struct UnknownNodes {
    states: Arc<Mutex<NodeStates>>,
    _watch: JoinSet<()>,
}

impl UnknownNodes {
    /// Starts to watch the nodes.
    pub fn start(client: &Client) -> Self {
        let states = Arc::<Mutex<NodeStates>>::default();
        let mut watch = JoinSet::new();
        watch.spawn(record(client.clone(), Arc::clone(&states)));
        Self {
            states,
            _watch: watch,
        }
    }

    /// Returns the transitions to Unknown since `start`, as node and time.
    pub fn since(&self, start: Instant) -> Vec<(String, Instant)> {
        let states = lock(&self.states);
        let transitions = states.transitions.iter();
        transitions
            .filter(|(_, at)| *at >= start)
            .cloned()
            .collect()
    }

    /// Returns the nodes that are Unknown now.
    pub fn current(&self) -> BTreeSet<String> {
        lock(&self.states).current.clone()
    }
}

async fn record(client: Client, states: Arc<Mutex<NodeStates>>) {
    let nodes: Api<Node> = Api::all(client);
    let mut changes = pin!(watcher(nodes, watcher::Config::default()));
    while let Some(event) = changes.next().await {
        let node = match event {
            Ok(Event::Apply(node) | Event::InitApply(node)) => node,
            Ok(_) => continue,
            // A failed watch is retried, and starts with all nodes.
            Err(_) => {
                sleep(deployment_watch::RETRY_DELAY).await;
                continue;
            }
        };
        let name = node.metadata.name.clone().unwrap_or_default();
        let mut states = lock(&states);
        if !is_unknown(&node) {
            states.current.remove(&name);
        } else if states.current.insert(name.clone()) {
            states.transitions.push((name, Instant::now()));
        }
    }
}

fn lock(states: &Mutex<NodeStates>) -> MutexGuard<'_, NodeStates> {
    states.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_unknown(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| &status.conditions);
    let mut conditions = conditions.flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "Unknown")
}
