//! The least that makes a cluster: an etcd and an API server on it.

use anyhow::Result;
use kube::Client;

use crate::api_server::ApiServer;
use crate::etcd::Etcd;

/// An API server with an etcd of its own. Both end when dropped.
pub struct ControlPlane {
    /// The API server; first, so that it does not outlive its store.
    pub api: ApiServer,
    /// Its store.
    pub etcd: Etcd,
}

impl ControlPlane {
    /// Starts both and waits until they are ready.
    pub async fn start() -> Result<Self> {
        let etcd = Etcd::start("etcd").await?;
        let api = ApiServer::start(&etcd, "registry").await?;
        Ok(Self { api, etcd })
    }

    /// A client that may do everything.
    pub async fn client(&self) -> Result<Client> {
        self.api.client(&self.api.admin()).await
    }
}
