//! Every change of the Deployments of a seed, as it happens.

use futures_util::{Stream, StreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};

/// All Deployments there are, then each as it changes. A broken watch is begun again.
pub(crate) fn changes(client: &Client) -> impl Stream<Item = Deployment> + Send + use<> {
    let all: Api<Deployment> = Api::all(client.clone());
    watcher(all, watcher::Config::default()).filter_map(async |event| match event {
        Ok(Event::InitApply(found) | Event::Apply(found)) => Some(found),
        _ => None,
    })
}
