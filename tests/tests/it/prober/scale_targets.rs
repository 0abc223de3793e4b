//! Fence and restore of targets in different states and with different configurations.

use std::time::Duration;

use kelpie_e2e::landscape::{
    FakeDeploymentController, MARKER, ProberConfigFile, RECORD, ShootCluster, TargetConfig,
    TargetView, Timings, rest,
};
use kelpie_e2e::poll;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::fixture::*;

const IGNORE: &str = "dependency-watchdog.gardener.cloud/ignore-scaling";

/// One partition with a shoot for each case, and the levels that Gardener configures.
#[tokio::test]
async fn target_state_decides_how_it_is_scaled() {
    let fixture = Fixture::start().await;
    // 2 s more between trip and deadline, so that an unmodified shoot is scaled in order on a
    // loaded machine too.
    let timings = Timings {
        grace: Duration::from_secs(20),
        ..Timings::ROOMY
    };
    let kubelets = fixture.kubelets(3, timings).await;
    let make = async |name: &str| fixture.shoot(name, &kubelets).await;
    let unmodified = make("unmodified").await;
    let optional_missing = make("optional-missing").await;
    let required_missing = make("required-missing").await;
    let slow = make("slow").await;
    let ignored = make("ignored").await;
    let scaled_by_user = make("scaled-by-user").await;
    let corrupt = make("corrupt").await;
    let busy = make("busy").await;
    let leftover = make("leftover").await;
    optional_missing.delete(CA).await.unwrap();
    required_missing.delete(MCM).await.unwrap();
    until_ready(&fixture, &slow, MCM).await;
    slow.annotate(MCM, FakeDeploymentController::STUCK_ANNOTATION, &json!(""))
        .await
        .unwrap();
    ignored.annotate(KCM, IGNORE, &json!("true")).await.unwrap();
    scaled_by_user.scale(MCM, 0).await.unwrap();
    leftover.annotate(KCM, MARKER, &json!("")).await.unwrap();

    let prober = fixture.gardener_prober(timings).await;
    for shoot in [&unmodified, &busy, &leftover, &required_missing] {
        until_healthy(&prober, shoot).await;
    }
    // A leftover marker is removed during the restore. Nothing else changes.
    leftover.until_restored(RESTORED, TIMEOUT).await.unwrap();

    let writer = annotate_continuously(&busy);
    kubelets.partition(1.0).await;
    let cut = Instant::now();
    let deadline = kubelets.deadline(timings.grace).await.unwrap();

    for shoot in [&unmodified, &corrupt, &busy, &leftover, &slow] {
        shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
    }
    for shoot in [&required_missing, &slow, &unmodified, &busy] {
        let down = fixture.until_scaled(shoot, KCM, cut, 0).await;
        assert!(
            down.at < deadline,
            "{}: a slow or missing lower level must not delay it, {:?} late",
            shoot.name,
            down.at - deadline
        );
    }
    let skipped_order = |shoot: &ShootCluster| prober.lines(&["deadline close", &shoot.name]).len();
    assert!(skipped_order(&required_missing) > 0);
    for shoot in [&unmodified, &slow] {
        let name = &shoot.name;
        assert_eq!(skipped_order(shoot), 0, "{name} was scaled in order");
    }

    fixture.until_scaled(&optional_missing, KCM, cut, 0).await;
    fixture.until_scaled(&optional_missing, MCM, cut, 0).await;
    fixture.until_scaled(&ignored, MCM, cut, 0).await;
    let untouched = ignored.target(KCM).await.unwrap();
    assert_eq!((untouched.replicas, untouched.marked), (3, false));
    fixture.until_scaled(&scaled_by_user, KCM, cut, 0).await;
    let target = scaled_by_user.target(MCM).await.unwrap();
    assert_eq!((target.marked, target.recorded), (false, None));

    corrupt
        .annotate(KCM, RECORD, &json!("three"))
        .await
        .unwrap();
    kubelets.heal().await;
    for shoot in [&unmodified, &slow, &busy, &leftover] {
        shoot.until_restored(RESTORED, TIMEOUT).await.unwrap();
    }
    drop(writer);
    corrupt.until_restored([1, 1, 2], TIMEOUT).await.unwrap();
    prober
        .until_line(&["record", "corrupt", KCM], TIMEOUT)
        .await
        .unwrap();
    scaled_by_user
        .until_restored([3, 0, 2], TIMEOUT)
        .await
        .unwrap();
    ignored.until_restored(RESTORED, TIMEOUT).await.unwrap();
    until_replicas(&optional_missing, KCM, 3).await;
    until_replicas(&optional_missing, MCM, 1).await;
}

