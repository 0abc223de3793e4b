//! The way to the hub: a client that is made anew when the old one no longer works.

use std::path::PathBuf;

use kelpie_kube::objects::Objects;
use kelpie_kube::seed::{Seed, SeedError, SeedOptions};
use tracing::debug;

/// Enough for replication, which makes two calls at a time.
const QPS: f32 = 20.0;
const BURST: u32 = 20;

/// Where the hub is.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// Its kubeconfig; it may be rotated at any time, and may be missing for a while.
    pub kubeconfig: PathBuf,
    /// The namespace of this cluster's addon there: the cluster's name.
    pub namespace: String,
    /// How we introduce ourselves.
    pub user_agent: String,
}

/// A hub that may come and go.
pub(crate) struct Link {
    options: SeedOptions,
    hub: Option<Seed>,
}

impl Link {
    pub(crate) fn new(options: &HubOptions) -> Self {
        Self {
            options: SeedOptions {
                kubeconfig: Some(options.kubeconfig.clone()),
                qps: QPS,
                burst: BURST,
                user_agent: options.user_agent.clone(),
            },
            hub: None,
        }
    }

    /// Its objects, by the client that worked last or by a new one.
    pub(crate) async fn objects(&mut self) -> Result<Objects, SeedError> {
        let hub = match self.hub.take() {
            Some(hub) => hub,
            None => Seed::connect_as("hub", &self.options).await?,
        };
        Ok(self.hub.insert(hub).objects())
    }

    /// Reads the kubeconfig again. If it cannot be used the old client stays.
    pub(crate) async fn renew(&mut self) {
        match Seed::connect_as("hub", &self.options).await {
            Ok(hub) => self.hub = Some(hub),
            Err(error) => debug!(%error, "the old way to the hub stays"),
        }
    }
}
