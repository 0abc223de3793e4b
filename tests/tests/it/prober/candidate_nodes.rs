//! Nodes that count as candidates, and the number of them that causes or lifts a fence.

use kelpie_e2e::landscape::{ProberConfigFile, Timings};
use serde_json::{Value, json};

use super::fixture::*;

/// Three of five silent nodes would cause a fence if they were candidates.
#[tokio::test]
async fn excluded_nodes_cause_no_fence() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.kubelets(5, timings).await;
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
    let shoot = fixture.shoot("shoot", &kubelets).await;
    let prober = fixture.gardener_prober(timings).await;
    until_healthy(&prober, &shoot).await;
    let state = until_candidates(&prober, &shoot, 2).await;
    let excluded = state["decision"]["reasons"]["leases"]["excluded"].to_string();
    assert!(excluded.contains("inPlaceUpdate"), "{excluded}");
    assert!(excluded.contains("unmanaged"), "{excluded}");

    kubelets.partition(0.6).await;
    let expired = kubelets.trip_time(timings.grace, 0.6).await.unwrap();
    tokio::time::sleep_until(expired).await;
    until_rounds(&prober, 2.0).await;
    assert_untouched(&shoot).await;

    // They become candidates again, and are still silent.
    let included = [
        annotation(Value::Null),
        condition("InPlaceUpdate", "UpdateSuccessful"),
        condition("Ready", "KubeletReady"),
    ];
    for (number, patch) in included.iter().enumerate() {
        kubelets.patch_node(number, patch).await.unwrap();
    }
    // The prober lists nodes only when it needs them. A new process starts with a list.
    drop(prober);
    let prober = fixture.gardener_prober(timings).await;
    shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
    let state = prober.state(&shoot.name).await.unwrap().unwrap();
    assert_eq!(state["decision"]["reasons"]["leases"]["candidates"], 5);
}

/// Two clusters share the same nodes, of which three of five come back.
#[tokio::test]
async fn lower_recovery_fraction_keeps_fence_longer() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.kubelets(5, timings).await;
    let make = async |name: &str, config: ProberConfigFile| {
        let shoot = fixture.shoot(name, &kubelets).await;
        let prober = fixture.prober(&config.only(name), &[]).await;
        until_healthy(&prober, &shoot).await;
        (shoot, prober)
    };
    let config = ProberConfigFile::gardener_targets(timings);
    let (unmodified, _on_unmodified) = make("unmodified", config.clone()).await;
    let cautious = config.line("nodeLeaseRecoveryFraction: 0.3");
    let (cautious, on_cautious) = make("cautious", cautious).await;

    kubelets.partition(1.0).await;
    for shoot in [&unmodified, &cautious] {
        shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
    }
    kubelets.heal_except(0.4).await;
    unmodified.until_restored(RESTORED, TIMEOUT).await.unwrap();
    until_rounds(&on_cautious, 3.0).await;
    let state = on_cautious.state(&cautious.name).await.unwrap().unwrap();
    assert_eq!(state["decision"]["verdict"], "fence");
    assert_eq!(state["decision"]["reasons"]["leases"]["notRenewed"], 2);
    assert_eq!(cautious.replicas().await.unwrap(), FENCED);

    kubelets.heal().await;
    cautious.until_restored(RESTORED, TIMEOUT).await.unwrap();
}

/// dependency-watchdog does not fence clusters with a single node either.
#[tokio::test]
async fn single_node_never_causes_fence() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.partitioned_kubelets(1, timings).await;
    let shoot = fixture.shoot("shoot", &kubelets).await;
    let lowered = fixture.shoot("lowered", &kubelets).await;
    let config = ProberConfigFile::gardener_targets(timings);
    let prober = fixture.prober(&config.clone().only(&shoot.name), &[]).await;
    let lowered_config = config.only(&lowered.name).line("minCandidateNodes: 1");
    let _on_lowered = fixture.prober(&lowered_config, &[]).await;

    lowered.until_replicas(FENCED, TIMEOUT).await.unwrap();
    until_rule(&prober, &shoot, "tooFewCandidates").await;
    assert_untouched(&shoot).await;
    kubelets.heal().await;
    lowered.until_restored(RESTORED, TIMEOUT).await.unwrap();
}
