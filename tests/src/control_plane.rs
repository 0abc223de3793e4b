//! The smallest cluster there is: an API server and its etcd.

use anyhow::Result;
use kube::Client;

use crate::api_server::KubeApiServer;
use crate::etcd::EtcdMember;

/// An API server with its own etcd. Both are killed on drop.
pub struct ControlPlane {
    /// The API server. Declared first, so that it is dropped before its store.
    pub api: KubeApiServer,
    /// The store of the API server.
    pub etcd: EtcdMember,
}

impl ControlPlane {
    /// Starts both servers and waits until they are ready.
    pub async fn start() -> Result<Self> {
        let etcd = EtcdMember::start("etcd").await?;
        let api = KubeApiServer::start(&etcd, "registry").await?;
        Ok(Self { api, etcd })
    }

    /// Returns a client with all permissions.
    pub async fn client(&self) -> Result<Client> {
        self.api.client(&self.api.admin()).await
    }
}
