//! A namespace with services and the pods that depend on them. There is no kubelet and no controller:
//! a test says what becomes of each.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use kube::Client;
use serde_json::{Value, json};

use super::rest;
use crate::poll;

/// A namespace of a seed.
#[derive(Clone)]
pub struct Dependants {
    /// Its name.
    pub namespace: String,
    client: Client,
}

/// A pod to be made. It is in CrashLoopBackOff unless it says otherwise.
#[derive(Debug, Clone)]
pub struct PodSpec {
    name: String,
    owner: Option<String>,
    labels: BTreeMap<String, String>,
    grace: u32,
    status: Value,
}

impl PodSpec {
    /// A crashing pod of the controller of the same name, labelled `role: dependant`.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            owner: Some(name.to_owned()),
            labels: [("role".to_owned(), "dependant".to_owned())].into(),
            grace: 0,
            status: crashing(),
        }
    }

    /// Of another controller, or of none.
    #[must_use]
    pub fn owner(mut self, owner: Option<&str>) -> Self {
        self.owner = owner.map(str::to_owned);
        self
    }

    /// With these labels and no others.
    #[must_use]
    pub fn labels(mut self, labels: &[(&str, &str)]) -> Self {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        self.labels = labels.iter().map(pair).collect();
        self
    }

    /// It takes its time to go: deleted, it stays until the kubelet ends it, which there is none of.
    #[must_use]
    pub fn slow(mut self) -> Self {
        self.grace = 30;
        self
    }

    /// Another status, such as [`running`].
    #[must_use]
    pub fn status(mut self, status: Value) -> Self {
        self.status = status;
        self
    }
}

/// The status of a pod that runs.
pub fn running() -> Value {
    json!({
        "phase": "Running",
        "containerStatuses": [container("main", &json!({ "running": {} }))],
        "initContainerStatuses": null,
    })
}

/// The status of a pod that waits for its next start.
pub fn crashing() -> Value {
    json!({
        "phase": "Running",
        "containerStatuses": [container("main", &back_off())],
        "initContainerStatuses": null,
    })
}

/// The same of one that does not get beyond its init container.
pub fn crashing_at_init() -> Value {
    let waiting = json!({ "waiting": { "reason": "PodInitializing" } });
    json!({
        "phase": "Pending",
        "containerStatuses": [container("main", &waiting)],
        "initContainerStatuses": [container("wait", &back_off())],
    })
}

fn back_off() -> Value {
    json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 5m0s" } })
}

fn container(name: &str, state: &Value) -> Value {
    json!({
        "name": name, "image": "none", "imageID": "", "ready": false, "restartCount": 7,
        "state": state,
        "lastState": { "terminated": {
            "exitCode": 3, "reason": "Error", "message": "cannot reach etcd",
        } },
    })
}

impl Dependants {
    /// In a namespace of its own.
    pub async fn make(client: &Client, namespace: &str) -> Result<Self> {
        let object = json!({ "metadata": { "name": namespace } });
        rest::create(client, "/api/v1/namespaces", &object).await?;
        Ok(Self {
            namespace: namespace.to_owned(),
            client: client.clone(),
        })
    }

    /// Makes a slice of a service, with the readiness of each endpoint; none: not said.
    pub async fn slice(&self, name: &str, service: &str, endpoints: &[Option<bool>]) -> Result<()> {
        let slice = json!({
            "metadata": { "name": name, "labels": { "kubernetes.io/service-name": service } },
            "addressType": "IPv4",
            "endpoints": points(endpoints),
        });
        rest::create(&self.client, &self.slices(), &slice)
            .await
            .map(|_| ())
    }

    /// Changes the endpoints of a slice.
    pub async fn set(&self, name: &str, endpoints: &[Option<bool>]) -> Result<()> {
        let path = format!("{}/{name}", self.slices());
        let patch = json!({ "endpoints": points(endpoints) });
        rest::merge(&self.client, &path, &patch).await.map(|_| ())
    }

    /// Deletes a slice.
    pub async fn unslice(&self, name: &str) -> Result<()> {
        rest::delete(&self.client, &format!("{}/{name}", self.slices())).await
    }

    /// Takes a service away and brings it back: the only endpoint of its slice.
    pub async fn bounce(&self, slice: &str) -> Result<()> {
        self.set(slice, &[Some(false)]).await?;
        self.set(slice, &[Some(true)]).await
    }

    /// Makes a pod and gives its uid.
    pub async fn pod(&self, spec: &PodSpec) -> Result<String> {
        let owners = spec.owner.iter().map(|owner| {
            json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner,
                "uid": format!("uid-of-{owner}"), "controller": true,
            })
        });
        let pod = json!({
            "metadata": {
                "name": spec.name,
                "labels": spec.labels,
                "ownerReferences": owners.collect::<Vec<_>>(),
            },
            "spec": {
                "nodeName": "node",
                "terminationGracePeriodSeconds": spec.grace,
                "containers": [{ "name": "main", "image": "none" }],
            },
        });
        let made = rest::create(&self.client, &self.pods(), &pod).await?;
        self.set_status(&spec.name, &spec.status).await?;
        let uid = made["metadata"]["uid"].as_str().context("no uid")?;
        Ok(uid.to_owned())
    }

    /// What the kubelet says of a pod.
    pub async fn set_status(&self, pod: &str, status: &Value) -> Result<()> {
        let path = format!("{}/{pod}/status", self.pods());
        let patch = json!({ "status": status });
        rest::merge(&self.client, &path, &patch).await.map(|_| ())
    }

    /// Merges something into a pod.
    pub async fn patch(&self, pod: &str, patch: &Value) -> Result<()> {
        let path = format!("{}/{pod}", self.pods());
        rest::merge(&self.client, &path, patch).await.map(|_| ())
    }

    /// Ends a pod at once, as the kubelet does when its containers are gone.
    pub async fn end(&self, pod: &str) -> Result<()> {
        let path = format!("{}/{pod}?gracePeriodSeconds=0", self.pods());
        rest::delete(&self.client, &path).await
    }

    /// Uids of the pods that are there and on nobody's way out, by name.
    pub async fn alive(&self) -> Result<BTreeMap<String, String>> {
        let list = rest::read(&self.client, &self.pods()).await?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let items = items.iter().map(|item| &item["metadata"]);
        let items = items.filter(|metadata| metadata["deletionTimestamp"].is_null());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let pair = |metadata: &Value| (text(&metadata["name"]), text(&metadata["uid"]));
        Ok(items.map(pair).collect())
    }

    /// Waits until exactly these pods are there.
    pub async fn until_alive(&self, names: &[&str], patience: Duration) -> Result<()> {
        let mut last = Vec::new();
        let what = format!("{names:?} to be left in {}", self.namespace);
        let found = poll::until(&what, patience, async || {
            last = self.alive().await?.into_keys().collect();
            Ok((last == names).then_some(()))
        });
        let found = found.await;
        found.with_context(|| format!("there are {last:?}"))
    }

    fn slices(&self) -> String {
        let namespace = &self.namespace;
        format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices")
    }

    fn pods(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.namespace)
    }
}

fn points(endpoints: &[Option<bool>]) -> Value {
    let point = |(number, ready): (usize, &Option<bool>)| {
        let conditions = match ready {
            Some(ready) => json!({ "ready": ready }),
            None => json!({}),
        };
        json!({ "addresses": [format!("10.0.0.{}", number + 1)], "conditions": conditions })
    };
    endpoints.iter().enumerate().map(point).collect()
}
