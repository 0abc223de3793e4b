//! Kubelets: they renew the leases of their nodes until they are cut off.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use super::pace::Pace;
use super::{rest, wall_clock};

const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// After a renewal that failed.
const RETRY: Duration = Duration::from_millis(200);

/// The nodes of one API server. Renewing ends when dropped.
pub struct Kubelets {
    client: Client,
    all: Vec<Arc<Kubelet>>,
    _renewing: JoinSet<()>,
}

/// One of them.
struct Kubelet {
    node: String,
    /// Held during a renewal: who has it knows that none is under way.
    state: Mutex<State>,
}

struct State {
    is_cut: bool,
    /// By how much its clock is wrong.
    offset: SignedDuration,
    /// When its last renewal was written.
    renewed: Instant,
}

impl Kubelets {
    /// Nodes with fresh leases, renewed from now on, evenly spread over the period.
    pub async fn start(client: &Client, count: usize, pace: Pace) -> Result<Self> {
        Self::begin(client, "node", count, pace, None).await
    }

    /// The same beside others: the names of these nodes begin like this.
    pub async fn start_named(
        client: &Client,
        name: &str,
        count: usize,
        pace: Pace,
    ) -> Result<Self> {
        Self::begin(client, name, count, pace, None).await
    }

    /// Nodes that are cut off already: their leases were last renewed before the grace period.
    pub async fn start_cut(client: &Client, count: usize, pace: Pace) -> Result<Self> {
        Self::begin(client, "node", count, pace, Some(pace.grace * 2)).await
    }

    async fn begin(
        client: &Client,
        name: &str,
        count: usize,
        pace: Pace,
        silent_for: Option<Duration>,
    ) -> Result<Self> {
        let age = silent_for.unwrap_or_default();
        let make = async |number: usize| {
            let node = format!("{name}-{number:03}");
            let lease = lease(&node, wall_clock::ago(age), pace.lease_seconds());
            let labels = json!({ "worker.gardener.cloud/pool": "pool" });
            let object = json!({ "metadata": { "name": node, "labels": labels } });
            let made = tokio::try_join!(
                rest::create(client, NODES, &object),
                rest::create(client, LEASES, &lease),
            );
            made.with_context(|| format!("making {node}"))?;
            let state = State {
                is_cut: silent_for.is_some(),
                offset: SignedDuration::ZERO,
                renewed: Instant::now(),
            };
            Ok::<_, anyhow::Error>(Arc::new(Kubelet {
                node,
                state: Mutex::new(state),
            }))
        };
        let kubelets = try_join_all((0..count).map(make)).await?;
        let mut renewing = JoinSet::new();
        for (number, kubelet) in (0u32..).zip(&kubelets) {
            let share = f64::from(number) / f64::from(u32::try_from(count)?);
            let first = Instant::now() + pace.renewal.mul_f64(share);
            renewing.spawn(renew(
                client.clone(),
                Arc::clone(kubelet),
                first,
                pace.renewal,
            ));
        }
        Ok(Self {
            client: client.clone(),
            all: kubelets,
            _renewing: renewing,
        })
    }

    /// The names of the nodes.
    pub fn nodes(&self) -> Vec<String> {
        let names = self.all.iter().map(|kubelet| kubelet.node.clone());
        names.collect()
    }

    /// Cuts this share of the nodes off; when it returns, none of them is renewing any more.
    pub async fn cut(&self, share: f64) {
        for kubelet in self.share(share) {
            kubelet.state.lock().await.is_cut = true;
        }
    }

    /// Everybody renews again, when their time comes.
    pub async fn heal(&self) {
        self.heal_but(0.0).await;
    }

    /// Everybody but this share of the nodes renews again, when their time comes.
    pub async fn heal_but(&self, share: f64) {
        let still_cut = self.share(share).count();
        for kubelet in self.all.iter().skip(still_cut) {
            kubelet.state.lock().await.is_cut = false;
        }
    }

    /// Sets the clocks of this share of the nodes wrong.
    pub async fn skew(&self, share: f64, offset: SignedDuration) {
        for kubelet in self.share(share) {
            kubelet.state.lock().await.offset = offset;
        }
    }

    fn share(&self, share: f64) -> impl Iterator<Item = &Arc<Kubelet>> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "a share of a few nodes"
        )]
        let count = (self.all.len() as f64 * share).ceil() as usize;
        self.all.iter().take(count)
    }

    /// The first instant at which a node may turn Unknown if nobody renews any more.
    pub async fn deadline(&self, grace: Duration) -> Option<Instant> {
        let mut first = None;
        for kubelet in &self.all {
            let deadline = kubelet.state.lock().await.renewed + grace;
            first = Some(first.map_or(deadline, |first: Instant| first.min(deadline)));
        }
        first
    }

    /// When this share of the leases is expired (0.75 G) if nobody renews any more.
    pub async fn trip(&self, grace: Duration, share: f64) -> Option<Instant> {
        let mut renewed = Vec::new();
        for kubelet in &self.all {
            renewed.push(kubelet.state.lock().await.renewed);
        }
        renewed.sort();
        let count = self.share(share).count();
        let last = renewed.get(count.checked_sub(1)?)?;
        Some(*last + grace.mul_f64(0.75))
    }

    /// Merges `patch` into the node of this number.
    pub async fn patch_node(&self, number: usize, patch: &Value) -> Result<()> {
        let node = &self.all.get(number).context("no such node")?.node;
        let path = format!("{NODES}/{node}");
        let patched = rest::merge(&self.client, &path, patch).await;
        // Conditions are in the status, which has a path of its own.
        if patch.get("status").is_some() {
            rest::merge(&self.client, &format!("{path}/status"), patch).await?;
        }
        patched.map(|_| ())
    }
}

async fn renew(client: Client, kubelet: Arc<Kubelet>, first: Instant, period: Duration) {
    let path = format!("{LEASES}/{}", kubelet.node);
    let mut times = interval_at(first, period);
    times.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        times.tick().await;
        loop {
            let mut state = kubelet.state.lock().await;
            if state.is_cut {
                break;
            }
            let written = Instant::now();
            let time = wall_clock::now()
                .checked_add(state.offset)
                .unwrap_or(Timestamp::MAX);
            let patch = json!({ "spec": { "renewTime": wall_clock::micro(time) } });
            if rest::merge(&client, &path, &patch).await.is_ok() {
                state.renewed = written;
                break;
            }
            drop(state);
            sleep(RETRY).await;
        }
    }
}

fn lease(node: &str, renewed: Timestamp, seconds: u64) -> Value {
    json!({
        "metadata": { "name": node },
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": seconds,
            "renewTime": wall_clock::micro(renewed),
        },
    })
}
