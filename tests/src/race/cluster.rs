//! A shoot cluster that is cut off repeatedly.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{Instant, sleep, sleep_until};

use super::RaceOptions;
use super::controller_manager::{
    ControllerManagerLauncher, ControllerManagerState, DeployedControllerManager,
};
use super::trial::RaceTrial;
use super::unknown_nodes::UnknownNodes;
use crate::landscape::{
    self, Canary, Kubelets, SeedCluster, ShootCluster, TargetChange, TargetTimeline,
};
use crate::{KubeApiServer, poll};

/// The number of grace periods after a partition without a fence that end the wait for one.
const GIVE_UP_GRACE_PERIODS: u32 = 4;

/// Limit for a restore, and for anything else that is expected to happen.
const TIMEOUT: Duration = Duration::from_mins(5);

/// The node controller checks the nodes every 5 s. After this time it has acted on a deadline.
const NODE_CONTROLLER_DELAY: Duration = Duration::from_secs(11);

/// A shoot cluster with its own API server, kubelets and kube-controller-manager.
pub struct RaceCluster {
    shoot: ShootCluster,
    kubelets: Kubelets,
    controller_manager: DeployedControllerManager,
    unknown_nodes: UnknownNodes,
    options: RaceOptions,
    nodes: usize,
    _api: Arc<KubeApiServer>,
}

impl RaceCluster {
    pub(super) async fn create(
        seed: &SeedCluster,
        options: &RaceOptions,
        number: usize,
        nodes: usize,
    ) -> Result<Self> {
        let name = format!("shoot--race--{number}");
        let api = Arc::new(KubeApiServer::start(&seed.control_plane.etcd, &name).await?);
        let client = api.client(&api.admin()).await?;
        let kubelets = Kubelets::start_realistic(&client, nodes, options.timings).await?;
        let access = landscape::create_tenant_user(&client, &api, "dwd").await?;
        let kubeconfig = api.kubeconfig(&access);
        let shoot = seed
            .create_cluster(&name, &kubeconfig, &kubelets.nodes())
            .await?;
        shoot.create_targets([1, 1, 1]).await?;
        let launcher = ControllerManagerLauncher {
            api: Arc::clone(&api),
            namespace: name,
            grace: options.timings.grace,
            stop_delay: options.longest_stop(),
        };
        Ok(Self {
            controller_manager: DeployedControllerManager::start(&seed.client, launcher)?,
            unknown_nodes: UnknownNodes::start(&client),
            shoot,
            kubelets,
            options: options.clone(),
            nodes,
            _api: api,
        })
    }

    /// Runs one trial: a partition, from a steady state to the restore.
    pub(super) async fn trial(
        &self,
        timeline: &TargetTimeline,
        canary: &Canary,
        rng: &mut fastrand::Rng,
    ) -> Result<RaceTrial> {
        let timings = self.options.timings;
        let running = self.until_steady().await?;
        sleep(timings.renewal.mul_f64(rng.f64())).await;

        self.kubelets.partition(1.0).await;
        let partitioned_at = Instant::now();
        let silent = self
            .kubelets
            .deadline(timings.grace)
            .await
            .context("no nodes")?;
        let deadline = silent.max(running + timings.grace);
        let give_up_at = partitioned_at + timings.grace * GIVE_UP_GRACE_PERIODS;
        let fence = poll::until("a fence", TIMEOUT, async || {
            let is_over = Instant::now() >= give_up_at;
            Ok(match self.controller_manager.state() {
                ControllerManagerState::ScaledDown { at } => Some(Some(at)),
                ControllerManagerState::Running { .. } => is_over.then_some(None),
            })
        });
        let fence = fence.await?;
        let gone = fence.map(|at| at + self.options.longest_stop());
        sleep_until(deadline.max(gone.unwrap_or(deadline)) + NODE_CONTROLLER_DELAY).await;

        let unknown = self.unknown_nodes.since(partitioned_at);
        let baseline = canary
            .longest(partitioned_at, fence.unwrap_or(deadline), TIMEOUT)
            .await;
        let healed = Instant::now();
        self.kubelets.heal().await;
        let restored = match fence {
            Some(_) => Some(self.until_restored(timeline, healed).await?),
            None => None,
        };
        Ok(RaceTrial {
            cluster: self.shoot.name.clone(),
            nodes: self.nodes,
            partitioned_at,
            deadline,
            fenced_at: fence,
            pod_stop: self.options.pod_stop,
            unknown,
            baseline,
            restore: restored.map(|at| at - healed),
        })
    }

    /// Waits until all nodes have renewed since the start of their controller, so that its view of
    /// them is as in steady state. Returns the time of that start.
    async fn until_steady(&self) -> Result<Instant> {
        let running = tokio::time::timeout(TIMEOUT, self.controller_manager.until_running()).await;
        let running = running.context("kube-controller-manager was not scaled up")?;
        let running = running.context("kube-controller-manager does not start")?;
        let renewed = poll::until("renewals", TIMEOUT, async || {
            let first = self.kubelets.deadline(Duration::ZERO).await;
            Ok(first.filter(|first| *first > running))
        });
        renewed.await.map(|_| running)
    }

    /// Waits until all targets are as before the fence, and returns the time of the last change.
    async fn until_restored(&self, timeline: &TargetTimeline, healed: Instant) -> Result<Instant> {
        let mut last = healed;
        for target in ShootCluster::TARGETS {
            // The fence may have reached only the first level.
            let is_up = |change: &TargetChange| {
                change.name == target && change.replicas == 1 && !change.marked
            };
            let was_down = timeline
                .changes(&self.shoot.name)
                .iter()
                .rev()
                .find(|change| change.name == target)
                .is_some_and(|change| !is_up(change));
            if was_down {
                let up = timeline.until(target, &self.shoot.name, healed, TIMEOUT, is_up);
                last = last.max(up.await?.at);
            }
        }
        Ok(last)
    }
}
