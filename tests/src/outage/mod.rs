//! An outage of a whole seed: all of its shoots are cut off in the same second.
//!
//! An [`Outage`] has a real seed with many shoots, whose nodes live on one API server. What becomes
//! of each when it is struck is a [`Fenced`], and when it is over a [`Restored`]; [`load`] tells who was
//! busy meanwhile.

mod fenced;
pub mod load;
mod restored;
mod shoots;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::{Instant, sleep_until};

pub use fenced::{Fenced, Fences};
pub use restored::{Restored, Restores};

use crate::landscape::{Entry, Kubelets, Pace, Pods, Seed, Shoot, Timeline};
use crate::poll;
use shoots::ShootServer;

/// Objects are made by so many hands.
const HANDS: usize = 16;

/// How long anything may take that is expected to happen.
const PATIENCE: Duration = Duration::from_mins(4);

/// So many of the oldest leases are no concern of some clusters: their deadlines differ.
const STAGGERED: usize = 10;

/// How large it is.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Shoots of the seed.
    pub clusters: usize,
    /// Nodes of the largest of them; the smallest has nine less.
    pub nodes: usize,
    /// Times of the clusters.
    pub pace: Pace,
    /// A pod is gone, or ready, so long after its Deployment was scaled.
    pub pod_stop: Duration,
    /// The shoots' API server is simulated: it takes less of a machine that all servers share.
    pub simulated: bool,
}

/// A seed that waits to be struck.
pub struct Outage {
    /// The seed.
    pub seed: Seed,
    extent: Extent,
    shoots: Vec<Plane>,
    kubelets: Kubelets,
    /// What happened to the targets.
    pub timeline: Timeline,
    _pods: Pods,
    server: ShootServer,
}

/// A shoot and what it had at first.
struct Plane {
    shoot: Shoot,
    counts: [u32; 3],
    /// It has no Machines for so many of the first nodes.
    without: usize,
}

impl Outage {
    /// Starts the servers and makes the clusters.
    pub async fn prepare(extent: Extent) -> Result<Self> {
        let seed = Seed::start().await?;
        let server = ShootServer::start(&seed, extent.simulated).await?;
        let client = server.client().await?;
        let kubelets = Kubelets::start(&client, extent.nodes, extent.pace).await?;
        let kubeconfig = server.kubeconfig(&client).await?;
        let names = kubelets.nodes();
        let make = async |number: usize| {
            let without = number % STAGGERED.min(extent.nodes);
            let name = format!("shoot--outage--{number:04}");
            let nodes = names.get(without..).context("too few nodes")?;
            let shoot = seed.shoot(&name, &kubeconfig, nodes).await?;
            let counts = if number.is_multiple_of(2) {
                [1, 1, 2]
            } else {
                [3, 1, 1]
            };
            shoot.deploy(counts).await?;
            anyhow::Ok(Plane {
                shoot,
                counts,
                without,
            })
        };
        let shoots = stream::iter(0..extent.clusters)
            .map(make)
            .buffered(HANDS)
            .try_collect()
            .await?;
        Ok(Self {
            timeline: Timeline::start(&seed.client),
            _pods: Pods::start(&seed.client, extent.pod_stop),
            seed,
            extent,
            shoots,
            kubelets,
            server,
        })
    }

    /// A way to the seed with all rights, for the prober.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        self.seed.kubeconfig(&self.seed.plane.api.admin())
    }

    /// The shoots, with what their targets had at first.
    pub fn shoots(&self) -> impl Iterator<Item = (&Shoot, [(&'static str, u32); 3])> {
        self.shoots.iter().map(|plane| {
            let [kcm, mcm, ca] = plane.counts;
            let [first, second, third] = Shoot::TARGETS;
            (&plane.shoot, [(first, kcm), (second, mcm), (third, ca)])
        })
    }

    /// Cuts all nodes off, the first of them when it has renewed longest ago.
    pub async fn strike(&self) -> Result<Struck> {
        let Pace { renewal, grace, .. } = self.extent.pace;
        let first = async || self.kubelets.renewals().await.first().copied();
        let before = first().await.context("no nodes")?;
        // A whole period is ahead.
        let renewed = poll::until("a renewal", PATIENCE, async || {
            Ok(first().await.filter(|renewed| *renewed > before))
        });
        // The last node renews this much before the first does again; the cut is in between.
        let gap = renewal.div_f64(f64::from(u32::try_from(self.extent.nodes)?));
        sleep_until(renewed.await? + renewal - gap / 2).await;
        self.kubelets.cut(1.0).await;
        let renewals = self.kubelets.renewals().await;
        let due = |plane: &Plane| {
            let mut own = renewals[plane.without..].to_vec();
            own.sort();
            let expired = own[(own.len() * 3).div_ceil(5) - 1];
            Due {
                trip: expired + grace.mul_f64(0.75),
                deadline: own[0] + grace,
            }
        };
        Ok(Struck {
            cut: Instant::now(),
            due: self.shoots.iter().map(due).collect(),
        })
    }

    /// Waits until every cluster is fenced.
    pub async fn fenced(&self, struck: &Struck) -> Result<Fences> {
        let mut fences = Vec::new();
        for (plane, due) in self.shoots.iter().zip(&struck.due) {
            let mut at = [struck.cut; Shoot::TARGETS.len()];
            for (at, target) in at.iter_mut().zip(Shoot::TARGETS) {
                let is_down = |entry: &Entry| entry.name == target && entry.replicas == 0;
                *at = self.seen(plane, target, struck.cut, is_down).await?;
            }
            fences.push(Fenced {
                due: *due,
                kcm: at[0],
                last: at.into_iter().max().unwrap_or(struck.cut),
            });
        }
        Ok(Fences::new(fences, self.extent.pod_stop))
    }

    /// Ends the outage and waits until every cluster is as it was.
    pub async fn recover(&self) -> Result<Restores> {
        let healed = Instant::now();
        self.kubelets.heal().await;
        let mut restores = Vec::new();
        for plane in &self.shoots {
            let mut last = healed;
            let mut writes = Vec::new();
            for (target, count) in Shoot::TARGETS.into_iter().zip(plane.counts) {
                let is_up = |entry: &Entry| {
                    entry.name == target
                        && !entry.marked
                        && u32::try_from(entry.replicas) == Ok(count)
                };
                let at = self.seen(plane, target, healed, is_up).await?;
                last = last.max(at);
            }
            for entry in self.timeline.since(&plane.shoot.name, healed) {
                writes.push(entry.at);
            }
            restores.push(Restored { last, writes });
        }
        Ok(Restores::new(healed, restores))
    }

    async fn seen(
        &self,
        plane: &Plane,
        target: &str,
        since: Instant,
        is_such: impl Fn(&Entry) -> bool,
    ) -> Result<Instant> {
        let shoot = &plane.shoot.name;
        let found = self.timeline.until(target, shoot, since, PATIENCE, is_such);
        Ok(found.await?.at)
    }
}

/// When it was struck, and what that means for each cluster.
#[derive(Debug)]
pub struct Struck {
    /// When nothing was renewed any more.
    pub cut: Instant,
    due: Vec<Due>,
}

impl Struck {
    /// When the first cluster trips.
    pub fn first_trip(&self) -> Instant {
        let trips = self.due.iter().map(|due| due.trip);
        trips.min().unwrap_or(self.cut)
    }
}

/// What a cluster has to be fenced by.
#[derive(Debug, Clone, Copy)]
pub struct Due {
    /// When it trips by its leases.
    pub trip: Instant,
    /// The first instant at which a node may turn Unknown.
    pub deadline: Instant,
}
