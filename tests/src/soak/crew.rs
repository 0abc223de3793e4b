//! Two replicas of the prober, and what happens to them.

use anyhow::Result;
use tokio::time::Instant;

use super::checker::PROBER;
use crate::landscape::{Prober, ProberConfig, Seed};

/// Replicas at a time.
const REPLICAS: usize = 2;

const ELECTION: [&str; 4] = [
    "--enable-leader-election=true",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=1s",
];

pub(super) struct Crew {
    config: ProberConfig,
    replicas: Vec<Replica>,
    /// How many there have been: each has a name of its own.
    started: usize,
}

enum Replica {
    Runs(Prober),
    /// Stopped by a signal, until then.
    Sleeps(Prober, Instant),
    /// It was killed, and is started again then.
    Gone(Instant),
}

impl Crew {
    pub(super) async fn start(seed: &Seed, config: ProberConfig) -> Result<Self> {
        let mut crew = Self {
            config,
            replicas: Vec::new(),
            started: 0,
        };
        for _ in 0..REPLICAS {
            let prober = crew.launch(seed).await?;
            crew.replicas.push(Replica::Runs(prober));
        }
        Ok(crew)
    }

    /// The audit log knows who is who.
    async fn launch(&mut self, seed: &Seed) -> Result<Prober> {
        let name = format!("{PROBER}{}", self.started);
        self.started += 1;
        let user = seed.plane.api.user(&name, &["system:masters"])?;
        let kubeconfig = seed.kubeconfig(&user)?;
        Prober::start(&kubeconfig, &self.config, &ELECTION).await
    }

    /// Does what is due.
    pub(super) async fn follow(&mut self, seed: &Seed, now: Instant) -> Result<()> {
        for number in 0..self.replicas.len() {
            let is_due = match &self.replicas[number] {
                Replica::Runs(_) => false,
                Replica::Sleeps(_, due) | Replica::Gone(due) => *due <= now,
            };
            if !is_due {
                continue;
            }
            let replica = std::mem::replace(&mut self.replicas[number], Replica::Gone(now));
            self.replicas[number] = match replica {
                Replica::Sleeps(prober, _) => {
                    prober.kelpie.process().signal("CONT")?;
                    Replica::Runs(prober)
                }
                _ => Replica::Runs(self.launch(seed).await?),
            };
        }
        Ok(())
    }

    /// Kills one; false if it does not run.
    pub(super) fn kill(&mut self, number: usize, until: Instant) -> bool {
        let number = number % self.replicas.len();
        if !matches!(self.replicas[number], Replica::Runs(_)) {
            return false;
        }
        let replica = std::mem::replace(&mut self.replicas[number], Replica::Gone(until));
        if let Replica::Runs(prober) = replica {
            prober.kelpie.kill();
        }
        true
    }

    /// Stops one by a signal; false if it does not run.
    pub(super) fn stop(&mut self, number: usize, until: Instant) -> Result<bool> {
        let number = number % self.replicas.len();
        if !matches!(self.replicas[number], Replica::Runs(_)) {
            return Ok(false);
        }
        let replica = std::mem::replace(&mut self.replicas[number], Replica::Gone(until));
        if let Replica::Runs(prober) = replica {
            prober.kelpie.process().signal("STOP")?;
            self.replicas[number] = Replica::Sleeps(prober, until);
        }
        Ok(true)
    }

    /// The most files and sockets that one of them has open.
    pub(super) fn open_files(&self) -> Result<usize> {
        let mut most = 0;
        for replica in &self.replicas {
            if let Replica::Runs(prober) = replica {
                most = most.max(prober.kelpie.process().open_files()?);
            }
        }
        Ok(most)
    }

    /// What those that are there have logged.
    pub(super) fn log(&self) -> String {
        let logs = self.replicas.iter().map(|replica| match replica {
            Replica::Runs(prober) | Replica::Sleeps(prober, _) => prober.log(),
            Replica::Gone(_) => String::new(),
        });
        logs.collect::<Vec<_>>().join("\n---\n")
    }
}
