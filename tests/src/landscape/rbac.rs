//! The RBAC rules that Gardener grants.

use anyhow::{Context, Result};
use kube::Client;
use serde_json::{Value, json};

use super::rest;
use crate::{Credentials, KubeApiServer};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Creates a user on the API server of a shoot cluster, with exactly the permissions of a probe.
pub async fn create_tenant_user(
    client: &Client,
    api: &KubeApiServer,
    user: &str,
) -> Result<Credentials> {
    grant_probe_rules(client, user).await?;
    api.user(user, &[])
}

/// Creates a service account on the API server of a shoot cluster, with exactly the permissions of
/// a probe, and returns a token for it that is valid for a day.
pub async fn create_tenant_token(client: &Client, name: &str) -> Result<Credentials> {
    const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({ "metadata": { "name": name } });
    rest::create(client, ACCOUNTS, &account).await?;
    grant_probe_rules(client, &format!("system:serviceaccount:default:{name}")).await?;
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": { "expirationSeconds": 86_400 },
    });
    let granted = rest::create(client, &format!("{ACCOUNTS}/{name}/token"), &request).await?;
    let token = granted["status"]["token"].as_str().context("no token")?;
    Ok(Credentials::Token(token.to_owned()))
}

async fn grant_probe_rules(client: &Client, user: &str) -> Result<()> {
    let leases = json!([rule("coordination.k8s.io", &["leases"], &["get", "list"])]);
    let nodes = json!([rule("", &["nodes"], &["get", "list"])]);
    grant(client, user, Some("kube-node-lease"), &leases).await?;
    grant(client, user, None, &nodes).await
}

/// Grants `user` what a guard needs on a shoot cluster, beside the permissions of a probe.
pub async fn grant_guard_rules(client: &Client, user: &str) -> Result<()> {
    const POLICIES: [&str; 2] = [
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    ];
    let group = "admissionregistration.k8s.io";
    let named = |mut rule: Value| {
        rule["resourceNames"] = json!(["kelpie-node-guard"]);
        rule
    };
    let cluster_wide = json!([
        rule(group, &POLICIES, &["create"]),
        named(rule(group, &POLICIES, &["get", "update", "delete"])),
    ]);
    grant_as(client, &format!("{user}-guard"), user, None, &cluster_wide).await?;
    let leases = json!([
        rule("coordination.k8s.io", &["leases"], &["create"]),
        named(rule("coordination.k8s.io", &["leases"], &["patch"])),
    ]);
    grant(client, user, Some("kube-system"), &leases).await
}

/// Grants `user` exactly what Gardener grants dependency-watchdog's prober in a seed cluster.
pub async fn grant_gardener_prober_role(client: &Client, user: &str) -> Result<()> {
    let read = ["get", "list", "watch"];
    let write = ["get", "list", "watch", "update", "patch"];
    let cluster_wide = json!([
        rule("extensions.gardener.cloud", &["clusters"], &read),
        rule("", &["namespaces", "secrets"], &read),
        rule("machine.sapcloud.io", &["machines"], &read),
        rule("apps", &["deployments", "deployments/scale"], &write),
    ]);
    grant(client, user, None, &cluster_wide).await?;
    let in_garden = garden_rules("dwd-prober-leader-election");
    grant(client, user, Some("garden"), &in_garden).await
}

/// Grants `user` exactly what Gardener grants dependency-watchdog's weeder in a seed cluster.
pub async fn grant_gardener_weeder_role(client: &Client, user: &str) -> Result<()> {
    let read = ["get", "list", "watch"];
    let cluster_wide = json!([
        rule("", &["pods"], &["get", "list", "watch", "delete"]),
        rule("discovery.k8s.io", &["endpointslices"], &read),
    ]);
    grant(client, user, None, &cluster_wide).await?;
    let in_garden = garden_rules("dwd-weeder-leader-election");
    grant(client, user, Some("garden"), &in_garden).await
}

/// The rules for namespace `garden`: the Lease for leader election, and Events.
fn garden_rules(lease: &str) -> Value {
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

/// Creates a role with a binding for the user; a `ClusterRole` without a namespace.
async fn grant(client: &Client, user: &str, namespace: Option<&str>, rules: &Value) -> Result<()> {
    grant_as(client, user, user, namespace, rules).await
}

/// Creates a role of this name with a binding for the user.
async fn grant_as(
    client: &Client,
    name: &str,
    user: &str,
    namespace: Option<&str>,
    rules: &Value,
) -> Result<()> {
    let (kind, prefix) = match namespace {
        Some(namespace) => ("Role", format!("{RBAC}/namespaces/{namespace}/role")),
        None => ("ClusterRole", format!("{RBAC}/clusterrole")),
    };
    let role = json!({ "metadata": { "name": name }, "rules": rules });
    let binding = json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    });
    rest::create(client, &format!("{prefix}s"), &role).await?;
    rest::create(client, &format!("{prefix}bindings"), &binding)
        .await
        .map(|_| ())
}
