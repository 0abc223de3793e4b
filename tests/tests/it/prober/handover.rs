//! From dependency-watchdog to Kelpie and back, in the middle of a fence.

use kelpie_e2e::landscape::{
    Contender, Kubelets, Pace, Predecessor, Prober, ProberConfig, Shoot, gardeners_words,
    grant_gardeners_rights, rest,
};
use kelpie_e2e::poll;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::election::{leads, until_leading};
use super::stage::*;

const ELECTED: [&str; 1] = ["--enable-leader-election=true"];
const DOWN: [&str; 3] = [MCM, CA, KCM];

#[tokio::test]
async fn what_dependency_watchdog_has_fenced_is_taken_over_and_restored_exactly() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let client = &stage.seed.client;
    let kubelets = Kubelets::start_cut(client, 3, pace).await.unwrap();
    let dwd = Predecessor::new(client);
    dwd.lead().await.unwrap();
    let fenced = stage.shoot("fenced", &kubelets).await;
    for name in DOWN {
        dwd.fence(&fenced.name, name).await.unwrap();
    }
    // It ended between the record and the scale call of its second level.
    let recorded = stage.shoot("recorded", &kubelets).await;
    for name in [MCM, CA] {
        dwd.fence(&recorded.name, name).await.unwrap();
    }
    dwd.record(&recorded.name, KCM).await.unwrap();
    // It ended on the way up, before the marker of the first level was gone.
    let rising = stage.shoot("rising", &kubelets).await;
    for name in DOWN {
        dwd.fence(&rising.name, name).await.unwrap();
    }
    dwd.scale(&rising.name, KCM, 3).await.unwrap();
    let all = [&fenced, &recorded, &rising];
    for shoot in all {
        stage.until_caught_up(shoot).await;
    }
    let swap = Instant::now();

    let kelpie = kelpie(&stage, pace).await;
    for shoot in all {
        let verdict = kelpie.until_verdict(&shoot.name, "fence", PATIENCE);
        verdict.await.unwrap();
        let changes = stage.timeline.since(&shoot.name, swap);
        assert!(changes.is_empty(), "two of them act: {changes:#?}");
    }
    assert!(!leads(&kelpie).await);
    dwd.resign().await.unwrap();
    until_leading(&kelpie).await;
    // Their nodes are still cut off: what was begun is ended.
    for shoot in all {
        shoot.until_counts(FENCED, PATIENCE).await.unwrap();
        assert_each_has(shoot, &as_fenced()).await;
    }
    let changes = stage.timeline.since(&fenced.name, swap);
    assert!(changes.is_empty(), "nothing was left to do: {changes:#?}");

    kubelets.heal().await;
    for shoot in all {
        shoot.until_restored(RESTORED, PATIENCE).await.unwrap();
        assert_each_has(shoot, &as_restored()).await;
    }
}

#[tokio::test]
async fn what_kelpie_has_fenced_is_left_as_dependency_watchdog_leaves_and_restores_it() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let client = &stage.seed.client;
    let kubelets = Kubelets::start(client, 3, pace).await.unwrap();
    let shoot = stage.shoot("shoot", &kubelets).await;
    let model = stage.shoot("model", &kubelets).await;
    let kelpie = kelpie(&stage, pace).await;
    until_leading(&kelpie).await;
    until_well(&kelpie, &shoot).await;
    // No probe of Kelpie's looks at the model.
    model.delete_cluster().await.unwrap();
    kelpie.until_unprobed(&model.name, PATIENCE).await.unwrap();

    kubelets.cut(1.0).await;
    shoot.until_counts(FENCED, PATIENCE).await.unwrap();
    let exit = kelpie.kelpie.stop().await.unwrap();
    assert_eq!(exit.code, Some(0));
    let dwd = Predecessor::new(client);
    for name in DOWN {
        dwd.fence(&model.name, name).await.unwrap();
    }
    assert_each_has(&shoot, &as_fenced()).await;
    assert_alike(&shoot, &model).await;
    // The way is free, without a wait for the end of a lease.
    let lease = format!(
        "/apis/coordination.k8s.io/v1/namespaces/garden/leases/{}",
        Predecessor::LEASE
    );
    let lease = rest::read(client, &lease).await.unwrap();
    let holder = lease["spec"]["holderIdentity"].as_str();
    assert_eq!(holder.unwrap_or_default(), "", "{lease:#}");

    for name in [KCM, MCM, CA] {
        dwd.restore(&shoot.name, name).await.unwrap();
        dwd.restore(&model.name, name).await.unwrap();
    }
    shoot.until_restored(RESTORED, PATIENCE).await.unwrap();
    assert_each_has(&shoot, &as_restored()).await;
    assert_alike(&shoot, &model).await;
}

