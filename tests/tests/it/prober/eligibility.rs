//! Which clusters get a probe, and what a running probe takes over.

use std::time::Duration;

use kelpie_e2e::landscape::{Kubelets, Pace, ProberConfig, Shoot};
use serde_json::{Value, json};

use super::stage::*;

/// What a Shoot says, and whether its cluster is probed.
fn rows() -> Vec<(&'static str, Value, bool)> {
    let operation = |kind: &str, state: &str| json!({ "status": { "lastOperation": { "type": kind, "state": state } } });
    vec![
        ("reconciled", operation("Reconcile", "Succeeded"), true),
        ("reconciling", operation("Reconcile", "Processing"), true),
        ("reconcile-failed", operation("Reconcile", "Failed"), true),
        ("created", operation("Create", "Succeeded"), true),
        ("creating", operation("Create", "Processing"), false),
        ("create-failed", operation("Create", "Error"), false),
        ("restored", operation("Restore", "Succeeded"), true),
        ("restoring", operation("Restore", "Processing"), false),
        ("migrating", operation("Migrate", "Processing"), false),
        ("migrated", operation("Migrate", "Succeeded"), false),
        ("untouched", json!({ "status": null }), false),
        (
            "hibernating",
            json!({ "spec": { "hibernation": { "enabled": true } } }),
            false,
        ),
        (
            "waking-up",
            json!({ "status": { "hibernated": true } }),
            false,
        ),
        (
            "deleted",
            json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }),
            false,
        ),
        (
            "without-workers",
            json!({ "spec": { "provider": { "workers": [] } } }),
            false,
        ),
    ]
}

#[tokio::test]
async fn clusters_are_probed_by_what_their_shoots_say_and_removal_never_scales_up() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let kubelets = Kubelets::start(&stage.seed.client, 3, pace).await.unwrap();
    let mut shoots = Vec::new();
    for (name, says, is_probed) in rows() {
        let shoot = stage
            .seed
            .shoot(name, &stage.kubeconfig, &kubelets.nodes())
            .await
            .unwrap();
        shoot.edit(&says).await.unwrap();
        shoots.push((shoot, is_probed));
    }
    let of = |wanted: &str| {
        &shoots
            .iter()
            .find(|(shoot, _)| shoot.name == wanted)
            .unwrap()
            .0
    };
    let nobody = stage.shoot("unreadable-from-the-start", &kubelets).await;
    nobody.edit(&json!({ "status": "nonsense" })).await.unwrap();

    let prober = stage.prober(&ProberConfig::shipped(pace), &[]).await;
    for (shoot, is_probed) in &shoots {
        if *is_probed {
            until_well(&prober, shoot).await;
        }
    }
    for (shoot, is_probed) in &shoots {
        let state = prober.state(&shoot.name).await.unwrap();
        assert_eq!(state.is_some(), *is_probed, "{}", shoot.name);
    }
    assert_eq!(prober.state(&nobody.name).await.unwrap(), None);
    prober
        .until_line(&["cannot be read", &nobody.name], PATIENCE)
        .await
        .unwrap();

    // What was not probed yet starts, without a restart.
    for (name, says) in [
        (
            "creating",
            json!({ "status": { "lastOperation": { "state": "Succeeded" } } }),
        ),
        ("waking-up", json!({ "status": { "hibernated": false } })),
        (
            "hibernating",
            json!({ "spec": { "hibernation": { "enabled": false } } }),
        ),
        (
            "without-workers",
            json!({ "spec": { "provider": { "workers": [{ "name": "pool" }] } } }),
        ),
    ] {
        of(name).edit(&says).await.unwrap();
        until_well(&prober, of(name)).await;
    }
    // A running probe goes on while Gardener creates or restores again, or cannot be read.
    let goes_on = [
        (
            of("created"),
            json!({ "status": { "lastOperation": { "state": "Processing" } } }),
        ),
        (of("reconciled"), json!({ "status": "nonsense" })),
    ];
    for (shoot, says) in &goes_on {
        shoot.edit(says).await.unwrap();
    }
    prober
        .until_line(&["cannot be read", "cluster=\"reconciled\""], PATIENCE)
        .await
        .unwrap();

    // Both kinds of removal with a fence in place: nothing is scaled back up.
    for name in ["reconciling", "reconcile-failed", "restored", "creating"] {
        of(name).deploy(COUNTS).await.unwrap();
    }
    let (gone, hibernated) = (of("reconciling"), of("reconcile-failed"));
    let (removed, stays) = (of("restored"), of("creating"));
    kubelets.cut(1.0).await;
    for shoot in [gone, hibernated, removed, stays] {
        shoot.until_counts(FENCED, PATIENCE).await.unwrap();
    }
    gone.delete_cluster().await.unwrap();
    let enabled = json!({ "spec": { "hibernation": { "enabled": true } } });
    hibernated.edit(&enabled).await.unwrap();
    let migrate = json!({ "status": { "lastOperation": { "type": "Migrate" } } });
    removed.edit(&migrate).await.unwrap();
    for shoot in [gone, hibernated, removed] {
        prober.until_unprobed(&shoot.name, PATIENCE).await.unwrap();
    }
    kubelets.heal().await;
    stays.until_restored(RESTORED, PATIENCE).await.unwrap();
    for shoot in [gone, hibernated, removed] {
        assert_eq!(shoot.counts().await.unwrap(), FENCED, "{}", shoot.name);
        let still = shoot.controller(KCM).await.unwrap();
        assert!(still.marked, "the record stays for who comes next");
    }
    for (shoot, _) in &goes_on {
        assert!(prober.state(&shoot.name).await.unwrap().is_some());
    }
    let metrics = prober.kelpie.get("/metrics").await.unwrap().body;
    let series = format!("cluster=\"{}\"", gone.name);
    assert!(!metrics.contains(&series), "its series go with the cluster");
}

