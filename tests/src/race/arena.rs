//! A shoot that is cut off again and again.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{Instant, sleep, sleep_until};

use super::Course;
use super::keeper::{Charge, Keeper, Life};
use super::roll::Roll;
use super::trial::Trial;
use crate::landscape::{self, Canary, Entry, Kubelets, Seed, Shoot, Timeline};
use crate::{ApiServer, poll};

/// A fence that has not come by then does not come, in grace periods after the cut.
const HOPELESS: u32 = 4;

/// How long a restore may take, and whatever else is expected to happen.
const PATIENCE: Duration = Duration::from_mins(5);

/// The node controller looks every 5 s: what it does about a deadline is done so long after it.
const TICKS: Duration = Duration::from_secs(11);

/// A shoot with its own API server, kubelets and kube-controller-manager.
pub struct Arena {
    shoot: Shoot,
    kubelets: Kubelets,
    keeper: Keeper,
    roll: Roll,
    course: Course,
    size: usize,
    _api: Arc<ApiServer>,
}

impl Arena {
    pub(super) async fn make(
        seed: &Seed,
        course: &Course,
        number: usize,
        size: usize,
    ) -> Result<Self> {
        let name = format!("shoot--race--{number}");
        let api = Arc::new(ApiServer::start(&seed.plane.etcd, &name).await?);
        let client = api.client(&api.admin()).await?;
        let kubelets = Kubelets::start_real(&client, size, course.pace).await?;
        let access = landscape::tenant(&client, &api, "dwd").await?;
        let kubeconfig = api.kubeconfig(&access);
        let shoot = seed.shoot(&name, &kubeconfig, &kubelets.nodes()).await?;
        shoot.deploy([1, 1, 1]).await?;
        let charge = Charge {
            api: Arc::clone(&api),
            shoot: name,
            grace: course.pace.grace,
            stop: course.longest_stop(),
        };
        Ok(Self {
            keeper: Keeper::start(&seed.client, charge)?,
            roll: Roll::start(&client),
            shoot,
            kubelets,
            course: course.clone(),
            size,
            _api: api,
        })
    }

    /// One partition, from a quiet moment to the restore.
    pub(super) async fn trial(
        &self,
        timeline: &Timeline,
        canary: &Canary,
        random: &mut fastrand::Rng,
    ) -> Result<Trial> {
        let pace = self.course.pace;
        let running = self.quiet().await?;
        sleep(pace.renewal.mul_f64(random.f64())).await;

        self.kubelets.cut(1.0).await;
        let cut = Instant::now();
        let silent = self
            .kubelets
            .deadline(pace.grace)
            .await
            .context("no nodes")?;
        let deadline = silent.max(running + pace.grace);
        let hopeless = cut + pace.grace * HOPELESS;
        let fence = poll::until("a fence", PATIENCE, async || {
            let is_over = Instant::now() >= hopeless;
            Ok(match self.keeper.life() {
                Life::Scaled(at) => Some(Some(at)),
                Life::Since(_) => is_over.then_some(None),
            })
        });
        let fence = fence.await?;
        let gone = fence.map(|at| at + self.course.longest_stop());
        sleep_until(deadline.max(gone.unwrap_or(deadline)) + TICKS).await;

        let lost = self.roll.lost_since(cut);
        let machine = canary
            .longest(cut, fence.unwrap_or(deadline), PATIENCE)
            .await;
        let healed = Instant::now();
        self.kubelets.heal().await;
        let restored = match fence {
            Some(_) => Some(self.restored(timeline, healed).await?),
            None => None,
        };
        Ok(Trial {
            shoot: self.shoot.name.clone(),
            nodes: self.size,
            cut,
            deadline,
            fence,
            pod_stop: self.course.pod_stop,
            lost,
            machine,
            restore: restored.map(|at| at - healed),
        })
    }

    /// Waits until all nodes have renewed since their controller was started: what it knows of them
    /// is as old as it gets. Gives when it was started.
    async fn quiet(&self) -> Result<Instant> {
        let running = tokio::time::timeout(PATIENCE, self.keeper.until_running()).await;
        let running = running.context("kube-controller-manager stays away")?;
        let running = running.context("kube-controller-manager does not start")?;
        let renewed = poll::until("renewals", PATIENCE, async || {
            let first = self.kubelets.deadline(Duration::ZERO).await;
            Ok(first.filter(|first| *first > running))
        });
        renewed.await.map(|_| running)
    }

    /// Waits until all targets are as they were, and gives when that was seen.
    async fn restored(&self, timeline: &Timeline, healed: Instant) -> Result<Instant> {
        let mut last = healed;
        for target in Shoot::TARGETS {
            // A fence of only one level may have been all there was.
            let is_up =
                |entry: &Entry| entry.name == target && entry.replicas == 1 && !entry.marked;
            let was_down = timeline
                .of(&self.shoot.name)
                .iter()
                .rev()
                .find(|entry| entry.name == target)
                .is_some_and(|entry| !is_up(entry));
            if was_down {
                let up = timeline.until(target, &self.shoot.name, healed, PATIENCE, is_up);
                last = last.max(up.await?.at);
            }
        }
        Ok(last)
    }
}
