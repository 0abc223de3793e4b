//! Watches that break: nothing is missed, nothing is deleted twice.

use std::time::Duration;

use kelpie_e2e::landscape::{Dependants, Fault, PodSpec, Proxy};
use kelpie_e2e::poll;
use tokio::time::sleep;

use super::stage::*;

/// Windows that outlast the test.
fn config() -> String {
    CONFIG.replace("20s", "10m")
}

/// While the API server is down, one service comes back and another goes and comes; a third does
/// nothing. All of it is found by listing anew.
#[tokio::test]
async fn an_api_server_that_was_away_has_lost_no_recovery() {
    let mut stage = Stage::start().await;
    let comes = stage.without_etcd("comes").await;
    let open = stage.without_etcd("open").await;
    let calm = stage.without_etcd("calm").await;
    calm.set(ETCD, &[Some(true)]).await.unwrap();
    let weeder = stage.weeder(&config().replace("10m", "4s"), &[]).await;
    until_no_window(&weeder, "calm").await;
    drop(weeder);

    // This one does not run out of windows.
    let weeder = stage.weeder(&config(), &[]).await;
    for made in [&comes, &open] {
        made.pod(&PodSpec::new("before")).await.unwrap();
    }
    open.set(ETCD, &[Some(true)]).await.unwrap();
    open.until_alive(&[], PATIENCE).await.unwrap();
    until_deletions(&weeder, 1.0).await;

    stage.seed.plane.api.go_down();
    weeder
        .kelpie
        .until_line(&["WARN", "broke and is begun again"], PATIENCE)
        .await
        .unwrap();
    stage.seed.plane.api.come_back().await.unwrap();
    // Before the weeder is back, as far as its pauses go; after it, all the same.
    comes.set(ETCD, &[Some(true)]).await.unwrap();
    open.pod(&PodSpec::new("after")).await.unwrap();
    comes.until_alive(&[], PATIENCE).await.unwrap();
    open.until_alive(&[], PATIENCE).await.unwrap();
    until_deletions(&weeder, 3.0).await;
    until_recoveries(&weeder, 2.0).await;
}

/// A service that goes and comes while nobody looks: the generation of its slice tells.
#[tokio::test]
async fn an_outage_that_nobody_saw_is_found_in_the_next_list() {
    let mut stage = Stage::start().await;
    let flaps = stage.without_etcd("flaps").await;
    let calm = stage.without_etcd("calm").await;
    let proxy = Proxy::start(stage.seed.plane.api.url()).await.unwrap();
    let weeder = stage.weeder_via(&proxy, CONFIG, &[]).await;
    for made in [&flaps, &calm] {
        made.set(ETCD, &[Some(true)]).await.unwrap();
        until_window(&weeder, &made.namespace).await;
    }
    for made in [&flaps, &calm] {
        until_no_window(&weeder, &made.namespace).await;
        made.pod(&PodSpec::new("pod")).await.unwrap();
    }
    proxy.set(Fault::Reset);
    weeder
        .kelpie
        .until_line(&["WARN", "broke and is begun again"], PATIENCE)
        .await
        .unwrap();
    flaps.bounce(ETCD).await.unwrap();
    // One change cannot hide an outage: this one stayed.
    calm.set(ETCD, &[Some(true), Some(true)]).await.unwrap();
    // A new process has no history: the watch has to begin with a list.
    stage.seed.plane.api.come_back().await.unwrap();
    proxy.set(Fault::None);
    flaps.until_alive(&[], PATIENCE).await.unwrap();
    assert_eq!(calm.alive().await.unwrap().len(), 1);
    until_recoveries(&weeder, 3.0).await;
}

#[tokio::test]
async fn connections_that_are_cut_stalled_or_silent_cost_no_recovery() {
    let stage = Stage::start().await;
    let url = stage.seed.plane.api.url();
    let (cut, stalled, silent) =
        tokio::join!(Proxy::start(url), Proxy::start(url), Proxy::start(url),);
    tokio::join!(
        cut_again_and_again(&stage, cut.unwrap()),
        half_open(&stage, stalled.unwrap()),
        nothing_but_bookmarks(&stage, silent.unwrap()),
    );
}

/// Recoveries and crashes go on while connections are reset in the middle of whatever they carry.
async fn cut_again_and_again(stage: &Stage, proxy: Proxy) {
    const PODS: usize = 40;
    let made = stage.without_etcd("cut").await;
    let weeder = stage
        .weeder_via(&proxy, &config(), &["--namespace=cut"])
        .await;
    let crash = async {
        for number in 0..PODS {
            if number % 10 == 0 {
                made.bounce(ETCD).await.unwrap();
            }
            let name = format!("pod-{number:02}");
            made.pod(&PodSpec::new(&name)).await.unwrap();
        }
    };
    let cut = async {
        for _ in 0..15 {
            proxy.set(Fault::Reset);
            sleep(Duration::from_millis(20)).await;
            proxy.set(Fault::None);
            sleep(Duration::from_millis(150)).await;
        }
    };
    tokio::join!(crash, cut);
    made.until_alive(&[], 2 * PATIENCE).await.unwrap();
    let log = weeder.kelpie.log();
    for number in 0..PODS {
        let acknowledged =
            format!("deleted namespace=\"cut\" service=\"etcd\" pod=\"pod-{number:02}\"");
        assert!(
            log.matches(&acknowledged).count() <= 1,
            "pod-{number:02} twice"
        );
    }
}

/// A dead connection that nobody is told about is noticed within half a minute.
async fn half_open(stage: &Stage, proxy: Proxy) {
    let made = stage.without_etcd("stalled").await;
    made.pod(&PodSpec::new("pod")).await.unwrap();
    let weeder = stage
        .weeder_via(&proxy, &config(), &["--namespace=stalled"])
        .await;
    proxy.set(Fault::StallOld);
    made.set(ETCD, &[Some(true)]).await.unwrap();
    made.until_alive(&[], PATIENCE).await.unwrap();
    until_recoveries(&weeder, 1.0).await;
}

/// Rounds of the watch go by in which nothing happens to the service, and much elsewhere.
async fn nothing_but_bookmarks(stage: &Stage, proxy: Proxy) {
    let made = stage.without_etcd("silent").await;
    made.pod(&PodSpec::new("pod")).await.unwrap();
    let weeder = stage
        .weeder_via(&proxy, &config(), &["--namespace=silent"])
        .await;
    let requests = "kelpie_weeder_seed_requests_total{code=\"200\"}";
    let before = weeder.kelpie.metric(requests).await.unwrap();
    let busy = stage.without_etcd("busy").await;
    let rounds = poll::until("two rounds of the watch", 2 * PATIENCE, async || {
        busy.bounce(ETCD).await?;
        sleep(Duration::from_millis(500)).await;
        let now = weeder.kelpie.metric(requests).await?;
        Ok((now >= before + 1.5).then_some(()))
    });
    rounds.await.unwrap();
    made.set(ETCD, &[Some(true)]).await.unwrap();
    until_gone(&made).await;
    until_recoveries(&weeder, 1.0).await;
}

async fn until_gone(made: &Dependants) {
    made.until_alive(&[], PATIENCE).await.unwrap();
}
