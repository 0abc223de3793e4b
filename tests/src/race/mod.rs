//! The race between a prober and real kube-controller-managers.
//!
//! A [`Race`] has a seed and some [`Arena`]s: a shoot with an API server of its own, kubelets, and a
//! kube-controller-manager that lives as long as its Deployment in the seed has replicas, which a
//! [`Keeper`] sees to. In a [`Trial`] the kubelets of an arena are cut off; a [`Roll`] keeps which
//! nodes the node controller gave up. [`report`] tells the outcome.

mod arena;
mod keeper;
pub mod report;
mod roll;
mod trial;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use futures_util::future::try_join_all;

pub use arena::Arena;
pub use keeper::Keeper;
pub use roll::Roll;
pub use trial::Trial;

use crate::landscape::{Canary, Pace, Pods, Seed, Timeline};

/// What a race is about.
#[derive(Debug, Clone)]
pub struct Course {
    /// Times of the clusters.
    pub pace: Pace,
    /// So many nodes have the arenas, one size after the other.
    pub sizes: Vec<usize>,
    /// So many arenas side by side.
    pub arenas: usize,
    /// A pod is gone so long after its Deployment was scaled down.
    pub pod_stop: Duration,
    /// So long nothing happens at the start.
    pub settle: Duration,
    /// What is random follows from it.
    pub seed: u64,
}

/// All that has to be there for a race, except for the prober.
pub struct Race {
    /// The seed.
    pub seed: Seed,
    course: Course,
    arenas: Vec<Arena>,
    timeline: Timeline,
    canary: Canary,
    _pods: Pods,
}

impl Course {
    /// kube-controller-manager is watched for a second longer than its pod would live: so it can be
    /// told what would have become of the nodes then.
    fn longest_stop(&self) -> Duration {
        self.pod_stop + Duration::from_secs(1)
    }
}

impl Race {
    /// Starts the servers and makes the clusters.
    pub async fn prepare(course: &Course) -> Result<Self> {
        let seed = Seed::start().await?;
        let timeline = Timeline::start(&seed.client);
        let canary = Canary::start(&seed.client).await?;
        let pods = Pods::start(&seed.client, course.pod_stop);
        let sizes = course.sizes.iter().copied().cycle().take(course.arenas);
        let mut arenas = Vec::new();
        for (number, size) in sizes.enumerate() {
            arenas.push(Arena::make(&seed, course, number, size).await?);
        }
        Ok(Self {
            seed,
            course: course.clone(),
            arenas,
            timeline,
            canary,
            _pods: pods,
        })
    }

    /// A way to the seed with all rights, for the prober.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        self.seed.kubeconfig(&self.seed.plane.api.admin())
    }

    /// So many trials, shared among the arenas, which do not wait for each other. The prober runs
    /// already; `told` hears of each trial when it is over.
    pub async fn run(&self, trials: usize, told: impl Fn(&Trial)) -> Result<Vec<Trial>> {
        let arenas = self.arenas.len();
        let all = self.arenas.iter().enumerate().map(async |(number, arena)| {
            let share = (trials + arenas - 1 - number) / arenas;
            let mut random = fastrand::Rng::with_seed(self.course.seed.wrapping_add(number as u64));
            tokio::time::sleep(self.course.settle).await;
            let mut done = Vec::new();
            for _ in 0..share {
                let trial = arena.trial(&self.timeline, &self.canary, &mut random);
                let trial = trial.await?;
                told(&trial);
                done.push(trial);
            }
            anyhow::Ok(done)
        });
        Ok(try_join_all(all).await?.into_iter().flatten().collect())
    }
}
