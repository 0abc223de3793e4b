//! Handover between dependency-watchdog and Kelpie, in both directions and in the middle of a
//! fence.

use kelpie_e2e::landscape::{
    AnyProber, DwdWriter, ProberConfigFile, ProberProcess, ShootCluster, Timings, gardener_args,
    grant_gardener_prober_role, rest,
};
use kelpie_e2e::poll;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::fixture::*;

const LEADER_ELECTION: [&str; 1] = ["--enable-leader-election=true"];
/// Targets in the order in which dependency-watchdog scales them down.
const DOWN_ORDER: [&str; 3] = [MCM, CA, KCM];

#[tokio::test]
async fn kelpie_takes_over_dwd_fence() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let client = &fixture.seed.client;
    let kubelets = fixture.partitioned_kubelets(3, timings).await;
    let dwd = DwdWriter::new(client);
    dwd.acquire_lease().await.unwrap();
    let fenced = fixture.shoot("fenced", &kubelets).await;
    for name in DOWN_ORDER {
        dwd.fence(&fenced.name, name).await.unwrap();
    }
    // dependency-watchdog ended between the record and the scale call of its second level.
    let recorded = fixture.shoot("recorded", &kubelets).await;
    for name in [MCM, CA] {
        dwd.fence(&recorded.name, name).await.unwrap();
    }
    dwd.record(&recorded.name, KCM).await.unwrap();
    // dependency-watchdog ended during the restore, before it removed the first level's marker.
    let half_restored = fixture.shoot("half-restored", &kubelets).await;
    for name in DOWN_ORDER {
        dwd.fence(&half_restored.name, name).await.unwrap();
    }
    dwd.scale(&half_restored.name, KCM, 3).await.unwrap();
    let all = [&fenced, &recorded, &half_restored];
    for shoot in all {
        fixture.until_timeline_caught_up(shoot).await;
    }
    let takeover = Instant::now();

    let kelpie = start_kelpie(&fixture, timings).await;
    for shoot in all {
        let verdict = kelpie.until_verdict(&shoot.name, "fence", TIMEOUT);
        verdict.await.unwrap();
        let changes = fixture.timeline.since(&shoot.name, takeover);
        assert!(changes.is_empty(), "both of them act: {changes:#?}");
    }
    assert!(!leads(&kelpie.kelpie).await);
    dwd.release_lease().await.unwrap();
    until_leading(&kelpie.kelpie).await;
    // The nodes are still cut off, so Kelpie completes the fences.
    for shoot in all {
        shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
        assert_targets(shoot, &as_fenced()).await;
    }
    let changes = fixture.timeline.since(&fenced.name, takeover);
    assert!(changes.is_empty(), "nothing was left to do: {changes:#?}");

    kubelets.heal().await;
    for shoot in all {
        shoot.until_restored(RESTORED, TIMEOUT).await.unwrap();
        assert_targets(shoot, &as_restored()).await;
    }
}

#[tokio::test]
async fn dwd_restores_kelpie_fence() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let client = &fixture.seed.client;
    let kubelets = fixture.kubelets(3, timings).await;
    let shoot = fixture.shoot("shoot", &kubelets).await;
    let dwd_only = fixture.shoot("dwd-only", &kubelets).await;
    let kelpie = start_kelpie(&fixture, timings).await;
    until_leading(&kelpie.kelpie).await;
    until_healthy(&kelpie, &shoot).await;
    // Kelpie does not probe the cluster that only dependency-watchdog fences.
    dwd_only.delete_cluster().await.unwrap();
    kelpie
        .until_unprobed(&dwd_only.name, TIMEOUT)
        .await
        .unwrap();

    kubelets.partition(1.0).await;
    shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
    let exit = kelpie.kelpie.stop().await.unwrap();
    assert_eq!(exit.code, Some(0));
    let dwd = DwdWriter::new(client);
    for name in DOWN_ORDER {
        dwd.fence(&dwd_only.name, name).await.unwrap();
    }
    assert_targets(&shoot, &as_fenced()).await;
    assert_same_targets(&shoot, &dwd_only).await;
    // The Lease is released, so that dependency-watchdog need not wait for it to expire.
    let lease = rest::get(client, LEADER_LEASE).await.unwrap();
    let holder = lease["spec"]["holderIdentity"].as_str();
    assert_eq!(holder.unwrap_or_default(), "", "{lease:#}");

    for name in [KCM, MCM, CA] {
        dwd.restore(&shoot.name, name).await.unwrap();
        dwd.restore(&dwd_only.name, name).await.unwrap();
    }
    shoot.until_restored(RESTORED, TIMEOUT).await.unwrap();
    assert_targets(&shoot, &as_restored()).await;
    assert_same_targets(&shoot, &dwd_only).await;
}

