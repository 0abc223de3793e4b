//! A shoot, as the seed sees it: a control namespace and a Cluster.

use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures_util::future::try_join_all;
use kube::Client;
use serde_json::{Value, json};

use super::rest;
use crate::poll;

/// The marker of a fence.
pub const MARKER: &str = "dependency-watchdog.gardener.cloud/meltdown-protection-active";
/// The record of the count to restore.
pub const RECORD: &str = "dependency-watchdog.gardener.cloud/replicas";

/// The Secret with the kubeconfig.
const SECRET: &str = "dwd-internal";
const CLUSTERS: &str = "/apis/extensions.gardener.cloud/v1alpha1/clusters";

/// A shoot in a seed.
#[derive(Clone)]
pub struct Shoot {
    /// Its name, and that of its control namespace.
    pub name: String,
    client: Client,
}

/// What stands in a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    /// Desired replicas.
    pub replicas: u64,
    /// It carries the marker of a fence.
    pub marked: bool,
    /// The recorded count, as it is written.
    pub recorded: Option<String>,
    /// Its resourceVersion.
    pub version: String,
}

impl Shoot {
    /// The controllers that Gardener fences, in the order in which counts of them are given.
    pub const TARGETS: [&str; 3] = [
        "kube-controller-manager",
        "machine-controller-manager",
        "cluster-autoscaler",
    ];

    pub(super) async fn make(
        client: &Client,
        name: &str,
        kubeconfig: &str,
        nodes: &[String],
    ) -> Result<Self> {
        let shoot = Self {
            name: name.to_owned(),
            client: client.clone(),
        };
        let namespace = json!({ "metadata": { "name": name } });
        rest::create(client, "/api/v1/namespaces", &namespace).await?;
        shoot.add_secret(SECRET, kubeconfig).await?;
        let machines = nodes.iter().map(|node| shoot.add_machine(node));
        try_join_all(machines).await?;
        let cluster = json!({
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
        rest::create(client, CLUSTERS, &cluster).await?;
        Ok(shoot)
    }

    /// Merges `patch` into the embedded Shoot.
    pub async fn edit(&self, patch: &Value) -> Result<()> {
        let path = format!("{CLUSTERS}/{}", self.name);
        let patch = json!({ "spec": { "shoot": patch } });
        rest::merge(&self.client, &path, &patch).await.map(|_| ())
    }

    /// Puts `shoot` in the place of the embedded Shoot, whatever it is.
    pub async fn replace(&self, shoot: &Value) -> Result<()> {
        // A merge leaves fields that are not named; null takes them away first.
        self.edit(&json!({ "spec": null, "status": null, "metadata": null }))
            .await?;
        self.edit(shoot).await
    }

    /// Deletes the Cluster.
    pub async fn delete_cluster(&self) -> Result<()> {
        rest::delete(&self.client, &format!("{CLUSTERS}/{}", self.name)).await
    }

    /// Adds a Secret that holds a kubeconfig.
    pub async fn add_secret(&self, name: &str, kubeconfig: &str) -> Result<()> {
        let data = json!({ "kubeconfig": BASE64_STANDARD.encode(kubeconfig) });
        let secret = json!({ "metadata": { "name": name }, "data": data });
        let path = format!("/api/v1/namespaces/{}/secrets", self.name);
        rest::create(&self.client, &path, &secret).await.map(|_| ())
    }

    /// Puts another kubeconfig into the Secret.
    pub async fn rotate(&self, kubeconfig: &str) -> Result<()> {
        let data = json!({ "kubeconfig": BASE64_STANDARD.encode(kubeconfig) });
        let path = format!("/api/v1/namespaces/{}/secrets/{SECRET}", self.name);
        let patch = json!({ "data": data });
        rest::merge(&self.client, &path, &patch).await.map(|_| ())
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
        rest::merge(&self.client, &path, &patch).await.map(|_| ())
    }

    fn machines(&self) -> String {
        format!(
            "/apis/machine.sapcloud.io/v1alpha1/namespaces/{}/machines",
            self.name
        )
    }

    /// The three controllers that Gardener fences, with these counts: kube-controller-manager,
    /// machine-controller-manager, cluster-autoscaler.
    pub async fn deploy(&self, counts: [u32; 3]) -> Result<()> {
        for (name, count) in Self::TARGETS.into_iter().zip(counts) {
            self.add("deployments", name, count).await?;
        }
        Ok(())
    }

    /// Adds a Deployment, or a `StatefulSet`, by its plural.
    pub async fn add(&self, plural: &str, name: &str, replicas: u32) -> Result<()> {
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

    fn deployment(&self, name: &str) -> String {
        format!("/apis/apps/v1/namespaces/{}/deployments/{name}", self.name)
    }

    /// A Deployment, as it is.
    pub async fn object(&self, name: &str) -> Result<Value> {
        rest::read(&self.client, &self.deployment(name)).await
    }

    /// What stands in a Deployment.
    pub async fn controller(&self, name: &str) -> Result<Controller> {
        Controller::of(&self.object(name).await?)
    }

    /// Scales a Deployment as a person would.
    pub async fn scale(&self, name: &str, replicas: u32) -> Result<()> {
        self.patch(name, &json!({ "spec": { "replicas": replicas } }))
            .await
    }

    /// Sets an annotation of a Deployment; null takes it away.
    pub async fn annotate(&self, name: &str, key: &str, value: &Value) -> Result<()> {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.patch(name, &patch).await
    }

    /// Merges `patch` into a Deployment.
    pub async fn patch(&self, name: &str, patch: &Value) -> Result<()> {
        let path = self.deployment(name);
        rest::merge(&self.client, &path, patch).await.map(|_| ())
    }

    /// Deletes a Deployment.
    pub async fn delete(&self, name: &str) -> Result<()> {
        rest::delete(&self.client, &self.deployment(name)).await
    }

    /// The counts of the three controllers.
    pub async fn counts(&self) -> Result<[u64; 3]> {
        let mut counts = [0; 3];
        for (count, name) in counts.iter_mut().zip(Self::TARGETS) {
            *count = self.controller(name).await?.replicas;
        }
        Ok(counts)
    }

    /// Waits until the three controllers have these counts.
    pub async fn until_counts(&self, counts: [u64; 3], patience: Duration) -> Result<()> {
        let mut last = None;
        let what = format!("the counts {counts:?} in {}", self.name);
        let found = poll::until(&what, patience, async || {
            let now = self.counts().await?;
            last = Some(now);
            Ok((now == counts).then_some(()))
        });
        let found = found.await;
        found.with_context(|| format!("the last ones were {last:?}"))
    }

    /// Waits until the controllers have these counts and carry no marker any more.
    pub async fn until_restored(&self, counts: [u64; 3], patience: Duration) -> Result<()> {
        self.until_counts(counts, patience).await?;
        let what = format!("no marker in {}", self.name);
        poll::until(&what, patience, async || {
            for name in Self::TARGETS {
                if self.controller(name).await?.marked {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
        .await
    }
}

impl Controller {
    /// From any object with replicas.
    pub fn of(object: &Value) -> Result<Self> {
        let annotations = &object["metadata"]["annotations"];
        let replicas = &object["spec"]["replicas"];
        let version = &object["metadata"]["resourceVersion"];
        Ok(Self {
            replicas: replicas.as_u64().context("no replicas")?,
            marked: annotations.get(MARKER).is_some(),
            recorded: annotations[RECORD].as_str().map(str::to_owned),
            version: version.as_str().unwrap_or_default().to_owned(),
        })
    }
}
