//! Every change of the Deployments of a seed, as it happens.

use std::time::Duration;

use futures_util::{Stream, StreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::time::sleep;

/// Before a broken watch is begun again. Whoever follows one must be able to end meanwhile: where the
/// server and the runtime are gone, a new try fails at once, again and again.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// All Deployments there are, then each as it changes. A broken watch is begun again.
pub(crate) fn changes(client: &Client) -> impl Stream<Item = Deployment> + Send + use<> {
    let all: Api<Deployment> = Api::all(client.clone());
    watcher(all, watcher::Config::default()).filter_map(async |event| match event {
        Ok(Event::InitApply(found) | Event::Apply(found)) => Some(found),
        Ok(_) => None,
        Err(_) => {
            sleep(PAUSE).await;
            None
        }
    })
}
