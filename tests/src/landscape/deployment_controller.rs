//! A stand-in for the Deployment controller and the kubelets of a seed cluster.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{deployment_watch, rest};

/// Sets the ready replicas of each Deployment to the desired ones after a delay, until dropped.
pub struct FakeDeploymentController {
    _task: JoinSet<()>,
}

impl FakeDeploymentController {
    /// The controller ignores Deployments with this annotation, as if their pods were stuck.
    pub const STUCK_ANNOTATION: &str = "kelpie.test/stuck";

    /// Starts the controller. Replicas become ready, or disappear, after `delay`.
    pub fn start(client: &Client, delay: Duration) -> Self {
        let mut task = JoinSet::new();
        task.spawn(follow(client.clone(), delay));
        Self { _task: task }
    }
}

async fn follow(client: Client, delay: Duration) {
    let mut changes = pin!(deployment_watch::changes(&client));
    let mut updates = JoinSet::new();
    while let Some(deployment) = changes.next().await {
        let (wanted, ready) = counts(&deployment);
        if wanted == ready || is_stuck(&deployment) {
            continue;
        }
        let client = client.clone();
        updates.spawn(async move {
            sleep(delay).await;
            let namespace = deployment.metadata.namespace.unwrap_or_default();
            let name = deployment.metadata.name.unwrap_or_default();
            let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}/status");
            let ready = json!({ "status": {
                "replicas": wanted, "readyReplicas": wanted, "availableReplicas": wanted,
            }});
            // The Deployment may have been deleted meanwhile.
            let _ = rest::merge_patch(&client, &path, &ready).await;
        });
    }
}

fn is_stuck(deployment: &Deployment) -> bool {
    let annotations = deployment.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(FakeDeploymentController::STUCK_ANNOTATION))
}

/// Returns the desired and the ready replicas.
fn counts(deployment: &Deployment) -> (i32, i32) {
    let status = deployment.status.as_ref();
    (
        deployment.spec.replicas.unwrap_or_default(),
        status
            .and_then(|status| status.ready_replicas)
            .unwrap_or_default(),
    )
}
