//! A shoot cluster as the seed cluster sees it: a control namespace and a Cluster.

use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures_util::future::try_join_all;
use kube::Client;
use serde_json::{Value, json};

use super::rest;
use crate::poll;

/// The annotation that marks a fenced target.
pub const MARKER: &str = "dependency-watchdog.gardener.cloud/meltdown-protection-active";
/// The annotation with the number of replicas to restore.
pub const RECORD: &str = "dependency-watchdog.gardener.cloud/replicas";
/// The annotation of the leader Lease with the records of targets that cannot be annotated.
pub const LEASE_RECORDS: &str = "kelpie.dev/fence-records";

/// The name of the Secret with the kubeconfig.
const SECRET: &str = "dwd-internal";
const CLUSTERS: &str = "/apis/extensions.gardener.cloud/v1alpha1/clusters";

/// A shoot cluster in a seed cluster.
#[derive(Clone)]
pub struct ShootCluster {
    /// The name of the cluster and of its control namespace.
    pub name: String,
    client: Client,
}

/// The fields of a target that a fence reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetView {
    /// The desired replicas, from `spec.replicas`.
    pub replicas: u64,
    /// True if the target has the annotation [`MARKER`].
    pub marked: bool,
    /// The value of the annotation [`RECORD`].
    pub recorded: Option<String>,
    /// The resourceVersion of the object.
    pub resource_version: String,
}

impl ShootCluster {
    /// The Deployments that Gardener fences. All arrays of replicas have this order.
    pub const TARGETS: [&str; 3] = [
        "kube-controller-manager",
        "machine-controller-manager",
        "cluster-autoscaler",
    ];

    /// Creates a cluster with a Machine for each of `nodes`, in the seed cluster of `client`.
    pub async fn create(
        client: &Client,
        name: &str,
        kubeconfig: &str,
        nodes: &[String],
    ) -> Result<Self> {
        let cluster = Self {
            name: name.to_owned(),
            client: client.clone(),
        };
        let namespace = json!({ "metadata": { "name": name } });
        rest::create(client, "/api/v1/namespaces", &namespace).await?;
        cluster.add_secret(SECRET, kubeconfig).await?;
        let machines = nodes.iter().map(|node| cluster.add_machine(node));
        try_join_all(machines).await?;
        let object = json!({
            "apiVersion": "extensions.gardener.cloud/v1alpha1",
            "kind": "Cluster",
            "metadata": { "name": name },
            "spec": { "cloudProfile": {}, "seed": {}, "shoot": {
                "apiVersion": "core.gardener.cloud/v1beta1",
                "kind": "Shoot",
                "metadata": { "name": name },
                "spec": { "provider": { "workers": [{ "name": "pool" }] } },
                "status": { "lastOperation": { "type": "Reconcile", "state": "Succeeded" } },
            }},
        });
        rest::create(client, CLUSTERS, &object).await?;
        Ok(cluster)
    }

    /// Merges `patch` into the embedded Shoot.
    pub async fn patch_shoot(&self, patch: &Value) -> Result<()> {
        let path = format!("{CLUSTERS}/{}", self.name);
        let patch = json!({ "spec": { "shoot": patch } });
        rest::merge_patch(&self.client, &path, &patch)
            .await
            .map(|_| ())
    }

    /// Replaces the embedded Shoot by `shoot`, which may be invalid.
    pub async fn replace_shoot(&self, shoot: &Value) -> Result<()> {
        // A merge keeps fields that the patch omits, so they are removed first.
        self.patch_shoot(&json!({ "spec": null, "status": null, "metadata": null }))
            .await?;
        self.patch_shoot(shoot).await
    }

    /// Deletes the Cluster object. The control namespace stays.
    pub async fn delete_cluster(&self) -> Result<()> {
        rest::delete(&self.client, &format!("{CLUSTERS}/{}", self.name)).await
    }

    /// Creates a Secret with a kubeconfig.
    pub async fn add_secret(&self, name: &str, kubeconfig: &str) -> Result<()> {
        let data = json!({ "kubeconfig": BASE64_STANDARD.encode(kubeconfig) });
        let secret = json!({ "metadata": { "name": name }, "data": data });
        let path = format!("/api/v1/namespaces/{}/secrets", self.name);
        rest::create(&self.client, &path, &secret).await.map(|_| ())
    }

    /// Replaces the kubeconfig in the Secret.
    pub async fn rotate_kubeconfig(&self, kubeconfig: &str) -> Result<()> {
        let data = json!({ "kubeconfig": BASE64_STANDARD.encode(kubeconfig) });
        let path = format!("/api/v1/namespaces/{}/secrets/{SECRET}", self.name);
        let patch = json!({ "data": data });
        rest::merge_patch(&self.client, &path, &patch)
            .await
            .map(|_| ())
    }

    /// Deletes the Secret with the kubeconfig.
    pub async fn delete_secret(&self) -> Result<()> {
        let path = format!("/api/v1/namespaces/{}/secrets/{SECRET}", self.name);
        rest::delete(&self.client, &path).await
    }

