//! Everything goes wrong for a while, on real servers.
//!
//! A [`Soak`] has a seed, shoots on a few API servers, and two replicas of the prober. [`faults`] go on
//! until its time is over; then all is mended, and everything has to be as people have left it. The
//! `checker` goes through the seed's [`audit`] log; the `witness` knows how the nodes really were.

pub mod audit;
mod checker;
mod cluster;
mod crew;
pub mod faults;
mod servers;
mod witness;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::jiff::Timestamp;
use tokio::time::{Instant, sleep};

pub use checker::Findings;

use crate::landscape::{Pace, Pods, ProberConfig, Seed, wall_clock};
use checker::Checker;
use cluster::Cluster;
use crew::Crew;
use faults::Fault;
use servers::Servers;
use witness::{Silence, Witness};

/// Between two looks at what is due.
const TICK: Duration = Duration::from_millis(200);

/// How long anything may take that is expected to happen.
const PATIENCE: Duration = Duration::from_mins(3);

/// What a soak is about.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// How long faults go on.
    pub length: Duration,
    /// A fault comes so often, on average.
    pub every: Duration,
    /// Shoots of the seed.
    pub clusters: usize,
    /// Nodes of each.
    pub nodes: usize,
    /// API servers that the shoots share.
    pub servers: usize,
    /// Times of the clusters.
    pub pace: Pace,
    /// What is random follows from it; what comes of it does not.
    pub seed: u64,
}

/// All that takes part.
pub struct Soak {
    plan: Plan,
    seed: Seed,
    servers: Servers,
    clusters: Vec<Cluster>,
    crew: Crew,
    random: fastrand::Rng,
    /// The seed's API server is away until then.
    seed_back: Option<Instant>,
    /// When it was stopped, and when it came back.
    gaps: Vec<Timestamp>,
    _pods: Pods,
}

impl Soak {
    /// Starts everything and waits until all clusters are seen.
    pub async fn prepare(plan: Plan) -> Result<Self> {
        let seed = Seed::start_audited(audit::POLICY).await?;
        let servers = Servers::start(&seed, plan.servers).await?;
        let mut clusters = Vec::new();
        for number in 0..plan.clusters {
            clusters.push(Cluster::make(&seed, &servers, &plan, number).await?);
        }
        let config = ProberConfig::shipped(plan.pace);
        Ok(Self {
            plan,
            crew: Crew::start(&seed, config).await?,
            _pods: Pods::start(&seed.client, Duration::from_millis(300)),
            seed,
            servers,
            clusters,
            random: fastrand::Rng::with_seed(plan.seed),
            seed_back: None,
            gaps: Vec::new(),
        })
    }

    /// Lets faults go on, mends everything, and tells what was found. `told` hears of each fault.
    pub async fn run(&mut self, told: impl Fn(&str)) -> Result<Findings> {
        let start = Instant::now();
        let end = start + self.plan.length;
        let mut next = start + self.plan.every * 2;
        while Instant::now() < end {
            self.tick(Instant::now()).await?;
            if Instant::now() >= next {
                let fault = Fault::any(&mut self.random);
                if let Some(what) = self.strike(fault).await? {
                    told(&format!("{:>5.0} s  {what}", start.elapsed().as_secs_f64()));
                }
                next += self.plan.every.mul_f64(self.random.f64() * 2.0);
            }
            sleep(TICK).await;
        }
        told("all is mended");
        self.mend().await?;
        let log = self.seed.plane.api.audit_log()?;
        let writes = audit::read(&log)?;
        Ok(Checker::check(&writes, &self.gaps, &self.witness().await))
    }

    async fn witness(&self) -> Witness {
        let mut clusters = BTreeMap::new();
        for cluster in &self.clusters {
            let silence = Silence {
                renewals: cluster.kubelets.history().await,
                outages: self.servers.outages(cluster.server),
            };
            clusters.insert(cluster.shoot.name.clone(), silence);
        }
        Witness {
            pace: self.plan.pace,
            anchor: (wall_clock::now(), Instant::now()),
            clusters,
        }
    }

    /// The audit log of the seed, for who wants to see more.
    pub fn audit_log(&self) -> Result<String> {
        self.seed.plane.api.audit_log()
    }

    /// The most files and sockets that a replica has open.
    pub fn open_files(&self) -> Result<usize> {
        self.crew.open_files()
    }

    /// What was logged by the replicas that are there.
    pub fn log(&self) -> String {
        self.crew.log()
    }

    /// Does what is due.
    async fn tick(&mut self, now: Instant) -> Result<()> {
        for cluster in &mut self.clusters {
            cluster.heal_if_due(now).await;
        }
        self.servers.come_back_if_due(now).await?;
        if self.seed_back.is_some_and(|due| due <= now) {
            self.seed.plane.api.come_back().await?;
            self.seed_back = None;
            self.gaps.push(wall_clock::now());
        }
        if self.seed_back.is_none() {
            self.crew.follow(&self.seed, now).await?;
        }
        Ok(())
    }

    /// Ends all faults and waits until everything is as people have left it.
    async fn mend(&mut self) -> Result<()> {
        let far = Instant::now() + Duration::from_hours(1);
        self.tick(far).await?;
        // Who was killed comes back only to a seed that is there.
        self.tick(far).await?;
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            self.tick(Instant::now()).await?;
            if self.is_restored().await? {
                return Ok(());
            }
            sleep(TICK).await;
        }
        for cluster in &self.clusters {
            let counts = cluster.counts.map(u64::from);
            let restored = cluster.shoot.until_restored(counts, TICK).await;
            restored.with_context(|| self.crew.log())?;
        }
        Ok(())
    }

    async fn is_restored(&self) -> Result<bool> {
        for cluster in &self.clusters {
            if !cluster.is_restored().await? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
