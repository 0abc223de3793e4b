//! Random faults on real servers for a while.
//!
//! A [`Soak`] has a seed cluster, shoot clusters on a few API servers, and two replicas of the
//! prober. It injects [`faults`] until its time is over. Then it repairs everything, and all
//! targets have to be as the operators left them. The [`SoakReport`] comes from the `auditor`,
//! which checks the seed's [`audit_log`] against the `node_history`.

pub mod audit_log;
mod auditor;
mod cluster;
pub mod faults;
mod node_history;
mod replicas;
mod servers;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::jiff::Timestamp;
use tokio::time::{Instant, sleep};

pub use auditor::SoakReport;

use crate::landscape::{
    FakeDeploymentController, ProberConfigFile, SeedCluster, Timings, wall_clock,
};
use auditor::SoakAuditor;
use cluster::SoakCluster;
use faults::SoakFault;
use node_history::{ClusterHistory, NodeHistory};
use replicas::ProberReplicas;
use servers::SoakServers;

/// The pause between two checks for due actions.
const TICK: Duration = Duration::from_millis(200);

/// Limit for anything that is expected to happen.
const TIMEOUT: Duration = Duration::from_mins(3);

/// The parameters of a soak.
#[derive(Debug, Clone, Copy)]
pub struct SoakOptions {
    /// The duration of the faults.
    pub duration: Duration,
    /// The average time between two faults.
    pub fault_interval: Duration,
    /// The number of shoot clusters.
    pub clusters: usize,
    /// The number of nodes of each cluster.
    pub nodes: usize,
    /// The number of API servers that the clusters share.
    pub servers: usize,
    /// The durations of the clusters.
    pub timings: Timings,
    /// Seeds the choice of the faults. Their effects are not deterministic.
    pub rng_seed: u64,
}

/// The servers, clusters and probers of a soak.
pub struct Soak {
    options: SoakOptions,
    seed: SeedCluster,
    servers: SoakServers,
    clusters: Vec<SoakCluster>,
    replicas: ProberReplicas,
    rng: fastrand::Rng,
    /// The time at which the seed's API server is started again; `None` while it runs.
    seed_down_until: Option<Instant>,
    /// The times at which the API server of the seed was stopped and started.
    seed_restarts: Vec<Timestamp>,
    _deployment_controller: FakeDeploymentController,
}

impl Soak {
    /// Starts the servers, clusters and probers.
    pub async fn prepare(options: SoakOptions) -> Result<Self> {
        let seed = SeedCluster::start_with_audit_log(audit_log::POLICY).await?;
        let servers = SoakServers::start(&seed, options.servers).await?;
        let mut clusters = Vec::new();
        for number in 0..options.clusters {
            clusters.push(SoakCluster::create(&seed, &servers, &options, number).await?);
        }
        let config = ProberConfigFile::gardener_targets(options.timings);
        Ok(Self {
            options,
            replicas: ProberReplicas::start(&seed, config).await?,
            _deployment_controller: FakeDeploymentController::start(
                &seed.client,
                Duration::from_millis(300),
            ),
            seed,
            servers,
            clusters,
            rng: fastrand::Rng::with_seed(options.rng_seed),
            seed_down_until: None,
            seed_restarts: Vec::new(),
        })
    }

    /// Injects faults, repairs everything, and audits the writes of the probers. `on_event` is
    /// called with a line about each fault.
    pub async fn run(&mut self, on_event: impl Fn(&str)) -> Result<SoakReport> {
        let start = Instant::now();
        let end = start + self.options.duration;
        let mut next = start + self.options.fault_interval * 2;
        while Instant::now() < end {
            self.tick(Instant::now()).await?;
            if Instant::now() >= next {
                let fault = SoakFault::random(&mut self.rng);
                if let Some(what) = self.inject(fault).await? {
                    on_event(&format!("{:>5.0} s  {what}", start.elapsed().as_secs_f64()));
                }
                next += self.options.fault_interval.mul_f64(self.rng.f64() * 2.0);
            }
            sleep(TICK).await;
        }
        on_event("faults end; waiting until all targets are restored");
        self.recover().await?;
        let log = self.seed.control_plane.api.audit_log()?;
        let writes = audit_log::parse(&log)?;
        let history = self.node_history().await;
        Ok(SoakAuditor::audit(&writes, &self.seed_restarts, &history))
    }

    async fn node_history(&self) -> NodeHistory {
        let mut clusters = BTreeMap::new();
        for cluster in &self.clusters {
            let history = ClusterHistory {
                renewals: cluster.kubelets.renewal_history().await,
                outages: self.servers.outages(cluster.server),
            };
            clusters.insert(cluster.shoot.name.clone(), history);
        }
        NodeHistory {
            timings: self.options.timings,
            anchor: (wall_clock::now(), Instant::now()),
            clusters,
        }
    }

    /// Reads the audit log of the seed.
    pub fn audit_log(&self) -> Result<String> {
        self.seed.control_plane.api.audit_log()
    }

    /// The largest number of open files and sockets of a replica.
    pub fn open_files(&self) -> Result<usize> {
        self.replicas.open_files()
    }

    /// The logs of the replicas that exist now.
    pub fn log(&self) -> String {
        self.replicas.log()
    }

    /// Ends the faults that are due.
    async fn tick(&mut self, now: Instant) -> Result<()> {
        for cluster in &mut self.clusters {
            cluster.heal_if_due(now).await;
        }
        self.servers.restart_if_due(now).await?;
        if self.seed_down_until.is_some_and(|due| due <= now) {
            self.seed.control_plane.api.restart().await?;
            self.seed_down_until = None;
            self.seed_restarts.push(wall_clock::now());
        }
        if self.seed_down_until.is_none() {
            self.replicas.apply_due(&self.seed, now).await?;
        }
        Ok(())
    }

    /// Ends all faults and waits until all targets are as the operators left them.
    async fn recover(&mut self) -> Result<()> {
        let far_future = Instant::now() + Duration::from_hours(1);
        self.tick(far_future).await?;
        // Killed replicas are started only while the seed runs, hence the second tick.
        self.tick(far_future).await?;
        let begin = Instant::now();
        while begin.elapsed() < TIMEOUT {
            self.tick(Instant::now()).await?;
            if self.is_restored().await? {
                return Ok(());
            }
            sleep(TICK).await;
        }
        for cluster in &self.clusters {
            let replicas = cluster.replicas.map(u64::from);
            let restored = cluster.shoot.until_restored(replicas, TICK).await;
            restored.with_context(|| self.replicas.log())?;
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
