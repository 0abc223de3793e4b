//! Startup: a missing prerequisite is reported and waited for, or ends the process with an exit
//! code.

use std::net::{Ipv4Addr, TcpListener};

use kelpie_e2e::kelpie;
use kelpie_e2e::landscape::{
    Kubelets, ProberConfigFile, ProberProcess, SeedCluster, TcpProxy, Timings, create_tenant_user,
    grant_gardener_prober_role,
};
use tokio::net::TcpSocket;

use super::fixture::*;

#[tokio::test]
async fn startup_waits_and_reports_missing_prerequisites() {
    let seed = SeedCluster::start_without_crds().await.unwrap();
    let api = &seed.control_plane.api;
    let timings = Timings::QUICK;
    let config = ProberConfigFile::gardener_targets(timings);
    // Bound but not listening: it refuses connections, and no other test gets its port.
    let closed_port = TcpSocket::new_v4().unwrap();
    closed_port.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let closed = format!("https://{}", closed_port.local_addr().unwrap());
    let proxy = TcpProxy::start(&closed).await.unwrap();
    let start = async |kubeconfig: std::path::PathBuf| {
        ProberProcess::start(&kubeconfig, &config, &[])
            .await
            .unwrap()
    };
    let unreachable = start(
        seed.kubeconfig_file_via_proxy(&proxy, &api.admin())
            .unwrap(),
    )
    .await;
    let without_crds = start(seed.kubeconfig_file(&api.admin()).unwrap()).await;
    let late = api.user("late", &[]).unwrap();
    let without_rbac = start(seed.kubeconfig_file(&late).unwrap()).await;

    for (prober, words) in [
        (&unreachable, ["Clusters", "check the API server"]),
        (
            &without_crds,
            ["clusters.extensions.gardener.cloud", "definition"],
        ),
        (&without_rbac, ["may not list and watch", "clusters"]),
    ] {
        prober.until_line(&words, TIMEOUT).await.unwrap();
        let ready = prober.health("/readyz?verbose").await.unwrap();
        assert_eq!(ready.status, 503, "{}", ready.body);
        let live = prober.health("/livez").await.unwrap();
        assert_eq!(live.status, 200, "still alive: {}", live.body);
        let text = prober.health("/readyz?verbose").await.unwrap().body;
        assert!(text.contains("Clusters"), "{text}");
    }
    // Each problem is logged once, no matter how often it recurs.
    for prober in [&unreachable, &without_crds, &without_rbac] {
        let warnings = prober.lines(&["WARN", "watch on Clusters"]);
        assert!(warnings.len() <= 2, "{warnings:#?}");
    }

    seed.install_gardener_crds().await.unwrap();
    grant_gardener_prober_role(&seed.client, "late")
        .await
        .unwrap();
    proxy.set_upstream(api.url()).unwrap();
    let probe = create_tenant_user(&seed.client, api, "probe")
        .await
        .unwrap();
    let kubelets = Kubelets::start(&seed.client, 3, timings).await.unwrap();
    let kubeconfig = api.kubeconfig(&probe);
    let nodes = kubelets.nodes();
    let shoot = seed.create_cluster("shoot", &kubeconfig, &nodes);
    let shoot = shoot.await.unwrap();
    shoot.create_targets(COUNTS).await.unwrap();
    for prober in [&unreachable, &without_crds, &without_rbac] {
        until_healthy(prober, &shoot).await;
        until_ready(prober).await;
        let healthz = prober.health("/healthz").await.unwrap();
        assert_eq!(healthz.status, 200, "dependency-watchdog's endpoint");
    }
}

#[tokio::test]
async fn invalid_startup_exits_with_every_reason() {
    let missing = std::path::Path::new("/nonexistent/kubeconfig");
    let wrong = "kubeConfigSecretName: a
probeIntervall: 10s
nodeLeaseFailureFraction: 1.5
kcmNodeMonitorGraceDuration: 0s
dependentResourceInfos:
- ref: {apiVersion: apps/v1, kind: Deployment, name: a}
  scaleUp: {level: -1}
  scaleDown: {level: 0}
";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.yaml");
    std::fs::write(&file, wrong).unwrap();
    let file = format!("--config-file={}", file.display());
    let output = kelpie::run(&["prober", &file]).await.unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    for expected in [
        "probeInterval",
        "nodeLeaseFailureFraction",
        "kcmNodeMonitorGraceDuration",
        "dependentResourceInfos[0].scaleUp.level",
    ] {
        assert!(text.contains(expected), "{expected} is not in:\n{text}");
    }

    for flags in [
        vec!["prober"],
        vec!["prober", "--config-file=a", "--no-such-flag"],
        vec!["prober", "--config-file=a", "--kube-api-qps=many"],
        vec![
            "prober",
            "--config-file=a",
            "--enable-leader-election",
            "--leader-elect-lease-duration=1s",
        ],
    ] {
        let output = kelpie::run(&flags).await.unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
    }

    let config = ProberConfigFile::gardener_targets(Timings::QUICK);
    let output = ProberProcess::run_to_exit(missing, &config, &[])
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("/nonexistent/kubeconfig"), "{text}");
}

#[tokio::test]
async fn occupied_port_ends_startup() {
    let seed = SeedCluster::start_without_crds().await.unwrap();
    let kubeconfig = seed
        .kubeconfig_file(&seed.control_plane.api.admin())
        .unwrap();
    let config = ProberConfigFile::gardener_targets(Timings::QUICK);
    let occupied = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for flag in ["--metrics-bind-addr", "--health-bind-addr"] {
        let taken = format!("{flag}={}", occupied.local_addr().unwrap());
        let output = ProberProcess::run_to_exit(&kubeconfig, &config, &[&taken])
            .await
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(flag), "{text}");
    }
}
