//! Two replicas: one acts, the other is ready to.

use std::time::Duration;

use futures_util::future::join_all;
use kelpie_e2e::landscape::{Fault, Kubelets, Pace, Prober, ProberConfig, Proxy, Shoot};
use kelpie_e2e::poll;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::stage::*;

const ELECTION: [&str; 4] = [
    "--enable-leader-election=true",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=1s",
];

/// What a loaded machine adds to a time that is measured here.
const SLACK: Duration = Duration::from_millis(700);

const DOWN: &str = r#"kelpie_prober_scale_operations_total{direction="down"}"#;

#[tokio::test]
async fn exactly_one_replica_acts_and_the_next_takes_over_in_time() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let kubelets = Kubelets::start(&stage.seed.client, 3, pace).await.unwrap();
    let shoot = stage.shoot("shoot", &kubelets).await;
    let config = ProberConfig::shipped(pace);
    let first = stage.prober(&config, &ELECTION).await;
    until_leading(&first).await;
    let second = stage.prober(&config, &ELECTION).await;
    until_well(&first, &shoot).await;
    // A standby observes without a gap.
    until_well(&second, &shoot).await;
    assert!(!leads(&second).await);

    kubelets.cut(1.0).await;
    let cut = Instant::now();
    shoot.until_counts(FENCED, PATIENCE).await.unwrap();
    second
        .until_verdict(&shoot.name, "fence", PATIENCE)
        .await
        .unwrap();
    writes_were_made_once(&stage, &shoot, cut);
    assert!(second.kelpie.metric(DOWN).await.unwrap() < 0.5);

    let asked = Instant::now();
    let (ended, ()) = tokio::join!(first.kelpie.stop(), until_leading(&second));
    let (ended, gap) = (ended.unwrap(), asked.elapsed());
    println!(
        "SIGTERM: ended after {:?}, the next acts after {gap:?}",
        ended.took
    );
    assert_eq!(ended.code, Some(0));
    assert!(ended.took < Duration::from_secs(3) + SLACK);
    assert!(gap < Duration::from_secs(1) + SLACK, "{gap:?}");

    kubelets.heal().await;
    shoot.until_restored(RESTORED, PATIENCE).await.unwrap();
    until_well(&second, &shoot).await;
    let third = stage.prober(&config, &ELECTION).await;
    until_well(&third, &shoot).await;

    kubelets.cut(1.0).await;
    let cut = Instant::now();
    // Killed when it would trip in a second or two.
    sleep_until(cut + pace.grace / 2).await;
    let killed = Instant::now();
    drop(second);
    until_leading(&third).await;
    let gap = killed.elapsed();
    println!("SIGKILL: the next acts after {gap:?}");
    assert!(gap < Duration::from_secs(6) + SLACK, "{gap:?}");
    shoot.until_counts(FENCED, PATIENCE).await.unwrap();
    writes_were_made_once(&stage, &shoot, cut);

    kubelets.heal().await;
    shoot.until_restored(RESTORED, PATIENCE).await.unwrap();
}

/// A leader that is stopped after a write of its fence and goes on when all is over.
#[tokio::test]
async fn a_leader_that_was_stopped_and_goes_on_writes_nothing_stale() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let client = &stage.seed.client;
    let kubelets = Kubelets::start_cut(client, 3, pace).await.unwrap();
    let proxy = Proxy::start(stage.seed.plane.api.url()).await.unwrap();
    proxy.set(Fault::Delay(Duration::from_millis(150)));
    let pairs = [1, 3, 5].map(|write| Pair::stopped_after(&stage, &proxy, &kubelets, write, pace));
    let pairs: Vec<Pair> = join_all(pairs).await;

    for pair in &pairs {
        pair.shoot.until_counts(FENCED, PATIENCE).await.unwrap();
        for (name, count) in [(KCM, "3"), (MCM, "1"), (CA, "2")] {
            let controller = pair.shoot.controller(name).await.unwrap();
            assert_eq!(controller.recorded.as_deref(), Some(count));
        }
    }
    kubelets.heal().await;
    for pair in &pairs {
        let restored = pair.shoot.until_restored(RESTORED, PATIENCE);
        restored.await.unwrap();
    }

    let went_on = Instant::now();
    for pair in &pairs {
        pair.stopped.kelpie.process().signal("CONT").unwrap();
    }
    for pair in &pairs {
        let line = ["observes"];
        pair.stopped.until_line(&line, PATIENCE).await.unwrap();
        until_well(&pair.stopped, &pair.shoot).await;
        until_rounds(&pair.stopped, 3.0).await;
        assert!(!leads(&pair.stopped).await);
        assert!(leads(&pair.successor).await);
        let stale = stage.timeline.since(&pair.shoot.name, went_on);
        assert!(stale.is_empty(), "{stale:#?}");
        assert_eq!(pair.shoot.counts().await.unwrap(), RESTORED);
    }
}

/// A stopped leader and its successor.
struct Pair {
    shoot: Shoot,
    stopped: Prober,
    successor: Prober,
}

impl Pair {
    async fn stopped_after(
        stage: &Stage,
        proxy: &Proxy,
        kubelets: &Kubelets,
        write: usize,
        pace: Pace,
    ) -> Self {
        let name = format!("stopped-{write}");
        let shoot = stage.shoot(&name, kubelets).await;
        let config = one_by_one(pace).only(&name);
        // Each pair has an election of its own.
        let namespace = format!("--leader-election-namespace={name}");
        let flags: Vec<&str> = ELECTION.into_iter().chain([namespace.as_str()]).collect();
        let start = Instant::now();
        let leader = stage.prober_via(proxy, &config, &flags).await;
        until_leading(&leader).await;
        let successor = stage.prober(&config, &flags).await;
        let what = format!("write {write} in {name}");
        let seen = poll::until(&what, PATIENCE, async || {
            let writes = stage.timeline.since(&name, start).len();
            Ok((writes >= write).then_some(writes))
        });
        let seen = seen.await.unwrap();
        leader.kelpie.process().signal("STOP").unwrap();
        println!("{name}: stopped after {seen} writes");
        Self {
            shoot,
            stopped: leader,
            successor,
        }
    }
}

async fn leads(prober: &Prober) -> bool {
    let reply = prober.kelpie.get("/debug/state").await.unwrap();
    let state: Value = serde_json::from_str(&reply.body).unwrap();
    state["leads"] == true
}

async fn until_leading(prober: &Prober) {
    let leading = poll::until("a leader", PATIENCE, async || {
        Ok(leads(prober).await.then_some(()))
    });
    leading.await.unwrap();
}

/// A record and a scale call for each target, and nothing twice.
fn writes_were_made_once(stage: &Stage, shoot: &Shoot, since: Instant) {
    let entries = stage.timeline.since(&shoot.name, since);
    for name in [KCM, MCM, CA] {
        let writes = entries.iter().filter(|entry| entry.name == name).count();
        assert_eq!(writes, 2, "{name}: {entries:#?}");
    }
}