    async fn add_machine(&self, node: &str) -> Result<()> {
        let machine = json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1",
            "kind": "Machine",
            "metadata": { "name": format!("machine-{node}"), "labels": { "node": node } },
            "spec": { "class": { "kind": "MachineClass", "name": "small" } },
        });
        rest::create(&self.client, &self.machines(), &machine)
            .await
            .map(|_| ())
    }

    /// Sets the phase of a node's Machine.
    pub async fn set_machine_phase(&self, node: &str, phase: &str) -> Result<()> {
        let path = format!("{}/machine-{node}", self.machines());
        let patch = json!({ "status": { "currentStatus": { "phase": phase } } });
        let path = format!("{path}/status");
        rest::merge_patch(&self.client, &path, &patch)
            .await
            .map(|_| ())
    }

    fn machines(&self) -> String {
        format!(
            "/apis/machine.sapcloud.io/v1alpha1/namespaces/{}/machines",
            self.name
        )
    }

    /// Creates the [`TARGETS`](Self::TARGETS) with these replicas.
    pub async fn create_targets(&self, replicas: [u32; 3]) -> Result<()> {
        for (name, count) in Self::TARGETS.into_iter().zip(replicas) {
            self.add_workload("deployments", name, count).await?;
        }
        Ok(())
    }

    /// Creates a Deployment or a `StatefulSet`, named by its plural: `deployments` or
    /// `statefulsets`.
    pub async fn add_workload(&self, plural: &str, name: &str, replicas: u32) -> Result<()> {
        let kind = match plural {
            "deployments" => "Deployment",
            _ => "StatefulSet",
        };
        let mut object = json!({
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": { "name": name },
            "spec": {
                "replicas": replicas,
                "selector": { "matchLabels": { "app": name } },
                "template": {
                    "metadata": { "labels": { "app": name } },
                    "spec": { "containers": [{ "name": "main", "image": "none" }] },
                },
            },
        });
        if kind == "StatefulSet" {
            object["spec"]["serviceName"] = json!(name);
        }
        let path = format!("/apis/apps/v1/namespaces/{}/{plural}", self.name);
        rest::create(&self.client, &path, &object).await.map(|_| ())
    }

    fn deployment_path(&self, name: &str) -> String {
        format!("/apis/apps/v1/namespaces/{}/deployments/{name}", self.name)
    }

    /// Reads a Deployment as JSON.
    pub async fn deployment(&self, name: &str) -> Result<Value> {
        rest::get(&self.client, &self.deployment_path(name)).await
    }

    /// Reads the state of a target.
    pub async fn target(&self, name: &str) -> Result<TargetView> {
        TargetView::from_object(&self.deployment(name).await?)
    }

    /// Scales a Deployment, as an operator would.
    pub async fn scale(&self, name: &str, replicas: u32) -> Result<()> {
        self.patch(name, &json!({ "spec": { "replicas": replicas } }))
            .await
    }

    /// Sets an annotation of a Deployment. `null` removes it.
    pub async fn annotate(&self, name: &str, key: &str, value: &Value) -> Result<()> {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.patch(name, &patch).await
    }

    /// Merges `patch` into a Deployment.
    pub async fn patch(&self, name: &str, patch: &Value) -> Result<()> {
        let path = self.deployment_path(name);
        rest::merge_patch(&self.client, &path, patch)
            .await
            .map(|_| ())
    }

    /// Deletes a Deployment of the control namespace.
    pub async fn delete(&self, name: &str) -> Result<()> {
        rest::delete(&self.client, &self.deployment_path(name)).await
    }

    /// Reads the desired replicas of the [`TARGETS`](Self::TARGETS).
    pub async fn replicas(&self) -> Result<[u64; 3]> {
        let mut replicas = [0; 3];
        for (count, name) in replicas.iter_mut().zip(Self::TARGETS) {
            *count = self.target(name).await?.replicas;
        }
        Ok(replicas)
    }

    /// Waits until the [`TARGETS`](Self::TARGETS) have these desired replicas.
    pub async fn until_replicas(&self, replicas: [u64; 3], timeout: Duration) -> Result<()> {
        let mut last = None;
        let what = format!("the replicas {replicas:?} in {}", self.name);
        let found = poll::until(&what, timeout, async || {
            let now = self.replicas().await?;
            last = Some(now);
            Ok((now == replicas).then_some(()))
        });
        let found = found.await;
        found.with_context(|| format!("the last replicas were {last:?}"))
    }

    /// Waits until the [`TARGETS`](Self::TARGETS) have these desired replicas and no marker.
    pub async fn until_restored(&self, replicas: [u64; 3], timeout: Duration) -> Result<()> {
        self.until_replicas(replicas, timeout).await?;
        let what = format!("no marker in {}", self.name);
        poll::until(&what, timeout, async || {
            for name in Self::TARGETS {
                if self.target(name).await?.marked {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
        .await
    }
}

impl TargetView {
    /// Extracts the state from an object with `spec.replicas`.
    pub fn from_object(object: &Value) -> Result<Self> {
        let annotations = &object["metadata"]["annotations"];
        let replicas = &object["spec"]["replicas"];
        let resource_version = &object["metadata"]["resourceVersion"];
        Ok(Self {
            replicas: replicas.as_u64().context("no replicas")?,
            marked: annotations.get(MARKER).is_some(),
            recorded: annotations[RECORD].as_str().map(str::to_owned),
            resource_version: resource_version.as_str().unwrap_or_default().to_owned(),
        })
    }
}
