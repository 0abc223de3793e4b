//! The API servers of the shoots.

use anyhow::Result;
use kube::Client;
use tokio::time::Instant;

use crate::ApiServer;
use crate::landscape::{Seed, tenant};

/// Users that a probe may be, one after the other.
const TENANTS: [&str; 2] = ["probe-a", "probe-b"];

pub(super) struct Servers(Vec<Server>);

struct Server {
    api: ApiServer,
    client: Client,
    /// Kubeconfigs of the probe.
    ways: Vec<String>,
    /// It is away since then, and until then.
    away: Option<(Instant, Instant)>,
    /// When it went away and was started again, so far.
    outages: Vec<(Instant, Instant)>,
}

impl Servers {
    pub(super) async fn start(seed: &Seed, count: usize) -> Result<Self> {
        let mut all = Vec::new();
        for number in 0..count {
            let api = ApiServer::start(&seed.plane.etcd, &format!("shoots-{number}")).await?;
            let client = api.client(&api.admin()).await?;
            let mut ways = Vec::new();
            for user in TENANTS {
                let access = tenant(&client, &api, user).await?;
                ways.push(api.kubeconfig(&access));
            }
            all.push(Server {
                api,
                client,
                ways,
                away: None,
                outages: Vec::new(),
            });
        }
        Ok(Self(all))
    }

    pub(super) fn client(&self, number: usize) -> &Client {
        &self.0[number].client
    }

    /// A kubeconfig of the probe, as it is after so many rotations.
    pub(super) fn way(&self, number: usize, rotations: usize) -> &str {
        let ways = &self.0[number].ways;
        &ways[rotations % ways.len()]
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// When it went away and was started again.
    pub(super) fn outages(&self, number: usize) -> Vec<(Instant, Instant)> {
        self.0[number].outages.clone()
    }

    /// Kills a server; false if it is away already.
    pub(super) fn kill(&mut self, number: usize, until: Instant) -> bool {
        let server = &mut self.0[number];
        if server.away.is_some() {
            return false;
        }
        server.away = Some((Instant::now(), until));
        server.api.go_down();
        true
    }

    pub(super) async fn come_back_if_due(&mut self, now: Instant) -> Result<()> {
        for server in &mut self.0 {
            let Some((since, _)) = server.away.filter(|(_, due)| *due <= now) else {
                continue;
            };
            let started = Instant::now();
            server.api.come_back().await?;
            server.away = None;
            server.outages.push((since, started));
        }
        Ok(())
    }
}
