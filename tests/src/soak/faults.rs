//! The faults of a soak.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::jiff::SignedDuration;
use tokio::time::Instant;

use super::Soak;
use crate::landscape::{ShootCluster, wall_clock};

/// A fault, or an action of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoakFault {
    /// The nodes of a cluster are cut off.
    Partition,
    /// An operator scales a target by hand.
    ManualScale,
    /// The kubeconfig of a cluster is replaced.
    KubeconfigRotation,
    /// The clocks of some nodes of a cluster are set wrong.
    ClockSkew,
    /// An API server of shoot clusters is killed, and started again later.
    ShootServerOutage,
    /// The seed's API server is restarted.
    SeedServerRestart,
    /// A replica of the prober is killed, and started again later.
    KillReplica,
    /// A replica of the prober is stopped by a signal, and resumed later.
    PauseReplica,
}

impl SoakFault {
    /// Picks a fault. Partitions are the most frequent.
    pub fn random(rng: &mut fastrand::Rng) -> Self {
        match rng.u8(0..100) {
            0..45 => Self::Partition,
            45..60 => Self::ManualScale,
            60..70 => Self::KubeconfigRotation,
            70..77 => Self::ClockSkew,
            77..84 => Self::ShootServerOutage,
            84..88 => Self::SeedServerRestart,
            88..94 => Self::KillReplica,
            _ => Self::PauseReplica,
        }
    }
}

impl Soak {
    /// Injects a fault and describes it. Returns `None` if the fault is impossible now.
    pub(super) async fn inject(&mut self, fault: SoakFault) -> Result<Option<String>> {
        let now = Instant::now();
        let grace = self.options.timings.grace;
        let number = self.rng.usize(0..self.clusters.len());
        let seed_is_up = self.seed_down_until.is_none();
        let share = self.rng.f64();
        let within = |least: f64, most: f64| grace.mul_f64(least + (most - least) * share);
        let description = match fault {
            SoakFault::Partition => {
                let time = within(0.5, 3.0);
                let cluster = &mut self.clusters[number];
                if cluster.partitioned_until.is_some() {
                    return Ok(None);
                }
                cluster.kubelets.partition(1.0).await;
                cluster.partitioned_until = Some(now + time);
                format!("{} is cut off for {time:.1?}", cluster.shoot.name)
            }
            SoakFault::ManualScale if seed_is_up => {
                let which = self.rng.usize(0..ShootCluster::TARGETS.len());
                let count = self.rng.u32(1..6);
                let cluster = &mut self.clusters[number];
                cluster
                    .shoot
                    .scale(ShootCluster::TARGETS[which], count)
                    .await?;
                cluster.replicas[which] = count;
                let (name, target) = (&cluster.shoot.name, ShootCluster::TARGETS[which]);
                format!("an operator scales {target} of {name} to {count}")
            }
            SoakFault::KubeconfigRotation if seed_is_up => {
                let cluster = &self.clusters[number];
                let rotations = self.rng.usize(0..2);
                let kubeconfig = self.servers.kubeconfig(cluster.server, rotations);
                cluster.shoot.rotate_kubeconfig(kubeconfig).await?;
                format!("{} gets another kubeconfig", cluster.shoot.name)
            }
            SoakFault::ClockSkew => {
                let seconds = self.rng.i64(-300..300);
                let cluster = &self.clusters[number];
                let offset = SignedDuration::from_secs(seconds);
                cluster.kubelets.skew_clocks(share, offset).await;
                format!("clocks of {} are {seconds} s off", cluster.shoot.name)
            }
            SoakFault::ShootServerOutage => {
                let server = self.rng.usize(0..self.servers.count());
                let time = within(0.1, 1.5);
                if !self.servers.kill(server, now + time) {
                    return Ok(None);
                }
                format!("API server {server} of shoot clusters is down for {time:.1?}")
            }
            SoakFault::SeedServerRestart if seed_is_up => {
                let time = within(0.05, 0.6);
                self.seed_restarts.push(wall_clock::now());
                self.seed.control_plane.api.terminate();
                self.seed_down_until = Some(now + time);
                format!("the seed's API server is down for {time:.1?}")
            }
            SoakFault::KillReplica => {
                let time = Duration::from_secs_f64(share * 6.0);
                if !self.replicas.kill(number, now + time) {
                    return Ok(None);
                }
                format!("replica {} is killed", number % 2)
            }
            SoakFault::PauseReplica => {
                let time = Duration::from_secs_f64(1.0 + share * 9.0);
                if !self.replicas.pause(number, now + time)? {
                    return Ok(None);
                }
                format!("replica {} is paused for {time:.1?}", number % 2)
            }
            SoakFault::ManualScale
            | SoakFault::KubeconfigRotation
            | SoakFault::SeedServerRestart => return Ok(None),
        };
        Ok(Some(description))
    }
}