/// One partition with a separately configured prober for each case.
#[tokio::test]
async fn configuration_decides_how_targets_are_scaled() {
    let fixture = Fixture::start().await;
    let client = &fixture.seed.client;
    let timings = Timings::QUICK;
    let kubelets = fixture.kubelets(3, timings).await;
    install_custom_resource(&fixture).await;
    let make = async |name: &str, targets: Vec<TargetConfig>| {
        let shoot = fixture.shoot(name, &kubelets).await;
        let config = ProberConfigFile::new(timings, targets).only(name);
        let prober = fixture.prober(&config, &[]).await;
        (shoot, prober)
    };
    let overrides = TargetConfig::deployment(KCM, 0, 0)
        .down(|rule| rule.replicas = Some(1))
        .up(|rule| rule.replicas = Some(4));
    let (overrides, on_overrides) = make("overrides", vec![overrides]).await;
    let delayed = TargetConfig::deployment(KCM, 0, 0).down(|rule| rule.delay = Some("3s"));
    let (delayed, on_delayed) = make("delayed", vec![delayed]).await;
    let kinds = vec![
        TargetConfig::new("apps/v1", "StatefulSet", "etcd", 0, 0),
        TargetConfig::new("kelpie.test/v1", "Engine", "engine", 0, 0),
    ];
    let (kinds, on_kinds) = make("kinds", kinds).await;
    kinds.add_workload("statefulsets", "etcd", 3).await.unwrap();
    let engines = "/apis/kelpie.test/v1/namespaces/kinds/engines";
    let engine = json!({
        "apiVersion": "kelpie.test/v1", "kind": "Engine",
        "metadata": { "name": "engine" }, "spec": { "replicas": 5 },
    });
    rest::create(client, engines, &engine).await.unwrap();
    let unfit = vec![
        TargetConfig::new("v1", "ConfigMap", "unfit", 0, 0),
        TargetConfig::new("none.test/v1", "Nothing", "absent", 0, 0),
        TargetConfig::deployment(KCM, 1, 1),
    ];
    let (unfit, on_unfit) = make("unfit", unfit).await;
    let map = json!({ "metadata": { "name": "unfit" } });
    let maps = "/api/v1/namespaces/unfit/configmaps";
    rest::create(client, maps, &map).await.unwrap();
    for (prober, shoot) in [
        (&on_overrides, &overrides),
        (&on_delayed, &delayed),
        (&on_kinds, &kinds),
    ] {
        until_healthy(prober, shoot).await;
    }

    kubelets.partition(1.0).await;
    let cut = Instant::now();

    until_replicas(&overrides, KCM, 1).await;
    let fence = on_delayed.until_verdict(&delayed.name, "fence", TIMEOUT);
    fence.await.unwrap();
    let tripped = Instant::now();
    let down = fixture.until_scaled(&delayed, KCM, cut, 0).await;
    // The test sees the verdict up to one poll interval late.
    let waited = down.at.saturating_duration_since(tripped);
    assert!(waited > Duration::from_millis(2_500), "waited {waited:?}");
    for (path, recorded) in [
        ("/apis/apps/v1/namespaces/kinds/statefulsets/etcd", "3"),
        ("/apis/kelpie.test/v1/namespaces/kinds/engines/engine", "5"),
    ] {
        let found = until_object(&fixture, path, |found| found.replicas == 0).await;
        assert_eq!(found.recorded.as_deref(), Some(recorded), "{path}");
        assert!(found.marked, "{path}");
    }
    // The deadline overrides the failing level, and the failing targets are logged.
    fixture.until_scaled(&unfit, KCM, cut, 0).await;
    for words in [
        ["ConfigMap", "no scale subresource"],
        ["Nothing", "knows no kind"],
    ] {
        on_unfit.until_line(&words, TIMEOUT).await.unwrap();
    }
    let state = on_unfit.state(&unfit.name).await.unwrap().unwrap();
    assert!(!state["problems"].as_array().unwrap().is_empty());

    kubelets.heal().await;
    until_replicas(&overrides, KCM, 4).await;
    until_replicas(&delayed, KCM, 3).await;
    for (path, replicas) in [
        ("/apis/apps/v1/namespaces/kinds/statefulsets/etcd", 3),
        ("/apis/kelpie.test/v1/namespaces/kinds/engines/engine", 5),
    ] {
        let is_up = |found: &TargetView| found.replicas == replicas && !found.marked;
        until_object(&fixture, path, is_up).await;
    }
    let down = on_overrides
        .kelpie
        .metric(r#"kelpie_prober_scale_operations_total{direction="down"}"#);
    assert!((down.await.unwrap() - 1.0).abs() < 0.5);
}

/// Changes an unrelated annotation of the KCM Deployment continuously until the task is dropped.
fn annotate_continuously(shoot: &ShootCluster) -> tokio::task::JoinSet<()> {
    let shoot = shoot.clone();
    let mut writer = tokio::task::JoinSet::new();
    writer.spawn(async move {
        for number in 0.. {
            let value = json!(number.to_string());
            // A rejected write does not matter.
            let _ = shoot.annotate(KCM, "kelpie.test/beat", &value).await;
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    });
    writer
}

async fn until_ready(fixture: &Fixture, shoot: &ShootCluster, name: &str) {
    let path = format!("/apis/apps/v1/namespaces/{}/deployments/{name}", shoot.name);
    let ready = poll::until("ready pods", TIMEOUT, async || {
        let object = rest::get(&fixture.seed.client, &path).await?;
        Ok(object["status"]["readyReplicas"]
            .as_u64()
            .filter(|ready| *ready > 0))
    });
    ready.await.unwrap();
}

async fn until_replicas(shoot: &ShootCluster, name: &str, replicas: u64) {
    let what = format!("{name} of {} at {replicas}", shoot.name);
    let done = poll::until(&what, TIMEOUT, async || {
        let now = shoot.target(name).await?.replicas;
        Ok((now == replicas).then_some(()))
    });
    done.await.unwrap();
}

async fn until_object(
    fixture: &Fixture,
    path: &str,
    predicate: impl Fn(&TargetView) -> bool,
) -> TargetView {
    let found = poll::until(path, TIMEOUT, async || {
        let object: Value = rest::get(&fixture.seed.client, path).await?;
        Ok(Some(TargetView::from_object(&object)?).filter(|found| predicate(found)))
    });
    found.await.unwrap()
}

/// Installs a custom resource with a scale subresource.
async fn install_custom_resource(fixture: &Fixture) {
    let integer = json!({ "type": "integer" });
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "engines.kelpie.test" },
        "spec": {
            "group": "kelpie.test",
            "scope": "Namespaced",
            "names": { "kind": "Engine", "plural": "engines" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": { "type": "object", "properties": { "replicas": integer } },
                        "status": open,
                    },
                } },
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                    },
                },
            }],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let client = &fixture.seed.client;
    rest::create(client, path, &definition).await.unwrap();
    let served = poll::until("the custom resource", TIMEOUT, async || {
        // The API server answers 404 at first, and then rejects requests until it is ready to serve
        // the resource.
        Ok(rest::get(client, "/apis/kelpie.test/v1/engines").await.ok())
    });
    served.await.unwrap();
}
