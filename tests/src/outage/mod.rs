//! An outage of a whole seed cluster: all of its shoot clusters are cut off in the same second.
//!
//! An [`Outage`] has a real seed cluster with many shoot clusters, whose nodes share one API
//! server. A [`FenceReport`] covers the fences after the start of the outage, and a
//! [`RestoreReport`] the restores after its end. [`load`] measures the load of each process
//! meanwhile.

mod fence_report;
pub mod load;
mod restore_report;
mod shoot_server;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::{Instant, sleep_until};

pub use fence_report::{ClusterFence, FenceReport};
pub use restore_report::{ClusterRestore, RestoreReport};

use crate::landscape::{
    FakeDeploymentController, Kubelets, SeedCluster, ShootCluster, TargetChange, TargetTimeline,
    Timings,
};
use crate::poll;
use shoot_server::ShootApiServer;

/// The number of clusters that are created concurrently.
const CONCURRENCY: usize = 16;

/// Limit for anything that is expected to happen.
const TIMEOUT: Duration = Duration::from_mins(10);

/// The number of different deadlines. Clusters ignore up to this many of the oldest leases, less
/// one.
const STAGGERED: usize = 10;

/// The parameters of an outage.
#[derive(Debug, Clone, Copy)]
pub struct OutageOptions {
    /// The number of shoot clusters.
    pub clusters: usize,
    /// The number of nodes of the largest cluster. The smallest has nine less.
    pub nodes: usize,
    /// The durations of the clusters.
    pub timings: Timings,
    /// The time from scaling a Deployment until its pods are gone or ready.
    pub pod_stop: Duration,
    /// True if the API server of the shoot clusters is simulated. A simulated one leaves more of
    /// the machine to the other servers.
    pub simulated: bool,
}

/// A seed cluster, before, during or after an outage.
pub struct Outage {
    /// The seed cluster with all control planes.
    pub seed: SeedCluster,
    options: OutageOptions,
    clusters: Vec<OutageCluster>,
    kubelets: Kubelets,
    /// The changes of the targets.
    pub timeline: TargetTimeline,
    _deployment_controller: FakeDeploymentController,
    server: ShootApiServer,
}

/// A shoot cluster and its initial replicas.
struct OutageCluster {
    shoot: ShootCluster,
    replicas: [u32; 3],
    /// The number of nodes, counted from the first one, for which the cluster has no Machine.
    skipped_nodes: usize,
}

impl Outage {
    /// Starts the servers and creates the clusters.
    pub async fn prepare(options: OutageOptions) -> Result<Self> {
        let seed = SeedCluster::start().await?;
        let server = ShootApiServer::start(&seed, options.simulated).await?;
        let client = server.client().await?;
        let kubelets = Kubelets::start(&client, options.nodes, options.timings).await?;
        let kubeconfig = server.kubeconfig(&client).await?;
        let names = kubelets.nodes();
        let create = async |number: usize| {
            let skipped_nodes = number % STAGGERED.min(options.nodes);
            let name = format!("shoot--outage--{number:04}");
            let nodes = names.get(skipped_nodes..).context("too few nodes")?;
            let shoot = seed.create_cluster(&name, &kubeconfig, nodes).await?;
            let replicas = if number.is_multiple_of(2) {
                [1, 1, 2]
            } else {
                [3, 1, 1]
            };
            shoot.create_targets(replicas).await?;
            anyhow::Ok(OutageCluster {
                shoot,
                replicas,
                skipped_nodes,
            })
        };
        let clusters = stream::iter(0..options.clusters)
            .map(create)
            .buffered(CONCURRENCY)
            .try_collect()
            .await?;
        Ok(Self {
            timeline: TargetTimeline::start(&seed.client),
            _deployment_controller: FakeDeploymentController::start(&seed.client, options.pod_stop),
            seed,
            options,
            clusters,
            kubelets,
            server,
        })
    }