#[tokio::test]
#[ignore = "needs a build of dependency-watchdog, whose path DEPENDENCY_WATCHDOG names"]
async fn the_real_dependency_watchdog_and_kelpie_restore_what_the_other_has_fenced() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let client = &stage.seed.client;
    let kubelets = Kubelets::start(client, 3, pace).await.unwrap();
    let shoot = stage.shoot("shoot", &kubelets).await;

    let dwd = real_predecessor(&stage, pace).await;
    kubelets.cut(1.0).await;
    shoot.until_counts(FENCED, PATIENCE).await.unwrap();
    until_each_has(&shoot, &as_fenced()).await;
    drop(dwd);
    let kelpie = kelpie(&stage, pace).await;
    kubelets.heal().await;
    shoot.until_restored(RESTORED, PATIENCE).await.unwrap();
    until_each_has(&shoot, &as_restored()).await;

    kubelets.cut(1.0).await;
    shoot.until_counts(FENCED, PATIENCE).await.unwrap();
    until_each_has(&shoot, &as_fenced()).await;
    assert_eq!(kelpie.kelpie.stop().await.unwrap().code, Some(0));
    let _dwd = real_predecessor(&stage, pace).await;
    kubelets.heal().await;
    shoot.until_restored(RESTORED, PATIENCE).await.unwrap();
    until_each_has(&shoot, &as_restored()).await;
}

async fn real_predecessor(stage: &Stage, pace: Pace) -> Contender {
    let program = std::env::var("DEPENDENCY_WATCHDOG").unwrap();
    let command = [vec![program], gardeners_words()].concat();
    let admin = stage.seed.plane.api.admin();
    let kubeconfig = stage.seed.kubeconfig(&admin).unwrap();
    let config = ProberConfig::shipped(pace);
    let started = Contender::start(&command, &config, &kubeconfig, None);
    started.await.unwrap()
}

async fn until_each_has(shoot: &Shoot, expected: &Expected) {
    let wanted: Vec<_> = expected.iter().map(|(_, _, text)| text.clone()).collect();
    let each = poll::until("the annotations", PATIENCE, async || {
        let mut found = Vec::new();
        for (name, ..) in expected {
            let object = shoot.object(name).await?;
            found.push(object["metadata"]["annotations"].to_string());
        }
        Ok((found == wanted).then_some(()))
    });
    each.await.unwrap();
    assert_each_has(shoot, expected).await;
}

/// In the place of dependency-watchdog: its name, its rights.
async fn kelpie(stage: &Stage, pace: Pace) -> Prober {
    let client = &stage.seed.client;
    grant_gardeners_rights(client, "dwd").await.unwrap();
    let dwd = stage.seed.plane.api.user("dwd", &[]).unwrap();
    let kubeconfig = stage.seed.kubeconfig(&dwd).unwrap();
    let config = ProberConfig::shipped(pace).yaml();
    let prober = Prober::start_as_predecessor(&kubeconfig, &config, &ELECTED);
    prober.await.unwrap()
}

/// A target, its count, and all of its annotations, byte for byte.
type Expected = [(&'static str, u64, String); 3];

fn as_fenced() -> Expected {
    expected(|count| {
        let annotations = format!(
            r#"{{"dependency-watchdog.gardener.cloud/meltdown-protection-active":"","dependency-watchdog.gardener.cloud/replicas":"{count}"}}"#
        );
        (0, annotations)
    })
}

fn as_restored() -> Expected {
    expected(|count| {
        let annotations = format!(r#"{{"dependency-watchdog.gardener.cloud/replicas":"{count}"}}"#);
        (count, annotations)
    })
}

fn expected(of: impl Fn(u64) -> (u64, String)) -> Expected {
    [(KCM, 3), (MCM, 1), (CA, 2)].map(|(name, count)| {
        let (replicas, annotations) = of(count);
        (name, replicas, annotations)
    })
}

async fn assert_each_has(shoot: &Shoot, expected: &Expected) {
    for (name, replicas, annotations) in expected {
        let object = shoot.object(name).await.unwrap();
        let what = format!("{name} of {}", shoot.name);
        assert_eq!(object["spec"]["replicas"], *replicas, "{what}");
        let found = &object["metadata"]["annotations"];
        assert_eq!(found.to_string(), *annotations, "{what}");
    }
}

/// The targets of both differ in nothing but where and when they are.
async fn assert_alike(one: &Shoot, other: &Shoot) {
    for name in DOWN {
        let bare = async |shoot: &Shoot| -> Value {
            let object = shoot.object(name).await.unwrap();
            let metadata = &object["metadata"];
            json!({
                "annotations": metadata["annotations"],
                "labels": metadata["labels"],
                "finalizers": metadata["finalizers"],
                "spec": object["spec"],
            })
        };
        assert_eq!(bare(one).await, bare(other).await, "{name}");
    }
}
