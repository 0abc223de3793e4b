//! The replicas of the prober, and their faults.

use anyhow::Result;
use tokio::time::Instant;

use super::auditor::PROBER_USER_PREFIX;
use crate::landscape::{ProberConfigFile, ProberProcess, SeedCluster};

/// The number of replicas at a time.
const REPLICAS: usize = 2;

const ELECTION: [&str; 4] = [
    "--enable-leader-election=true",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=1s",
];

pub(super) struct ProberReplicas {
    config: ProberConfigFile,
    replicas: Vec<SoakReplica>,
    /// The number of processes so far. Each has its own user name.
    started: usize,
}

enum SoakReplica {
    Running(ProberProcess),
    /// Stopped with SIGSTOP, until this time.
    Paused(ProberProcess, Instant),
    /// Killed, and started again at this time.
    Killed(Instant),
}

impl ProberReplicas {
    pub(super) async fn start(seed: &SeedCluster, config: ProberConfigFile) -> Result<Self> {
        let mut replicas = Self {
            config,
            replicas: Vec::new(),
            started: 0,
        };
        for _ in 0..REPLICAS {
            let prober = replicas.launch(seed).await?;
            replicas.replicas.push(SoakReplica::Running(prober));
        }
        Ok(replicas)
    }

    /// Starts a prober as its own user, so that the audit log tells the replicas apart.
    async fn launch(&mut self, seed: &SeedCluster) -> Result<ProberProcess> {
        let name = format!("{PROBER_USER_PREFIX}{}", self.started);
        self.started += 1;
        let user = seed.control_plane.api.user(&name, &["system:masters"])?;
        let kubeconfig = seed.kubeconfig_file(&user)?;
        ProberProcess::start(&kubeconfig, &self.config, &ELECTION).await
    }

    /// Resumes and restarts the replicas that are due.
    pub(super) async fn apply_due(&mut self, seed: &SeedCluster, now: Instant) -> Result<()> {
        for number in 0..self.replicas.len() {
            let is_due = match &self.replicas[number] {
                SoakReplica::Running(_) => false,
                SoakReplica::Paused(_, due) | SoakReplica::Killed(due) => *due <= now,
            };
            if !is_due {
                continue;
            }
            let replica = std::mem::replace(&mut self.replicas[number], SoakReplica::Killed(now));
            self.replicas[number] = match replica {
                SoakReplica::Paused(prober, _) => {
                    prober.kelpie.process().signal("CONT")?;
                    SoakReplica::Running(prober)
                }
                _ => SoakReplica::Running(self.launch(seed).await?),
            };
        }
        Ok(())
    }

    /// Kills a replica until `until`. Returns false if it does not run.
    pub(super) fn kill(&mut self, number: usize, until: Instant) -> bool {
        let number = number % self.replicas.len();
        if !matches!(self.replicas[number], SoakReplica::Running(_)) {
            return false;
        }
        let replica = std::mem::replace(&mut self.replicas[number], SoakReplica::Killed(until));
        if let SoakReplica::Running(prober) = replica {
            prober.kelpie.kill();
        }
        true
    }

    /// Pauses a replica with SIGSTOP until `until`. Returns false if it does not run.
    pub(super) fn pause(&mut self, number: usize, until: Instant) -> Result<bool> {
        let number = number % self.replicas.len();
        if !matches!(self.replicas[number], SoakReplica::Running(_)) {
            return Ok(false);
        }
        let replica = std::mem::replace(&mut self.replicas[number], SoakReplica::Killed(until));
        if let SoakReplica::Running(prober) = replica {
            prober.kelpie.process().signal("STOP")?;
            self.replicas[number] = SoakReplica::Paused(prober, until);
        }
        Ok(true)
    }

    /// The largest number of open files and sockets of a running replica.
    pub(super) fn open_files(&self) -> Result<usize> {
        let mut most = 0;
        for replica in &self.replicas {
            if let SoakReplica::Running(prober) = replica {
                most = most.max(prober.kelpie.process().open_files()?);
            }
        }
        Ok(most)
    }

    /// The logs of the replicas that exist now.
    pub(super) fn log(&self) -> String {
        let logs = self.replicas.iter().map(|replica| match replica {
            SoakReplica::Running(prober) | SoakReplica::Paused(prober, _) => prober.log(),
            SoakReplica::Killed(_) => String::new(),
        });
        logs.collect::<Vec<_>>().join("\n---\n")
    }
}
