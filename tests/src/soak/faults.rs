//! What goes wrong.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::jiff::SignedDuration;
use tokio::time::Instant;

use super::Soak;
use crate::landscape::{Shoot, wall_clock};

/// Something that goes wrong, or that somebody does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The nodes of a cluster are cut off.
    Partition,
    /// Somebody scales a target by hand.
    Person,
    /// A cluster's kubeconfig is replaced.
    Rotation,
    /// The clocks of a cluster's nodes are set wrong, or right.
    Clocks,
    /// An API server of shoots is killed, and comes back.
    ShootServer,
    /// The seed's API server is restarted.
    SeedServer,
    /// A replica of the prober is killed.
    Kill,
    /// A replica of the prober is stopped, and goes on later.
    Stop,
}

impl Fault {
    /// Most are partitions.
    pub fn any(random: &mut fastrand::Rng) -> Self {
        match random.u8(0..100) {
            0..45 => Self::Partition,
            45..60 => Self::Person,
            60..70 => Self::Rotation,
            70..77 => Self::Clocks,
            77..84 => Self::ShootServer,
            84..88 => Self::SeedServer,
            88..94 => Self::Kill,
            _ => Self::Stop,
        }
    }
}

impl Soak {
    /// Makes it happen, and tells what it was; nothing if it cannot be now.
    pub(super) async fn strike(&mut self, fault: Fault) -> Result<Option<String>> {
        let now = Instant::now();
        let grace = self.plan.pace.grace;
        let number = self.random.usize(0..self.clusters.len());
        let seed_is_here = self.seed_back.is_none();
        let share = self.random.f64();
        let within = |least: f64, most: f64| grace.mul_f64(least + (most - least) * share);
        let happened = match fault {
            Fault::Partition => {
                let time = within(0.5, 3.0);
                let cluster = &mut self.clusters[number];
                if cluster.cut_until.is_some() {
                    return Ok(None);
                }
                cluster.kubelets.cut(1.0).await;
                cluster.cut_until = Some(now + time);
                format!("{} is cut off for {time:.1?}", cluster.shoot.name)
            }
            Fault::Person if seed_is_here => {
                let which = self.random.usize(0..Shoot::TARGETS.len());
                let count = self.random.u32(1..6);
                let cluster = &mut self.clusters[number];
                cluster.shoot.scale(Shoot::TARGETS[which], count).await?;
                cluster.counts[which] = count;
                let (name, target) = (&cluster.shoot.name, Shoot::TARGETS[which]);
                format!("somebody scales {target} of {name} to {count}")
            }
            Fault::Rotation if seed_is_here => {
                let cluster = &self.clusters[number];
                let rotations = self.random.usize(0..2);
                let way = self.servers.way(cluster.server, rotations);
                cluster.shoot.rotate(way).await?;
                format!("{} gets another kubeconfig", cluster.shoot.name)
            }
            Fault::Clocks => {
                let seconds = self.random.i64(-300..300);
                let cluster = &self.clusters[number];
                let offset = SignedDuration::from_secs(seconds);
                cluster.kubelets.skew(share, offset).await;
                format!("clocks of {} are {seconds} s off", cluster.shoot.name)
            }
            Fault::ShootServer => {
                let server = self.random.usize(0..self.servers.count());
                let time = within(0.1, 1.5);
                if !self.servers.kill(server, now + time) {
                    return Ok(None);
                }
                format!("the API server of shoots {server} is away for {time:.1?}")
            }
            Fault::SeedServer if seed_is_here => {
                let time = within(0.05, 0.6);
                self.gaps.push(wall_clock::now());
                self.seed.plane.api.shut_down();
                self.seed_back = Some(now + time);
                format!("the seed's API server is away for {time:.1?}")
            }
            Fault::Kill => {
                let time = Duration::from_secs_f64(share * 6.0);
                if !self.crew.kill(number, now + time) {
                    return Ok(None);
                }
                format!("replica {} is killed", number % 2)
            }
            Fault::Stop => {
                let time = Duration::from_secs_f64(1.0 + share * 9.0);
                if !self.crew.stop(number, now + time)? {
                    return Ok(None);
                }
                format!("replica {} is stopped for {time:.1?}", number % 2)
            }
            Fault::Person | Fault::Rotation | Fault::SeedServer => return Ok(None),
        };
        Ok(Some(happened))
    }
}
