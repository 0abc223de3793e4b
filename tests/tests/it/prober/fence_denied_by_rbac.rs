//! A fence that RBAC denies is reported, and a successor with sufficient rights carries it out.

use kelpie_e2e::landscape::{
    ProberConfigFile, ProberProcess, TargetConfig, Timings, grant_gardener_prober_role, rest,
};
use kelpie_e2e::poll;
use serde_json::{Value, json};

use super::fixture::*;

#[tokio::test]
async fn denied_fence_is_reported_and_successor_fences() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let client = &fixture.seed.client;
    let kubelets = fixture.kubelets(3, timings).await;
    let shoot = fixture.shoot("shoot", &kubelets).await;
    // The last target is optional, and even its kind does not exist.
    let targets = vec![
        TargetConfig::deployment(KCM, 1, 0),
        TargetConfig::deployment(MCM, 0, 1),
        TargetConfig::deployment(CA, 0, 2),
        TargetConfig::new("example.org/v1", "Rig", "rig", 0, 3).optional(),
    ];
    let config = ProberConfigFile::new(timings, targets);
    grant_gardener_prober_role(client, "dwd").await.unwrap();
    revoke_patch(&fixture).await;
    let dwd = fixture.seed.control_plane.api.user("dwd", &[]).unwrap();
    let kubeconfig = fixture.seed.kubeconfig_file(&dwd).unwrap();
    let denied = ProberProcess::start(&kubeconfig, &config, &ELECTION)
        .await
        .unwrap();
    denied
        .until_line(&["became leader"], TIMEOUT)
        .await
        .unwrap();
    let successor = fixture.prober(&config, &ELECTION).await;
    for prober in [&denied, &successor] {
        until_healthy(prober, &shoot).await;
    }
    let is_missing = |state: &Value| state["targets"][3]["observed"] == "missing";
    let state = denied.until_state("the targets", &shoot.name, TIMEOUT, is_missing);
    let state = state.await.unwrap();
    assert_eq!(state["problems"], json!([]), "{state:#}");

    kubelets.partition(1.0).await;
    let events = until_events(&fixture, "ScalingFailed", 1).await;
    let message = events[0]["message"].as_str().unwrap();
    assert!(message.contains("may not fence"), "{message}");
    let attempts = r#"kelpie_prober_scale_attempts_total{cluster="shoot",direction="down"}"#;
    assert!(denied.kelpie.metric(attempts).await.unwrap() >= 1.0);
    until_problem(&denied, &shoot, "may not fence").await;

    // The standby sees that its leader does not fence, and stops the controller that counts.
    let observed = successor.until_verdict(&shoot.name, "fence", TIMEOUT);
    observed.await.unwrap();
    let without_kcm = [0, RESTORED[1], RESTORED[2]];
    shoot.until_replicas(without_kcm, TIMEOUT).await.unwrap();
    drop(denied);
    shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
    let events = until_events(&fixture, "Fencing", 2).await;
    let instances = [&events[0], &events[1]].map(|event| &event["reportingInstance"]);
    assert_ne!(instances[0], instances[1]);
    kubelets.heal().await;
    shoot.until_restored(RESTORED, TIMEOUT).await.unwrap();
}

/// Restricts `dwd` to reading Deployments.
async fn revoke_patch(fixture: &Fixture) {
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/dwd";
    let role = rest::get(&fixture.seed.client, path).await.unwrap();
    let mut rules = role["rules"].clone();
    let all_rules = rules.as_array_mut().unwrap().iter_mut();
    for rule in all_rules.filter(|rule| rule["apiGroups"] == json!(["apps"])) {
        rule["verbs"] = json!(["get", "list", "watch"]);
    }
    assert_ne!(rules, role["rules"]);
    let patch = json!({ "rules": rules });
    rest::merge_patch(&fixture.seed.client, path, &patch)
        .await
        .unwrap();
}

/// Waits for at least this many Events with this reason, and returns them.
async fn until_events(fixture: &Fixture, reason: &str, at_least: usize) -> Vec<Value> {
    let what = format!("{at_least} Events {reason}");
    let found = poll::until(&what, TIMEOUT, async || {
        let mut events = fixture.seed.events("garden").await?;
        events.retain(|event| event["reason"] == reason);
        Ok((events.len() >= at_least).then_some(events))
    });
    found.await.unwrap()
}
