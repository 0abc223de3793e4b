//! The client for the hub, which is rebuilt when it no longer works.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use kelpie_kube::client::{ClientError, ClusterClient};
use kelpie_kube::objects::ObjectClient;
use tracing::debug;

/// The connection to the hub.
#[derive(Clone)]
pub struct HubOptions {
    /// The namespace of this cluster's addon on the hub: the cluster's name.
    pub namespace: String,
    /// Creates a client. It is called again when the client no longer works: the credentials may be
    /// rotated at any time, and may be missing for a while.
    pub connect: HubConnector,
}

/// Creates a client for the hub.
pub type HubConnector =
    Arc<dyn Fn() -> BoxFuture<'static, Result<ClusterClient, ClientError>> + Send + Sync>;

/// A client for a hub that may be unreachable at times.
pub(crate) struct HubClient {
    connect: HubConnector,
    client: Option<ClusterClient>,
}

impl HubClient {
    pub(crate) fn new(connect: HubConnector) -> Self {
        let client = None;
        Self { connect, client }
    }

    /// Returns a client for the hub's objects. The first call connects.
    pub(crate) async fn objects(&mut self) -> Result<ObjectClient, ClientError> {
        let client = match self.client.take() {
            Some(client) => client,
            None => (self.connect)().await?,
        };
        Ok(self.client.insert(client).objects())
    }

    /// Rebuilds the client. If that fails, the old client stays in use.
    pub(crate) async fn reconnect(&mut self) {
        match (self.connect)().await {
            Ok(client) => self.client = Some(client),
            Err(error) => debug!(%error, "cannot rebuild the hub client; keeping the old one"),
        }
    }
}
