//! The replicas of the prober in a race.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio::sync::Mutex;

use crate::landscape::{AnyProber, ProberConfigFile};

/// The parameters of the replicas.
#[derive(Debug, Clone)]
pub struct ReplicaOptions {
    /// The program and its arguments, as in [`AnyProber::start`]; Kelpie with all optimisations if
    /// empty.
    pub command: Vec<String>,
    /// Additional flags.
    pub flags: Vec<String>,
    /// The number of replicas. With more than one, they elect a leader.
    pub count: usize,
    /// The configuration of all replicas.
    pub config: ProberConfigFile,
    /// The kubeconfig for the seed cluster.
    pub kubeconfig: PathBuf,
    /// The file for the log. Each further process adds its number to the name.
    pub log: PathBuf,
}

/// Running replicas of a prober. They are killed on drop.
pub struct RaceReplicas {
    options: ReplicaOptions,
    running: Mutex<RunningReplicas>,
}

struct RunningReplicas {
    /// The processes, in the order of their start.
    probers: Vec<AnyProber>,
    /// The number of processes so far.
    started: usize,
}

impl RaceReplicas {
    /// Starts all replicas.
    pub async fn start(mut options: ReplicaOptions) -> Result<Self> {
        if options.count > 1 {
            options.flags.push("--enable-leader-election=true".into());
        }
        let replicas = Self {
            options,
            running: Mutex::new(RunningReplicas {
                probers: Vec::new(),
                started: 0,
            }),
        };
        replicas.start_missing().await?;
        Ok(replicas)
    }

    /// Starts the replicas that were killed. Returns true if there were any.
    pub async fn start_missing(&self) -> Result<bool> {
        let mut running = self.running.lock().await;
        let is_missing = running.probers.len() < self.options.count;
        while running.probers.len() < self.options.count {
            let ReplicaOptions {
                command,
                flags,
                config,
                kubeconfig,
                log,
                ..
            } = &self.options;
            let log = numbered(log, running.started);
            let prober =
                AnyProber::start_with_flags(command, flags, config, kubeconfig, Some(&log));
            running.probers.push(prober.await?);
            running.started += 1;
        }
        Ok(is_missing)
    }

    /// Kills the leader with SIGKILL. Of probers that do not report which one leads, it is the one
    /// that was started first.
    pub async fn kill_leader(&self) -> Result<()> {
        let mut running = self.running.lock().await;
        let mut leader = 0;
        for (number, prober) in running.probers.iter().enumerate() {
            if prober.leads().await == Some(true) {
                leader = number;
            }
        }
        (leader < running.probers.len())
            .then(|| running.probers.remove(leader))
            .context("no replica runs")?
            .process
            .kill();
        Ok(())
    }

    /// Kills all replicas with SIGKILL.
    pub async fn kill_all(&self) {
        for mut prober in self.running.lock().await.probers.drain(..) {
            prober.process.kill();
        }
    }

    /// The logs of all running replicas.
    pub async fn log(&self) -> String {
        let running = self.running.lock().await;
        let logs = running.probers.iter().map(|prober| prober.process.log());
        logs.collect::<Vec<_>>().join("\n---\n")
    }
}

/// Adds the number to the name of the file; none for the first process.
fn numbered(log: &Path, number: usize) -> PathBuf {
    if number == 0 {
        log.to_owned()
    } else {
        log.with_extension(format!("{number}.log"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_of_further_processes_have_numbers() {
        let log = |number| numbered(Path::new("out/race.log"), number);
        assert_eq!(log(0), Path::new("out/race.log"));
        assert_eq!(log(2), Path::new("out/race.2.log"));
    }
}
