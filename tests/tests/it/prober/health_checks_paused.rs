//! MachineHealthChecks are paused while the nodes of their cluster are cut off: the definitions of
//! Cluster API on a real API server.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use kelpie_core::Time;
use kelpie_e2e::landscape::{ProberConfigFile, TargetConfig, Timings, rest};
use kelpie_e2e::poll;
use kelpie_sim::scenario::{Fault, Incident, NodeSelection, Scenario};
use kelpie_sim::{Landscape, LandscapePlan, SimClock};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::sleep;
use xtask::cache;

use super::fixture::{Fixture, TIMEOUT};

const GROUP: &str = "cluster.x-k8s.io";
const PAUSED: &str = "cluster.x-k8s.io/paused";
const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";
const NAMESPACE: &str = "fleet";
const KINDS: [&str; 3] = ["clusters", "machines", "machinehealthchecks"];
/// The MachineHealthChecks of each cluster. The last one is paused by its owner.
const CHECKS: [&str; 3] = ["workers", "gpu", "trial"];

/// Installs the definitions of Cluster API. Only one version is served if the other one is not.
async fn install(fixture: &Fixture, unserved: Option<&str>) {
    let names = KINDS.map(|kind| format!("{kind}.{GROUP}"));
    for name in &names {
        let text = fs::read_to_string(cache::definition(name).unwrap()).unwrap();
        let mut definition: Value = serde_saphyr::from_str(&text).unwrap();
        for version in definition["spec"]["versions"].as_array_mut().unwrap() {
            if version["name"].as_str() == unserved {
                version["served"] = false.into();
            }
        }
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let client = &fixture.seed.client;
        rest::create(client, path, &definition).await.unwrap();
    }
    fixture.seed.create_namespace(NAMESPACE).await.unwrap();
}

fn path(version: &str, kind: &str) -> String {
    format!("/apis/{GROUP}/{version}/namespaces/{NAMESPACE}/{kind}")
}

/// Creates an object as soon as its kind is served.
async fn create(client: &Client, path: &str, object: &Value) {
    let mut last = None;
    let created = poll::until("the kind to be served", TIMEOUT, async || {
        let created = rest::create(client, path, object).await;
        last = created.as_ref().err().map(|error| format!("{error:#}"));
        Ok(created.ok())
    });
    let created = created.await;
    assert!(created.is_ok(), "{path}: {last:?}");
}

/// Creates a cluster with its kubeconfig and its MachineHealthChecks.
async fn create_cluster(client: &Client, version: &str, name: &str, kubeconfig: &str) {
    let clusters = path(version, "clusters");
    let cluster = json!({
        "apiVersion": format!("{GROUP}/{version}"), "kind": "Cluster",
        "metadata": { "name": name },
        "spec": { "controlPlaneEndpoint": { "host": name, "port": 6443 } },
    });
    create(client, &clusters, &cluster).await;
    let conditions = json!([{
        "type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized",
        "message": "initialized", "lastTransitionTime": "2026-11-18T00:00:00Z",
    }]);
    let status = json!({ "status": { "conditions": conditions } });
    let status_path = format!("{clusters}/{name}/status");
    rest::merge_patch(client, &status_path, &status)
        .await
        .unwrap();
    let secret = json!({
        "metadata": { "name": format!("{name}-kubeconfig"), "labels": { CLUSTER_LABEL: name } },
        "stringData": { "value": kubeconfig },
    });
    create(
        client,
        &format!("/api/v1/namespaces/{NAMESPACE}/secrets"),
        &secret,
    )
    .await;
    for check in CHECKS {
        let mut object = json!({
            "apiVersion": format!("{GROUP}/{version}"), "kind": "MachineHealthCheck",
            "metadata": { "name": format!("{name}-{check}") },
            "spec": { "clusterName": name, "selector": { "matchLabels": { "pool": check } } },
        });
        if version == "v1beta1" {
            let unknown = json!({ "type": "Ready", "status": "Unknown", "timeout": "300s" });
            object["spec"]["unhealthyConditions"] = json!([unknown]);
        }
        if check == "trial" {
            object["metadata"]["annotations"] = json!({ PAUSED: "true", "owner": "ops" });
        }
        create(client, &path(version, "machinehealthchecks"), &object).await;
    }
}

/// What people and other controllers see of each MachineHealthCheck, without its versions.
async fn checks(client: &Client, version: &str) -> BTreeMap<String, Value> {
    let list = rest::get(client, &path(version, "machinehealthchecks"))
        .await
        .unwrap();
    let items = list["items"].as_array().unwrap().iter();
    let content = |item: &Value| {
        let metadata = &item["metadata"];
        let name = metadata["name"].as_str().unwrap().to_owned();
        let annotations = metadata["annotations"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        let content = json!({
            "annotations": annotations,
            "labels": metadata["labels"], "spec": item["spec"],
        });
        (name, content)
    };
    items.map(content).collect()
}

/// Returns the pause of a MachineHealthCheck, by whose it is.
fn owner_of_pause(check: &Value) -> &'static str {
    match check["annotations"][PAUSED].as_str() {
        None => "none",
        Some(pause) if pause.starts_with("kelpie/silent-nodes/20") => "ours",
        Some(_) => "other",
    }
}

