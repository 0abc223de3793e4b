//! What is told when a fence cannot be made, and by whom when somebody else makes it.

use kelpie_e2e::landscape::{
    Kubelets, Pace, Prober, ProberConfig, Target, grant_gardeners_rights, rest,
};
use kelpie_e2e::poll;
use serde_json::{Value, json};

use super::stage::*;

const ELECTION: [&str; 4] = [
    "--enable-leader-election=true",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=1s",
];

#[tokio::test]
async fn a_fence_that_is_refused_is_told_and_counted_and_a_successor_makes_it() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let client = &stage.seed.client;
    let kubelets = Kubelets::start(client, 3, pace).await.unwrap();
    let shoot = stage.shoot("shoot", &kubelets).await;
    // One that need not be there, and is not known even by its kind.
    let targets = vec![
        Target::deployment(KCM, 1, 0),
        Target::deployment(MCM, 0, 1),
        Target::deployment(CA, 0, 2),
        Target::new("example.org/v1", "Rig", "rig", 0, 3).optional(),
    ];
    let config = ProberConfig::of(pace, targets);
    grant_gardeners_rights(client, "dwd").await.unwrap();
    take_patches_away(&stage).await;
    let dwd = stage.seed.plane.api.user("dwd", &[]).unwrap();
    let kubeconfig = stage.seed.kubeconfig(&dwd).unwrap();
    let refused = Prober::start(&kubeconfig, &config, &ELECTION)
        .await
        .unwrap();
    refused
        .until_line(&["this replica acts"], PATIENCE)
        .await
        .unwrap();
    let successor = stage.prober(&config, &ELECTION).await;
    for prober in [&refused, &successor] {
        until_well(prober, &shoot).await;
    }
    let is_missing = |state: &Value| state["targets"][3]["sight"] == "missing";
    let state = refused.until_state("a look", &shoot.name, PATIENCE, is_missing);
    let state = state.await.unwrap();
    assert_eq!(state["troubles"], json!([]), "{state:#}");

    kubelets.cut(1.0).await;
    let told = until_told(&stage, "ScalingFailed", 1).await;
    let message = told[0]["message"].as_str().unwrap();
    assert!(message.contains("may not record the fence on"), "{message}");
    let attempts = r#"kelpie_prober_scale_attempts_total{cluster="shoot",direction="down"}"#;
    assert!(refused.kelpie.metric(attempts).await.unwrap() >= 1.0);
    assert_eq!(shoot.counts().await.unwrap(), RESTORED);
    assert_eq!(until_told(&stage, "Fencing", 1).await.len(), 1);
    let says = |state: &Value| state["troubles"].to_string().contains("may not record");
    let state = refused.until_state("trouble", &shoot.name, PATIENCE, says);
    state.await.unwrap();

    // Who has seen all that as a standby tells that it fences now.
    let seen = successor.until_verdict(&shoot.name, "fence", PATIENCE);
    seen.await.unwrap();
    drop(refused);
    shoot.until_counts(FENCED, PATIENCE).await.unwrap();
    let told = until_told(&stage, "Fencing", 2).await;
    assert_ne!(told[0]["reportingInstance"], told[1]["reportingInstance"]);
    kubelets.heal().await;
    shoot.until_restored(RESTORED, PATIENCE).await.unwrap();
}

/// From now on `dwd` may look at Deployments only.
async fn take_patches_away(stage: &Stage) {
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/dwd";
    let role = rest::read(&stage.seed.client, path).await.unwrap();
    let mut rules = role["rules"].clone();
    let rules_of_all = rules.as_array_mut().unwrap().iter_mut();
    for rule in rules_of_all.filter(|rule| rule["apiGroups"] == json!(["apps"])) {
        rule["verbs"] = json!(["get", "list", "watch"]);
    }
    assert_ne!(rules, role["rules"]);
    let patch = json!({ "rules": rules });
    rest::merge(&stage.seed.client, path, &patch).await.unwrap();
}

/// Waits for at least so many Events of this reason about the cluster.
async fn until_told(stage: &Stage, reason: &str, at_least: usize) -> Vec<Value> {
    let what = format!("{at_least} Events {reason}");
    let told = poll::until(&what, PATIENCE, async || {
        let mut events = stage.seed.events("garden").await?;
        events.retain(|event| event["reason"] == reason);
        Ok((events.len() >= at_least).then_some(events))
    });
    told.await.unwrap()
}
