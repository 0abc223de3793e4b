//! The product in the place of dependency-watchdog: its command line, its rights, and no others.

use std::time::Duration;

use kelpie_e2e::landscape::{Kubelets, Pace, Prober, ProberConfig, grant_gardeners_rights, rest};
use kelpie_e2e::poll;
use serde_json::{Value, json};

use super::stage::*;

/// What Gardener starts, after `--config-file`.
const GARDENERS_FLAGS: [&str; 4] = [
    "--kube-api-qps=20.0",
    "--kube-api-burst=100",
    "--zap-log-level=INFO",
    "--enable-leader-election=true",
];

#[tokio::test]
async fn gardeners_command_line_and_rights_are_enough() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let client = &stage.seed.client;
    let kubelets = Kubelets::start(client, 3, pace).await.unwrap();
    let shoot = stage.shoot("shoot", &kubelets).await;
    grant_gardeners_rights(client, "dwd").await.unwrap();
    let dwd = stage.seed.plane.api.user("dwd", &[]).unwrap();
    the_rights_are_no_more_than_that(&stage, &dwd).await;
    // A key of a later version only warns under that name.
    let config = ProberConfig::shipped(pace).line("somethingNew: true");
    let kubeconfig = stage.seed.kubeconfig(&dwd).unwrap();
    let config = config.yaml();
    let prober = Prober::start_as_predecessor(&kubeconfig, &config, &GARDENERS_FLAGS);
    let prober = prober.await.unwrap();

    until_well(&prober, &shoot).await;
    assert_eq!(prober.lines(&["WARN", "somethingNew"]).len(), 1);
    kubelets.cut(1.0).await;
    shoot.until_counts(FENCED, PATIENCE).await.unwrap();
    kubelets.heal().await;
    shoot.until_restored(RESTORED, PATIENCE).await.unwrap();
    until_well(&prober, &shoot).await;

    let lease = "/apis/coordination.k8s.io/v1/namespaces/garden/leases/dwd-prober-leader-election";
    let lease = rest::read(client, lease).await.unwrap();
    assert!(lease["spec"]["holderIdentity"].is_string(), "{lease:#}");
    // Where Events are allowed they tell the story.
    for reason in ["Fencing", "Releasing"] {
        let what = format!("an Event {reason}");
        let told = poll::until(&what, Duration::from_secs(20), async || {
            let events = stage.seed.events("garden").await?;
            let mut events = events.iter();
            let is_it = |event: &Value| {
                event["reason"] == reason && event["involvedObject"]["name"] == shoot.name.as_str()
            };
            Ok(events.any(is_it).then_some(()))
        });
        told.await.unwrap();
    }
    let refused = prober
        .until_line(&["Events are refused"], Duration::from_secs(20))
        .await;
    refused.unwrap();
    assert_eq!(prober.lines(&["Events are refused"]).len(), 1, "told once");
    let forbidden = prober.lines(&["forbidden"]);
    assert!(
        forbidden.len() <= 1,
        "nothing else was refused: {forbidden:#?}"
    );

    let ended = prober.kelpie.stop().await.unwrap();
    assert_eq!(ended.code, Some(0));
    let lease = "/apis/coordination.k8s.io/v1/namespaces/garden/leases/dwd-prober-leader-election";
    let lease = rest::read(client, lease).await.unwrap();
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    assert_eq!(holder, "", "the Lease was given back");
}

/// What this test takes for granted.
async fn the_rights_are_no_more_than_that(stage: &Stage, dwd: &kelpie_e2e::Credentials) {
    let client = stage.seed.plane.api.client(dwd).await.unwrap();
    let event = json!({
        "metadata": { "generateName": "x." }, "reason": "X",
        "involvedObject": { "kind": "Deployment", "namespace": "shoot", "name": "x" },
    });
    let events = "/api/v1/namespaces/shoot/events";
    assert!(rest::create(&client, events, &event).await.is_err());
    let leases = "/apis/coordination.k8s.io/v1/namespaces/garden/leases";
    assert!(rest::read(&client, leases).await.is_err(), "no list");
    let own = format!("{leases}/dwd-prober-leader-election");
    let patched = rest::merge(&client, &own, &json!({ "spec": {} })).await;
    assert!(patched.is_err(), "no patch");
}
