//! A shoot of the soak.

use anyhow::Result;
use tokio::time::Instant;

use super::Plan;
use super::servers::Servers;
use crate::landscape::{Kubelets, Seed, Shoot};

pub(super) struct Cluster {
    pub(super) shoot: Shoot,
    pub(super) kubelets: Kubelets,
    /// Which API server it is on.
    pub(super) server: usize,
    /// What people have given its targets.
    pub(super) counts: [u32; 3],
    /// It is cut off until then.
    pub(super) cut_until: Option<Instant>,
}

impl Cluster {
    pub(super) async fn make(
        seed: &Seed,
        servers: &Servers,
        plan: &Plan,
        number: usize,
    ) -> Result<Self> {
        let name = format!("shoot--soak--{number:02}");
        let server = number % plan.servers;
        let client = servers.client(server);
        let nodes = format!("n{number:02}");
        let kubelets = Kubelets::start_named(client, &nodes, plan.nodes, plan.pace).await?;
        let way = servers.way(server, 0);
        let shoot = seed.shoot(&name, way, &kubelets.nodes()).await?;
        let counts = [3, 1, 2];
        shoot.deploy(counts).await?;
        Ok(Self {
            shoot,
            kubelets,
            server,
            counts,
            cut_until: None,
        })
    }

    pub(super) async fn heal_if_due(&mut self, now: Instant) {
        if self.cut_until.is_some_and(|due| due <= now) {
            self.cut_until = None;
            self.kubelets.heal().await;
        }
    }

    /// Every target is as people have left it, and unmarked.
    pub(super) async fn is_restored(&self) -> Result<bool> {
        for (name, count) in Shoot::TARGETS.into_iter().zip(self.counts) {
            let controller = self.shoot.controller(name).await?;
            if controller.marked || controller.replicas != u64::from(count) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
