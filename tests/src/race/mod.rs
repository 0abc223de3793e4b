//! The race between a prober and real kube-controller-managers.
//!
//! A [`Race`] has a seed cluster and some [`RaceCluster`]s: shoot clusters, each with its own API
//! server, kubelets, and a kube-controller-manager that runs as long as its Deployment in the seed
//! has replicas (see [`DeployedControllerManager`]). In a [`RaceTrial`] the kubelets of one cluster
//! are cut off. [`UnknownNodes`] records which nodes the node controller marks Unknown. [`report`]
//! prints the results.
//!
//! A trial may have a second fault ([`RaceFault`]), which proxies in front of the API servers
//! inject. [`Cut`] tells whether the race could be won at all. [`RaceReplicas`] are the probers.

mod cluster;
mod controller_manager;
mod cut;
mod fault;
mod replicas;
pub mod report;
mod seed_proxy;
mod shoot_proxies;
mod trial;
mod unknown_nodes;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::future::{join_all, try_join_all};
use tokio::time::{Instant, sleep, sleep_until};

pub use cluster::RaceCluster;
use cluster::TrialObservers;
pub use controller_manager::DeployedControllerManager;
pub use cut::Cut;
pub use fault::{FaultTime, RaceFault};
pub use replicas::{RaceReplicas, ReplicaOptions};
use seed_proxy::SeedProxy;
pub use trial::RaceTrial;
pub use unknown_nodes::UnknownNodes;

use crate::landscape::{Canary, FakeDeploymentController, SeedCluster, TargetTimeline, Timings};

/// The parameters of a race.
#[derive(Debug, Clone)]
pub struct RaceOptions {
    /// The durations of the clusters.
    pub timings: Timings,
    /// The numbers of nodes, assigned to the clusters in turn.
    pub node_counts: Vec<usize>,
    /// The number of clusters, which run in parallel.
    pub clusters: usize,
    /// The time from scaling a Deployment down until its pod is gone.
    pub pod_stop: Duration,
    /// The pause before the first trial.
    pub settle: Duration,
    /// True if all requests pass through proxies, which inject second faults.
    pub proxied: bool,
    /// The clusters in which the prober may write a guard.
    pub guarded: GuardedClusters,
    /// Seeds the random number generators.
    pub rng_seed: u64,
}

/// The clusters in which the prober has the permissions of a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardedClusters {
    /// The prober has no guard, or may write one but scales as well.
    NotAlone,
    /// Nothing is scaled, and all clusters are guarded.
    All,
    /// Nothing is scaled, and only every other cluster is guarded, beginning with the first.
    EveryOther,
}

/// A partition without a fence ends after this time where only the guard protects the cluster.
/// Less is never left of a guard that is renewed.
const GUARDED_PARTITION: Duration = Duration::from_secs(75);

/// A node that died alone, and was found to be dead.
#[derive(Debug, Clone, Copy)]
pub struct LostNode {
    /// The cluster is guarded.
    pub is_guarded: bool,
    /// The time from the last renewal of the node until it was Unknown.
    pub unknown_after: Duration,
}

/// The number of grace periods after a partition without a fence that end the wait for one.
const GIVE_UP_GRACE_PERIODS: u32 = 4;

/// Everything that a race needs except the prober.
pub struct Race {
    /// The seed cluster with all control planes.
    pub seed: SeedCluster,
    options: RaceOptions,
    seed_proxy: Option<SeedProxy>,
    clusters: Vec<RaceCluster>,
    timeline: TargetTimeline,
    canary: Canary,
    /// True after the pause before the first trial.
    is_settled: AtomicBool,
    _deployment_controller: FakeDeploymentController,
}

impl RaceOptions {
    /// kube-controller-manager runs for a second longer than its pod would, so that the report
    /// covers slower pods, too.
    fn longest_stop(&self) -> Duration {
        self.pod_stop + Duration::from_secs(1)
    }

    /// The time between two checks of the node controller: its default, or less for short grace
    /// periods.
    fn monitor_period(&self) -> Duration {
        if self.timings.grace < Duration::from_secs(20) {
            Duration::from_secs(1)
        } else {
            Duration::from_secs(5)
        }
    }

    fn is_guarded(&self, cluster: usize) -> bool {
        self.guarded != GuardedClusters::EveryOther || cluster.is_multiple_of(2)
    }

    /// The time after which a partition without a fence ends.
    fn longest_partition(&self) -> Duration {
        let longest = self.timings.grace * GIVE_UP_GRACE_PERIODS;
        match self.guarded {
            GuardedClusters::NotAlone => longest,
            GuardedClusters::All | GuardedClusters::EveryOther => longest.min(GUARDED_PARTITION),
        }
    }

