//! Which nodes count, and how many of them it takes.

use kelpie_e2e::landscape::{Kubelets, Pace, ProberConfig};
use serde_json::{Value, json};

use super::stage::*;

/// Three of five nodes are enough for a fence, if they count.
#[tokio::test]
async fn nodes_that_nobody_manages_or_that_are_updated_in_place_cause_no_fence() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let kubelets = Kubelets::start(&stage.seed.client, 5, pace).await.unwrap();
    let unmanaged = "node.machine.sapcloud.io/not-managed-by-mcm";
    let annotation = |value: Value| json!({ "metadata": { "annotations": { unmanaged: value } } });
    let condition = |kind: &str, reason: &str| {
        json!({ "status": { "conditions": [
            { "type": kind, "status": "True", "reason": reason },
        ] } })
    };
    let excluded = [
        annotation(json!("1")),
        condition("InPlaceUpdate", "ReadyForUpdate"),
        condition("InPlaceUpdate", "UpdateFailed"),
    ];
    for (number, patch) in excluded.iter().enumerate() {
        kubelets.patch_node(number, patch).await.unwrap();
    }
    let shoot = stage.shoot("shoot", &kubelets).await;
    let prober = stage.prober(&ProberConfig::shipped(pace), &[]).await;
    until_well(&prober, &shoot).await;
    let candidates = async |count: u64| {
        let is_such = |state: &Value| state["decision"]["reasons"]["leases"]["candidates"] == count;
        let what = format!("{count} candidates");
        let state = prober.until_state(&what, &shoot.name, PATIENCE, is_such);
        state.await.unwrap()
    };
    let state = candidates(2).await;
    let words = state["words"]["excluded"].to_string();
    assert!(words.contains("in-place"), "{words}");
    assert!(words.contains("not managed"), "{words}");

    kubelets.cut(0.6).await;
    let expired = kubelets.trip(pace.grace, 0.6).await.unwrap();
    tokio::time::sleep_until(expired).await;
    until_rounds(&prober, 2.0).await;
    assert_untouched(&shoot).await;

    // They count again, and are as silent as before.
    let counting = [
        annotation(Value::Null),
        condition("InPlaceUpdate", "UpdateSuccessful"),
        condition("Ready", "KubeletReady"),
    ];
    for (number, patch) in counting.iter().enumerate() {
        kubelets.patch_node(number, patch).await.unwrap();
    }
    // The list of nodes is read when one is needed: the next cluster starts with it.
    drop(prober);
    let prober = stage.prober(&ProberConfig::shipped(pace), &[]).await;
    shoot.until_counts(FENCED, PATIENCE).await.unwrap();
    let state = prober.state(&shoot.name).await.unwrap().unwrap();
    assert_eq!(state["decision"]["reasons"]["leases"]["candidates"], 5);
}

/// Two clusters with the same nodes: three of five come back.
#[tokio::test]
async fn a_lower_recovery_fraction_keeps_the_fence_until_more_nodes_are_back() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let kubelets = Kubelets::start(&stage.seed.client, 5, pace).await.unwrap();
    let make = async |name: &str, config: ProberConfig| {
        let shoot = stage.shoot(name, &kubelets).await;
        let prober = stage.prober(&config.only(name), &[]).await;
        until_well(&prober, &shoot).await;
        (shoot, prober)
    };
    let config = ProberConfig::shipped(pace);
    let (plain, _on_plain) = make("plain", config.clone()).await;
    let wary = config.line("nodeLeaseRecoveryFraction: 0.3");
    let (wary, on_wary) = make("wary", wary).await;

    kubelets.cut(1.0).await;
    for shoot in [&plain, &wary] {
        shoot.until_counts(FENCED, PATIENCE).await.unwrap();
    }
    kubelets.heal_but(0.4).await;
    plain.until_restored(RESTORED, PATIENCE).await.unwrap();
    until_rounds(&on_wary, 3.0).await;
    let state = on_wary.state(&wary.name).await.unwrap().unwrap();
    assert_eq!(state["decision"]["verdict"], "fence");
    assert_eq!(state["decision"]["reasons"]["leases"]["notRenewed"], 2);
    assert_eq!(wary.counts().await.unwrap(), FENCED);

    kubelets.heal().await;
    wary.until_restored(RESTORED, PATIENCE).await.unwrap();
}
