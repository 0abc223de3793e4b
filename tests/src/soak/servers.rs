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
    /// It is away until then.
    away_until: Option<Instant>,
    back_since: Instant,
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
                away_until: None,
                back_since: Instant::now(),
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

    /// Since when it has been there without a break; if it is away: since now.
    pub(super) fn back_since(&self, number: usize) -> Instant {
        let server = &self.0[number];
        match server.away_until {
            Some(_) => Instant::now(),
            None => server.back_since,
        }
    }

    /// Kills a server; false if it is away already.
    pub(super) fn kill(&mut self, number: usize, until: Instant) -> bool {
        let server = &mut self.0[number];
        if server.away_until.is_some() {
            return false;
        }
        server.api.go_down();
        server.away_until = Some(until);
        true
    }

    pub(super) async fn come_back_if_due(&mut self, now: Instant) -> Result<()> {
        for server in &mut self.0 {
            if server.away_until.is_some_and(|due| due <= now) {
                server.api.come_back().await?;
                server.away_until = None;
                server.back_since = Instant::now();
            }
        }
        Ok(())
    }
}
