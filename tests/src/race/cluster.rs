//! A shoot cluster that is cut off repeatedly.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

use super::controller_manager::{
    ControllerManagerLauncher, ControllerManagerState, DeployedControllerManager,
};
use super::cut::Cut;
use super::shoot_proxies::ShootProxies;
use super::trial::RaceTrial;
use super::unknown_nodes::UnknownNodes;
use super::{LostNode, RaceFault, RaceOptions};
use crate::landscape::{
    self, Canary, Kubelets, MARKER, SeedCluster, ShootCluster, TargetChange, TargetTimeline,
};
use crate::{KubeApiServer, poll};

/// Limit for a restore, and for anything else that is expected to happen.
const TIMEOUT: Duration = Duration::from_mins(5);

/// The number of grace periods after the partition in which a fault lasts while the targets are
/// restored.
const RESTORE_GRACE_PERIODS: u32 = 3;

/// The replicas of the targets, in the order of [`ShootCluster::TARGETS`].
const REPLICAS: [u32; 3] = [1, 1, 2];

/// A shoot cluster with its own API server, kubelets and kube-controller-manager.
pub struct RaceCluster {
    pub(super) shoot: ShootCluster,
    /// The proxies in front of the API server; `None` if the race has no second faults.
    pub(super) proxies: Option<ShootProxies>,
    kubelets: Kubelets,
    controller_manager: DeployedControllerManager,
    unknown_nodes: UnknownNodes,
    options: RaceOptions,
    nodes: usize,
    /// The number of times the kubeconfig was replaced.
    rotations: AtomicUsize,
    /// The nodes do not turn Unknown without a permit of the prober.
    is_guarded: bool,
    api: Mutex<KubeApiServer>,
}

/// The observers that a trial needs beside its cluster.
#[derive(Clone, Copy)]
pub(super) struct TrialObservers<'a> {
    pub(super) timeline: &'a TargetTimeline,
    pub(super) canary: &'a Canary,
}

impl RaceCluster {
    pub(super) async fn create(
        seed: &SeedCluster,
        options: &RaceOptions,
        number: usize,
        nodes: usize,
    ) -> Result<Self> {
        let name = format!("shoot--race--{number}");
        let is_guarded = options.is_guarded(number);
        let api = KubeApiServer::start(&seed.control_plane.etcd, &name).await?;
        let client = api.client(&api.admin()).await?;
        let proxies = if options.proxied {
            Some(ShootProxies::start(&api, &client, is_guarded).await?)
        } else {
            None
        };
        let url = proxies.as_ref().map_or(api.url(), ShootProxies::url);
        let own_kubeconfig = api.kubeconfig_for_url(url, &api.admin());
        let own_client = crate::kubectl::client(&own_kubeconfig).await?;
        let kubelets = Kubelets::start_realistic(&own_client, nodes, options.timings).await?;
        let kubeconfig = if let Some(proxies) = &proxies {
            proxies.kubeconfig(0)
        } else {
            let access = landscape::create_tenant_user(&client, &api, "dwd").await?;
            if is_guarded {
                landscape::grant_guard_rules(&client, "dwd").await?;
            }
            api.kubeconfig(&access)
        };
        let shoot = seed
            .create_cluster(&name, &kubeconfig, &kubelets.nodes())
            .await?;
        shoot.create_targets(REPLICAS).await?;
        let launcher = ControllerManagerLauncher {
            // The guard's policy matches this user.
            kubeconfig: api.kubeconfig_for_url(
                url,
                &api.user("system:kube-controller-manager", &["system:masters"])?,
            ),
            namespace: name,
            grace: options.timings.grace,
            monitor_period: options.monitor_period(),
            stop_delay: options.longest_stop(),
        };
        Ok(Self {
            controller_manager: DeployedControllerManager::start(&seed.client, launcher)?,
            unknown_nodes: UnknownNodes::start(&client),
            shoot,
            proxies,
            kubelets,
            options: options.clone(),
            nodes,
            rotations: AtomicUsize::new(0),
            is_guarded,
            api: Mutex::new(api),
        })
    }

    /// Waits until all nodes have renewed since the start of their controller, so that its view of
    /// them is as in steady state. Returns the time of that start.
    pub(super) async fn until_steady(&self) -> Result<Instant> {
        let running = tokio::time::timeout(TIMEOUT, self.controller_manager.until_running()).await;
        let running = running.context("kube-controller-manager was not scaled up")?;
        let running = running.context("kube-controller-manager does not start")?;
        let renewed = poll::until("renewals", TIMEOUT, async || {
            let first = self.kubelets.deadline(Duration::ZERO).await;
            Ok(first.filter(|first| *first > running))
        });
        renewed.await.map(|_| running)
    }

    /// Cuts off all nodes at a random phase of their renewals. `running` is the time at which
    /// kube-controller-manager was started.
    pub(super) async fn cut(&self, running: Instant, rng: &mut fastrand::Rng) -> Result<Cut> {
        let timings = self.options.timings;
        sleep(timings.renewal.mul_f64(rng.f64())).await;
        self.kubelets.partition(1.0).await;
        let at = Instant::now();
        let mut renewals = self.kubelets.last_renewals().await;
        renewals.sort();
        let silent = *renewals.first().context("no nodes")? + timings.grace;
        Ok(Cut {
            at,
            renewals,
            deadline: silent.max(running + timings.grace),
            timings,
            pod_stop: self.options.pod_stop,
        })
    }

