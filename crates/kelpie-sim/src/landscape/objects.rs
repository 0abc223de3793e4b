//! The objects of a seed, as Gardener makes them.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::Plan;
use crate::field;
use crate::resource::{DEFINITIONS, DEPLOYMENTS, NAMESPACES, Resource, SECRETS};
use crate::store::{Part, Store};

/// Clusters in the seed.
pub(super) const CLUSTERS: Resource = Resource::known("extensions.gardener.cloud", "clusters");

/// Makes Gardener's kinds and namespace known.
pub(super) fn prepare(seed: &Store) {
    let kinds = [
        (
            "extensions.gardener.cloud",
            "Cluster",
            "clusters",
            "Cluster",
        ),
        ("machine.sapcloud.io", "Machine", "machines", "Namespaced"),
    ];
    for (group, kind, plural, scope) in kinds {
        let subresources = match kind {
            "Machine" => json!({ "status": {} }),
            _ => json!({}),
        };
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
        // A new store refuses nothing of this.
        let _ = seed.create(&DEFINITIONS, "", definition);
    }
    namespace(seed, "garden");
}

pub(super) fn namespace(seed: &Store, name: &str) {
    let _ = seed.create(&NAMESPACES, "", json!({ "metadata": { "name": name } }));
}

/// The Cluster with the Shoot inside.
pub(super) fn cluster(seed: &Store, name: &str, plan: &Plan) {
    let grace = format!("{}s", plan.grace.as_secs());
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

/// A controller's Deployment.
pub(super) fn deployment(seed: &Store, namespace: &str, name: &str, replicas: u32) {
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

/// Puts a kubeconfig into its Secret.
pub(super) fn secret(seed: &Store, namespace: &str, kubeconfig: &str) {
    let data = json!({ "kubeconfig": BASE64_STANDARD.encode(kubeconfig) });
    let name = Plan::SECRET;
    let change = |secret: &mut Value| field::set(secret, "/data", data.clone());
    if seed
        .modify(&SECRETS, namespace, name, Part::Object, change)
        .is_err()
    {
        let secret = json!({ "metadata": { "name": name }, "data": data });
        let _ = seed.create(&SECRETS, namespace, secret);
    }
}

/// A kubeconfig for servers, given by name and URL, who are all vouched for by `authority` (PEM) and know
/// this token. The first is the current one.
pub(super) fn kubeconfig(servers: &[(&str, &str)], authority: &str, token: &str) -> String {
    let authority = BASE64_STANDARD.encode(authority);
    let user = "kelpie";
    let context = |(name, _): &(&str, &str)| json!({ "name": name, "context": { "cluster": name, "user": user } });
    let cluster = |(name, url): &(&str, &str)| {
        json!({
            "name": name,
            "cluster": { "server": url, "certificate-authority-data": authority },
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
