//! Replication to a hub that is not always there.

use std::time::Duration;

use kelpie_e2e::landscape::{Fault, Proxy, rest};
use kelpie_e2e::poll;
use serde_json::json;

use super::stage::{CLUSTER, M, PATIENCE, Stage, condition, definition, report};

#[tokio::test]
async fn a_hub_that_is_down_holds_nobody_up_and_gets_the_newest_state_when_it_is_back() {
    let stage = Stage::start().await;
    let proxy = Proxy::start(stage.hub.api.url()).await.unwrap();
    let admin = stage.hub.api.admin();
    let way = stage.hub.api.kubeconfig_at(proxy.url(), &admin);
    let way = stage.hub.keep("proxied.kubeconfig", &way);
    for fault in [
        Fault::Reset,
        Fault::Stall,
        Fault::Delay(Duration::from_millis(300)),
    ] {
        proxy.set(fault);
        let status = stage.status_via(&way, &[]).await;
        let (first, second) = ("ForwardFailure", "ForwardSuccessful");
        report(&stage.spoke, "platform", first, &[]).await;
        stage.spoke.until("Degraded").await;
        report(&stage.spoke, "platform", second, &[]).await;
        stage.spoke.until("Available").await;
        proxy.set(Fault::None);
        stage.hub.until("Available").await;
        let state = status.until("/debug/state", 200, PATIENCE).await.unwrap();
        assert!(state.body.contains("Available"), "{}", state.body);
        // The next fault begins with a hub that is behind.
        proxy.set(Fault::Reset);
        report(&stage.spoke, "platform", first, &[]).await;
        stage.spoke.until("Degraded").await;
        status.stop().await.unwrap();
    }
}

#[tokio::test]
async fn credentials_that_are_rotated_are_read_again_and_no_hub_is_hammered() {
    let stage = Stage::start().await;
    let stranger = stage.hub.api.kubeconfig(&stage.hub.api.stranger());
    let way = stage.hub.keep("rotated.kubeconfig", &stranger);
    report(&stage.spoke, "platform", "ForwardSuccessful", &[]).await;
    let status = stage.status_via(&way, &[]).await;
    let failed = "kelpie_addon_hub_rounds_total{result=\"failed\"}";
    poll::until("two refusals", PATIENCE, async || {
        Ok((status.metric(failed).await? >= 2.0).then_some(()))
    })
    .await
    .unwrap();
    stage.spoke.until("Available").await;
    // A file that is not there for a moment keeps the old client.
    std::fs::write(&way, "nonsense").unwrap();
    let seen = status.metric(failed).await.unwrap();
    poll::until("another refusal", PATIENCE, async || {
        Ok((status.metric(failed).await? > seen).then_some(()))
    })
    .await
    .unwrap();
    let admin = stage.hub.api.kubeconfig(&stage.hub.api.admin());
    std::fs::write(&way, admin).unwrap();
    stage.hub.until("Available").await;
    // Pauses double from a second on: a minute has no more than a handful.
    assert!(status.metric(failed).await.unwrap() <= 10.0);
}

#[tokio::test]
async fn a_hub_without_the_addon_is_looked_at_in_every_resync_and_edits_there_are_undone() {
    let stage = Stage::start().await;
    rest::delete(&stage.hub.client, &stage.hub.path())
        .await
        .unwrap();
    report(&stage.spoke, "platform", "ForwardSuccessful", &[]).await;
    let status = stage.status(&["--resync=500ms"]).await;
    let missing = "kelpie_addon_hub_rounds_total{result=\"missing\"}";
    poll::until("a look at nothing", PATIENCE, async || {
        Ok((status.metric(missing).await? >= 1.0).then_some(()))
    })
    .await
    .unwrap();
    stage.hub.create_addon(&json!({ "interval": 60 })).await;
    let addon = stage.hub.until("Available").await;
    assert_eq!(addon["spec"]["interval"], 60, "the hub's spec is its own");

    let mut edited = addon["status"]["conditions"].clone();
    edited[0]["reason"] = json!("Edited");
    stage
        .hub
        .merge_status(&json!({ "conditions": edited }))
        .await;
    poll::until("the edit to be undone", PATIENCE, async || {
        let addon = stage.hub.addon().await;
        Ok((condition(&addon, M)["reason"] == "ForwardSuccessful").then_some(()))
    })
    .await
    .unwrap();
    stage.hub.merge_status(&json!({ "conditions": [] })).await;
    stage.hub.until("Available").await;
}

