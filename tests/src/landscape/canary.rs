//! A latency baseline for the machine and its API server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use kube::Client;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::rest;
use crate::poll;

/// The pause between two runs, long enough that the canary is no load itself.
const PAUSE: Duration = Duration::from_millis(200);

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases?limit=10";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Repeats the requests of a fence: a list of leases, a read, and two writes.
///
/// A benchmark of a fence compares its result with the canary's to see how much of the time is due
/// to the machine. The requests end on drop.
pub struct Canary {
    runs: Arc<Mutex<Vec<CanaryRun>>>,
    _task: JoinSet<()>,
}

#[derive(Clone, Copy)]
struct CanaryRun {
    start: Instant,
    end: Instant,
}

impl Canary {
    /// Creates the canary's config map and starts the requests.
    pub async fn start(client: &Client) -> Result<Self> {
        let config_map = json!({ "metadata": { "name": "canary" } });
        rest::create(client, CONFIG_MAPS, &config_map).await?;
        let runs = Arc::<Mutex<Vec<CanaryRun>>>::default();
        let mut task = JoinSet::new();
        task.spawn(repeat(client.clone(), Arc::clone(&runs)));
        Ok(Self { runs, _task: task })
    }

    /// Returns the duration of the longest run that overlaps with the interval from `since` to
    /// `until`, which must be in the past.
    pub async fn longest(&self, since: Instant, until: Instant, timeout: Duration) -> Duration {
        let runs = poll::until("the canary", timeout, async || {
            let runs = lock(&self.runs);
            // A run that began after the interval has ended, and so has each run before it.
            let is_complete = runs.last().is_some_and(|last| last.start >= until);
            Ok(is_complete.then(|| runs.clone()))
        });
        // A run that does not end counts with the whole timeout.
        let Ok(runs) = runs.await else {
            return timeout;
        };
        let runs = runs.iter();
        let runs = runs.filter(|run| run.start < until && run.end >= since);
        runs.map(|run| run.end - run.start)
            .max()
            .unwrap_or_default()
    }
}

async fn repeat(client: Client, runs: Arc<Mutex<Vec<CanaryRun>>>) {
    let path = format!("{CONFIG_MAPS}/canary");
    for number in 0.. {
        let start = Instant::now();
        let beat = json!({ "data": { "beat": format!("{number}") } });
        // Only the duration counts, so errors are ignored.
        let _ = rest::get(&client, LEASES).await;
        let _ = rest::get(&client, &path).await;
        let _ = rest::merge_patch(&client, &path, &beat).await;
        let _ = rest::merge_patch(&client, &path, &json!({ "data": null })).await;
        let end = Instant::now();
        lock(&runs).push(CanaryRun { start, end });
        sleep(PAUSE).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
