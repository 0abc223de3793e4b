//! The start: what is missing is said, waited for, or an exit code.

use std::net::{Ipv4Addr, TcpListener};

use kelpie_e2e::kelpie;
use kelpie_e2e::landscape::{
    Kubelets, Pace, Prober, ProberConfig, Proxy, Seed, grant_gardeners_rights, tenant,
};
use kelpie_e2e::poll;

use super::stage::*;

#[tokio::test]
async fn a_seed_that_is_not_there_yet_is_waited_for_and_what_is_missing_is_said() {
    let seed = Seed::bare().await.unwrap();
    let api = &seed.plane.api;
    let pace = Pace::QUICK;
    let config = ProberConfig::shipped(pace);
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let nobody = format!("https://{}", free.local_addr().unwrap());
    drop(free);
    let path = Proxy::start(&nobody).await.unwrap();
    let start = async |kubeconfig: std::path::PathBuf| {
        Prober::start(&kubeconfig, &config, &[]).await.unwrap()
    };
    let unreachable = start(seed.kubeconfig_via(&path, &api.admin()).unwrap()).await;
    let kindless = start(seed.kubeconfig(&api.admin()).unwrap()).await;
    let late = api.user("late", &[]).unwrap();
    let rightless = start(seed.kubeconfig(&late).unwrap()).await;

    for (prober, words) in [
        (&unreachable, ["Clusters", "is the API server up?"]),
        (
            &kindless,
            ["clusters.extensions.gardener.cloud", "definition"],
        ),
        (&rightless, ["may not list and watch", "clusters"]),
    ] {
        prober.until_line(&words, PATIENCE).await.unwrap();
        let ready = prober.health("/readyz?verbose").await.unwrap();
        assert_eq!(ready.status, 503, "{}", ready.body);
        let live = prober.health("/livez").await.unwrap();
        assert_eq!(live.status, 200, "it lives all the same: {}", live.body);
        let text = prober.health("/readyz?verbose").await.unwrap().body;
        assert!(text.contains("Clusters"), "{text}");
    }
    // The three kinds of trouble are told once each, however often they are met.
    for prober in [&unreachable, &kindless, &rightless] {
        let told = prober.lines(&["WARN", "the watch on Clusters"]);
        assert!(told.len() <= 2, "{told:#?}");
    }

    seed.install_kinds().await.unwrap();
    grant_gardeners_rights(&seed.client, "late").await.unwrap();
    path.swap(api.url()).unwrap();
    let probe = tenant(&seed.client, api, "probe").await.unwrap();
    let kubelets = Kubelets::start(&seed.client, 3, pace).await.unwrap();
    let way = api.kubeconfig(&probe);
    let shoot = seed.shoot("shoot", &way, &kubelets.nodes()).await.unwrap();
    shoot.deploy(COUNTS).await.unwrap();
    for prober in [&unreachable, &kindless, &rightless] {
        until_well(prober, &shoot).await;
        let ready = poll::until("readiness", PATIENCE, async || {
            let ready = prober.health("/readyz").await?;
            Ok((ready.status == 200).then_some(()))
        });
        ready.await.unwrap();
        let as_before = prober.health("/healthz").await.unwrap();
        assert_eq!(as_before.status, 200, "dependency-watchdog's page");
    }
}

#[tokio::test]
async fn a_start_that_cannot_work_ends_at_once_with_a_code_and_every_reason() {
    let nowhere = std::path::Path::new("/nonexistent/kubeconfig");
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
    let said = kelpie::run(&["prober", &file]).await.unwrap();
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert_eq!(said.status.code(), Some(1), "{text}");
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
        let said = kelpie::run(&flags).await.unwrap();
        assert_eq!(said.status.code(), Some(2), "{flags:?}");
    }

    let config = ProberConfig::shipped(Pace::QUICK);
    let said = Prober::fail(nowhere, &config, &[]).await.unwrap();
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert_eq!(said.status.code(), Some(1), "{text}");
    assert!(text.contains("/nonexistent/kubeconfig"), "{text}");
}

#[tokio::test]
async fn a_port_that_is_taken_ends_the_start() {
    let seed = Seed::bare().await.unwrap();
    let kubeconfig = seed.kubeconfig(&seed.plane.api.admin()).unwrap();
    let config = ProberConfig::shipped(Pace::QUICK);
    let holder = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for flag in ["--metrics-bind-addr", "--health-bind-addr"] {
        let taken = format!("{flag}={}", holder.local_addr().unwrap());
        let said = Prober::fail(&kubeconfig, &config, &[&taken]).await.unwrap();
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(said.status.code(), Some(1), "{text}");
        assert!(text.contains(flag), "{text}");
    }
}