    /// Returns whether no node need be lost.
    fn is_winnable(&self, cut: &Cut, fault: RaceFault, rng: &mut fastrand::Rng) -> bool {
        self.guarded == GuardedClusters::All || cut.is_winnable(fault, rng)
    }

    /// The time after which the node controller has acted on a deadline.
    fn node_controller_delay(&self) -> Duration {
        self.monitor_period() * 2 + Duration::from_secs(1)
    }
}

impl Race {
    /// Starts the servers and creates the clusters.
    pub async fn start(options: &RaceOptions) -> Result<Self> {
        let seed = SeedCluster::start().await?;
        let timeline = TargetTimeline::start(&seed.client);
        let canary = Canary::start(&seed.client).await?;
        let deployment_controller = FakeDeploymentController::start(&seed.client, options.pod_stop);
        let node_counts = options.node_counts.iter().copied().cycle();
        let mut clusters = Vec::new();
        for (number, nodes) in node_counts.take(options.clusters).enumerate() {
            clusters.push(RaceCluster::create(&seed, options, number, nodes).await?);
        }
        let seed_proxy = if options.proxied {
            Some(SeedProxy::start(&seed).await?)
        } else {
            None
        };
        Ok(Self {
            seed,
            options: options.clone(),
            seed_proxy,
            clusters,
            timeline,
            canary,
            is_settled: AtomicBool::new(false),
            _deployment_controller: deployment_controller,
        })
    }

