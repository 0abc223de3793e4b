//! The race between a prober and real kube-controller-managers.
//!
//! A [`Race`] has a seed cluster and some [`RaceCluster`]s: shoot clusters, each with its own API
//! server, kubelets, and a kube-controller-manager that runs as long as its Deployment in the seed
//! has replicas (see [`DeployedControllerManager`]). In a [`RaceTrial`] the kubelets of one cluster
//! are cut off. [`UnknownNodes`] records which nodes the node controller marks Unknown. [`report`]
//! prints the results.

mod cluster;
mod controller_manager;
pub mod report;
mod trial;
mod unknown_nodes;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use futures_util::future::try_join_all;

pub use cluster::RaceCluster;
pub use controller_manager::DeployedControllerManager;
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
    /// Seeds the random number generators.
    pub rng_seed: u64,
}

/// Everything that a race needs except the prober.
pub struct Race {
    /// The seed cluster with all control planes.
    pub seed: SeedCluster,
    options: RaceOptions,
    clusters: Vec<RaceCluster>,
    timeline: TargetTimeline,
    canary: Canary,
    _deployment_controller: FakeDeploymentController,
}

impl RaceOptions {
    /// kube-controller-manager runs for a second longer than its pod would, so that the report
    /// covers slower pods, too.
    fn longest_stop(&self) -> Duration {
        self.pod_stop + Duration::from_secs(1)
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
        Ok(Self {
            seed,
            options: options.clone(),
            clusters,
            timeline,
            canary,
            _deployment_controller: deployment_controller,
        })
    }

    /// Writes a kubeconfig with all permissions in the seed cluster, for the prober.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        self.seed
            .kubeconfig_file(&self.seed.control_plane.api.admin())
    }

    /// Runs this many trials, divided among the clusters, which do not wait for each other. The
    /// prober must be running. `on_trial` is called after each trial.
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
                let rng_seed = self.options.rng_seed.wrapping_add(number as u64);
                let mut rng = fastrand::Rng::with_seed(rng_seed);
                tokio::time::sleep(self.options.settle).await;
                let mut done = Vec::new();
                for _ in 0..share {
                    let trial = cluster.trial(&self.timeline, &self.canary, &mut rng);
                    let trial = trial.await?;
                    on_trial(&trial);
                    done.push(trial);
                }
                anyhow::Ok(done)
            });
        Ok(try_join_all(all).await?.into_iter().flatten().collect())
    }
}
