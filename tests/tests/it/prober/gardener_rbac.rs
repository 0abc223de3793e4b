//! The prober in the place of dependency-watchdog, with Gardener's command line and RBAC.

use std::time::Duration;

use kelpie_e2e::landscape::{
    ProberConfigFile, ProberProcess, Timings, grant_gardener_prober_role, rest,
};
use serde_json::json;

use super::fixture::*;

/// Flags that Gardener passes in addition to `--config-file`.
const GARDENER_FLAGS: [&str; 4] = [
    "--kube-api-qps=20.0",
    "--kube-api-burst=100",
    "--zap-log-level=INFO",
    "--enable-leader-election=true",
];

#[tokio::test]
async fn gardener_flags_and_rbac_are_sufficient() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let client = &fixture.seed.client;
    let kubelets = fixture.kubelets(3, timings).await;
    let shoot = fixture.shoot("shoot", &kubelets).await;
    grant_gardener_prober_role(client, "dwd").await.unwrap();
    let dwd = fixture.seed.control_plane.api.user("dwd", &[]).unwrap();
    assert_rights_are_limited(&fixture, &dwd).await;
    // Under dependency-watchdog's name an unknown configuration key is only a warning.
    let config = ProberConfigFile::gardener_targets(timings).line("somethingNew: true");
    let kubeconfig = fixture.seed.kubeconfig_file(&dwd).unwrap();
    let config = config.yaml();
    let prober = ProberProcess::start_as_dwd(&kubeconfig, &config, &GARDENER_FLAGS);
    let prober = prober.await.unwrap();

    until_healthy(&prober, &shoot).await;
    assert_eq!(prober.lines(&["WARN", "somethingNew"]).len(), 1);
    kubelets.partition(1.0).await;
    shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
    kubelets.heal().await;
    shoot.until_restored(RESTORED, TIMEOUT).await.unwrap();
    until_healthy(&prober, &shoot).await;

    let lease = rest::get(client, LEADER_LEASE).await.unwrap();
    assert!(lease["spec"]["holderIdentity"].is_string(), "{lease:#}");
    // Events are created where they are allowed.
    for reason in ["Fencing", "Releasing"] {
        let timeout = Duration::from_secs(20);
        until_event(&fixture.seed, "garden", reason, &shoot.name, timeout).await;
    }
    let rejected = prober
        .until_line(&["Events are refused"], Duration::from_secs(20))
        .await;
    rejected.unwrap();
    assert_eq!(
        prober.lines(&["Events are refused"]).len(),
        1,
        "logged once"
    );
    let forbidden = prober.lines(&["forbidden"]);
    assert!(
        forbidden.len() <= 1,
        "nothing else was rejected: {forbidden:#?}"
    );

    let exit = prober.kelpie.stop().await.unwrap();
    assert_eq!(exit.code, Some(0));
    let lease = rest::get(client, LEADER_LEASE).await.unwrap();
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    assert_eq!(holder, "", "the Lease was released");
}

/// Asserts that the account lacks the rights that the test assumes to be missing.
async fn assert_rights_are_limited(fixture: &Fixture, dwd: &kelpie_e2e::Credentials) {
    let client = fixture.seed.control_plane.api.client(dwd).await.unwrap();
    let event = json!({
        "metadata": { "generateName": "x." }, "reason": "X",
        "involvedObject": { "kind": "Deployment", "namespace": "shoot", "name": "x" },
    });
    let events = "/api/v1/namespaces/shoot/events";
    assert!(rest::create(&client, events, &event).await.is_err());
    let leases = "/apis/coordination.k8s.io/v1/namespaces/garden/leases";
    assert!(rest::get(&client, leases).await.is_err(), "no list");
    let patch = json!({ "spec": {} });
    let patched = rest::merge_patch(&client, LEADER_LEASE, &patch).await;
    assert!(patched.is_err(), "no patch");
}
