//! The API server that has the nodes of all shoots.

use std::time::Duration;

use anyhow::Result;
use kelpie_sim::server::Hooks;
use kube::Client;

use crate::landscape::{Seed, tenant};
use crate::{ApiServer, Credentials, Simulated};

pub(super) enum ShootServer {
    Real(Box<ApiServer>),
    Simulated(Box<Simulated>),
}

impl ShootServer {
    pub(super) async fn start(seed: &Seed, simulated: bool) -> Result<Self> {
        Ok(if simulated {
            Self::Simulated(Box::new(Simulated::start(Hooks::default()).await?))
        } else {
            let api = ApiServer::start(&seed.plane.etcd, "shoot").await?;
            Self::Real(Box::new(api))
        })
    }

    pub(super) async fn client(&self) -> Result<Client> {
        match self {
            Self::Real(api) => api.client(&api.admin()).await,
            Self::Simulated(api) => api.client(&Credentials::admin()).await,
        }
    }

    /// What the Secrets of shoots hold.
    pub(super) async fn kubeconfig(&self, client: &Client) -> Result<String> {
        Ok(match self {
            Self::Real(api) => api.kubeconfig(&tenant(client, api, "dwd").await?),
            Self::Simulated(api) => api.kubeconfig(&Credentials::admin()),
        })
    }

    /// What a simulated one uses is this process' own.
    pub(super) fn processor_time(&self) -> Result<Option<Duration>> {
        match self {
            Self::Real(api) => api.process().processor_time().map(Some),
            Self::Simulated(_) => Ok(None),
        }
    }
}
