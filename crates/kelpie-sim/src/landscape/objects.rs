//! The objects of a seed, as its platform creates them.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::{LandscapePlan, Platform};
use crate::actor::{CAPI_MACHINES, CLUSTER_LABEL, MACHINES};
use crate::field;
use crate::resource::{
    DEFINITIONS, DEPLOYMENTS, GroupResource, HEALTH_CHECKS, NAMESPACES, SECRETS,
};
use crate::store::{ObjectStore, WriteScope};

/// Gardener's Cluster resources in the seed.
const CLUSTERS: GroupResource = GroupResource::from_static("extensions.gardener.cloud", "clusters");

/// Cluster API's Cluster resources in the seed.
const CAPI_CLUSTERS: GroupResource = GroupResource::from_static("cluster.x-k8s.io", "clusters");

/// Returns the resource and the namespace of the Clusters.
pub(super) fn cluster_place(platform: Platform) -> (GroupResource, &'static str) {
    let namespace = platform.shared_namespace().unwrap_or_default();
    match platform {
        Platform::Gardener => (CLUSTERS, namespace),
        Platform::ClusterApi => (CAPI_CLUSTERS, namespace),
    }
}

/// Creates the platform's CRDs, and the namespaces of the platform and of the watchdog.
pub(super) fn create_platform_resources(seed: &ObjectStore, platform: Platform) {
    let (plain, with_status) = (json!({}), json!({ "status": {} }));
    let gardener = [
        (CLUSTERS, "Cluster", "Cluster", plain),
        (MACHINES, "Machine", "Namespaced", with_status.clone()),
    ];
    let cluster_api = [
        (CAPI_CLUSTERS, "Cluster", "Namespaced", with_status.clone()),
        (CAPI_MACHINES, "Machine", "Namespaced", with_status.clone()),
        (
            HEALTH_CHECKS,
            "MachineHealthCheck",
            "Namespaced",
            with_status,
        ),
    ];
    let (kinds, version) = match platform {
        Platform::Gardener => (Vec::from(gardener), "v1alpha1"),
        Platform::ClusterApi => (Vec::from(cluster_api), "v1beta2"),
    };
    for (resource, kind, scope, subresources) in kinds {
        let (group, plural) = (resource.group(), resource.plural());
        let definition = json!({
            "metadata": { "name": format!("{plural}.{group}") },
            "spec": {
                "group": group,
                "scope": scope,
                "names": {
                    "kind": kind,
                    "plural": plural,
                    "singular": kind.to_lowercase(),
                    "listKind": format!("{kind}List"),
                },
                "versions": [{
                    "name": version,
                    "served": true,
                    "storage": true,
                    "schema": { "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": true,
                    } },
                    "subresources": subresources,
                }],
            },
        });
        // A new store accepts all of them.
        let _ = seed.create(&DEFINITIONS, "", definition);
    }
    for namespace in ["garden"].into_iter().chain(platform.shared_namespace()) {
        create_namespace(seed, namespace);
    }
}

pub(super) fn create_namespace(seed: &ObjectStore, name: &str) {
    let _ = seed.create(&NAMESPACES, "", json!({ "metadata": { "name": name } }));
}

/// Creates the Cluster.
pub(super) fn create_cluster(
    seed: &ObjectStore,
    platform: Platform,
    name: &str,
    grace_period: Duration,
) {
    let grace = format!("{}s", grace_period.as_secs_f64());
    let cluster = match platform {
        Platform::Gardener => gardener_cluster(name, &grace),
        Platform::ClusterApi => json!({
            "metadata": {
                "name": name,
                "annotations": { "kelpie.dev/node-monitor-grace-period": grace },
            },
            "spec": {},
        }),
    };
    let (resource, namespace) = cluster_place(platform);
    let _ = seed.create(&resource, namespace, cluster);
    if platform == Platform::ClusterApi {
        let initialized = |cluster: &mut Value| {
            field::set(
                cluster,
                "/status/initialization/controlPlaneInitialized",
                true,
            );
        };
        let _ = seed.modify(&resource, namespace, name, WriteScope::Status, initialized);
    }
}

/// Returns a Cluster of Gardener, with the Shoot inside.
fn gardener_cluster(name: &str, grace: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "cloudProfile": {}, "seed": {}, "shoot": {
            "apiVersion": "core.gardener.cloud/v1beta1",
            "kind": "Shoot",
            "metadata": { "name": name.rsplit("--").next() },
            "spec": {
                "kubernetes": { "kubeControllerManager": { "nodeMonitorGracePeriod": grace } },
                "provider": { "workers": [{ "name": "pool" }] },
            },
            "status": { "lastOperation": { "type": "Reconcile", "state": "Succeeded" } },
        } },
    })
}

/// Creates the Deployment of a controller.
pub(super) fn create_deployment(seed: &ObjectStore, namespace: &str, name: &str, replicas: u32) {
    let deployment = json!({
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": name, "image": "none" }] },
            },
        },
    });
    let _ = seed.create(&DEPLOYMENTS, namespace, deployment);
}

/// Writes a cluster's kubeconfig into its Secret.
pub(super) fn write_kubeconfig_secret(
    seed: &ObjectStore,
    platform: Platform,
    cluster: &str,
    kubeconfig: &str,
) {
    let namespace = platform.shared_namespace().unwrap_or(cluster);
    let (name, key) = match platform {
        Platform::Gardener => (LandscapePlan::SECRET.to_owned(), "kubeconfig"),
        Platform::ClusterApi => (format!("{cluster}-kubeconfig"), "value"),
    };
    let data = json!({ key: BASE64_STANDARD.encode(kubeconfig) });
    let change = |secret: &mut Value| field::set(secret, "/data", data.clone());
    let written = seed.modify(&SECRETS, namespace, &name, WriteScope::Object, change);
    if written.is_err() {
        let labels = json!({ CLUSTER_LABEL: cluster });
        let secret = json!({ "metadata": { "name": name, "labels": labels }, "data": data });
        let _ = seed.create(&SECRETS, namespace, secret);
    }
}

/// Returns a kubeconfig for servers, given by name and URL, that share the CA `ca_pem` and accept
/// `token`. The first is the current context.
pub(super) fn kubeconfig(servers: &[(&str, &str)], ca_pem: &str, token: &str) -> String {
    let ca_pem = BASE64_STANDARD.encode(ca_pem);
    let user = "kelpie";
    let context = |(name, _): &(&str, &str)| {
        json!({
            "name": name,
            "context": { "cluster": name, "user": user },
        })
    };
    let cluster = |(name, url): &(&str, &str)| {
        json!({
            "name": name,
            "cluster": { "server": url, "certificate-authority-data": ca_pem },
        })
    };
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": servers.first().map(|(name, _)| name),
        "contexts": servers.iter().map(context).collect::<Value>(),
        "clusters": servers.iter().map(cluster).collect::<Value>(),
        "users": [{ "name": user, "user": { "token": token } }],
    })
    .to_string()
}
