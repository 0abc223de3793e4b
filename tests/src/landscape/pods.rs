//! Pods, as far as anybody sees: ready replicas follow the desired ones after a while.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{deployments, rest};

/// Plays the Deployment controller and the pods of a seed until dropped.
pub struct Pods {
    _work: JoinSet<()>,
}

impl Pods {
    /// Deployments with this annotation are left as they are: their pods hang.
    pub const STUCK: &str = "kelpie.test/stuck";

    /// Replicas get ready, or go, after `delay`.
    pub fn start(client: &Client, delay: Duration) -> Self {
        let mut work = JoinSet::new();
        work.spawn(follow(client.clone(), delay));
        Self { _work: work }
    }
}

async fn follow(client: Client, delay: Duration) {
    let mut changes = pin!(deployments::changes(&client));
    let mut under_way = JoinSet::new();
    while let Some(deployment) = changes.next().await {
        let (wanted, ready) = counts(&deployment);
        if wanted == ready || is_stuck(&deployment) {
            continue;
        }
        let client = client.clone();
        under_way.spawn(async move {
            sleep(delay).await;
            let namespace = deployment.metadata.namespace.unwrap_or_default();
            let name = deployment.metadata.name.unwrap_or_default();
            let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}/status");
            let ready = json!({ "status": {
                "replicas": wanted, "readyReplicas": wanted, "availableReplicas": wanted,
            }});
            // The Deployment may be gone by now.
            let _ = rest::merge(&client, &path, &ready).await;
        });
    }
}

fn is_stuck(deployment: &Deployment) -> bool {
    let annotations = deployment.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(Pods::STUCK))
}

/// Desired and ready replicas.
fn counts(deployment: &Deployment) -> (i32, i32) {
    let status = deployment.status.as_ref();
    (
        deployment.spec.replicas.unwrap_or_default(),
        status
            .and_then(|status| status.ready_replicas)
            .unwrap_or_default(),
    )
}
