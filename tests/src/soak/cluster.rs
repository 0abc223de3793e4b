//! A shoot cluster of the soak.

use anyhow::Result;
use tokio::time::Instant;

use super::SoakOptions;
use super::servers::SoakServers;
use crate::landscape::{Kubelets, SeedCluster, ShootCluster};

pub(super) struct SoakCluster {
    pub(super) shoot: ShootCluster,
    pub(super) kubelets: Kubelets,
    /// The index of the API server with the nodes.
    pub(super) server: usize,
    /// The replicas that the operators set.
    pub(super) replicas: [u32; 3],
    /// The time at which the nodes are reconnected; `None` unless they are cut off.
    pub(super) partitioned_until: Option<Instant>,
}

impl SoakCluster {
    pub(super) async fn create(
        seed: &SeedCluster,
        servers: &SoakServers,
        options: &SoakOptions,
        number: usize,
    ) -> Result<Self> {
        let name = format!("shoot--soak--{number:02}");
        let server = number % options.servers;
        let client = servers.client(server);
        let prefix = format!("n{number:02}");
        let kubelets =
            Kubelets::start_with_prefix(client, &prefix, options.nodes, options.timings).await?;
        let kubeconfig = servers.kubeconfig(server, 0);
        let nodes = kubelets.nodes();
        let shoot = seed.create_cluster(&name, kubeconfig, &nodes).await?;
        let replicas = [3, 1, 2];
        shoot.create_targets(replicas).await?;
        Ok(Self {
            shoot,
            kubelets,
            server,
            replicas,
            partitioned_until: None,
        })
    }

    pub(super) async fn heal_if_due(&mut self, now: Instant) {
        if self.partitioned_until.is_some_and(|due| due <= now) {
            self.partitioned_until = None;
            self.kubelets.heal().await;
        }
    }

    /// Returns true if all targets have the replicas that the operators set, and no marker.
    pub(super) async fn is_restored(&self) -> Result<bool> {
        for (name, count) in ShootCluster::TARGETS.into_iter().zip(self.replicas) {
            let target = self.shoot.target(name).await?;
            if target.marked || target.replicas != u64::from(count) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
