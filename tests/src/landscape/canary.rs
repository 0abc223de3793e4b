//! What the machine and its API server cost, whoever asks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use kube::Client;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::rest;
use crate::poll;

/// Between two tries: it must not be the load that it measures.
const PAUSE: Duration = Duration::from_millis(200);

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases?limit=10";
const OWN: &str = "/api/v1/namespaces/default/configmaps";

/// Asks an API server all the time for what a fence asks for: the leases, an object, two writes. Who
/// measures a fence can tell by it how much of the time was the machine's. It ends when dropped.
pub struct Canary {
    tries: Arc<Mutex<Vec<Try>>>,
    _asking: JoinSet<()>,
}

#[derive(Clone, Copy)]
struct Try {
    start: Instant,
    end: Instant,
}

impl Canary {
    /// Begins to ask.
    pub async fn start(client: &Client) -> Result<Self> {
        let own = json!({ "metadata": { "name": "canary" } });
        rest::create(client, OWN, &own).await?;
        let tries = Arc::<Mutex<Vec<Try>>>::default();
        let mut asking = JoinSet::new();
        asking.spawn(ask(client.clone(), Arc::clone(&tries)));
        Ok(Self {
            tries,
            _asking: asking,
        })
    }

    /// The longest try of those under way between the two instants, the second of which has passed.
    pub async fn longest(&self, since: Instant, until: Instant, patience: Duration) -> Duration {
        let tries = poll::until("the canary", patience, async || {
            let tries = lock(&self.tries);
            // What began later has ended: so has all that counts.
            let is_complete = tries.last().is_some_and(|last| last.start >= until);
            Ok(is_complete.then(|| tries.clone()))
        });
        // One that does not sing any more took all of that.
        let Ok(tries) = tries.await else {
            return patience;
        };
        let tries = tries.iter();
        let tries = tries.filter(|one| one.start < until && one.end >= since);
        tries
            .map(|one| one.end - one.start)
            .max()
            .unwrap_or_default()
    }
}

async fn ask(client: Client, tries: Arc<Mutex<Vec<Try>>>) {
    let path = format!("{OWN}/canary");
    for number in 0.. {
        let start = Instant::now();
        let beat = json!({ "data": { "beat": format!("{number}") } });
        // Whether one of them is refused is of no interest.
        let _ = rest::read(&client, LEASES).await;
        let _ = rest::read(&client, &path).await;
        let _ = rest::merge(&client, &path, &beat).await;
        let _ = rest::merge(&client, &path, &json!({ "data": null })).await;
        let end = Instant::now();
        lock(&tries).push(Try { start, end });
        sleep(PAUSE).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