#[tokio::test]
#[ignore = "needs a build of dependency-watchdog, whose path DEPENDENCY_WATCHDOG names"]
async fn real_dwd_and_kelpie_restore_each_other() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.kubelets(3, timings).await;
    let shoot = fixture.shoot("shoot", &kubelets).await;

    let dwd = start_real_dwd(&fixture, timings).await;
    kubelets.partition(1.0).await;
    shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
    until_targets(&shoot, &as_fenced()).await;
    drop(dwd);
    let kelpie = start_kelpie(&fixture, timings).await;
    kubelets.heal().await;
    shoot.until_restored(RESTORED, TIMEOUT).await.unwrap();
    until_targets(&shoot, &as_restored()).await;

    kubelets.partition(1.0).await;
    shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
    until_targets(&shoot, &as_fenced()).await;
    assert_eq!(kelpie.kelpie.stop().await.unwrap().code, Some(0));
    let _dwd = start_real_dwd(&fixture, timings).await;
    kubelets.heal().await;
    shoot.until_restored(RESTORED, TIMEOUT).await.unwrap();
    until_targets(&shoot, &as_restored()).await;
}

async fn start_real_dwd(fixture: &Fixture, timings: Timings) -> AnyProber {
    let program = std::env::var("DEPENDENCY_WATCHDOG").unwrap();
    let command = [vec![program], gardener_args()].concat();
    let admin = fixture.seed.control_plane.api.admin();
    let kubeconfig = fixture.seed.kubeconfig_file(&admin).unwrap();
    let config = ProberConfigFile::gardener_targets(timings);
    let started = AnyProber::start(&command, &config, &kubeconfig, None);
    started.await.unwrap()
}

async fn until_targets(shoot: &ShootCluster, expected: &ExpectedTargets) {
    let wanted: Vec<_> = expected.iter().map(|(_, _, text)| text.clone()).collect();
    let matching = poll::until("the annotations", TIMEOUT, async || {
        let mut found = Vec::new();
        for (name, ..) in expected {
            let object = shoot.deployment(name).await?;
            found.push(object["metadata"]["annotations"].to_string());
        }
        Ok((found == wanted).then_some(()))
    });
    matching.await.unwrap();
    assert_targets(shoot, expected).await;
}

/// Starts Kelpie in the place of dependency-watchdog, with its name and its rights.
async fn start_kelpie(fixture: &Fixture, timings: Timings) -> ProberProcess {
    let client = &fixture.seed.client;
    grant_gardener_prober_role(client, "dwd").await.unwrap();
    let dwd = fixture.seed.control_plane.api.user("dwd", &[]).unwrap();
    let kubeconfig = fixture.seed.kubeconfig_file(&dwd).unwrap();
    let config = ProberConfigFile::gardener_targets(timings).yaml();
    let prober = ProberProcess::start_as_dwd(&kubeconfig, &config, &LEADER_ELECTION);
    prober.await.unwrap()
}

/// Name, replicas and exact annotations of each target.
type ExpectedTargets = [(&'static str, u64, String); 3];

fn as_fenced() -> ExpectedTargets {
    expected_targets(|count| {
        let marker = r#""dependency-watchdog.gardener.cloud/meltdown-protection-active":"""#;
        let record = format!(r#""dependency-watchdog.gardener.cloud/replicas":"{count}""#);
        let annotations = format!("{{{marker},{record}}}");
        (0, annotations)
    })
}

fn as_restored() -> ExpectedTargets {
    expected_targets(|count| {
        let annotations = format!(r#"{{"dependency-watchdog.gardener.cloud/replicas":"{count}"}}"#);
        (count, annotations)
    })
}

fn expected_targets(of: impl Fn(u64) -> (u64, String)) -> ExpectedTargets {
    [(KCM, 3), (MCM, 1), (CA, 2)].map(|(name, count)| {
        let (replicas, annotations) = of(count);
        (name, replicas, annotations)
    })
}

async fn assert_targets(shoot: &ShootCluster, expected: &ExpectedTargets) {
    for (name, replicas, annotations) in expected {
        let object = shoot.deployment(name).await.unwrap();
        let what = format!("{name} of {}", shoot.name);
        assert_eq!(object["spec"]["replicas"], *replicas, "{what}");
        let found = &object["metadata"]["annotations"];
        assert_eq!(found.to_string(), *annotations, "{what}");
    }
}

/// Asserts that the targets of both shoots are equal, apart from namespace and timestamps.
async fn assert_same_targets(one: &ShootCluster, other: &ShootCluster) {
    for name in DOWN_ORDER {
        let comparable = async |shoot: &ShootCluster| -> Value {
            let object = shoot.deployment(name).await.unwrap();
            let metadata = &object["metadata"];
            json!({
                "annotations": metadata["annotations"],
                "labels": metadata["labels"],
                "finalizers": metadata["finalizers"],
                "spec": object["spec"],
            })
        };
        assert_eq!(comparable(one).await, comparable(other).await, "{name}");
    }
}
