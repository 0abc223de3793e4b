//! How fast deletions come, one recovery at a time and all at once.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use kelpie_e2e::landscape::{Dependants, Fault, PodSpec, Proxy, Weeder, dependants};
use kelpie_e2e::poll;

use super::stage::*;

/// Objects are made by so many hands.
const HANDS: usize = 16;

/// Namespaces where etcd is away, each with pods that run and pods that crash.
async fn landscape(
    stage: &Stage,
    services: usize,
    running: usize,
    crashing: usize,
) -> Vec<Dependants> {
    let make = async |number: usize| -> anyhow::Result<Dependants> {
        let made = stage.without_etcd(&format!("shoot-{number:03}")).await;
        for pod in 0..running + crashing {
            let spec = PodSpec::new(&format!("pod-{pod:02}"));
            let status = if pod < crashing {
                dependants::crashing()
            } else {
                dependants::running()
            };
            made.pod(&spec.status(status)).await?;
        }
        Ok(made)
    };
    let made = stream::iter(0..services).map(make).buffered(HANDS);
    made.try_collect().await.unwrap()
}

/// Seconds after the recovery of each acknowledged deletion, and the second of the day it came in.
fn acknowledged(weeder: &Weeder) -> Vec<(f64, f64)> {
    let lines = weeder.kelpie.lines(&["scribe: deleted", "after="]);
    let read = |line: &String| -> Option<(f64, f64)> {
        let after = line
            .split("after=")
            .nth(1)?
            .split(' ')
            .next()?
            .parse()
            .ok()?;
        Some((after, second(line)?))
    };
    lines.iter().filter_map(read).collect()
}

/// The second of the day at which a line was logged.
fn second(line: &str) -> Option<f64> {
    let time = line.split('T').nth(1)?.split('Z').next()?;
    let mut parts = time.split(':').map(str::parse::<f64>);
    let hours = parts.next()?.ok()?;
    let minutes = parts.next()?.ok()?;
    Some((hours * 60.0 + minutes) * 60.0 + parts.next()?.ok()?)
}

/// When each deletion was begun.
fn begun(weeder: &Weeder) -> Vec<f64> {
    let lines = weeder.kelpie.lines(&["scribe: deleting"]);
    let mut begun: Vec<f64> = lines.iter().filter_map(|line| second(line)).collect();
    begun.sort_by(f64::total_cmp);
    begun
}

/// The most that were begun within a second.
fn most_in_a_second(begun: &[f64]) -> usize {
    let within = |from: &f64| {
        begun
            .iter()
            .filter(|at| (*from..from + 1.0).contains(at))
            .count()
    };
    begun.iter().map(within).max().unwrap_or_default()
}

async fn until_deleted(weeder: &Weeder, pods: usize, patience: Duration) {
    let all = poll::until("all deletions", patience, async || {
        Ok((acknowledged(weeder).len() >= pods).then_some(()))
    });
    all.await.unwrap();
}

/// One service after the other comes back.
async fn one_by_one(made: &[Dependants], weeder: &Weeder, crashing: usize) -> Vec<f64> {
    for (number, made) in made.iter().enumerate() {
        made.set(ETCD, &[Some(true)]).await.unwrap();
        until_deleted(weeder, (number + 1) * crashing, PATIENCE).await;
    }
    let mut after: Vec<f64> = acknowledged(weeder)
        .iter()
        .map(|(after, _)| *after)
        .collect();
    after.sort_by(f64::total_cmp);
    let at = |percent: usize| after[(after.len() * percent / 100).min(after.len() - 1)];
    println!(
        "recovery seen to deletion acknowledged, {} deletions: median {:.0} ms, p99 {:.0} ms, worst {:.0} ms",
        after.len(),
        at(50) * 1e3,
        at(99) * 1e3,
        at(100) * 1e3
    );
    after
}