#[tokio::test]
async fn a_hub_whose_definition_prunes_fields_is_written_once() {
    let stage = Stage::bare().await;
    let ours = definition().await;
    // An older definition knows nothing of rollouts.
    let older = ours.replace("rollouts:", "unknown:");
    assert_ne!(older, ours);
    stage.spoke.install(&ours).await;
    stage.hub.install(&older).await;
    stage.spoke.create_addon(&json!({})).await;
    stage.hub.create_addon(&json!({})).await;
    stage
        .spoke
        .merge_status(&json!({ "conditions": [], "rollouts": { "platform": "a" } }))
        .await;
    report(
        &stage.spoke,
        "platform",
        "ForwardSuccessful",
        &["--rollout=a"],
    )
    .await;
    let status = stage.status(&["--resync=200ms"]).await;
    let addon = stage.hub.until("Available").await;
    assert_eq!(addon["status"].get("rollouts"), None);
    let equal = "kelpie_addon_hub_rounds_total{result=\"equal\"}";
    poll::until("ten looks", PATIENCE, async || {
        Ok((status.metric(equal).await? >= 10.0).then_some(()))
    })
    .await
    .unwrap();
    let now = stage.hub.addon().await;
    assert_eq!(
        now["metadata"]["resourceVersion"],
        addon["metadata"]["resourceVersion"]
    );
}

#[tokio::test]
async fn a_hub_that_deletes_the_addon_is_let_go_once_the_spoke_is_clean() {
    let stage = Stage::start().await;
    let finalizers = [
        "observability.open-cluster-management.io/addon-cleanup",
        "example.org/other",
    ];
    let patch = json!({ "metadata": { "finalizers": finalizers } });
    rest::merge(&stage.hub.client, &stage.hub.path(), &patch)
        .await
        .unwrap();
    report(&stage.spoke, "platform", "ForwardSuccessful", &[]).await;
    let _status = stage.status(&["--resync=500ms"]).await;
    stage.hub.until("Available").await;
    rest::delete(&stage.hub.client, &stage.hub.path())
        .await
        .unwrap();
    poll::until("the spoke to be clean", PATIENCE, async || {
        let addon = rest::find(&stage.spoke.client, &stage.spoke.path()).await?;
        Ok(addon.is_none().then_some(()))
    })
    .await
    .unwrap();
    poll::until("our finalizer to go, and no other", PATIENCE, async || {
        let addon = stage.hub.addon().await;
        Ok((addon["metadata"]["finalizers"] == json!(["example.org/other"])).then_some(()))
    })
    .await
    .unwrap();
}

/// What the hub grants a spoke: no patch, no create, nothing outside of its namespace.
#[tokio::test]
async fn the_rights_that_a_hub_grants_are_enough() {
    let stage = Stage::start().await;
    let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{CLUSTER}");
    let role = json!({ "metadata": { "name": "spoke" }, "rules": [{
        "apiGroups": ["observability.open-cluster-management.io"],
        "resources": ["observabilityaddons", "observabilityaddons/status"],
        "verbs": ["get", "list", "watch", "update"],
    }] });
    rest::create(&stage.hub.client, &format!("{rbac}/roles"), &role)
        .await
        .unwrap();
    let binding = json!({
        "metadata": { "name": "spoke" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "spoke" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "spoke" }],
    });
    rest::create(&stage.hub.client, &format!("{rbac}/rolebindings"), &binding)
        .await
        .unwrap();
    let spoke = stage.hub.api.user("spoke", &[]).unwrap();
    let way = stage
        .hub
        .keep("spoke.kubeconfig", &stage.hub.api.kubeconfig(&spoke));
    report(&stage.spoke, "platform", "ForwardSuccessful", &[]).await;
    let _status = stage.status_via(&way, &[]).await;
    stage.hub.until("Available").await;
}
