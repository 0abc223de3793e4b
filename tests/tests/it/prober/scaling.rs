//! What a fence does to each kind of target, and what its restore does.

use std::time::Duration;

use kelpie_e2e::landscape::{
    Controller, Entry, Kubelets, MARKER, Pace, Pods, ProberConfig, RECORD, Shoot, Target, rest,
};
use kelpie_e2e::poll;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::stage::*;

const IGNORE: &str = "dependency-watchdog.gardener.cloud/ignore-scaling";

/// One partition, a shoot for each row, the levels that Gardener ships.
#[tokio::test]
async fn every_target_goes_down_and_up_by_what_is_found_on_it() {
    let stage = Stage::start().await;
    // 2 s more between trip and deadline: on a loaded machine, too, the plain one keeps its order.
    let pace = Pace {
        grace: Duration::from_secs(20),
        ..Pace::ROOMY
    };
    let kubelets = Kubelets::start(&stage.seed.client, 3, pace).await.unwrap();
    let make = async |name: &str| stage.shoot(name, &kubelets).await;
    let plain = make("plain").await;
    let optional_missing = make("optional-missing").await;
    let required_missing = make("required-missing").await;
    let slow = make("slow").await;
    let ignored = make("ignored").await;
    let human = make("by-a-person").await;
    let corrupt = make("corrupt").await;
    let busy = make("busy").await;
    let leftover = make("leftover").await;
    optional_missing.delete(CA).await.unwrap();
    required_missing.delete(MCM).await.unwrap();
    until_ready(&stage, &slow, MCM).await;
    slow.annotate(MCM, Pods::STUCK, &json!("")).await.unwrap();
    ignored.annotate(KCM, IGNORE, &json!("true")).await.unwrap();
    human.scale(MCM, 0).await.unwrap();
    leftover.annotate(KCM, MARKER, &json!("")).await.unwrap();

    let prober = stage.prober(&ProberConfig::shipped(pace), &[]).await;
    for shoot in [&plain, &busy, &leftover, &required_missing] {
        until_well(&prober, shoot).await;
    }
    // A leftover marker is dropped on the way up, and nothing else happens.
    leftover.until_restored(RESTORED, PATIENCE).await.unwrap();

    let writing = keep_writing(&busy);
    kubelets.cut(1.0).await;
    let cut = Instant::now();
    let deadline = kubelets.deadline(pace.grace).await.unwrap();

    for shoot in [&plain, &corrupt, &busy, &leftover, &slow] {
        shoot.until_counts(FENCED, PATIENCE).await.unwrap();
    }
    for shoot in [&required_missing, &slow, &plain, &busy] {
        let down = at_zero(&stage, shoot, KCM, cut).await;
        assert!(
            down.at < deadline,
            "{}: a slow or missing lower level must not keep it running, {:?} late",
            shoot.name,
            down.at - deadline
        );
    }
    let rushed = |shoot: &Shoot| prober.lines(&["the deadline is near", &shoot.name]).len();
    assert!(rushed(&slow) > 0 && rushed(&required_missing) > 0);
    assert_eq!(rushed(&plain), 0, "its order was kept");

    at_zero(&stage, &optional_missing, KCM, cut).await;
    at_zero(&stage, &optional_missing, MCM, cut).await;
    at_zero(&stage, &ignored, MCM, cut).await;
    let left_alone = ignored.controller(KCM).await.unwrap();
    assert_eq!((left_alone.replicas, left_alone.marked), (3, false));
    at_zero(&stage, &human, KCM, cut).await;
    let by_a_person = human.controller(MCM).await.unwrap();
    assert_eq!((by_a_person.marked, by_a_person.recorded), (false, None));

    corrupt
        .annotate(KCM, RECORD, &json!("three"))
        .await
        .unwrap();
    kubelets.heal().await;
    for shoot in [&plain, &slow, &busy, &leftover] {
        shoot.until_restored(RESTORED, PATIENCE).await.unwrap();
    }
    drop(writing);
    corrupt.until_restored([1, 1, 2], PATIENCE).await.unwrap();
    prober
        .until_line(&["record", "corrupt", KCM], PATIENCE)
        .await
        .unwrap();
    human.until_restored([3, 0, 2], PATIENCE).await.unwrap();
    ignored.until_restored(RESTORED, PATIENCE).await.unwrap();
    until_replicas(&optional_missing, KCM, 3).await;
    until_replicas(&optional_missing, MCM, 1).await;
}

