//! The end of a process: kill -9 at any instant, and SIGTERM.

use std::time::Duration;

use kelpie_e2e::landscape::{Fault, PodSpec, Proxy, Weeder};
use kelpie_e2e::poll;
use tokio::time::sleep;

use super::stage::*;

/// After a kill there is one fresh window for each ready service, and nothing else.
#[tokio::test]
async fn whenever_it_is_killed_the_next_one_opens_one_window_for_each_ready_service() {
    const PODS: usize = 60;
    let stage = Stage::start().await;
    let ready = stage.without_etcd("ready").await;
    let away = stage.without_etcd("away").await;
    let config = CONFIG.replace("20s", "10s");
    let mut uids = Vec::new();
    for number in 0..PODS {
        let pod = PodSpec::new(&format!("pod-{number:02}"));
        uids.push(ready.pod(&pod).await.unwrap());
    }
    away.pod(&PodSpec::new("pod")).await.unwrap();
    let proxy = Proxy::start(stage.seed.plane.api.url()).await.unwrap();
    proxy.set(Fault::Delay(Duration::from_millis(30)));
    ready.set(ETCD, &[Some(true)]).await.unwrap();
    let mut instant = Duration::from_millis(5);
    let mut kills = 0;
    // From the first request to the last deletion: whoever is killed, the next one goes on.
    while kills < 8 && !ready.alive().await.unwrap().is_empty() {
        let admin = stage.seed.plane.api.admin();
        let kubeconfig = stage.seed.kubeconfig_via(&proxy, &admin).unwrap();
        let weeder = Weeder::start(&kubeconfig, &config, &[]);
        let weeder = weeder.await.unwrap();
        sleep(instant).await;
        drop(weeder);
        kills += 1;
        instant *= 2;
    }
    let left = ready.alive().await.unwrap().len();
    println!("{kills} kills, {left} of {PODS} pods left");
    proxy.set(Fault::None);

    let weeder = stage.weeder(&config, &[]).await;
    ready.until_alive(&[], PATIENCE).await.unwrap();
    let opened = weeder.kelpie.lines(&["window opened"]);
    assert_eq!(opened.len(), 1, "{opened:?}");
    until_recoveries(&weeder, 0.0).await;
    assert_eq!(away.alive().await.unwrap().len(), 1, "it is not ready");
    // It was the one window: what crashes after it is left alone.
    until_no_window(&weeder, "ready").await;
    ready.pod(&PodSpec::new("late")).await.unwrap();
    away.set(ETCD, &[Some(true)]).await.unwrap();
    away.until_alive(&[], PATIENCE).await.unwrap();
    assert_eq!(ready.alive().await.unwrap().len(), 1);
}

#[tokio::test]
async fn sigterm_lets_what_is_under_way_end_and_begins_nothing_new() {
    const PODS: usize = 100;
    let stage = Stage::start().await;
    let made = stage.without_etcd("shoot").await;
    for number in 0..PODS {
        let pod = PodSpec::new(&format!("pod-{number:03}"));
        made.pod(&pod).await.unwrap();
    }
    let mut weeder = stage.weeder(CONFIG, &[]).await;
    made.set(ETCD, &[Some(true)]).await.unwrap();
    let begun = poll::until("the first deletions", PATIENCE, async || {
        Ok((made.alive().await?.len() < PODS).then_some(()))
    });
    begun.await.unwrap();
    weeder.kelpie.process().signal("TERM").unwrap();
    let ended = weeder.kelpie.ended_within(PATIENCE).await.unwrap();
    assert_eq!(ended.code, Some(0));
    let log = weeder.kelpie.log();
    let (before, after) = log.split_once("SIGTERM").unwrap();
    let begun = before.matches(" deleting: ").count();
    let after_begun = after.matches(" deleting: ").count();
    assert!(after_begun <= 1, "one may have been on its way: {after}");
    let ended = log.matches("scribe: deleted").count();
    println!("{begun} begun before SIGTERM, {after_begun} after it, {ended} answered");
    // What was not answered within the drain may have been done all the same.
    let gone = PODS - made.alive().await.unwrap().len();
    assert!(
        (ended..=begun + after_begun).contains(&gone),
        "{gone} are gone"
    );
}
