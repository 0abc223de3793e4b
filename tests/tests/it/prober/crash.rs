//! kill -9 after each write of a fence and of a restore.

use std::time::Duration;

use futures_util::future::join_all;
use kelpie_e2e::landscape::{Fault, Kubelets, Pace, ProberConfig, Proxy, Shoot};
use tokio::time::Instant;

use super::stage::*;

/// Three targets, two writes each, on either way.
const WRITES: usize = 6;

/// Answers of the seed come this late: whoever sees a write kills its author before it knows.
const LATE: Duration = Duration::from_millis(250);

#[tokio::test]
async fn whenever_the_process_is_killed_the_next_one_ends_in_the_right_state() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let client = &stage.seed.client;
    let kubelets = Kubelets::start_cut(client, 3, pace).await.unwrap();
    let url = stage.seed.plane.api.url();
    let proxy = Proxy::start(url).await.unwrap();
    proxy.set(Fault::Delay(LATE));
    let mut shoots = Vec::new();
    for number in 1..=WRITES {
        shoots.push(stage.shoot(&format!("killed-{number}"), &kubelets).await);
    }

    let killed = (1..).zip(&shoots);
    let killed = killed.map(|(write, shoot)| kill_after(&stage, &proxy, shoot, write, pace));
    join_all(killed).await;

    let prober = stage.prober(&ProberConfig::shipped(pace), &[]).await;
    for shoot in &shoots {
        shoot.until_counts(FENCED, PATIENCE).await.unwrap();
        for (name, count) in [(KCM, "3"), (MCM, "1"), (CA, "2")] {
            let controller = shoot.controller(name).await.unwrap();
            assert_eq!(
                controller.recorded.as_deref(),
                Some(count),
                "{}",
                shoot.name
            );
            assert!(controller.marked, "{name} of {}", shoot.name);
        }
    }
    drop(prober);

    kubelets.heal().await;
    let killed = (1..).zip(&shoots);
    let killed = killed.map(|(write, shoot)| kill_after(&stage, &proxy, shoot, write, pace));
    join_all(killed).await;

    let _prober = stage.prober(&ProberConfig::shipped(pace), &[]).await;
    for shoot in &shoots {
        shoot.until_restored(RESTORED, PATIENCE).await.unwrap();
    }
}

/// Starts a prober for this shoot alone and kills it when its n-th write is seen.
async fn kill_after(stage: &Stage, proxy: &Proxy, shoot: &Shoot, write: usize, pace: Pace) {
    let config = one_by_one(pace).only(&shoot.name);
    let start = Instant::now();
    let prober = stage.prober_via(proxy, &config, &[]).await;
    let what = format!("write {write} in {}", shoot.name);
    let seen = kelpie_e2e::poll::until(&what, PATIENCE, async || {
        let changes = stage.timeline.since(&shoot.name, start).len();
        Ok((changes >= write).then_some(changes))
    });
    let seen = seen.await.unwrap();
    drop(prober);
    println!("{}: killed after {seen} writes", shoot.name);
}