/// One partition, a prober with its own configuration for each row.
#[tokio::test]
async fn targets_are_scaled_as_the_configuration_says() {
    let stage = Stage::start().await;
    let client = &stage.seed.client;
    let pace = Pace::QUICK;
    let kubelets = Kubelets::start(client, 3, pace).await.unwrap();
    add_custom_kind(&stage).await;
    let make = async |name: &str, targets: Vec<Target>| {
        let shoot = stage.shoot(name, &kubelets).await;
        let config = ProberConfig::of(pace, targets).only(name);
        let prober = stage.prober(&config, &[]).await;
        (shoot, prober)
    };
    let overrides = Target::deployment(KCM, 0, 0)
        .down(|rule| rule.replicas = Some(1))
        .up(|rule| rule.replicas = Some(4));
    let (overrides, on_overrides) = make("overrides", vec![overrides]).await;
    let late = Target::deployment(KCM, 0, 0).down(|rule| rule.delay = Some("3s"));
    let (delayed, on_delayed) = make("delayed", vec![late]).await;
    let kinds = vec![
        Target::new("apps/v1", "StatefulSet", "etcd", 0, 0),
        Target::new("kelpie.test/v1", "Engine", "engine", 0, 0),
    ];
    let (kinds, on_kinds) = make("kinds", kinds).await;
    kinds.add("statefulsets", "etcd", 3).await.unwrap();
    let engines = "/apis/kelpie.test/v1/namespaces/kinds/engines";
    let engine = json!({
        "apiVersion": "kelpie.test/v1", "kind": "Engine",
        "metadata": { "name": "engine" }, "spec": { "replicas": 5 },
    });
    rest::create(client, engines, &engine).await.unwrap();
    let unfit = vec![
        Target::new("v1", "ConfigMap", "unfit", 0, 0),
        Target::new("none.test/v1", "Nothing", "absent", 0, 0),
        Target::deployment(KCM, 1, 1),
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
        until_well(prober, shoot).await;
    }

    kubelets.cut(1.0).await;
    let cut = Instant::now();

    until_replicas(&overrides, KCM, 1).await;
    let fence = on_delayed.until_verdict(&delayed.name, "fence", PATIENCE);
    fence.await.unwrap();
    let tripped = Instant::now();
    let down = at_zero(&stage, &delayed, KCM, cut).await;
    // The verdict was seen up to a poll after it was given.
    let waited = down.at.saturating_duration_since(tripped);
    assert!(waited > Duration::from_millis(2_500), "waited {waited:?}");
    for (path, recorded) in [
        ("/apis/apps/v1/namespaces/kinds/statefulsets/etcd", "3"),
        ("/apis/kelpie.test/v1/namespaces/kinds/engines/engine", "5"),
    ] {
        let found = until_object(&stage, path, |found| found.replicas == 0).await;
        assert_eq!(found.recorded.as_deref(), Some(recorded), "{path}");
        assert!(found.marked, "{path}");
    }
    // The deadline beats the failing level, and what fails is named.
    at_zero(&stage, &unfit, KCM, cut).await;
    for words in [
        ["ConfigMap", "no scale subresource"],
        ["Nothing", "knows no kind"],
    ] {
        on_unfit.until_line(&words, PATIENCE).await.unwrap();
    }
    let state = on_unfit.state(&unfit.name).await.unwrap().unwrap();
    assert!(!state["troubles"].as_array().unwrap().is_empty());

    kubelets.heal().await;
    until_replicas(&overrides, KCM, 4).await;
    until_replicas(&delayed, KCM, 3).await;
    for (path, replicas) in [
        ("/apis/apps/v1/namespaces/kinds/statefulsets/etcd", 3),
        ("/apis/kelpie.test/v1/namespaces/kinds/engines/engine", 5),
    ] {
        let is_up = |found: &Controller| found.replicas == replicas && !found.marked;
        until_object(&stage, path, is_up).await;
    }
    let down = on_overrides
        .kelpie
        .metric(r#"kelpie_prober_scale_operations_total{direction="down"}"#);
    assert!((down.await.unwrap() - 1.0).abs() < 0.5);
}

/// What a predecessor left, Kelpie or dependency-watchdog, is found at the start.
#[tokio::test]
async fn a_predecessors_fence_is_found_at_the_start_and_lifted_when_the_nodes_are_well() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let kubelets = Kubelets::start(&stage.seed.client, 3, pace).await.unwrap();
    let fenced = stage.shoot("fenced", &kubelets).await;
    for (name, count) in [(KCM, "3"), (MCM, "1"), (CA, "2")] {
        mark(&fenced, name, Some(count)).await;
        fenced.scale(name, 0).await.unwrap();
    }
    // The process ended between the record and the scale call.
    let half = stage.shoot("half", &kubelets).await;
    mark(&half, KCM, Some("3")).await;
    // Scaled down by its owner: no marker, no business of ours.
    let asleep = stage.shoot("asleep", &kubelets).await;
    asleep.scale(KCM, 0).await.unwrap();
    // dependency-watchdog restores one replica where there is no record.
    let unrecorded = stage.shoot("unrecorded", &kubelets).await;
    mark(&unrecorded, MCM, None).await;
    unrecorded.scale(MCM, 0).await.unwrap();

    let prober = stage.prober(&ProberConfig::shipped(pace), &[]).await;

    fenced.until_restored(RESTORED, PATIENCE).await.unwrap();
    half.until_restored(RESTORED, PATIENCE).await.unwrap();
    unrecorded.until_restored(RESTORED, PATIENCE).await.unwrap();
    until_well(&prober, &asleep).await;
    until_rounds(&prober, 8.0).await;
    assert_eq!(asleep.counts().await.unwrap(), [0, 1, 2]);
}

