//! Two shards with two replicas each, on a real API server.

use std::time::Duration;

use futures_util::future::{join_all, try_join, try_join_all};
use kelpie_e2e::landscape::{ProberConfigFile, ProberProcess, ShootCluster, Timings, rest};
use kelpie_e2e::race::{GuardedClusters, Race, RaceOptions, report};
use kelpie_e2e::{kelpie, poll};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use super::fixture::*;

/// The label by which the tests divide the clusters.
const LABEL: &str = "kelpie.dev/shard";
/// Of a cluster that both shards select.
const BOTH: &str = "both";
const NAMES: [&str; 2] = ["a", "b"];

/// Leaves time between the trip and the deadline on a loaded machine.
const TIMINGS: Timings = Timings {
    grace: Duration::from_secs(30),
    renewal: Duration::from_secs(2),
    reserve: Duration::from_secs(3),
    interval: Duration::from_secs(5),
};

/// If the calls of a fence take longer than this, the machine is too slow to win the race.
const SLOW: Duration = Duration::from_secs(3);

fn shard(name: &str, config: ProberConfigFile) -> ProberConfigFile {
    let values = format!("[{name}, {BOTH}]");
    let selector = format!("{{key: {LABEL}, operator: In, values: {values}}}");
    config.line(&format!("name: {name}")).line(&format!(
        "clusterSelector: {{matchExpressions: [{selector}]}}"
    ))
}

async fn label(client: &kube::Client, cluster: &str, value: Option<&str>) {
    let path = format!("/apis/extensions.gardener.cloud/v1alpha1/clusters/{cluster}");
    let patch = json!({ "metadata": { "labels": { LABEL: value } } });
    rest::merge_patch(client, &path, &patch).await.unwrap();
}

async fn page(replica: &ProberProcess) -> Value {
    let page = replica.kelpie.get("/debug/state").await.unwrap();
    serde_json::from_str(&page.body).unwrap()
}

