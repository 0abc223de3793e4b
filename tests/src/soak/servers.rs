//! The API servers of the shoot clusters.

use anyhow::Result;
use kube::Client;
use tokio::time::Instant;

use crate::KubeApiServer;
use crate::landscape::{SeedCluster, create_tenant_user};

/// The users of a probe, between which its kubeconfig rotates.
const TENANTS: [&str; 2] = ["probe-a", "probe-b"];

pub(super) struct SoakServers(Vec<SoakServer>);

struct SoakServer {
    api: KubeApiServer,
    client: Client,
    /// A kubeconfig for each user of the probe.
    kubeconfigs: Vec<String>,
    /// The start and the planned end of the current outage.
    outage: Option<(Instant, Instant)>,
    /// The start and the end of each outage so far.
    outages: Vec<(Instant, Instant)>,
}

impl SoakServers {
    pub(super) async fn start(seed: &SeedCluster, count: usize) -> Result<Self> {
        let mut all = Vec::new();
        for number in 0..count {
            let api =
                KubeApiServer::start(&seed.control_plane.etcd, &format!("shoots-{number}")).await?;
            let client = api.client(&api.admin()).await?;
            let mut kubeconfigs = Vec::new();
            for user in TENANTS {
                let access = create_tenant_user(&client, &api, user).await?;
                kubeconfigs.push(api.kubeconfig(&access));
            }
            all.push(SoakServer {
                api,
                client,
                kubeconfigs,
                outage: None,
                outages: Vec::new(),
            });
        }
        Ok(Self(all))
    }

    pub(super) fn client(&self, number: usize) -> &Client {
        &self.0[number].client
    }

    /// The kubeconfig of the probe after this many rotations.
    pub(super) fn kubeconfig(&self, number: usize, rotations: usize) -> &str {
        let kubeconfigs = &self.0[number].kubeconfigs;
        &kubeconfigs[rotations % kubeconfigs.len()]
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The start and the end of each outage of a server.
    pub(super) fn outages(&self, number: usize) -> Vec<(Instant, Instant)> {
        self.0[number].outages.clone()
    }

    /// Kills a server. Returns false if it is down already.
    pub(super) fn kill(&mut self, number: usize, until: Instant) -> bool {
        let server = &mut self.0[number];
        if server.outage.is_some() {
            return false;
        }
        server.outage = Some((Instant::now(), until));
        server.api.kill();
        true
    }

    pub(super) async fn restart_if_due(&mut self, now: Instant) -> Result<()> {
        for server in &mut self.0 {
            let Some((since, _)) = server.outage.filter(|(_, due)| *due <= now) else {
                continue;
            };
            let started = Instant::now();
            server.api.restart().await?;
            server.outage = None;
            server.outages.push((since, started));
        }
        Ok(())
    }
}
