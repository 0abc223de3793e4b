//! Replication of the status to the hub: its kubeconfig, schema and permissions.

use kelpie_e2e::landscape::rest;
use kelpie_e2e::poll;
use serde_json::{Value, json};

use super::fixture::{CLUSTER, Fixture, TIMEOUT, crd_yaml, report};

#[tokio::test]
async fn rotated_credentials_are_reread_with_backoff() {
    let fixture = Fixture::start().await;
    let unprivileged = fixture.hub.api.kubeconfig(&fixture.hub.api.unprivileged());
    let kubeconfig = fixture.hub.write_file("rotated.kubeconfig", &unprivileged);
    report(&fixture.spoke, "platform", "ForwardSuccessful", &[]).await;
    let status = fixture.start_status_with_hub(&kubeconfig, &[]).await;
    let failed = "kelpie_addon_hub_syncs_total{result=\"failed\"}";
    poll::until("two refusals", TIMEOUT, async || {
        Ok((status.metric(failed).await? >= 2.0).then_some(()))
    })
    .await
    .unwrap();
    fixture.spoke.until_condition("Available").await;
    // While the file is invalid, the old client stays in use.
    std::fs::write(&kubeconfig, "nonsense").unwrap();
    let seen = status.metric(failed).await.unwrap();
    poll::until("another refusal", TIMEOUT, async || {
        Ok((status.metric(failed).await? > seen).then_some(()))
    })
    .await
    .unwrap();
    let admin = fixture.hub.api.kubeconfig(&fixture.hub.api.admin());
    std::fs::write(&kubeconfig, admin).unwrap();
    fixture.hub.until_condition("Available").await;
    // Pauses double from one second on, so there are only a few attempts in a minute.
    assert!(status.metric(failed).await.unwrap() <= 10.0);
}

#[tokio::test]
async fn hub_that_prunes_fields_is_written_once() {
    let fixture = Fixture::without_crd().await;
    let current = crd_yaml().await;
    // An older CRD does not have rollouts.
    let older = current.replace("rollouts:", "unknown:");
    assert_ne!(older, current);
    fixture.spoke.install_crd(&current).await;
    fixture.hub.install_crd(&older).await;
    fixture.spoke.create_addon(&json!({})).await;
    fixture.hub.create_addon(&json!({})).await;
    fixture
        .spoke
        .merge_status(&json!({ "conditions": [], "rollouts": { "platform": "a" } }))
        .await;
    report(
        &fixture.spoke,
        "platform",
        "ForwardSuccessful",
        &["--rollout=a"],
    )
    .await;
    let status = fixture.start_status(&["--resync=200ms"]).await;
    let addon = fixture.hub.until_condition("Available").await;
    assert_eq!(addon["status"].get("rollouts"), None);
    let equal = "kelpie_addon_hub_syncs_total{result=\"equal\"}";
    poll::until("ten syncs without a change", TIMEOUT, async || {
        Ok((status.metric(equal).await? >= 10.0).then_some(()))
    })
    .await
    .unwrap();
    let now = fixture.hub.addon().await;
    assert_eq!(
        now["metadata"]["resourceVersion"],
        addon["metadata"]["resourceVersion"]
    );
}

/// The hub grants a spoke neither patch nor create, and nothing outside its namespace.
#[tokio::test]
async fn hub_rbac_is_sufficient() {
    let fixture = Fixture::start().await;
    let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{CLUSTER}");
    let role = json!({ "metadata": { "name": "spoke" }, "rules": [{
        "apiGroups": ["observability.open-cluster-management.io"],
        "resources": ["observabilityaddons", "observabilityaddons/status"],
        "verbs": ["get", "list", "watch", "update"],
    }] });
    rest::create(&fixture.hub.client, &format!("{rbac}/roles"), &role)
        .await
        .unwrap();
    let binding = json!({
        "metadata": { "name": "spoke" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "spoke" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "spoke" }],
    });
    rest::create(
        &fixture.hub.client,
        &format!("{rbac}/rolebindings"),
        &binding,
    )
    .await
    .unwrap();
    let spoke = fixture.hub.api.user("spoke", &[]).unwrap();
    let kubeconfig = fixture
        .hub
        .write_file("spoke.kubeconfig", &fixture.hub.api.kubeconfig(&spoke));
    report(&fixture.spoke, "platform", "ForwardSuccessful", &[]).await;
    let _status = fixture.start_status_with_hub(&kubeconfig, &[]).await;
    fixture.hub.until_condition("Available").await;
}

#[tokio::test]
async fn status_invalid_on_hub_is_reported() {
    let fixture = Fixture::start().await;
    // The hub's CRD differs: it allows short messages only.
    let current = crd_yaml().await;
    let strict = current.replace("maxLength: 32768", "maxLength: 8");
    assert_ne!(strict, current);
    fixture.hub.install_crd(&strict).await;
    let status = fixture.start_status(&["--resync=2s"]).await;
    report(
        &fixture.spoke,
        "platform",
        "ForwardFailure",
        &["--message=m"],
    )
    .await;
    fixture.spoke.until_condition("Degraded").await;
    let reason = poll::until("the rejection to be reported", TIMEOUT, async || {
        let state = status.get("/debug/state").await?;
        let state: Value = serde_json::from_str(&state.body)?;
        Ok(state["hub"]["state"]["failing"].as_str().map(str::to_owned))
    });
    let reason = reason.await.unwrap();
    assert!(reason.contains("rejected it as invalid"), "{reason}");
    assert!(
        reason.contains("status.conditions"),
        "names the field: {reason}"
    );
    status
        .until_line(&["WARN", "rejected it as invalid"], TIMEOUT)
        .await
        .unwrap();
    fixture.hub.install_crd(&current).await;
    fixture.hub.until_condition("Degraded").await;
}