#[tokio::test]
async fn a_predecessors_fence_stays_while_the_nodes_are_still_cut_off() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let client = &stage.seed.client;
    let kubelets = Kubelets::start_cut(client, 3, pace).await.unwrap();
    let shoot = stage.shoot("fenced", &kubelets).await;
    for (name, count) in [(KCM, "3"), (MCM, "1"), (CA, "2")] {
        mark(&shoot, name, Some(count)).await;
        shoot.scale(name, 0).await.unwrap();
    }
    stage.until_caught_up(&shoot).await;
    let start = Instant::now();

    let prober = stage.prober(&ProberConfig::shipped(pace), &[]).await;
    prober
        .until_verdict(&shoot.name, "fence", PATIENCE)
        .await
        .unwrap();
    until_rounds(&prober, 4.0).await;
    let changes = stage.timeline.since(&shoot.name, start);
    assert!(changes.is_empty(), "nothing is written: {changes:#?}");

    kubelets.heal().await;
    shoot.until_restored(RESTORED, PATIENCE).await.unwrap();
}

async fn mark(shoot: &Shoot, name: &str, record: Option<&str>) {
    shoot.annotate(name, MARKER, &json!("")).await.unwrap();
    if let Some(count) = record {
        shoot.annotate(name, RECORD, &json!(count)).await.unwrap();
    }
}

/// Somebody who writes the KCM Deployment all the time, without a change that matters.
fn keep_writing(shoot: &Shoot) -> tokio::task::JoinSet<()> {
    let shoot = shoot.clone();
    let mut writing = tokio::task::JoinSet::new();
    writing.spawn(async move {
        for number in 0.. {
            let value = json!(number.to_string());
            // Whether one of them is refused is of no interest.
            let _ = shoot.annotate(KCM, "kelpie.test/beat", &value).await;
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    });
    writing
}

async fn at_zero(stage: &Stage, shoot: &Shoot, name: &str, since: Instant) -> Entry {
    let is_it = |entry: &Entry| entry.name == name && entry.replicas == 0;
    let what = format!("{name} at 0");
    let found = stage
        .timeline
        .until(&what, &shoot.name, since, PATIENCE, is_it);
    found.await.unwrap()
}

async fn until_ready(stage: &Stage, shoot: &Shoot, name: &str) {
    let path = format!("/apis/apps/v1/namespaces/{}/deployments/{name}", shoot.name);
    let ready = poll::until("ready pods", PATIENCE, async || {
        let object = rest::read(&stage.seed.client, &path).await?;
        Ok(object["status"]["readyReplicas"]
            .as_u64()
            .filter(|ready| *ready > 0))
    });
    ready.await.unwrap();
}

async fn until_replicas(shoot: &Shoot, name: &str, replicas: u64) {
    let what = format!("{name} of {} at {replicas}", shoot.name);
    let done = poll::until(&what, PATIENCE, async || {
        let now = shoot.controller(name).await?.replicas;
        Ok((now == replicas).then_some(()))
    });
    done.await.unwrap();
}

async fn until_object(
    stage: &Stage,
    path: &str,
    is_such: impl Fn(&Controller) -> bool,
) -> Controller {
    let found = poll::until(path, PATIENCE, async || {
        let object: Value = rest::read(&stage.seed.client, path).await?;
        Ok(Some(Controller::of(&object)?).filter(|found| is_such(found)))
    });
    found.await.unwrap()
}

/// A kind of our own with a scale subresource.
async fn add_custom_kind(stage: &Stage) {
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
                        "spec": { "type": "object", "properties": { "replicas": { "type": "integer" } } },
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
    let client = &stage.seed.client;
    rest::create(client, path, &definition).await.unwrap();
    let served = poll::until("the custom kind", PATIENCE, async || {
        // Not found at first, then too early.
        Ok(rest::read(client, "/apis/kelpie.test/v1/engines")
            .await
            .ok())
    });
    served.await.unwrap();
}
