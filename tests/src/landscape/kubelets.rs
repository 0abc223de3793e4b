//! Kubelets that renew the leases of their nodes until they are cut off.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::timings::Timings;
use super::{rest, wall_clock};

const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// The largest share of the period by which a real kubelet delays a renewal.
const JITTER: f64 = 0.04;

/// The delay after a failed renewal.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// The kubelets of one API server. They stop on drop.
pub struct Kubelets {
    client: Client,
    all: Vec<Arc<NodeKubelet>>,
    _tasks: JoinSet<()>,
}

/// One kubelet, with its node.
struct NodeKubelet {
    node: String,
    /// Locked during a renewal, so a holder of the lock knows that none is in flight.
    state: Mutex<KubeletState>,
}

struct KubeletState {
    is_partitioned: bool,
    /// The difference between the node's clock and the true time.
    clock_offset: SignedDuration,
    /// All renewals. The first is the creation of the lease.
    renewals: Vec<LeaseRenewal>,
    /// True if the next renewal also posts that the node is ready.
    status_due: bool,
}

/// A lease renewal, as its kubelet knows it.
#[derive(Clone, Copy, Debug)]
pub struct LeaseRenewal {
    /// The true time of the write.
    pub at: Instant,
    /// True if the clock that set `renewTime` was right.
    pub clock_was_right: bool,
}

/// The pattern of the renewals.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RenewalPattern {
    /// Evenly spread over a fixed period. Only leases are written.
    Even,
    /// At random phases that drift, and with a node status: for tests with a real node controller.
    Realistic,
}

/// The initial state of kubelets.
struct KubeletOptions<'a> {
    prefix: &'a str,
    count: usize,
    timings: Timings,
    pattern: RenewalPattern,
    /// The time for which the nodes have been cut off already; `None` if they are connected.
    silent_for: Option<Duration>,
}

impl Kubelets {
    /// Creates nodes with fresh leases and starts their kubelets, evenly spread over the period.
    pub async fn start(client: &Client, count: usize, timings: Timings) -> Result<Self> {
        Self::start_with_prefix(client, "node", count, timings).await
    }

    /// Like [`start`](Self::start), with another prefix of the node names, so that several sets
    /// share an API server.
    pub async fn start_with_prefix(
        client: &Client,
        prefix: &str,
        count: usize,
        timings: Timings,
    ) -> Result<Self> {
        let options = KubeletOptions::even(prefix, count, timings);
        Self::start_with(client, &options).await
    }

    /// Starts kubelets that behave like real ones: they post the status of their nodes, so that a
    /// node controller finds them ready. Each has a random phase, and renews up to 4 % late.
    pub async fn start_realistic(client: &Client, count: usize, timings: Timings) -> Result<Self> {
        let options = KubeletOptions {
            pattern: RenewalPattern::Realistic,
            ..KubeletOptions::even("node", count, timings)
        };
        Self::start_with(client, &options).await
    }

    /// Creates nodes that are cut off already. Their leases are two grace periods old.
    pub async fn start_partitioned(
        client: &Client,
        count: usize,
        timings: Timings,
    ) -> Result<Self> {
        let options = KubeletOptions {
            silent_for: Some(timings.grace * 2),
            ..KubeletOptions::even("node", count, timings)
        };
        Self::start_with(client, &options).await
    }

    async fn start_with(client: &Client, options: &KubeletOptions<'_>) -> Result<Self> {
        let &KubeletOptions {
            prefix,
            count,
            timings,
            pattern,
            silent_for,
        } = options;
        let age = silent_for.unwrap_or_default();
        let create = async |number: usize| {
            let node = format!("{prefix}-{number:03}");
            let lease = lease(&node, wall_clock::ago(age), timings.lease_seconds());
            let labels = json!({ "worker.gardener.cloud/pool": "pool" });
            let object = json!({ "metadata": { "name": node, "labels": labels } });
            let created = tokio::try_join!(
                rest::create(client, NODES, &object),
                rest::create(client, LEASES, &lease),
            );
            created.with_context(|| format!("creating {node}"))?;
            if pattern == RenewalPattern::Realistic {
                post_status(client, &node).await?;
            }
            let state = KubeletState {
                is_partitioned: silent_for.is_some(),
                clock_offset: SignedDuration::ZERO,
                renewals: vec![LeaseRenewal {
                    at: Instant::now(),
                    clock_was_right: silent_for.is_none(),
                }],
                status_due: false,
            };
            Ok::<_, anyhow::Error>(Arc::new(NodeKubelet {
                node,
                state: Mutex::new(state),
            }))
        };
        let kubelets = try_join_all((0..count).map(create)).await?;
        let mut tasks = JoinSet::new();
        for (number, kubelet) in (0u32..).zip(&kubelets) {
            let share = match pattern {
                RenewalPattern::Even => f64::from(number) / f64::from(u32::try_from(count)?),
                RenewalPattern::Realistic => fastrand::f64(),
            };
            let task = RenewalTask {
                client: client.clone(),
                kubelet: Arc::clone(kubelet),
                period: timings.renewal,
                pattern,
            };
            let first = Instant::now() + timings.renewal.mul_f64(share);
            tasks.spawn(task.run(first));
        }
        Ok(Self {
            client: client.clone(),
            all: kubelets,
            _tasks: tasks,
        })
    }

    /// Returns the names of the nodes.
    pub fn nodes(&self) -> Vec<String> {
        let names = self.all.iter().map(|kubelet| kubelet.node.clone());
        names.collect()
    }

