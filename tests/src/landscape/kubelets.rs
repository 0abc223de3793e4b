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
use tokio::time::{Instant, sleep, sleep_until};

use super::pace::Pace;
use super::{rest, wall_clock};

const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// By how much later each time a real kubelet renews, at most.
const JITTER: f64 = 0.04;

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
    /// Its renewals; the first when it was made.
    renewals: Vec<Renewed>,
    /// It has to say that its node is ready.
    owes_status: bool,
}

/// A renewal, as nobody but its kubelet knows it.
#[derive(Clone, Copy, Debug)]
pub struct Renewed {
    /// When it was written.
    pub at: Instant,
    /// The clock that dated it was right.
    pub is_dated_well: bool,
}

/// How kubelets go about it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Evenly spread over the period, which they keep; leases are all they write.
    Even,
    /// Each at a phase of its own that drifts, and with the status of its node: a node controller may
    /// look at them.
    Real,
}

/// What a landscape's nodes begin with.
struct Beginning<'a> {
    name: &'a str,
    count: usize,
    pace: Pace,
    manner: Manner,
    /// They are cut off already, for so long.
    silent_for: Option<Duration>,
}

impl Kubelets {
    /// Nodes with fresh leases, renewed from now on, evenly spread over the period.
    pub async fn start(client: &Client, count: usize, pace: Pace) -> Result<Self> {
        Self::start_named(client, "node", count, pace).await
    }

    /// The same beside others: the names of these nodes begin like this.
    pub async fn start_named(
        client: &Client,
        name: &str,
        count: usize,
        pace: Pace,
    ) -> Result<Self> {
        let beginning = Beginning::even(name, count, pace);
        Self::begin(client, &beginning).await
    }

    /// As real kubelets do it: a node controller that looks at these nodes finds them ready. Each
    /// renews up to 4 % later than the period says, at a phase of its own.
    pub async fn start_real(client: &Client, count: usize, pace: Pace) -> Result<Self> {
        let beginning = Beginning {
            manner: Manner::Real,
            ..Beginning::even("node", count, pace)
        };
        Self::begin(client, &beginning).await
    }

    /// Nodes that are cut off already: their leases were last renewed before the grace period.
    pub async fn start_cut(client: &Client, count: usize, pace: Pace) -> Result<Self> {
        let beginning = Beginning {
            silent_for: Some(pace.grace * 2),
            ..Beginning::even("node", count, pace)
        };
        Self::begin(client, &beginning).await
    }

    async fn begin(client: &Client, beginning: &Beginning<'_>) -> Result<Self> {
        let &Beginning {
            name,
            count,
            pace,
            manner,
            silent_for,
        } = beginning;
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
            if manner == Manner::Real {
                post_status(client, &node).await?;
            }
            let state = State {
                is_cut: silent_for.is_some(),
                offset: SignedDuration::ZERO,
                renewals: vec![Renewed {
                    at: Instant::now(),
                    is_dated_well: silent_for.is_none(),
                }],
                owes_status: false,
            };
            Ok::<_, anyhow::Error>(Arc::new(Kubelet {
                node,
                state: Mutex::new(state),
            }))
        };
        let kubelets = try_join_all((0..count).map(make)).await?;
        let mut renewing = JoinSet::new();
        for (number, kubelet) in (0u32..).zip(&kubelets) {
            let share = match manner {
                Manner::Even => f64::from(number) / f64::from(u32::try_from(count)?),
                Manner::Real => fastrand::f64(),
            };
            let renewal = Renewal {
                client: client.clone(),
                kubelet: Arc::clone(kubelet),
                period: pace.renewal,
                manner,
            };
            let first = Instant::now() + pace.renewal.mul_f64(share);
            renewing.spawn(renewal.go_on(first));
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
            let mut state = kubelet.state.lock().await;
            state.is_cut = true;
            state.owes_status = true;
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

    /// When each node has renewed last.
    pub async fn renewals(&self) -> Vec<Instant> {
        let all = self.history().await;
        let last = all.iter().filter_map(|renewals| renewals.last());
        last.map(|renewed| renewed.at).collect()
    }

    /// How each node has renewed so far, in order.
    pub async fn history(&self) -> Vec<Vec<Renewed>> {
        let mut all = Vec::new();
        for kubelet in &self.all {
            all.push(kubelet.state.lock().await.renewals.clone());
        }
        all
    }

    /// The first instant at which a node may turn Unknown if nobody renews any more.
    pub async fn deadline(&self, grace: Duration) -> Option<Instant> {
        let first = self.renewals().await.into_iter().min();
        first.map(|first| first + grace)
    }

    /// When this share of the leases is expired (0.75 G) if nobody renews any more.
    pub async fn trip(&self, grace: Duration, share: f64) -> Option<Instant> {
        let mut renewed = self.renewals().await;
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

impl<'a> Beginning<'a> {
    fn even(name: &'a str, count: usize, pace: Pace) -> Self {
        Self {
            name,
            count,
            pace,
            manner: Manner::Even,
            silent_for: None,
        }
    }
}

/// What a kubelet does all day.
struct Renewal {
    client: Client,
    kubelet: Arc<Kubelet>,
    period: Duration,
    manner: Manner,
}

impl Renewal {
    async fn go_on(self, first: Instant) {
        let mut next = first;
        loop {
            sleep_until(next).await;
            while !self.is_done().await {
                sleep(RETRY).await;
            }
            next = self.after(next);
        }
    }

    fn after(&self, last: Instant) -> Instant {
        let now = Instant::now();
        match self.manner {
            // What was missed is left out.
            Manner::Even => {
                let missed =
                    now.saturating_duration_since(last).as_nanos() / self.period.as_nanos();
                last + self.period * u32::try_from(missed + 1).unwrap_or(1)
            }
            Manner::Real => now + self.period.mul_f64(1.0 + JITTER * fastrand::f64()),
        }
    }

    /// Renews once, unless it is cut off; false if that failed.
    async fn is_done(&self) -> bool {
        let mut state = self.kubelet.state.lock().await;
        if state.is_cut {
            return true;
        }
        let renewed = Renewed {
            at: Instant::now(),
            is_dated_well: state.offset.is_zero(),
        };
        let time = wall_clock::now()
            .checked_add(state.offset)
            .unwrap_or(Timestamp::MAX);
        let path = format!("{LEASES}/{}", self.kubelet.node);
        let patch = json!({ "spec": { "renewTime": wall_clock::micro(time) } });
        if rest::merge(&self.client, &path, &patch).await.is_err() {
            return false;
        }
        state.renewals.push(renewed);
        if self.manner == Manner::Real && state.owes_status {
            state.owes_status = post_status(&self.client, &self.kubelet.node).await.is_err();
        }
        true
    }
}

/// Says that a node is ready.
async fn post_status(client: &Client, node: &str) -> Result<()> {
    let now = wall_clock::now();
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "KubeletReady",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    });
    let path = format!("{NODES}/{node}/status");
    let patch = json!({ "status": { "conditions": [ready] } });
    rest::merge(client, &path, &patch).await.map(|_| ())
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
