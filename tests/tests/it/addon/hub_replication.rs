//! Replication of the status to the hub.

use std::time::Duration;

use kelpie_e2e::landscape::{ProxyFault, TcpProxy, rest};
use kelpie_e2e::poll;
use serde_json::json;

use super::fixture::{CLUSTER, Fixture, PLATFORM_STATUS, TIMEOUT, condition, crd_yaml, report};

#[tokio::test]
async fn unreachable_hub_catches_up_later() {
    let fixture = Fixture::start().await;
    let proxy = TcpProxy::start(fixture.hub.api.url()).await.unwrap();
    let admin = fixture.hub.api.admin();
    let kubeconfig = fixture.hub.api.kubeconfig_for_url(proxy.url(), &admin);
    let kubeconfig = fixture.hub.write_file("proxied.kubeconfig", &kubeconfig);
    for fault in [
        ProxyFault::Reset,
        ProxyFault::Stall,
        ProxyFault::Delay(Duration::from_millis(300)),
    ] {
        proxy.set_fault(fault);
        let status = fixture.start_status_with_hub(&kubeconfig, &[]).await;
        let (first, second) = ("ForwardFailure", "ForwardSuccessful");
        report(&fixture.spoke, "platform", first, &[]).await;
        fixture.spoke.until_condition("Degraded").await;
        report(&fixture.spoke, "platform", second, &[]).await;
        fixture.spoke.until_condition("Available").await;
        proxy.set_fault(ProxyFault::None);
        fixture.hub.until_condition("Available").await;
        let state = status
            .until_status("/debug/state", 200, TIMEOUT)
            .await
            .unwrap();
        assert!(state.body.contains("Available"), "{}", state.body);
        // The next fault starts with a hub that is out of date.
        proxy.set_fault(ProxyFault::Reset);
        report(&fixture.spoke, "platform", first, &[]).await;
        fixture.spoke.until_condition("Degraded").await;
        status.stop().await.unwrap();
    }
}

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
async fn resync_finds_new_addon_and_reverts_edits() {
    let fixture = Fixture::start().await;
    rest::delete(&fixture.hub.client, &fixture.hub.addon_path())
        .await
        .unwrap();
    report(&fixture.spoke, "platform", "ForwardSuccessful", &[]).await;
    let status = fixture.start_status(&["--resync=500ms"]).await;
    let missing = "kelpie_addon_hub_syncs_total{result=\"missing\"}";
    poll::until("a sync without an addon", TIMEOUT, async || {
        Ok((status.metric(missing).await? >= 1.0).then_some(()))
    })
    .await
    .unwrap();
    fixture.hub.create_addon(&json!({ "interval": 60 })).await;
    let addon = fixture.hub.until_condition("Available").await;
    assert_eq!(
        addon["spec"]["interval"], 60,
        "the hub's spec is not replicated"
    );

    let mut edited = addon["status"]["conditions"].clone();
    edited[0]["reason"] = json!("Edited");
    fixture
        .hub
        .merge_status(&json!({ "conditions": edited }))
        .await;
    poll::until("the edit to be reverted", TIMEOUT, async || {
        let addon = fixture.hub.addon().await;
        Ok((condition(&addon, PLATFORM_STATUS)["reason"] == "ForwardSuccessful").then_some(()))
    })
    .await
    .unwrap();
    fixture.hub.merge_status(&json!({ "conditions": [] })).await;
    fixture.hub.until_condition("Available").await;
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

#[tokio::test]
async fn finalizer_is_removed_after_spoke_cleanup() {
    let fixture = Fixture::start().await;
    let finalizers = [
        "observability.open-cluster-management.io/addon-cleanup",
        "example.org/other",
    ];
    let patch = json!({ "metadata": { "finalizers": finalizers } });
    rest::merge_patch(&fixture.hub.client, &fixture.hub.addon_path(), &patch)
        .await
        .unwrap();
    report(&fixture.spoke, "platform", "ForwardSuccessful", &[]).await;
    let _status = fixture.start_status(&["--resync=500ms"]).await;
    fixture.hub.until_condition("Available").await;
    rest::delete(&fixture.hub.client, &fixture.hub.addon_path())
        .await
        .unwrap();
    poll::until("the spoke's addon to be deleted", TIMEOUT, async || {
        let addon = rest::get_opt(&fixture.spoke.client, &fixture.spoke.addon_path()).await?;
        Ok(addon.is_none().then_some(()))
    })
    .await
    .unwrap();
    poll::until("only our finalizer to be removed", TIMEOUT, async || {
        let addon = fixture.hub.addon().await;
        Ok((addon["metadata"]["finalizers"] == json!(["example.org/other"])).then_some(()))
    })
    .await
    .unwrap();
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