/// All services come back at the same moment: the weeder hears of it when the proxy lets it. Gives the
/// seconds from the last recovery to the last deletion, and the most that were begun within one.
async fn all_at_once(
    made: &[Dependants],
    proxy: &Proxy,
    weeder: &Weeder,
    pods: usize,
) -> (f64, usize) {
    proxy.set(Fault::Stall);
    let back = made.iter().map(|made| made.set(ETCD, &[Some(true)]));
    let back = stream::iter(back).buffer_unordered(HANDS);
    back.try_collect::<()>().await.unwrap();
    proxy.set(Fault::None);
    until_deleted(weeder, pods, 2 * PATIENCE).await;
    let back = weeder.kelpie.lines(&["the service is back"]);
    let back: Vec<f64> = back.iter().filter_map(|line| second(line)).collect();
    let last = back.iter().copied().fold(0.0, f64::max);
    let spread = last - back.iter().copied().fold(f64::MAX, f64::min);
    let acknowledged = acknowledged(weeder);
    let took = acknowledged.iter().map(|(_, at)| *at).fold(0.0, f64::max) - last;
    let most = most_in_a_second(&begun(weeder));
    println!(
        "{} services back within {spread:.2} s, {pods} pods: {took:.2} s from then to the last deletion, \
         at most {most} in a second",
        made.len()
    );
    (took, most)
}

#[tokio::test]
async fn a_recovery_is_followed_at_once_and_many_no_faster_than_allowed() {
    const SERVICES: usize = 20;
    let stage = Stage::start().await;
    let made = landscape(&stage, SERVICES, 2, 6).await;
    let (one, all) = made.split_at(4);
    let config = CONFIG.replace("20s", "10m");
    let weeder = stage.weeder(&config, &[]).await;
    let after = one_by_one(one, &weeder, 6).await;
    // The machine may be busy with other things; minutes of back-off it is not.
    assert!(after[after.len() / 2] < 5.0, "{after:?}");
    drop(weeder);

    let proxy = Proxy::start(stage.seed.plane.api.url()).await.unwrap();
    let weeder = stage.weeder_via(&proxy, &config, &[]).await;
    let (_, most) = all_at_once(all, &proxy, &weeder, all.len() * 6).await;
    // 50, but that a line may be logged late by a moment, and its neighbour not.
    assert!(most <= 55);
    let begun = begun(&weeder);
    assert_eq!(begun.len(), all.len() * 6);
    // Fair: nobody waits for all of another's pods.
    let first_of_each = all.iter().map(|made| {
        let namespace = format!("namespace=\"{}\"", made.namespace);
        let lines = weeder.kelpie.lines(&["scribe: deleting", &namespace]);
        second(&lines[0]).unwrap()
    });
    let last_first = first_of_each.fold(0.0, f64::max);
    let before = begun.iter().filter(|at| **at < last_first).count();
    assert!(before < begun.len() * 3 / 4, "{before} of {}", begun.len());
}

/// `cargo test -p kelpie-e2e --test it -- weeder::pace --ignored --nocapture`
#[tokio::test]
#[ignore = "takes minutes: 5,000 pods have to be made"]
async fn p99_is_under_500_ms_and_500_pods_take_less_than_10_s() {
    const SERVICES: usize = 200;
    let stage = Stage::start().await;
    let config = CONFIG.replace("20s", "10m");
    let made = landscape(&stage, SERVICES, 22, 3).await;
    let weeder = stage.weeder(&config, &[]).await;
    let after = one_by_one(&made, &weeder, 3).await;
    drop(weeder);

    for made in &made {
        made.set(ETCD, &[Some(false)]).await.unwrap();
    }
    let crash = async |(number, made): (usize, &Dependants)| -> anyhow::Result<()> {
        // 500 over 200 namespaces: two or three each.
        for pod in 0..2 + number % 2 {
            made.pod(&PodSpec::new(&format!("again-{pod}"))).await?;
        }
        Ok(())
    };
    let crashed = stream::iter(made.iter().enumerate()).map(crash);
    let crashed = crashed.buffer_unordered(HANDS);
    crashed.try_collect::<()>().await.unwrap();
    let proxy = Proxy::start(stage.seed.plane.api.url()).await.unwrap();
    let weeder = stage.weeder_via(&proxy, &config, &[]).await;
    let (took, most) = all_at_once(&made, &proxy, &weeder, 500).await;
    assert!(after[after.len() * 99 / 100] < 0.5);
    assert!(most <= 50 && took < 10.0);
}