/// Waits until all MachineHealthChecks without a pause of others are paused, or not.
async fn until_paused(client: &Client, version: &str, are_paused: bool, limit: Duration) {
    let expected = if are_paused { "ours" } else { "none" };
    let what = format!("pauses: {expected}");
    let paused = poll::until(&what, limit, async || {
        let checks = checks(client, version).await;
        let is_expected = |(name, check): (&String, &Value)| {
            let expected = if name.ends_with("-trial") {
                "other"
            } else {
                expected
            };
            owner_of_pause(check) == expected
        };
        Ok(checks.iter().all(is_expected).then_some(()))
    });
    paused.await.unwrap();
}

/// Pauses are lifted at once.
fn quick_config() -> ProberConfigFile {
    ProberConfigFile::new(Timings::QUICK, vec![TargetConfig::health_checks()])
        .line("source: {clusterAPI: {}}")
}

#[tokio::test]
async fn partition_pauses_and_return_restores_exactly() {
    for (version, unserved) in [("v1beta2", None), ("v1beta1", Some("v1beta2"))] {
        let fixture = Fixture::start().await;
        let client = &fixture.seed.client;
        install(&fixture, unserved).await;
        let kubelets = fixture.kubelets(3, Timings::QUICK).await;
        for name in ["one", "two"] {
            create_cluster(client, version, name, &fixture.kubeconfig).await;
        }
        let before = checks(client, version).await;
        let prober = fixture.prober(&quick_config(), &[]).await;
        let decided = prober.until_state("a verdict", "fleet/two", TIMEOUT, |state| {
            state["decision"]["reasons"]["rule"]["name"] == "leasesRenewed"
        });
        decided.await.unwrap();
        assert_eq!(checks(client, version).await, before, "{version}");

        kubelets.partition(1.0).await;
        until_paused(client, version, true, TIMEOUT).await;
        let paused = checks(client, version).await;
        for name in ["one-trial", "two-trial"] {
            assert_eq!(paused[name], before[name], "{version}");
        }

        kubelets.heal().await;
        until_paused(client, version, false, TIMEOUT).await;
        assert_eq!(checks(client, version).await, before, "{version}");
    }
}

#[tokio::test]
async fn killed_prober_is_followed_by_an_exact_restore() {
    let fixture = Fixture::start().await;
    let (client, version) = (&fixture.seed.client, "v1beta2");
    install(&fixture, None).await;
    let kubelets = fixture.kubelets(3, Timings::QUICK).await;
    create_cluster(client, version, "one", &fixture.kubeconfig).await;
    let before = checks(client, version).await;
    let prober = fixture.prober(&quick_config(), &[]).await;
    kubelets.partition(1.0).await;
    until_paused(client, version, true, TIMEOUT).await;
    // Killed by SIGKILL.
    drop(prober);
    kubelets.heal().await;
    let _successor = fixture.prober(&quick_config(), &[]).await;
    until_paused(client, version, false, TIMEOUT).await;
    assert_eq!(checks(client, version).await, before);
}

/// Returns the kubeconfig of one server, from one with a context for each.
fn kubeconfig_of(all: &str, server: &str) -> String {
    let mut kubeconfig: Value = serde_json::from_str(all).unwrap();
    for field in ["contexts", "clusters"] {
        let entries = kubeconfig[field].as_array_mut().unwrap();
        entries.retain(|entry| entry["name"] == server);
    }
    kubeconfig["current-context"] = server.into();
    kubeconfig.to_string()
}

/// The clusters are simulated, with their kubelets and kube-controller-managers, in real time.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: runs with real timings"]
async fn twenty_clusters_outlive_a_partition() {
    const CLUSTERS: usize = 20;
    let fixture = Fixture::start().await;
    let (client, version) = (&fixture.seed.client, "v1beta2");
    install(&fixture, None).await;
    let plan = LandscapePlan::with_size(CLUSTERS, 5);
    let now = kelpie_e2e::landscape::wall_clock_now();
    let clock = SimClock::starting_at(Time::from_micros(now.as_microsecond()));
    let landscape = Landscape::in_process(&plan, &clock).unwrap();
    let listeners = landscape.listen().await.unwrap();
    let driven = landscape.clone();
    let driver = tokio::spawn(async move { driven.run().await });
    for number in 0..CLUSTERS {
        let name = plan.cluster_name(number);
        let kubeconfig = kubeconfig_of(&listeners.kubeconfig, &name);
        create_cluster(client, version, &name, &kubeconfig).await;
    }
    let before = checks(client, version).await;
    let config = ProberConfigFile::new(Timings::REAL, vec![TargetConfig::health_checks()])
        .line("source: {clusterAPI: {}}")
        .line("guard: {}");
    let prober = fixture.prober(&config, &[]).await;
    for number in 0..CLUSTERS {
        let id = format!("{NAMESPACE}/{}", plan.cluster_name(number));
        let armed = prober.until_state("an armed guard", &id, TIMEOUT, |state| {
            state["guard"]["state"] == "armed"
                && state["decision"]["reasons"]["rule"]["name"] == "leasesRenewed"
        });
        armed.await.unwrap();
    }
    let partition = Fault::Partition(NodeSelection::All);
    landscape.play(&Scenario {
        incidents: vec![Incident::new(
            Duration::ZERO,
            Some(Duration::from_secs(80)),
            partition,
        )],
        ..Scenario::default()
    });
    until_paused(client, version, true, Duration::from_mins(1)).await;
    sleep(Duration::from_secs(45)).await;
    until_paused(client, version, false, Duration::from_mins(2)).await;
    assert_eq!(checks(client, version).await, before);
    let damage = landscape.damage();
    assert_eq!((damage.nodes_unknown, damage.machines_replaced), (0, 0));
    driver.abort();
}
