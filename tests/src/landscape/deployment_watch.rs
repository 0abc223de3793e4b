//! A watch on all Deployments of a seed cluster.

use std::time::Duration;

use futures_util::{Stream, StreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::time::sleep;

/// The delay before a failed watch is retried. A task that follows a watch must get the chance to
/// end: once the server and the runtime are gone, each retry fails at once.
pub(crate) const RETRY_DELAY: Duration = Duration::from_millis(50);

/// Streams all existing Deployments, and then each change. A failed watch is retried.
pub(crate) fn changes(client: &Client) -> impl Stream<Item = Deployment> + Send + use<> {
    let all: Api<Deployment> = Api::all(client.clone());
    watcher(all, watcher::Config::default()).filter_map(async |event| match event {
        Ok(Event::InitApply(deployment) | Event::Apply(deployment)) => Some(deployment),
        Ok(_) => None,
        Err(_) => {
            sleep(RETRY_DELAY).await;
            None
        }
    })
}
