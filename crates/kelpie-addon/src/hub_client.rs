//! The client for the hub, which is rebuilt when it no longer works.

use std::path::PathBuf;

use kelpie_kube::client::{ClientError, ClientOptions, ClusterClient};
use kelpie_kube::objects::ObjectClient;
use tracing::debug;

/// Enough for the replication, which makes two requests at a time.
const QPS: f32 = 20.0;
const BURST: u32 = 20;

/// The connection to the hub.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// The hub's kubeconfig. It may be rotated at any time and may be missing for a while.
    pub kubeconfig: PathBuf,
    /// The namespace of this cluster's addon on the hub: the cluster's name.
    pub namespace: String,
    /// The `User-Agent` header of requests to the hub.
    pub user_agent: String,
}

/// A client for a hub that may be unreachable at times.
pub(crate) struct HubClient {
    options: ClientOptions,
    client: Option<ClusterClient>,
}

impl HubClient {
    pub(crate) fn new(options: &HubOptions) -> Self {
        Self {
            options: ClientOptions {
                kubeconfig: Some(options.kubeconfig.clone()),
                qps: QPS,
                burst: BURST,
                user_agent: options.user_agent.clone(),
            },
            client: None,
        }
    }

    /// Returns a client for the hub's objects. The first call reads the kubeconfig.
    pub(crate) async fn objects(&mut self) -> Result<ObjectClient, ClientError> {
        let client = match self.client.take() {
            Some(client) => client,
            None => ClusterClient::connect_as("hub", &self.options).await?,
        };
        Ok(self.client.insert(client).objects())
    }

    /// Rebuilds the client from the kubeconfig. If that fails, the old client stays in use.
    pub(crate) async fn reconnect(&mut self) {
        match ClusterClient::connect_as("hub", &self.options).await {
            Ok(client) => self.client = Some(client),
            Err(error) => debug!(%error, "cannot rebuild the hub client; keeping the old one"),
        }
    }
}