    /// Writes a kubeconfig with all permissions in the seed cluster, for the prober.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        let admin = self.seed.control_plane.api.admin();
        match &self.seed_proxy {
            Some(proxy) => self
                .seed
                .kubeconfig_file_via_interceptor(&proxy.interceptor, &admin),
            None => self.seed.kubeconfig_file(&admin),
        }
    }

    /// Runs this many trials without a second fault, divided among the clusters, which do not wait
    /// for each other. The prober must be running. `on_trial` is called after each trial.
    pub async fn run(
        &self,
        trials: usize,
        on_trial: impl Fn(&RaceTrial),
    ) -> Result<Vec<RaceTrial>> {
        let count = self.clusters.len();
        let all = self
            .clusters
            .iter()
            .enumerate()
            .map(async |(number, cluster)| {
                let share = (trials + count - 1 - number) / count;
                let mut rng = self.rng(number);
                sleep(self.options.settle).await;
                let mut done = Vec::new();
                for _ in 0..share {
                    let running = cluster.until_steady().await?;
                    let cut = cluster.cut(running, &mut rng).await?;
                    let fault = RaceFault::None;
                    let is_winnable = self.options.is_winnable(&cut, fault, &mut rng);
                    let trial = cluster.finish(&cut, fault, is_winnable, self.observers(), || {});
                    let trial = trial.await?;
                    on_trial(&trial);
                    done.push(trial);
                }
                anyhow::Ok(done)
            });
        Ok(try_join_all(all).await?.into_iter().flatten().collect())
    }

    /// Runs this many trials with a second fault. The clusters share the seed and its faults, so
    /// they are cut off in rounds, all within a renewal period. `on_trial` is called after each
    /// trial.
    pub async fn run_with_fault(
        &self,
        fault: RaceFault,
        trials: usize,
        replicas: &RaceReplicas,
        on_trial: impl Fn(&RaceTrial),
    ) -> Result<Vec<RaceTrial>> {
        let mut rngs: Vec<fastrand::Rng> = (0..self.clusters.len())
            .map(|number| self.rng(number))
            .collect();
        let mut done = Vec::new();
        while done.len() < trials {
            let is_new = replicas.start_missing().await?;
            // A new replica needs the same time as the first ones.
            if !self.is_settled.swap(true, Ordering::Relaxed) || is_new {
                sleep(self.options.settle).await;
            }
            let count = self.clusters.len().min(trials - done.len());
            let round = self.round(fault, count, &mut rngs, replicas, &on_trial);
            let round = round.await;
            self.end_fault();
            done.extend(round?);
        }
        Ok(done)
    }

    /// Lets one node of each cluster die this often, and waits each time until it is Unknown.
    pub async fn lose_nodes(&self, times: usize) -> Result<Vec<LostNode>> {
        sleep(self.options.settle).await;
        let all = self.clusters.iter().map(async |cluster| {
            let mut lost = Vec::new();
            for _ in 0..times {
                cluster.until_steady().await?;
                lost.push(cluster.lose_node().await?);
            }
            anyhow::Ok(lost)
        });
        Ok(try_join_all(all).await?.into_iter().flatten().collect())
    }

    /// Runs a trial of each of the first `count` clusters.
    async fn round(
        &self,
        fault: RaceFault,
        count: usize,
        rngs: &mut [fastrand::Rng],
        replicas: &RaceReplicas,
        on_trial: &impl Fn(&RaceTrial),
    ) -> Result<Vec<RaceTrial>> {
        let clusters = &self.clusters[..count];
        let running = try_join_all(clusters.iter().map(RaceCluster::until_steady)).await?;
        let first_rng = rngs.first_mut().context("no clusters")?;
        if let Some(proxy) = &self.seed_proxy {
            proxy.begin(fault, first_rng);
        }
        let cuts = clusters.iter().zip(running).zip(rngs.iter_mut()).map(
            async |((cluster, running), rng)| {
                if let Some(proxies) = &cluster.proxies {
                    proxies.begin(fault, rng);
                }
                let cut = cluster.cut(running, rng).await?;
                let is_winnable = self.options.is_winnable(&cut, fault, rng);
                anyhow::Ok((cluster, cut, is_winnable))
            },
        );
        let cuts = try_join_all(cuts).await?;
        let trials = cuts.iter().map(async |(cluster, cut, is_winnable)| {
            let trial = cluster.finish(cut, fault, *is_winnable, self.observers(), || {
                self.end_fault();
            });
            let trial = trial.await?;
            on_trial(&trial);
            anyhow::Ok(trial)
        });
        let injection = self.inject(fault, &cuts, replicas);
        let (trials, ()) = tokio::try_join!(try_join_all(trials), injection)?;
        Ok(trials)
    }

    /// Injects the faults that have a time.
    async fn inject(
        &self,
        fault: RaceFault,
        cuts: &[(&RaceCluster, Cut, bool)],
        replicas: &RaceReplicas,
    ) -> Result<()> {
        let first = |at: FaultTime| {
            let times = cuts.iter().map(|(_, cut, _)| at.resolve(cut));
            times.min().unwrap_or_else(Instant::now)
        };
        match fault {
            RaceFault::ShootAway(length, at) => {
                join_all(cuts.iter().map(async |(cluster, cut, _)| {
                    let middle = at.resolve(cut);
                    let start = middle.checked_sub(length / 2).unwrap_or(middle);
                    cluster.be_away(start, length).await;
                }))
                .await;
            }
            RaceFault::LeaderKill(at) => {
                sleep_until(first(at)).await;
                replicas.kill_leader().await?;
            }
            RaceFault::RotationWithWatchDrop(length, at) => {
                let watches = async {
                    sleep_until(first(at)).await;
                    if let Some(proxy) = &self.seed_proxy {
                        proxy.refuse_watches();
                        sleep(length).await;
                        proxy.end();
                    }
                    Ok(())
                };
                let rotations = cuts
                    .iter()
                    .map(|(cluster, cut, _)| cluster.rotate(at.resolve(cut)));
                tokio::try_join!(watches, try_join_all(rotations))?;
            }
            RaceFault::ProberKill(at) => {
                sleep_until(first(at)).await;
                replicas.kill_all().await;
            }
            RaceFault::SeedAway(length, at) => {
                sleep_until(first(at)).await;
                if let Some(proxy) = &self.seed_proxy {
                    proxy.be_away();
                    sleep(length).await;
                    proxy.end();
                }
            }
            RaceFault::ShootStall(length, at) => {
                let stalls = cuts.iter();
                let stalls = stalls.map(|(cluster, cut, _)| cluster.stall(at.resolve(cut), length));
                join_all(stalls).await;
            }
            RaceFault::ShootRestart(at) => {
                let restarts = cuts.iter();
                let restarts = restarts.map(|(cluster, cut, _)| cluster.restart(at.resolve(cut)));
                try_join_all(restarts).await?;
            }
            RaceFault::None
            | RaceFault::SeedLatency(_)
            | RaceFault::SeedThrottling(_)
            | RaceFault::ShootErrors(_)
            | RaceFault::CredentialsRefused => {}
        }
        Ok(())
    }

    fn end_fault(&self) {
        if let Some(proxy) = &self.seed_proxy {
            proxy.end();
        }
        for cluster in &self.clusters {
            if let Some(proxies) = &cluster.proxies {
                proxies.end();
            }
        }
    }

    fn observers(&self) -> TrialObservers<'_> {
        TrialObservers {
            timeline: &self.timeline,
            canary: &self.canary,
        }
    }

    fn rng(&self, number: usize) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.options.rng_seed.wrapping_add(number as u64))
    }
}
