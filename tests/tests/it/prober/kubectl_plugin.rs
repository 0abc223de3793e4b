//! `kubectl kelpie` finds the leader by its Lease, and reaches it by a port-forward of a real API
//! server.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;

use kelpie_e2e::landscape::{ProberConfigFile, Timings};
use kelpie_e2e::{ForwardingKubelet, kelpie};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use xtask::cache;

use super::fixture::*;
use crate::fixture::exit_code_and_text;

/// Runs kubectl with the plugin on its PATH.
async fn kubectl(folder: &Path, kubeconfig: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(cache::find("kubectl").unwrap());
    command.args(arguments).env_clear().env("HOME", folder);
    command.env("PATH", folder).env("KUBECONFIG", kubeconfig);
    command.kill_on_drop(true).output().await.unwrap()
}

#[tokio::test]
async fn plugin_shows_the_fleet_and_its_story() {
    let fixture = Fixture::start().await;
    let api = &fixture.seed.control_plane.api;
    let timings = Timings::QUICK;
    let kubelets = fixture.kubelets(3, timings).await;
    let shoot = fixture.shoot("shoot--dev--one", &kubelets).await;
    let config = ProberConfigFile::gardener_targets(timings);
    let prober = fixture.prober(&config, &ELECTION).await;
    until_leading(&prober.kelpie).await;
    until_healthy(&prober, &shoot).await;

    let folder = TempDir::new().unwrap();
    symlink(
        kelpie::binary().unwrap(),
        folder.path().join("kubectl-kelpie"),
    )
    .unwrap();
    let kubeconfig = fixture.seed.kubeconfig_file(&api.admin()).unwrap();
    let run = async |arguments: &[&str]| {
        let arguments = [&["kelpie"], arguments].concat();
        exit_code_and_text(kubectl(folder.path(), &kubeconfig, &arguments).await)
    };
    // The pod of the leader does not exist yet.
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let pod = host.trim();
    let (code, text) = run(&["status"]).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("has no such pod"), "{text}");

    let address = prober.kelpie.url().trim_start_matches("http://");
    let kubelet = ForwardingKubelet::start(address.parse().unwrap());
    let kubelet = kubelet.await.unwrap();
    kubelet.add_pod(api, "garden", pod, 9643).await.unwrap();
    let (code, text) = run(&["status"]).await;
    assert_eq!(code, Some(0), "{text}");
    let row = text.lines().find(|line| line.starts_with(&shoot.name));
    assert!(row.is_some_and(|row| row.contains("Healthy")), "{text}");

    kubelets.partition(1.0).await;
    shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
    prober
        .until_verdict(&shoot.name, "fence", TIMEOUT)
        .await
        .unwrap();
    let (code, text) = run(&["status", "-o", "json"]).await;
    assert_eq!(code, Some(4), "{text}");
    let status: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(status["clusters"][0]["id"], shoot.name, "{text}");
    let (_, text) = run(&["events", &shoot.name]).await;
    assert!(text.contains("scaled down to 0"), "{text}");
    let (code, text) = run(&["explain", &shoot.name]).await;
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("Fence, its controllers are stopped"),
        "{text}"
    );
}
