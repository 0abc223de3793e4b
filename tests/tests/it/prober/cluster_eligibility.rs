//! Clusters that get a probe, and changes that a running probe picks up.

use std::time::Duration;

use kelpie_e2e::landscape::Timings;
use serde_json::{Value, json};

use super::fixture::*;

/// Cases: a name, a patch to the Shoot, and whether the cluster is probed then.
fn shoot_cases() -> Vec<(&'static str, Value, bool)> {
    let operation = |kind: &str, state: &str| {
        let last_operation = json!({ "type": kind, "state": state });
        json!({ "status": { "lastOperation": last_operation } })
    };
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

/// Patches that make some of the [`shoot_cases`] eligible.
fn eligible_patches() -> [(&'static str, Value); 4] {
    [
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
    ]
}

#[tokio::test]
async fn shoot_state_decides_and_removal_never_scales_up() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.kubelets(3, timings).await;
    let mut shoots = Vec::new();
    for (name, patch, is_probed) in shoot_cases() {
        let shoot = fixture
            .seed
            .create_cluster(name, &fixture.kubeconfig, &kubelets.nodes())
            .await
            .unwrap();
        shoot.patch_shoot(&patch).await.unwrap();
        shoots.push((shoot, is_probed));
    }
    let shoot = |wanted: &str| {
        &shoots
            .iter()
            .find(|(shoot, _)| shoot.name == wanted)
            .unwrap()
            .0
    };
    let unreadable = fixture.shoot("unreadable-from-the-start", &kubelets).await;
    let nonsense = json!({ "status": "nonsense" });
    unreadable.patch_shoot(&nonsense).await.unwrap();

    let prober = fixture.gardener_prober(timings).await;
    for (shoot, is_probed) in &shoots {
        if *is_probed {
            until_healthy(&prober, shoot).await;
        }
    }
    for (shoot, is_probed) in &shoots {
        let state = prober.state(&shoot.name).await.unwrap();
        assert_eq!(state.is_some(), *is_probed, "{}", shoot.name);
    }
    assert_eq!(prober.state(&unreadable.name).await.unwrap(), None);
    prober
        .until_line(&["cannot be read", &unreadable.name], TIMEOUT)
        .await
        .unwrap();

    // Probes start without a restart of the prober once a cluster becomes eligible.
    for (name, patch) in eligible_patches() {
        shoot(name).patch_shoot(&patch).await.unwrap();
        until_healthy(&prober, shoot(name)).await;
    }
    // A running probe continues while Gardener creates or restores again, and while the Shoot
    // cannot be read.
    let still_probed = [
        (
            shoot("created"),
            json!({ "status": { "lastOperation": { "state": "Processing" } } }),
        ),
        (shoot("reconciled"), json!({ "status": "nonsense" })),
    ];
    for (shoot, patch) in &still_probed {
        shoot.patch_shoot(patch).await.unwrap();
    }
    prober
        .until_line(&["cannot be read", "cluster=\"reconciled\""], TIMEOUT)
        .await
        .unwrap();

    // Nothing is scaled up when a fenced cluster is deleted, hibernated or migrated.
    for name in ["reconciling", "reconcile-failed", "restored", "creating"] {
        shoot(name).create_targets(COUNTS).await.unwrap();
    }
    let (deleted, hibernated) = (shoot("reconciling"), shoot("reconcile-failed"));
    let (migrated, kept) = (shoot("restored"), shoot("creating"));
    kubelets.partition(1.0).await;
    for shoot in [deleted, hibernated, migrated, kept] {
        shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
    }
    deleted.delete_cluster().await.unwrap();
    let enabled = json!({ "spec": { "hibernation": { "enabled": true } } });
    hibernated.patch_shoot(&enabled).await.unwrap();
    let migrate = json!({ "status": { "lastOperation": { "type": "Migrate" } } });
    migrated.patch_shoot(&migrate).await.unwrap();
    for shoot in [deleted, hibernated, migrated] {
        prober.until_unprobed(&shoot.name, TIMEOUT).await.unwrap();
    }
    kubelets.heal().await;
    kept.until_restored(RESTORED, TIMEOUT).await.unwrap();
    for shoot in [deleted, hibernated, migrated] {
        assert_eq!(shoot.replicas().await.unwrap(), FENCED, "{}", shoot.name);
        let still = shoot.target(KCM).await.unwrap();
        assert!(still.marked, "the marker stays for the next prober");
    }
    for (shoot, _) in &still_probed {
        assert!(prober.state(&shoot.name).await.unwrap().is_some());
    }
    let metrics = prober.kelpie.get("/metrics").await.unwrap().body;
    let series = format!("cluster=\"{}\"", deleted.name);
    assert!(
        !metrics.contains(&series),
        "its series are removed with the cluster"
    );
}

#[tokio::test]
async fn running_probe_picks_up_changes() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.kubelets(3, timings).await;
    let make = async |name: &str| fixture.shoot(name, &kubelets).await;
    let (grace_period, conditions) = (make("grace-period").await, make("conditions").await);
    let (machines, secret) = (make("machines").await, make("secret").await);
    let unchanged = make("unchanged").await;
    let prober = fixture.gardener_prober(timings).await;
    for shoot in [&grace_period, &conditions, &machines, &secret, &unchanged] {
        until_healthy(&prober, shoot).await;
    }

    // The kubeconfig is deleted, comes back broken, and is repaired.
    secret.delete_secret().await.unwrap();
    until_problem(
        &prober,
        &secret,
        "Secret deleted; using the last kubeconfig",
    )
    .await;
    secret
        .add_secret("dwd-internal", "not a kubeconfig")
        .await
        .unwrap();
    until_problem(&prober, &secret, "the kubeconfig is not valid at line 1").await;
    secret.rotate_kubeconfig(&fixture.kubeconfig).await.unwrap();
    let healthy = |state: &Value| {
        state["problems"].as_array().is_some_and(Vec::is_empty)
            && state["decision"]["reasons"]["rule"]["name"] == "leasesRenewed"
    };
    prober
        .until_state("no problems", &secret.name, TIMEOUT, healthy)
        .await
        .unwrap();

    // A node with one of its pool's own conditions is no longer a candidate.
    let bad = json!({ "status": { "conditions": [{ "type": "Odd", "status": "True" }] } });
    kubelets.patch_node(0, &bad).await.unwrap();
    until_candidates(&prober, &conditions, 3).await;
    let own = json!({ "spec": { "provider": { "workers": [
        { "name": "pool", "machineControllerManager": { "nodeConditions": ["Odd"] } },
    ] } } });
    conditions.patch_shoot(&own).await.unwrap();
    until_candidates(&prober, &conditions, 2).await;
    until_candidates(&prober, &unchanged, 3).await;

    // A failed Machine excludes its node.
    machines
        .set_machine_phase("node-001", "Failed")
        .await
        .unwrap();
    until_candidates(&prober, &machines, 2).await;

    // A longer grace period delays the fence.
    let grace = json!({ "spec": { "kubernetes": { "kubeControllerManager": {
        "nodeMonitorGracePeriod": "10m0s",
    } } } });
    grace_period.patch_shoot(&grace).await.unwrap();
    kubelets.partition(1.0).await;
    unchanged.until_replicas(FENCED, TIMEOUT).await.unwrap();
    machines.until_replicas(FENCED, TIMEOUT).await.unwrap();
    secret.until_replicas(FENCED, TIMEOUT).await.unwrap();
    assert_untouched(&grace_period).await;
    // A shorter one takes effect at once, even while the leases are silent.
    let grace = json!({ "spec": { "kubernetes": { "kubeControllerManager": {
        "nodeMonitorGracePeriod": "8s",
    } } } });
    grace_period.patch_shoot(&grace).await.unwrap();
    let soon = Duration::from_secs(15);
    grace_period.until_replicas(FENCED, soon).await.unwrap();
}