/// Returns the clusters that a replica probes.
async fn probed(replica: &ProberProcess) -> Vec<String> {
    let page = page(replica).await;
    page["clusters"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect()
}

/// Waits until a replica of the shard leads and owns all clusters that it probes.
async fn until_owning(replicas: &[ProberProcess; 2]) {
    let owning = poll::until("an owner", TIMEOUT, async || {
        for replica in replicas {
            let page = page(replica).await;
            let clusters = page["clusters"].as_object().unwrap();
            let is_owner = |view: &Value| view["shard"].is_null();
            if page["leads"] == true && !clusters.is_empty() && clusters.values().all(is_owner) {
                return Ok(Some(()));
            }
        }
        Ok(None)
    });
    owning.await.unwrap();
}

async fn until_metric(replica: &ProberProcess, name: &str, shard: &str, value: f64) {
    let labels = format!("probe_set=\"{shard}\",shard=\"{shard}\"");
    let series = format!("kelpie_prober_{name}{{{labels}}}");
    let what = format!("{series} {value}");
    let reached = poll::until(&what, TIMEOUT, async || {
        let now = replica.kelpie.metric(&series).await?;
        Ok(((now - value).abs() < 0.5).then_some(()))
    });
    reached.await.unwrap();
}

#[tokio::test]
async fn every_cluster_is_watched_by_one_shard() {
    let fixture = Fixture::start().await;
    let client = &fixture.seed.client;
    let kubelets = fixture.kubelets(3, Timings::ROOMY).await;
    let mut shoots: Vec<ShootCluster> = Vec::new();
    for number in 0..6 {
        let shoot = fixture.shoot(&format!("shoot-{number}"), &kubelets).await;
        label(client, &shoot.name, Some(NAMES[number % 2])).await;
        shoots.push(shoot);
    }
    let config = |name| shard(name, ProberConfigFile::gardener_targets(Timings::ROOMY));
    let start = async |name| {
        let config = config(name);
        let replica = || fixture.prober(&config, &ELECTION);
        [replica().await, replica().await]
    };
    let (a, b) = (start("a").await, start("b").await);
    until_owning(&a).await;
    until_owning(&b).await;
    for replica in &a {
        assert_eq!(probed(replica).await, ["shoot-0", "shoot-2", "shoot-4"]);
    }
    for replica in &b {
        assert_eq!(probed(replica).await, ["shoot-1", "shoot-3", "shoot-5"]);
    }
    let all = a
        .iter()
        .map(|it| (it, "a"))
        .chain(b.iter().map(|it| (it, "b")));
    let all: Vec<(&ProberProcess, &str)> = all.collect();
    for (replica, name) in &all {
        until_metric(replica, "live_shards", name, 2.0).await;
        until_metric(replica, "unwatched_clusters", name, 0.0).await;
        until_metric(replica, "contested_clusters", name, 0.0).await;
    }

    // Labels that match no shard, or both, are seen by every replica.
    label(client, "shoot-0", None).await;
    label(client, "shoot-1", Some(BOTH)).await;
    for (replica, name) in &all {
        until_metric(replica, "unwatched_clusters", name, 1.0).await;
        until_metric(replica, "contested_clusters", name, 1.0).await;
    }
    let report = check(&fixture, &config("a")).await;
    assert!(report.contains("none of which watches shoot-0"), "{report}");
    let explained = ["explain", "shoot-3", "--from", a[0].kelpie.url()];
    let explained = kelpie::run(&explained).await.unwrap();
    let text = String::from_utf8(explained.stderr).unwrap();
    assert!(text.contains("watched by shard b"), "{text}");

    // A moved cluster is probed by its new shard alone, once that judges it.
    label(client, "shoot-1", Some("b")).await;
    label(client, "shoot-0", Some("b")).await;
    for replica in &b {
        let moved = poll::until("the move", TIMEOUT, async || {
            Ok(probed(replica)
                .await
                .contains(&"shoot-0".to_owned())
                .then_some(()))
        });
        moved.await.unwrap();
    }
    for replica in &a {
        replica.until_unprobed("shoot-0", TIMEOUT).await.unwrap();
    }
    until_owning(&b).await;

    let ended = Instant::now();
    for replica in b {
        replica.kelpie.kill();
    }
    for replica in &a {
        until_metric(replica, "unwatched_clusters", "a", 4.0).await;
    }
    println!("seen {:?} after the end of a shard", ended.elapsed());
    assert!(ended.elapsed() < Duration::from_mins(1));
    for shoot in &shoots {
        assert_untouched(shoot).await;
    }
}

/// Runs `kelpie check prober` with this configuration.
async fn check(fixture: &Fixture, config: &ProberConfigFile) -> String {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("config.yaml");
    std::fs::write(&file, config.yaml()).unwrap();
    let admin = fixture.seed.control_plane.api.admin();
    let kubeconfig = fixture.seed.kubeconfig_file(&admin).unwrap();
    let arguments = [
        "check",
        "prober",
        "--enable-leader-election",
        &format!("--config-file={}", file.display()),
        &format!("--kubeconfig={}", kubeconfig.display()),
    ];
    let output = kelpie::run(&arguments).await.unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// One cluster moves while its leases expire, the other one while it is fenced.
#[tokio::test]
async fn clusters_move_in_mid_partition() {
    let options = RaceOptions {
        timings: TIMINGS,
        node_counts: vec![3],
        clusters: 2,
        pod_stop: Duration::from_secs(1),
        settle: TIMINGS.renewal * 4,
        proxied: false,
        guarded: GuardedClusters::NotAlone,
        rng_seed: 1,
    };
    let race = Race::start(&options).await.unwrap();
    let clusters = ["shoot--race--0", "shoot--race--1"];
    for cluster in clusters {
        label(&race.seed.client, cluster, Some("a")).await;
    }
    let kubeconfig = race.kubeconfig().unwrap();
    let start = async |name| {
        let config = shard(name, ProberConfigFile::gardener_targets(TIMINGS));
        let replicas = [0, 1].map(|_| ProberProcess::start(&kubeconfig, &config, &ELECTION));
        let replicas: Vec<_> = join_all(replicas)
            .await
            .into_iter()
            .map(Result::unwrap)
            .collect();
        <[ProberProcess; 2]>::try_from(replicas).ok().unwrap()
    };
    let (a, b) = (start("a").await, start("b").await);
    until_owning(&a).await;
    for replica in &b {
        until_metric(replica, "live_shards", "b", 2.0).await;
    }

    let moves = async {
        let silent = |state: &Value| {
            let leases = &state["decision"]["reasons"]["leases"];
            leases["silent"].as_u64() > Some(0)
        };
        let moves = [(clusters[0], "silent nodes"), (clusters[1], "fence")];
        let moves = moves.map(async |(cluster, what)| {
            let is_due = |state: &Value| match what {
                "fence" => state["fence"] == "full",
                _ => silent(state),
            };
            a[0].until_state(what, cluster, TIMEOUT * 2, is_due).await?;
            label(&race.seed.client, cluster, Some("b")).await;
            println!("moved {cluster}: {what}");
            anyhow::Ok(())
        });
        try_join_all(moves).await
    };
    let trials = race.run(2, |trial| println!("{}", trial.line()));
    let (trials, _) = try_join(trials, moves).await.unwrap();

    println!("{}", report::table(&trials));
    assert_eq!(trials.len(), 2);
    for trial in &trials {
        let is_winnable = trial.baseline < SLOW;
        let is_complete = trial.fenced_at.is_some() && trial.restore.is_some();
        assert!(is_complete, "{trial:#?}\n{}\n{}", a[0].log(), b[0].log());
        assert!(!is_winnable || trial.unknown_count() == 0, "{trial:#?}");
    }
    until_owning(&b).await;
    for replica in &b {
        assert_eq!(probed(replica).await, clusters);
    }
    for replica in &a {
        for cluster in clusters {
            replica.until_unprobed(cluster, TIMEOUT).await.unwrap();
        }
    }
    // The new owner alone has restored.
    let restored = |replicas: &[ProberProcess; 2]| {
        let lines = replicas.iter().map(|it| it.lines(&["scaled up"]).len());
        lines.sum::<usize>()
    };
    assert_eq!((restored(&a), restored(&b)), (0, 6));
}