    /// Makes the API server unreachable for `length`, from `start` on.
    pub(super) async fn be_away(&self, start: Instant, length: Duration) {
        if let Some(proxies) = &self.proxies {
            sleep_until(start).await;
            proxies.set_away(true);
            sleep_until(start + length).await;
            proxies.set_away(false);
        }
    }

    /// Lets the API server answer no request for `length`, from `start` on.
    pub(super) async fn stall(&self, start: Instant, length: Duration) {
        if let Some(proxies) = &self.proxies {
            sleep_until(start).await;
            proxies.set_stalled(true);
            sleep(length).await;
            proxies.set_stalled(false);
        }
    }

    /// Kills the API server at `at`, and starts it again.
    pub(super) async fn restart(&self, at: Instant) -> Result<()> {
        sleep_until(at).await;
        self.api.lock().await.restart().await
    }

    /// Cuts off one node for good, waits until it is Unknown, and brings it back.
    pub(super) async fn lose_node(&self) -> Result<LostNode> {
        let share = 0.5 / f64::from(u32::try_from(self.nodes)?);
        sleep(self.options.timings.renewal.mul_f64(fastrand::f64())).await;
        self.kubelets.partition(share).await;
        let cut = Instant::now();
        let renewals = self.kubelets.last_renewals().await;
        let renewed = *renewals.first().context("no nodes")?;
        let unknown_at = poll::until("an Unknown node", TIMEOUT, async || {
            let unknown = self.unknown_nodes.since(cut);
            Ok(unknown.first().map(|(_, at)| *at))
        });
        let unknown_at = unknown_at.await?;
        self.kubelets.heal().await;
        poll::until("the node's return", TIMEOUT, async || {
            Ok(self.unknown_nodes.current().is_empty().then_some(()))
        })
        .await?;
        Ok(LostNode {
            is_guarded: self.is_guarded,
            unknown_after: unknown_at - renewed,
        })
    }

    /// Replaces the kubeconfig in the Secret and revokes the old one, at `at`.
    pub(super) async fn rotate(&self, at: Instant) -> Result<()> {
        let Some(proxies) = &self.proxies else {
            return Ok(());
        };
        sleep_until(at).await;
        let rotations = self.rotations.fetch_add(1, Ordering::Relaxed) + 1;
        proxies.rotate(&self.shoot, rotations).await
    }

    /// Follows a trial from its cut to the restore. `end_fault` ends a fault under which the
    /// targets are not restored.
    pub(super) async fn finish(
        &self,
        cut: &Cut,
        fault: RaceFault,
        is_winnable: bool,
        observers: TrialObservers<'_>,
        end_fault: impl Fn(),
    ) -> Result<RaceTrial> {
        let deadline = cut.deadline;
        let give_up_at = cut.at + self.options.longest_partition();
        let fence = poll::until("a fence", TIMEOUT, async || {
            let is_over = Instant::now() >= give_up_at;
            Ok(match self.controller_manager.state() {
                ControllerManagerState::ScaledDown { at } => Some(Some(at)),
                ControllerManagerState::Running { .. } => is_over.then_some(None),
            })
        });
        let fence = fence.await?;
        let gone = fence.map(|at| at + self.options.longest_stop());
        let last = deadline.max(gone.unwrap_or(deadline));
        sleep_until(last + self.options.node_controller_delay()).await;

        let unknown = self.unknown_nodes.since(cut.at);
        let baseline = observers
            .canary
            .longest(cut.at, fence.unwrap_or(deadline), TIMEOUT)
            .await;
        let healed = Instant::now();
        self.kubelets.heal().await;
        let patience = self.options.timings.grace * RESTORE_GRACE_PERIODS;
        let mut restored = self
            .until_restored(observers.timeline, healed, patience)
            .await;
        if restored.is_none() {
            end_fault();
            restored = self
                .until_restored(observers.timeline, healed, TIMEOUT)
                .await;
        }
        if restored.is_none() {
            self.restore_by_hand().await?;
        }
        Ok(RaceTrial {
            cluster: self.shoot.name.clone(),
            nodes: self.nodes,
            fault,
            is_winnable,
            partitioned_at: cut.at,
            deadline,
            fenced_at: fence,
            pod_stop: self.options.pod_stop,
            unknown,
            baseline,
            restore: fence.and(restored).map(|at| at - healed),
            is_restored_exactly: restored.is_some(),
        })
    }

    /// Waits until all targets are as before the fence, and returns the time of the last change;
    /// `None` if that takes longer than `limit`.
    async fn until_restored(
        &self,
        timeline: &TargetTimeline,
        healed: Instant,
        limit: Duration,
    ) -> Option<Instant> {
        let restored = poll::until("a restore", limit, async || {
            let changes = timeline.changes(&self.shoot.name);
            let mut last = healed;
            for (target, replicas) in ShootCluster::TARGETS.into_iter().zip(REPLICAS) {
                let is_up = |change: &TargetChange| {
                    u32::try_from(change.replicas) == Ok(replicas) && !change.marked
                };
                let mut changes = changes.iter().rev();
                match changes.find(|change| change.name == target) {
                    Some(change) if is_up(change) => last = last.max(change.at),
                    _ => return Ok(None),
                }
            }
            Ok(Some(last))
        });
        restored.await.ok()
    }

    /// Restores the targets as an operator would, for the trials after this one.
    async fn restore_by_hand(&self) -> Result<()> {
        for (target, replicas) in ShootCluster::TARGETS.into_iter().zip(REPLICAS) {
            self.shoot.scale(target, replicas).await?;
            self.shoot.annotate(target, MARKER, &Value::Null).await?;
        }
        Ok(())
    }
}
