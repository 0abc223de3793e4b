//! `kelpie pause` and `kelpie resume` on a prober whose clusters are cut off.

use kelpie_e2e::kelpie;
use kelpie_e2e::landscape::{ProberConfigFile, Timings};
use tokio::time::sleep;

use super::fixture::*;
use crate::fixture::exit_code_and_text;

#[tokio::test]
async fn nothing_is_fenced_until_the_pause_ends() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.kubelets(3, timings).await;
    let shoot = fixture.shoot("shoot", &kubelets).await;
    let config = ProberConfigFile::gardener_targets(timings);
    let prober = fixture.prober(&config, &ELECTION).await;
    until_leading(&prober.kelpie).await;
    until_healthy(&prober, &shoot).await;
    let admin = fixture.seed.control_plane.api.admin();
    let kubeconfig = fixture.seed.kubeconfig_file(&admin).unwrap();
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let run = async |arguments: &[&str]| {
        let arguments = [arguments, &[&kubeconfig]].concat();
        exit_code_and_text(kelpie::run(&arguments).await.unwrap())
    };

    let (code, text) = run(&["pause", "--for=1h", "--reason=drill"]).await;
    assert_eq!(code, Some(0), "{text}");
    let paused = async |value: f64| {
        let metric = "kelpie_prober_paused";
        let found = kelpie_e2e::poll::until("the pause switch", TIMEOUT, async || {
            let found = prober.kelpie.metric(metric).await?;
            Ok(((found - value).abs() < 0.5).then_some(()))
        });
        found.await.unwrap();
    };
    paused(1.0).await;
    kubelets.partition(1.0).await;
    prober
        .until_verdict(&shoot.name, "fence", TIMEOUT)
        .await
        .unwrap();
    // Unpaused, the fence would be made within a second.
    sleep(timings.grace).await;
    assert_eq!(shoot.replicas().await.unwrap(), RESTORED);
    let explain = ["explain", &shoot.name, "--url", prober.kelpie.url()];
    let (_, text) = exit_code_and_text(kelpie::run(&explain).await.unwrap());
    assert!(text.contains("PAUSED"), "{text}");
    assert!(text.contains("because: drill"), "{text}");

    let (code, text) = run(&["resume"]).await;
    assert_eq!(code, Some(0), "{text}");
    paused(0.0).await;
    shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();

    // A restore goes on while it is paused.
    let (code, text) = run(&["pause", "--for=1h"]).await;
    assert_eq!(code, Some(0), "{text}");
    paused(1.0).await;
    kubelets.heal().await;
    shoot.until_restored(RESTORED, TIMEOUT).await.unwrap();
}
