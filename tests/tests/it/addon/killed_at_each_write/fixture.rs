//! A namespace with an addon and all inputs of the operator, and snapshots of it.

use kelpie_addon::CollectorReporter;
use kelpie_core::addon::{AddonComponent, CollectorReport, ForwardOutcome};
use kelpie_e2e::landscape::{Interceptor, rest};
use kelpie_e2e::{Kelpie, poll};
use serde_json::{Value, json};

use super::processes::AddonProcess;
use crate::addon::fixture::operator::{HUB_INFO, env_var, hub_info_data, stateful_set};
use crate::addon::fixture::{AddonCluster, NAME, TIMEOUT, start_server_as, status_writer};

/// A namespace of the spoke with its own addon.
pub(super) struct AddonNamespace<'a> {
    pub(super) spoke: &'a AddonCluster,
    pub(super) name: String,
}

impl<'a> AddonNamespace<'a> {
    pub(super) async fn new(spoke: &'a AddonCluster, name: String) -> Self {
        spoke.create_namespace(&name).await;
        let namespace = Self { spoke, name };
        let objects = [
            (
                "api/v1",
                "secrets",
                json!({
                    "metadata": { "name": "hub-info-secret" },
                    "data": hub_info_data(HUB_INFO),
                }),
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
                json!({
                    "metadata": { "name": "prometheus" },
                    "spec": { "ports": [{ "port": 1 }] },
                }),
            ),
            (
                "apis/apps/v1",
                "statefulsets",
                stateful_set("prometheus-uwl"),
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
            let path = namespace.collection_path(group, kind);
            // The API server accepts objects only a moment after the CRD is established.
            poll::until("an object", TIMEOUT, async || {
                Ok(rest::create(&spoke.client, &path, &object).await.ok())
            })
            .await
            .unwrap();
        }
        namespace
    }

    pub(super) fn collection_path(&self, group: &str, kind: &str) -> String {
        format!("/{group}/namespaces/{}/{kind}", self.name)
    }

    fn addon_path(&self) -> String {
        let group = "apis/observability.open-cluster-management.io/v1beta1";
        format!(
            "{}/{NAME}",
            self.collection_path(group, "observabilityaddons")
        )
    }

    pub(super) async fn addon(&self) -> Value {
        let path = self.addon_path();
        rest::get(&self.spoke.client, &path).await.unwrap()
    }

    pub(super) async fn patch_spec(&self, spec: &Value) {
        let patch = json!({ "spec": spec });
        rest::merge_patch(&self.spoke.client, &self.addon_path(), &patch)
            .await
            .unwrap();
    }

    /// Returns the objects in a collection that have an owner.
    pub(super) async fn owned_objects(&self, group: &str, kind: &str) -> Vec<Value> {
        let list = rest::get(&self.spoke.client, &self.collection_path(group, kind)).await;
        let mut list = list.unwrap();
        let Value::Array(mut items) = list["items"].take() else {
            return Vec::new();
        };
        items.retain(|item| item["metadata"]["ownerReferences"].is_array());
        items
    }

    /// Returns the addon's status and owned objects, without values that differ between runs.
    pub(super) async fn snapshot(&self) -> Value {
        let addon = self.addon().await;
        let deployments = self.owned_objects("apis/apps/v1", "deployments").await;
        let services = self.owned_objects("api/v1", "services").await;
        let hashes: Vec<String> = deployments
            .iter()
            .map(|deployment| env_var(deployment, "KELPIE_ADDON_ROLLOUT").to_owned())
            .collect();
        let comparable = |objects: Vec<Value>| -> Vec<Value> {
            let comparable = |mut object: Value| {
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
            objects.into_iter().map(comparable).collect()
        };
        let mut status = addon["status"].clone();
        if let Some(conditions) = status["conditions"].as_array_mut() {
            for condition in conditions.iter_mut() {
                condition["lastTransitionTime"].take();
            }
            conditions.sort_by_key(|condition| condition["type"].to_string());
        }
        let snapshot = json!([status, comparable(deployments), comparable(services)]);
        let uid = addon["metadata"]["uid"].as_str().unwrap();
        let mut text = snapshot.to_string().replace(uid, "UID");
        text = text.replace(&self.name, "NAMESPACE");
        for hash in hashes {
            text = text.replace(&hash, "ROLLOUT");
        }
        serde_json::from_str(&text).unwrap()
    }

    /// Reports success for both collectors, with the rollouts that the status announces.
    pub(super) async fn report_success(&self) {
        let addon = self.addon().await;
        for component in AddonComponent::ALL {
            let mut reporter =
                CollectorReporter::new(status_writer(self.spoke, &self.name).await, None);
            let report = CollectorReport {
                component,
                forward: ForwardOutcome::Successful,
                message: "sent".into(),
                rollout: addon["status"]["rollouts"][component.name()]
                    .as_str()
                    .map(str::to_owned),
            };
            reporter.report(report).await.unwrap();
        }
    }

    /// Starts a process. Its requests pass through `interceptor` if there is one.
    pub(super) async fn start_process(
        &self,
        process: AddonProcess,
        interceptor: Option<&Interceptor>,
    ) -> Kelpie {
        let admin = self.spoke.api.admin();
        let kubeconfig = match interceptor {
            Some(interceptor) => interceptor.kubeconfig(&admin),
            None => self.spoke.api.kubeconfig(&admin),
        };
        let name = format!("{}-{process:?}-{}", self.name, interceptor.is_some());
        let kubeconfig = self.spoke.write_file(&name, &kubeconfig);
        let namespace = &self.name;
        let own = format!("--namespace={namespace}");
        let platform = format!("--platform-service={namespace}/prometheus");
        let uwl = format!("--uwl-stateful-set={namespace}/prometheus-uwl");
        match process {
            AddonProcess::Operator => {
                start_server_as(&kubeconfig, "operator", &[&own, &platform, &uwl]).await
            }
            AddonProcess::Status => start_server_as(&kubeconfig, "status", &[&own]).await,
        }
    }
}