#[tokio::test]
async fn a_running_probe_takes_over_grace_conditions_machines_and_secrets() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let kubelets = Kubelets::start(&stage.seed.client, 3, pace).await.unwrap();
    let make = async |name: &str| stage.shoot(name, &kubelets).await;
    let (patient, conditions) = (make("patient").await, make("conditions").await);
    let (machines, secret) = (make("machines").await, make("secret").await);
    let plain = make("plain").await;
    let prober = stage.prober(&ProberConfig::shipped(pace), &[]).await;
    for shoot in [&patient, &conditions, &machines, &secret, &plain] {
        until_well(&prober, shoot).await;
    }
    let candidates = async |shoot: &Shoot, count: u64| {
        let is_such = |state: &Value| state["decision"]["reasons"]["leases"]["candidates"] == count;
        let what = format!("{count} candidates");
        let found = prober.until_state(&what, &shoot.name, PATIENCE, is_such);
        found.await.unwrap();
    };

    // The kubeconfig goes, comes back broken, comes back whole.
    secret.delete_secret().await.unwrap();
    let trouble = async |word: &'static str| {
        let says = |state: &Value| state["troubles"].to_string().contains(word);
        let found = prober.until_state(word, &secret.name, PATIENCE, says);
        found.await.unwrap();
    };
    trouble("there is no Secret").await;
    secret
        .add_secret("dwd-internal", "not a kubeconfig")
        .await
        .unwrap();
    trouble("the kubeconfig is not valid at line 1").await;
    secret.rotate(&stage.kubeconfig).await.unwrap();
    let healthy = |state: &Value| {
        state["troubles"].as_array().is_some_and(Vec::is_empty)
            && state["decision"]["reasons"]["rule"]["name"] == "well"
    };
    prober
        .until_state("no trouble", &secret.name, PATIENCE, healthy)
        .await
        .unwrap();

    // A pool's own conditions: the node that has one no longer counts.
    let bad = json!({ "status": { "conditions": [{ "type": "Odd", "status": "True" }] } });
    kubelets.patch_node(0, &bad).await.unwrap();
    candidates(&conditions, 3).await;
    let own = json!({ "spec": { "provider": { "workers": [
        { "name": "pool", "machineControllerManager": { "nodeConditions": ["Odd"] } },
    ] } } });
    conditions.edit(&own).await.unwrap();
    candidates(&conditions, 2).await;
    candidates(&plain, 3).await;

    // A machine that fails takes its node out.
    machines
        .set_machine_phase("node-001", "Failed")
        .await
        .unwrap();
    candidates(&machines, 2).await;

    // A longer grace period holds the fence back.
    let grace = json!({ "spec": { "kubernetes": { "kubeControllerManager": {
        "nodeMonitorGracePeriod": "10m0s",
    } } } });
    patient.edit(&grace).await.unwrap();
    kubelets.cut(1.0).await;
    plain.until_counts(FENCED, PATIENCE).await.unwrap();
    machines.until_counts(FENCED, PATIENCE).await.unwrap();
    secret.until_counts(FENCED, PATIENCE).await.unwrap();
    assert_untouched(&patient).await;
    // A shorter one, while the leases are silent, is acted on at once.
    let grace = json!({ "spec": { "kubernetes": { "kubeControllerManager": {
        "nodeMonitorGracePeriod": "8s",
    } } } });
    patient.edit(&grace).await.unwrap();
    let soon = Duration::from_secs(15);
    patient.until_counts(FENCED, soon).await.unwrap();
}
