//! A namespace with services and the pods that depend on them. There is no kubelet and no
//! controller: a test sets the state of each object.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use kube::Client;
use serde_json::{Value, json};

use super::rest;
use crate::poll;

/// A namespace of a seed cluster.
#[derive(Clone)]
pub struct WeederNamespace {
    /// The name of the namespace.
    pub namespace: String,
    client: Client,
}

/// A pod to create. It is in CrashLoopBackOff unless [`status`](Self::status) changes that.
#[derive(Debug, Clone)]
pub struct TestPod {
    name: String,
    owner: Option<String>,
    labels: BTreeMap<String, String>,
    grace: u32,
    status: Value,
}

impl TestPod {
    /// A crashing pod with the label `role: dependant`, owned by a controller of the same name.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            owner: Some(name.to_owned()),
            labels: [("role".to_owned(), "dependant".to_owned())].into(),
            grace: 0,
            status: crashing_status(),
        }
    }

    /// Sets another owner, or none.
    #[must_use]
    pub fn owner(mut self, owner: Option<&str>) -> Self {
        self.owner = owner.map(str::to_owned);
        self
    }

    /// Replaces the labels of the pod.
    #[must_use]
    pub fn labels(mut self, labels: &[(&str, &str)]) -> Self {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        self.labels = labels.iter().map(pair).collect();
        self
    }

    /// Adds a grace period. A deleted pod then stays until the kubelet removes it, and there is no
    /// kubelet.
    #[must_use]
    pub fn slow_to_stop(mut self) -> Self {
        self.grace = 30;
        self
    }

    /// Leaves the status empty, as before the kubelet starts the pod.
    #[must_use]
    pub fn without_status(self) -> Self {
        self.status(Value::Null)
    }

    /// Sets another status, such as [`running_status`].
    #[must_use]
    pub fn status(mut self, status: Value) -> Self {
        self.status = status;
        self
    }
}

/// The status of a running pod.
pub fn running_status() -> Value {
    json!({
        "phase": "Running",
        "containerStatuses": [container("main", &json!({ "running": {} }))],
        "initContainerStatuses": null,
    })
}

/// The status of a pod whose container is in CrashLoopBackOff.
pub fn crashing_status() -> Value {
    json!({
        "phase": "Running",
        "containerStatuses": [container("main", &back_off())],
        "initContainerStatuses": null,
    })
}

/// The status of a pod whose init container is in CrashLoopBackOff.
pub fn init_crashing_status() -> Value {
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

impl WeederNamespace {
    /// Creates an empty namespace in the seed cluster.
    pub async fn create(client: &Client, namespace: &str) -> Result<Self> {
        let object = json!({ "metadata": { "name": namespace } });
        rest::create(client, "/api/v1/namespaces", &object).await?;
        Ok(Self {
            namespace: namespace.to_owned(),
            client: client.clone(),
        })
    }

    /// Creates an EndpointSlice of a service. Each endpoint is ready, not ready, or of unknown
    /// readiness (`None`).
    pub async fn create_slice(
        &self,
        name: &str,
        service: &str,
        endpoints: &[Option<bool>],
    ) -> Result<()> {
        let slice = json!({
            "metadata": { "name": name, "labels": { "kubernetes.io/service-name": service } },
            "addressType": "IPv4",
            "endpoints": endpoint_objects(endpoints),
        });
        rest::create(&self.client, &self.slices(), &slice)
            .await
            .map(|_| ())
    }

    /// Replaces the endpoints of a slice.
    pub async fn set_endpoints(&self, name: &str, endpoints: &[Option<bool>]) -> Result<()> {
        let path = format!("{}/{name}", self.slices());
        let patch = json!({ "endpoints": endpoint_objects(endpoints) });
        rest::merge_patch(&self.client, &path, &patch)
            .await
            .map(|_| ())
    }

    /// Deletes an EndpointSlice by its name.
    pub async fn delete_slice(&self, name: &str) -> Result<()> {
        rest::delete(&self.client, &format!("{}/{name}", self.slices())).await
    }

    /// Makes the only endpoint of a slice unready, and then ready again.
    pub async fn restart_service(&self, slice: &str) -> Result<()> {
        self.set_endpoints(slice, &[Some(false)]).await?;
        self.set_endpoints(slice, &[Some(true)]).await
    }

    /// Creates a pod and returns its uid.
    pub async fn create_pod(&self, spec: &TestPod) -> Result<String> {
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
        let created = rest::create(&self.client, &self.pods(), &pod).await?;
        if !spec.status.is_null() {
            self.set_status(&spec.name, &spec.status).await?;
        }
        let uid = created["metadata"]["uid"].as_str().context("no uid")?;
        Ok(uid.to_owned())
    }

    /// Sets the status of a pod, as the kubelet does.
    pub async fn set_status(&self, pod: &str, status: &Value) -> Result<()> {
        let path = format!("{}/{pod}/status", self.pods());
        let patch = json!({ "status": status });
        rest::merge_patch(&self.client, &path, &patch)
            .await
            .map(|_| ())
    }

    /// Merges `patch` into a pod.
    pub async fn patch_pod(&self, pod: &str, patch: &Value) -> Result<()> {
        let path = format!("{}/{pod}", self.pods());
        rest::merge_patch(&self.client, &path, patch)
            .await
            .map(|_| ())
    }

    /// Deletes a pod without grace, as the kubelet does once its containers have ended.
    pub async fn finish_pod(&self, pod: &str) -> Result<()> {
        let path = format!("{}/{pod}?gracePeriodSeconds=0", self.pods());
        rest::delete(&self.client, &path).await
    }

    /// Returns the uids of all pods without a deletion timestamp, by name.
    pub async fn live_pods(&self) -> Result<BTreeMap<String, String>> {
        let list = rest::get(&self.client, &self.pods()).await?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let items = items.iter().map(|item| &item["metadata"]);
        let items = items.filter(|metadata| metadata["deletionTimestamp"].is_null());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let pair = |metadata: &Value| (text(&metadata["name"]), text(&metadata["uid"]));
        Ok(items.map(pair).collect())
    }

    /// Waits until [`live_pods`](Self::live_pods) are exactly these, in the order of their names.
    pub async fn until_live_pods(&self, names: &[&str], timeout: Duration) -> Result<()> {
        let mut last = Vec::new();
        let what = format!("the pods {names:?} in {}", self.namespace);
        let found = poll::until(&what, timeout, async || {
            last = self.live_pods().await?.into_keys().collect();
            Ok((last == names).then_some(()))
        });
        let found = found.await;
        found.with_context(|| format!("the pods are {last:?}"))
    }

    fn slices(&self) -> String {
        let namespace = &self.namespace;
        format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices")
    }

    fn pods(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.namespace)
    }
}

fn endpoint_objects(endpoints: &[Option<bool>]) -> Value {
    let object = |(number, ready): (usize, &Option<bool>)| {
        let conditions = match ready {
            Some(ready) => json!({ "ready": ready }),
            None => json!({}),
        };
        json!({ "addresses": [format!("10.0.0.{}", number + 1)], "conditions": conditions })
    };
    endpoints.iter().enumerate().map(object).collect()
}
