//! Lost quorum: readyz reports it at once and within its deadline, and livez passes.

use std::time::Duration;

use kelpie_e2e::{EtcdCluster, EtcdSetup, Kelpie, poll};
use tokio::time::{Instant, sleep};

use super::fixture::{
    SLACK, TIMEOUT, etcd_response, exclusive, median_and_max, on_every_release, start_kelpie,
};

/// The default deadline of readyz.
const DEADLINE: Duration = Duration::from_millis(900);

/// etcd's own readyz takes two rounds of seven seconds at worst.
const UPSTREAM_TIMEOUT: Duration = Duration::from_secs(20);

/// The way in which the other members are lost.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Killed,
    Paused,
}

#[tokio::test]
async fn killed_majority_fails_readyz_only() {
    let _exclusive = exclusive().await;
    on_every_release(async |release| lose_quorum(release, Loss::Killed).await).await;
}

#[tokio::test]
async fn paused_majority_fails_readyz_only() {
    let _exclusive = exclusive().await;
    on_every_release(async |release| lose_quorum(release, Loss::Paused).await).await;
}

async fn lose_quorum(release: &'static str, loss: Loss) {
    let mut cluster = EtcdCluster::start(&EtcdSetup::new(release), 3)
        .await
        .unwrap();
    // The remaining member was a follower in one case and the leader in the other.
    let remaining = match loss {
        Loss::Killed => cluster.follower().await.unwrap(),
        Loss::Paused => cluster.leader().await.unwrap(),
    };
    let others = [(remaining + 1) % 3, (remaining + 2) % 3];
    let kelpie = start_kelpie(&cluster.members[remaining], &[]).await;
    kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();

    for other in others {
        match loss {
            Loss::Killed => cluster.members[other].kill(),
            Loss::Paused => cluster.members[other].pause().await.unwrap(),
        }
    }
    let since = Instant::now();
    let (reported, known, upstream) = tokio::join!(
        until_reported(&kelpie, since),
        until_known(&cluster, remaining, since),
        etcd_response(&cluster.members[remaining], "/readyz", UPSTREAM_TIMEOUT)
    );
    let (median, longest, whole) = measure_responses(&kelpie).await;
    println!(
        "{release}, two of three {loss:?}: the member knows after {known:?}, kelpie reports it \
         after {reported:?}; then read_index answers in {median:?} (longest {longest:?}), readyz \
         in {whole:?}; etcd's own readyz: {upstream}"
    );
    let late = reported.saturating_sub(known);
    assert!(
        late <= DEADLINE + SLACK,
        "reported {late:?} after it was known"
    );
    let livez = kelpie.get("/livez?verbose").await.unwrap();
    assert_eq!(
        (livez.status, livez.body.as_str()),
        (200, "[+]serializable_read ok\n[+]raft_loop ok\nok\n")
    );

    for other in others {
        match loss {
            Loss::Killed => cluster.members[other].restart().await.unwrap(),
            Loss::Paused => cluster.members[other].resume().unwrap(),
        }
    }
    kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
}