    /// Cuts off this share of the nodes. None of their renewals is in flight when it returns.
    pub async fn partition(&self, share: f64) {
        for kubelet in self.share(share) {
            let mut state = kubelet.state.lock().await;
            state.is_partitioned = true;
            state.status_due = true;
        }
    }

    /// Reconnects all nodes. Each renews when its next renewal is due.
    pub async fn heal(&self) {
        self.heal_except(0.0).await;
    }

    /// Reconnects all nodes except this share. Each renews when its next renewal is due.
    pub async fn heal_except(&self, share: f64) {
        let excluded = self.share(share).count();
        for kubelet in self.all.iter().skip(excluded) {
            kubelet.state.lock().await.is_partitioned = false;
        }
    }

    /// Sets the clocks of this share of the nodes wrong by `offset`.
    pub async fn skew_clocks(&self, share: f64, offset: SignedDuration) {
        for kubelet in self.share(share) {
            kubelet.state.lock().await.clock_offset = offset;
        }
    }

    fn share(&self, share: f64) -> impl Iterator<Item = &Arc<NodeKubelet>> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "a share of a few nodes"
        )]
        let count = (self.all.len() as f64 * share).ceil() as usize;
        self.all.iter().take(count)
    }

    /// Returns the time of the last renewal of each node.
    pub async fn last_renewals(&self) -> Vec<Instant> {
        let all = self.renewal_history().await;
        let last = all.iter().filter_map(|renewals| renewals.last());
        last.map(|renewal| renewal.at).collect()
    }

    /// Returns all renewals of each node, in order.
    pub async fn renewal_history(&self) -> Vec<Vec<LeaseRenewal>> {
        let mut all = Vec::new();
        for kubelet in &self.all {
            all.push(kubelet.state.lock().await.renewals.clone());
        }
        all
    }

    /// Returns the first instant at which a node may become Unknown if there is no further renewal.
    pub async fn deadline(&self, grace: Duration) -> Option<Instant> {
        let first = self.last_renewals().await.into_iter().min();
        first.map(|first| first + grace)
    }

    /// Returns the instant at which this share of the leases is expired (0.75 G) if there is no
    /// further renewal.
    pub async fn trip_time(&self, grace: Duration, share: f64) -> Option<Instant> {
        let mut renewed = self.last_renewals().await;
        renewed.sort();
        let count = self.share(share).count();
        let last = renewed.get(count.checked_sub(1)?)?;
        Some(*last + grace.mul_f64(0.75))
    }

    /// Merges `patch` into the node with this index.
    pub async fn patch_node(&self, number: usize, patch: &Value) -> Result<()> {
        let node = &self.all.get(number).context("no such node")?.node;
        let path = format!("{NODES}/{node}");
        let patched = rest::merge_patch(&self.client, &path, patch).await;
        // The status has its own subresource.
        if patch.get("status").is_some() {
            rest::merge_patch(&self.client, &format!("{path}/status"), patch).await?;
        }
        patched.map(|_| ())
    }
}

impl<'a> KubeletOptions<'a> {
    fn even(prefix: &'a str, count: usize, timings: Timings) -> Self {
        Self {
            prefix,
            count,
            timings,
            pattern: RenewalPattern::Even,
            silent_for: None,
        }
    }
}

/// The task that renews the lease of one node.
struct RenewalTask {
    client: Client,
    kubelet: Arc<NodeKubelet>,
    period: Duration,
    pattern: RenewalPattern,
}

impl RenewalTask {
    async fn run(self, first: Instant) {
        let mut next = first;
        loop {
            sleep_until(next).await;
            while !self.renew().await {
                sleep(RETRY_DELAY).await;
            }
            next = self.next_after(next);
        }
    }

    fn next_after(&self, last: Instant) -> Instant {
        let now = Instant::now();
        match self.pattern {
            // Missed renewals are skipped.
            RenewalPattern::Even => {
                let missed =
                    now.saturating_duration_since(last).as_nanos() / self.period.as_nanos();
                last + self.period * u32::try_from(missed + 1).unwrap_or(1)
            }
            RenewalPattern::Realistic => now + self.period.mul_f64(1.0 + JITTER * fastrand::f64()),
        }
    }

    /// Renews once, unless the node is cut off. Returns false if that failed.
    async fn renew(&self) -> bool {
        let mut state = self.kubelet.state.lock().await;
        if state.is_partitioned {
            return true;
        }
        let renewal = LeaseRenewal {
            at: Instant::now(),
            clock_was_right: state.clock_offset.is_zero(),
        };
        let time = wall_clock::now()
            .checked_add(state.clock_offset)
            .unwrap_or(Timestamp::MAX);
        let path = format!("{LEASES}/{}", self.kubelet.node);
        let patch = json!({ "spec": { "renewTime": wall_clock::micro_time(time) } });
        if rest::merge_patch(&self.client, &path, &patch)
            .await
            .is_err()
        {
            return false;
        }
        state.renewals.push(renewal);
        if self.pattern == RenewalPattern::Realistic && state.status_due {
            state.status_due = post_status(&self.client, &self.kubelet.node).await.is_err();
        }
        true
    }
}

/// Posts that a node is ready.
async fn post_status(client: &Client, node: &str) -> Result<()> {
    let now = wall_clock::now();
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "KubeletReady",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    });
    let path = format!("{NODES}/{node}/status");
    let patch = json!({ "status": { "conditions": [ready] } });
    rest::merge_patch(client, &path, &patch).await.map(|_| ())
}

fn lease(node: &str, renewed: Timestamp, seconds: u64) -> Value {
    json!({
        "metadata": { "name": node },
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": seconds,
            "renewTime": wall_clock::micro_time(renewed),
        },
    })
}