    /// Writes a kubeconfig with all permissions in the seed cluster, for the prober.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        self.seed
            .kubeconfig_file(&self.seed.control_plane.api.admin())
    }

    /// Returns the shoot clusters, with their targets and the initial replicas of each.
    pub fn clusters(&self) -> impl Iterator<Item = (&ShootCluster, [(&'static str, u32); 3])> {
        self.clusters.iter().map(|cluster| {
            let [kcm, mcm, ca] = cluster.replicas;
            let [first, second, third] = ShootCluster::TARGETS;
            (&cluster.shoot, [(first, kcm), (second, mcm), (third, ca)])
        })
    }

    /// Cuts all nodes off, right before the node with the oldest lease would renew it.
    pub async fn begin(&self) -> Result<OutageStart> {
        let Timings { renewal, grace, .. } = self.options.timings;
        let first = async || self.kubelets.last_renewals().await.first().copied();
        let before = first().await.context("no nodes")?;
        // Right after a renewal, a whole period is left.
        let renewed = poll::until("a renewal", TIMEOUT, async || {
            Ok(first().await.filter(|renewed| *renewed > before))
        });
        // The last node renews this long before the first one does. The partition is in between.
        let gap = renewal.div_f64(f64::from(u32::try_from(self.options.nodes)?));
        sleep_until(renewed.await? + renewal - gap / 2).await;
        self.kubelets.partition(1.0).await;
        let renewals = self.kubelets.last_renewals().await;
        let fence_window = |cluster: &OutageCluster| {
            let mut own = renewals[cluster.skipped_nodes..].to_vec();
            own.sort();
            let expired = own[(own.len() * 3).div_ceil(5) - 1];
            FenceWindow {
                trip: expired + grace.mul_f64(0.75),
                deadline: own[0] + grace,
            }
        };
        Ok(OutageStart {
            partitioned_at: Instant::now(),
            windows: self.clusters.iter().map(fence_window).collect(),
        })
    }

    /// Waits until all clusters are fenced.
    pub async fn until_fenced(&self, start: &OutageStart) -> Result<FenceReport> {
        let mut fences = Vec::new();
        for (cluster, window) in self.clusters.iter().zip(&start.windows) {
            let mut at = [start.partitioned_at; ShootCluster::TARGETS.len()];
            for (at, target) in at.iter_mut().zip(ShootCluster::TARGETS) {
                let is_down = |change: &TargetChange| change.name == target && change.replicas == 0;
                let since = start.partitioned_at;
                *at = self.until_seen(cluster, target, since, is_down).await?;
            }
            fences.push(ClusterFence {
                window: *window,
                kcm: at[0],
                last: at.into_iter().max().unwrap_or(start.partitioned_at),
            });
        }
        Ok(FenceReport::new(fences, self.options.pod_stop))
    }

    /// Ends the outage and waits until all clusters are restored.
    pub async fn recover(&self) -> Result<RestoreReport> {
        let healed = Instant::now();
        self.kubelets.heal().await;
        let mut restores = Vec::new();
        for cluster in &self.clusters {
            let mut last = healed;
            let mut writes = Vec::new();
            for (target, count) in ShootCluster::TARGETS.into_iter().zip(cluster.replicas) {
                let is_up = |change: &TargetChange| {
                    change.name == target
                        && !change.marked
                        && u32::try_from(change.replicas) == Ok(count)
                };
                let at = self.until_seen(cluster, target, healed, is_up).await?;
                last = last.max(at);
            }
            for change in self.timeline.since(&cluster.shoot.name, healed) {
                writes.push(change.at);
            }
            restores.push(ClusterRestore { last, writes });
        }
        Ok(RestoreReport::new(healed, restores))
    }

    async fn until_seen(
        &self,
        cluster: &OutageCluster,
        target: &str,
        since: Instant,
        predicate: impl Fn(&TargetChange) -> bool,
    ) -> Result<Instant> {
        let name = &cluster.shoot.name;
        let found = self.timeline.until(target, name, since, TIMEOUT, predicate);
        Ok(found.await?.at)
    }
}

/// The start of an outage, and the resulting deadlines.
#[derive(Debug)]
pub struct OutageStart {
    /// The time from which no lease was renewed.
    pub partitioned_at: Instant,
    windows: Vec<FenceWindow>,
}

impl OutageStart {
    /// The time at which the first cluster trips.
    pub fn first_trip(&self) -> Instant {
        let trips = self.windows.iter().map(|window| window.trip);
        trips.min().unwrap_or(self.partitioned_at)
    }
}

/// The interval in which a cluster has to be fenced.
#[derive(Debug, Clone, Copy)]
pub struct FenceWindow {
    /// The time at which the leases make the cluster trip.
    pub trip: Instant,
    /// The first instant at which a node may become Unknown.
    pub deadline: Instant,
}