/// Probes until readyz reports the missing leader. Until then no response is late and livez never
/// fails.
async fn until_reported(kelpie: &Kelpie, lost: Instant) -> Duration {
    loop {
        let (ready, live) = tokio::join!(kelpie.get("/readyz/read_index"), kelpie.get("/livez"));
        let (ready, live) = (ready.unwrap(), live.unwrap());
        assert!(ready.took <= DEADLINE + SLACK, "late: {ready:?}");
        assert_eq!(live.status, 200, "{}", live.body);
        assert!(live.took <= DEADLINE, "late: {live:?}");
        if ready.body.contains("no leader") {
            assert_eq!(ready.status, 503);
            return lost.elapsed();
        }
        assert!(lost.elapsed() < TIMEOUT, "never reported: {ready:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until the member itself knows that it has no leader.
async fn until_known(cluster: &EtcdCluster, member: usize, lost: Instant) -> Duration {
    poll::until("a lost leader", TIMEOUT, async || {
        let has_leader = cluster.members[member]
            .metric("etcd_server_has_leader")
            .await?;
        Ok((has_leader < 0.5).then(|| lost.elapsed()))
    })
    .await
    .unwrap()
}

/// Returns the median and the maximum of fifty `read_index` responses, and the median of ten readyz
/// responses.
///
/// Requests that need no etcd are sent in between. If those are slow too, the machine is the cause,
/// and the measurement is repeated.
async fn measure_responses(kelpie: &Kelpie) -> (Duration, Duration, Duration) {
    let (fast, even) = (Duration::from_millis(20), Duration::from_millis(100));
    let mut seen = Vec::new();
    while seen.len() < 10 {
        let (mut times, mut idle, mut whole) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..50 {
            idle.push(kelpie.get("/nothing").await.unwrap().took);
            let reply = kelpie.get("/readyz/read_index").await.unwrap();
            assert_eq!(reply.status, 503);
            assert!(reply.body.contains("no leader"), "{}", reply.body);
            times.push(reply.took);
            if round % 5 == 0 {
                let reply = kelpie.get("/readyz").await.unwrap();
                assert_eq!(reply.status, 503, "{}", reply.body);
                whole.push(reply.took);
            }
        }
        let (median, longest) = median_and_max(times);
        let (usual, spoiled) = median_and_max(idle);
        let (whole, slowest) = median_and_max(whole);
        if median < fast && longest <= even && slowest < 2 * even {
            return (median, longest, whole);
        }
        seen.push((median, longest, slowest, usual, spoiled));
        let is_calm = spoiled < even / 4;
        assert!(
            !is_calm || seen.len() < 3,
            "too slow on a calm machine: {seen:?}"
        );
    }
    // The machine was always busy, so only the medians count.
    let (median, longest, _, usual, _) = seen[seen.len() - 1];
    assert!(median < fast + 4 * usual, "{seen:?}");
    (median, longest, longest)
}

#[tokio::test]
async fn livez_passes_during_slow_elections() {
    on_every_release(async |release| {
        livez_passes_without_quorum(release, "3000", Duration::from_secs(8)).await;
    })
    .await;
}

#[tokio::test]
#[ignore = "takes 80 seconds"]
async fn livez_passes_for_a_minute_without_quorum() {
    on_every_release(async |release| {
        livez_passes_without_quorum(release, "10000", Duration::from_mins(1)).await;
    })
    .await;
}

async fn livez_passes_without_quorum(release: &'static str, election: &str, time: Duration) {
    let setup = EtcdSetup::new(release)
        .flag(&format!("--election-timeout={election}"))
        .flag("--heartbeat-interval=100");
    let mut cluster = EtcdCluster::start(&setup, 3).await.unwrap();
    let remaining = cluster.follower().await.unwrap();
    let flags = [
        format!("--election-timeout={election}ms"),
        // The check that could restart etcd wrongly is enabled too.
        "--enable=livez/raft_loop".to_owned(),
    ];
    let kelpie = start_kelpie(
        &cluster.members[remaining],
        &flags.each_ref().map(String::as_str),
    )
    .await;
    kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
    for other in [remaining + 1, remaining + 2] {
        cluster.members[other % 3].kill();
    }
    let lost = Instant::now();
    let mut times = Vec::new();
    while lost.elapsed() < time {
        let (livez, readyz) = tokio::join!(kelpie.get("/livez"), kelpie.get("/readyz"));
        let (livez, readyz) = (livez.unwrap(), readyz.unwrap());
        assert_eq!(
            livez.status,
            200,
            "after {:?}: {}",
            lost.elapsed(),
            livez.body
        );
        assert!(readyz.took <= DEADLINE + SLACK, "late: {readyz:?}");
        times.push(readyz.took);
        sleep(Duration::from_millis(200)).await;
    }
    let ready = kelpie.get("/readyz").await.unwrap();
    assert_eq!(ready.status, 503, "{}", ready.body);
    println!(
        "{release}: livez was 200 in all {} probes of {time:?}",
        times.len()
    );
    let (median, _) = median_and_max(times);
    assert!(
        median <= DEADLINE + DEADLINE / 9,
        "usually late: {median:?}"
    );
}
