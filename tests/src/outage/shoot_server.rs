//! The API server with the nodes of all shoot clusters.

use std::time::Duration;

use anyhow::Result;
use kelpie_sim::server::ServerHooks;
use kube::Client;

use crate::landscape::{SeedCluster, create_tenant_user};
use crate::{Credentials, KubeApiServer, SimApiServer};

pub(super) enum ShootApiServer {
    Real(Box<KubeApiServer>),
    Simulated(Box<SimApiServer>),
}

impl ShootApiServer {
    pub(super) async fn start(seed: &SeedCluster, simulated: bool) -> Result<Self> {
        Ok(if simulated {
            Self::Simulated(Box::new(SimApiServer::start(ServerHooks::default()).await?))
        } else {
            let api = KubeApiServer::start(&seed.control_plane.etcd, "shoot").await?;
            Self::Real(Box::new(api))
        })
    }

    pub(super) async fn client(&self) -> Result<Client> {
        match self {
            Self::Real(api) => api.client(&api.admin()).await,
            Self::Simulated(api) => api.client(&Credentials::admin()).await,
        }
    }

    /// Returns the kubeconfig for the Secrets of the shoot clusters.
    pub(super) async fn kubeconfig(&self, client: &Client) -> Result<String> {
        Ok(match self {
            Self::Real(api) => api.kubeconfig(&create_tenant_user(client, api, "dwd").await?),
            Self::Simulated(api) => api.kubeconfig(&Credentials::admin()),
        })
    }

    /// The CPU time used so far; `None` for a simulated server, which runs in this process.
    pub(super) fn cpu_time(&self) -> Result<Option<Duration>> {
        match self {
            Self::Real(api) => api.process().cpu_time().map(Some),
            Self::Simulated(_) => Ok(None),
        }
    }
}
