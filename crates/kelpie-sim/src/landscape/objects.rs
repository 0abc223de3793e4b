//! The objects of a seed, as Gardener creates them.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::LandscapePlan;
use crate::actor::MACHINES;
use crate::field;
use crate::resource::{DEFINITIONS, DEPLOYMENTS, GroupResource, NAMESPACES, SECRETS};
use crate::store::{ObjectStore, WriteScope};

/// Gardener's Cluster resources in the seed.
pub(super) const CLUSTERS: GroupResource =
    GroupResource::from_static("extensions.gardener.cloud", "clusters");

/// Creates Gardener's CRDs and namespace.
pub(super) fn create_gardener_resources(seed: &ObjectStore) {
    let (cluster, machine) = (json!({}), json!({ "status": {} }));
    for (resource, kind, scope, subresources) in [
        (CLUSTERS, "Cluster", "Cluster", cluster),
        (MACHINES, "Machine", "Namespaced", machine),
    ] {
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
                    "name": "v1alpha1",
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
    create_namespace(seed, "garden");
}

pub(super) fn create_namespace(seed: &ObjectStore, name: &str) {
    let _ = seed.create(&NAMESPACES, "", json!({ "metadata": { "name": name } }));
}

/// Creates the Cluster, with the Shoot inside.
pub(super) fn create_cluster(seed: &ObjectStore, name: &str, grace_period: Duration) {
    let grace = format!("{}s", grace_period.as_secs_f64());
    let cluster = json!({
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
    });
    let _ = seed.create(&CLUSTERS, "", cluster);
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

/// Writes a kubeconfig into its Secret.
pub(super) fn write_kubeconfig_secret(seed: &ObjectStore, namespace: &str, kubeconfig: &str) {
    let data = json!({ "kubeconfig": BASE64_STANDARD.encode(kubeconfig) });
    let name = LandscapePlan::SECRET;
    let change = |secret: &mut Value| field::set(secret, "/data", data.clone());
    let written = seed.modify(&SECRETS, namespace, name, WriteScope::Object, change);
    if written.is_err() {
        let secret = json!({ "metadata": { "name": name }, "data": data });
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
