//! One namespace with all that an addon needs, and what there is to see in it.

use kelpie_addon::{AddonRef, Reporter, StatusWriter};
use kelpie_core::addon::{Component, Forward, Report};
use kelpie_e2e::landscape::{Doorman, rest};
use kelpie_e2e::{Kelpie, poll};
use kelpie_kube::seed::{Seed, SeedOptions};
use serde_json::{Value, json};

use super::cast::Who;
use crate::addon::collectors::{HUB_INFO, environment, hub_info_data};
use crate::addon::stage::{Cluster, NAME, PATIENCE, server_as};

pub(super) struct Theatre<'a> {
    pub(super) spoke: &'a Cluster,
    pub(super) namespace: String,
}

impl<'a> Theatre<'a> {
    pub(super) async fn new(spoke: &'a Cluster, namespace: String) -> Self {
        spoke.namespace(&namespace).await;
        let theatre = Self { spoke, namespace };
        let labels = json!({ "app": "uwl" });
        let objects = [
            (
                "api/v1",
                "secrets",
                json!({ "metadata": { "name": "hub-info-secret" }, "data": hub_info_data(HUB_INFO) }),
            ),
            (
                "api/v1",
                "configmaps",
                json!({
                    "metadata": { "name": "observability-metrics-allowlist" },
                    "data": {
                        "metrics_list.yaml": "names: [up]\n",
                        "uwl_metrics_list.yaml": "names: [mine]\n",
                    },
                }),
            ),
            (
                "api/v1",
                "services",
                json!({ "metadata": { "name": "prometheus" }, "spec": { "ports": [{ "port": 1 }] } }),
            ),
            (
                "apis/apps/v1",
                "statefulsets",
                json!({
                    "metadata": { "name": "prometheus-uwl" },
                    "spec": {
                        "selector": { "matchLabels": labels },
                        "serviceName": "uwl",
                        "template": {
                            "metadata": { "labels": labels },
                            "spec": { "containers": [{ "name": "c", "image": "i" }] },
                        },
                    },
                }),
            ),
            (
                "apis/observability.open-cluster-management.io/v1beta1",
                "observabilityaddons",
                json!({
                    "apiVersion": "observability.open-cluster-management.io/v1beta1",
                    "kind": "ObservabilityAddon",
                    "metadata": { "name": NAME },
                }),
            ),
        ];
        for (group, kind, object) in objects {
            let path = theatre.path(group, kind);
            // A definition is served by all parts of the server a moment after it is established.
            poll::until("an object", PATIENCE, async || {
                Ok(rest::create(&spoke.client, &path, &object).await.ok())
            })
            .await
            .unwrap();
        }
        theatre
    }

    pub(super) fn path(&self, group: &str, kind: &str) -> String {
        format!("/{group}/namespaces/{}/{kind}", self.namespace)
    }

    fn addon_path(&self) -> String {
        let group = "apis/observability.open-cluster-management.io/v1beta1";
        format!("{}/{NAME}", self.path(group, "observabilityaddons"))
    }

    pub(super) async fn addon(&self) -> Value {
        let path = self.addon_path();
        rest::read(&self.spoke.client, &path).await.unwrap()
    }

    pub(super) async fn change(&self, spec: &Value) {
        let patch = json!({ "spec": spec });
        rest::merge(&self.spoke.client, &self.addon_path(), &patch)
            .await
            .unwrap();
    }

    pub(super) async fn made(&self, group: &str, kind: &str) -> Vec<Value> {
        let list = rest::read(&self.spoke.client, &self.path(group, kind)).await;
        let mut list = list.unwrap();
        let Value::Array(mut items) = list["items"].take() else {
            return Vec::new();
        };
        items.retain(|item| item["metadata"]["ownerReferences"].is_array());
        items
    }

    /// All that counts, without what differs from one addon to the next.
    pub(super) async fn scene(&self) -> Value {
        let addon = self.addon().await;
        let deployments = self.made("apis/apps/v1", "deployments").await;
        let services = self.made("api/v1", "services").await;
        let hashes: Vec<String> = deployments
            .iter()
            .map(|deployment| environment(deployment, "KELPIE_ADDON_ROLLOUT").to_owned())
            .collect();
        let essence = |objects: Vec<Value>| -> Vec<Value> {
            let essence = |mut object: Value| {
                let spec = object["spec"].as_object_mut().unwrap();
                spec.retain(|field, _| !field.starts_with("clusterIP"));
                let metadata = &object["metadata"];
                json!([
                    metadata["name"],
                    metadata["labels"],
                    metadata["ownerReferences"],
                    object["spec"]
                ])
            };
            objects.into_iter().map(essence).collect()
        };
        let mut status = addon["status"].clone();
        if let Some(conditions) = status["conditions"].as_array_mut() {
            for condition in conditions.iter_mut() {
                condition["lastTransitionTime"].take();
            }
            conditions.sort_by_key(|condition| condition["type"].to_string());
        }
        let scene = json!([status, essence(deployments), essence(services)]);
        let uid = addon["metadata"]["uid"].as_str().unwrap();
        let mut text = scene.to_string().replace(uid, "UID");
        text = text.replace(&self.namespace, "NAMESPACE");
        for hash in hashes {
            text = text.replace(&hash, "ROLLOUT");
        }
        serde_json::from_str(&text).unwrap()
    }

    /// Both collectors forward, if what they were rolled out for is announced.
    pub(super) async fn forward(&self) {
        let addon = self.addon().await;
        for component in Component::ALL {
            let mut reporter = Reporter::new(self.writer().await, None);
            let report = Report {
                component,
                forward: Forward::Successful,
                message: "sent".into(),
                rollout: addon["status"]["rollouts"][component.name()]
                    .as_str()
                    .map(str::to_owned),
            };
            reporter.report(report).await.unwrap();
        }
    }

    async fn writer(&self) -> StatusWriter {
        let options = SeedOptions {
            kubeconfig: Some(self.spoke.kubeconfig()),
            // No limit.
            qps: -1.0,
            burst: 0,
            user_agent: "test".into(),
        };
        let seed = Seed::connect_as("spoke", &options).await.unwrap();
        let addon = AddonRef {
            namespace: self.namespace.clone(),
            name: NAME.into(),
        };
        StatusWriter::new(seed.objects(), addon)
    }

    /// Starts somebody, by way of a door if one is given.
    pub(super) async fn enter(&self, who: Who, door: Option<&Doorman>) -> Kelpie {
        let admin = self.spoke.api.admin();
        let kubeconfig = match door {
            Some(door) => door.kubeconfig(&admin),
            None => self.spoke.api.kubeconfig(&admin),
        };
        let name = format!("{}-{who:?}-{}", self.namespace, door.is_some());
        let kubeconfig = self.spoke.keep(&name, &kubeconfig);
        let namespace = &self.namespace;
        let own = format!("--namespace={namespace}");
        let platform = format!("--platform-service={namespace}/prometheus");
        let uwl = format!("--uwl-stateful-set={namespace}/prometheus-uwl");
        match who {
            Who::Operator => server_as(&kubeconfig, "operator", &[&own, &platform, &uwl]).await,
            Who::Status => server_as(&kubeconfig, "status", &[&own]).await,
        }
    }
}
