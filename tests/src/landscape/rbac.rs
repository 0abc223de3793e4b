//! Who may do what, as Gardener grants it.

use anyhow::Result;
use kube::Client;
use serde_json::{Value, json};

use super::rest;
use crate::{ApiServer, Credentials};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A user of a shoot's API server with the rights of a probe there, and no others.
pub async fn tenant(client: &Client, api: &ApiServer, user: &str) -> Result<Credentials> {
    let leases = json!([rule("coordination.k8s.io", &["leases"], &["get", "list"])]);
    let nodes = json!([rule("", &["nodes"], &["get", "list"])]);
    grant(client, user, Some("kube-node-lease"), &leases).await?;
    grant(client, user, None, &nodes).await?;
    api.user(user, &[])
}

/// Grants `user` what Gardener grants its dependency-watchdog in a seed, and no more.
pub async fn grant_gardeners_rights(client: &Client, user: &str) -> Result<()> {
    let read = ["get", "list", "watch"];
    let write = ["get", "list", "watch", "update", "patch"];
    let everywhere = json!([
        rule("extensions.gardener.cloud", &["clusters"], &read),
        rule("", &["namespaces", "secrets"], &read),
        rule("machine.sapcloud.io", &["machines"], &read),
        rule("apps", &["deployments", "deployments/scale"], &write),
    ]);
    grant(client, user, None, &everywhere).await?;
    let in_garden = in_garden("dwd-prober-leader-election");
    grant(client, user, Some("garden"), &in_garden).await
}

/// The same for its weeder.
pub async fn grant_gardeners_weeder_rights(client: &Client, user: &str) -> Result<()> {
    let read = ["get", "list", "watch"];
    let everywhere = json!([
        rule("", &["pods"], &["get", "list", "watch", "delete"]),
        rule("discovery.k8s.io", &["endpointslices"], &read),
    ]);
    grant(client, user, None, &everywhere).await?;
    let in_garden = in_garden("dwd-weeder-leader-election");
    grant(client, user, Some("garden"), &in_garden).await
}

/// The Lease of the leader, and Events.
fn in_garden(lease: &str) -> Value {
    let verbs = ["get", "watch", "update"];
    let mut own_lease = rule("coordination.k8s.io", &["leases"], &verbs);
    own_lease["resourceNames"] = json!([lease]);
    json!([
        rule("coordination.k8s.io", &["leases"], &["create"]),
        own_lease,
        rule("", &["events"], &["create", "get", "update", "patch"]),
    ])
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })
}

/// Makes a role and binds the user to it; in all namespaces if none is named.
async fn grant(client: &Client, user: &str, namespace: Option<&str>, rules: &Value) -> Result<()> {
    let (kind, folder) = match namespace {
        Some(namespace) => ("Role", format!("{RBAC}/namespaces/{namespace}/role")),
        None => ("ClusterRole", format!("{RBAC}/clusterrole")),
    };
    let role = json!({ "metadata": { "name": user }, "rules": rules });
    let binding = json!({
        "metadata": { "name": user },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": user },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    });
    rest::create(client, &format!("{folder}s"), &role).await?;
    rest::create(client, &format!("{folder}bindings"), &binding)
        .await
        .map(|_| ())
}
