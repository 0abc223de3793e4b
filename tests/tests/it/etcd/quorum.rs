//! Lost quorum: readyz says so at once and inside its deadline, livez never kills for it.

use std::time::Duration;

use kelpie_e2e::{Cluster, Kelpie, Setup, poll};
use tokio::time::{Instant, sleep};

use super::stage::{PATIENCE, SLACK, beside, middle_and_longest, on_every_line, own_answer, quiet};

/// The default deadline of readyz.
const DEADLINE: Duration = Duration::from_millis(900);

/// etcd takes two rounds of seven seconds at worst.
const THEIR_PATIENCE: Duration = Duration::from_secs(20);

/// How the others are lost.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Killed,
    Paused,
}

#[tokio::test]
async fn two_of_three_killed_is_said_at_once_and_livez_stays() {
    let _quiet = quiet().await;
    on_every_line(async |line| lose_quorum(line, Loss::Killed).await).await;
}

#[tokio::test]
async fn two_of_three_paused_is_said_at_once_and_livez_stays() {
    let _quiet = quiet().await;
    on_every_line(async |line| lose_quorum(line, Loss::Paused).await).await;
}

async fn lose_quorum(line: &'static str, loss: Loss) {
    let mut cluster = Cluster::start(&Setup::new(line), 3).await.unwrap();
    // Once the member that stays has led, once it has followed.
    let left = match loss {
        Loss::Killed => cluster.follower().await.unwrap(),
        Loss::Paused => cluster.leader().await.unwrap(),
    };
    let others = [(left + 1) % 3, (left + 2) % 3];
    let kelpie = beside(&cluster.members[left], &[]).await;
    kelpie.until("/readyz", 200, PATIENCE).await.unwrap();

    for other in others {
        match loss {
            Loss::Killed => cluster.members[other].kill(),
            Loss::Paused => cluster.members[other].pause().await.unwrap(),
        }
    }
    let since = Instant::now();
    let (said, known, theirs) = tokio::join!(
        until_no_leader(&kelpie, since),
        until_known(&cluster, left, since),
        own_answer(&cluster.members[left], "/readyz", THEIR_PATIENCE)
    );
    let (median, longest, whole) = fast_answers(&kelpie).await;
    println!(
        "{line}, two of three {loss:?}: the member knows after {known:?}, kelpie says after \
         {said:?}; then read_index answers in {median:?} (longest {longest:?}), readyz in \
         {whole:?}; etcd's own readyz: {theirs}"
    );
    let late = said.saturating_sub(known);
    assert!(late <= DEADLINE + SLACK, "said {late:?} after it was known");
    let livez = kelpie.get("/livez?verbose").await.unwrap();
    assert_eq!(
        (livez.status, livez.body.as_str()),
        (200, "[+]serializable_read ok\nok\n")
    );

    for other in others {
        match loss {
            Loss::Killed => cluster.members[other].restart().await.unwrap(),
            Loss::Paused => cluster.members[other].resume().unwrap(),
        }
    }
    kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
}

/// Probes until the missing leader is named; meanwhile nothing is late and livez never fails.
async fn until_no_leader(kelpie: &Kelpie, lost: Instant) -> Duration {
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
        assert!(lost.elapsed() < PATIENCE, "never said: {ready:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// When the member itself knows that it has no leader.
async fn until_known(cluster: &Cluster, member: usize, lost: Instant) -> Duration {
    poll::until("a lost leader", PATIENCE, async || {
        let led = cluster.members[member]
            .metric("etcd_server_has_leader")
            .await?;
        Ok((led < 0.5).then(|| lost.elapsed()))
    })
    .await
    .unwrap()
}

/// Median and longest of fifty answers of `read_index`, and the median of ten of readyz. Between them
/// go requests that ask etcd nothing: when even those are slow, it is the machine, and the series is
/// made again.
async fn fast_answers(kelpie: &Kelpie) -> (Duration, Duration, Duration) {
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
        let (median, longest) = middle_and_longest(times);
        let (usual, spoiled) = middle_and_longest(idle);
        let (whole, slowest) = middle_and_longest(whole);
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
    // Never calm: then only what is usual counts.
    let (median, longest, _, usual, _) = seen[seen.len() - 1];
    assert!(median < fast + 4 * usual, "{seen:?}");
    (median, longest, longest)
}

#[tokio::test]
async fn livez_stays_without_quorum_while_elections_are_slow() {
    on_every_line(async |line| stay_alive(line, "3000", Duration::from_secs(8)).await).await;
}

#[tokio::test]
#[ignore = "takes 80 seconds"]
async fn livez_stays_for_a_minute_without_quorum_at_an_election_timeout_of_ten_seconds() {
    on_every_line(async |line| stay_alive(line, "10000", Duration::from_mins(1)).await).await;
}

async fn stay_alive(line: &'static str, election: &str, time: Duration) {
    let setup = Setup::new(line)
        .flag(&format!("--election-timeout={election}"))
        .flag("--heartbeat-interval=100");
    let mut cluster = Cluster::start(&setup, 3).await.unwrap();
    let left = cluster.follower().await.unwrap();
    let flags = [
        format!("--election-timeout={election}ms"),
        // The check that could kill wrongly is on as well.
        "--enable=livez/raft_loop".to_owned(),
    ];
    let kelpie = beside(
        &cluster.members[left],
        &flags.each_ref().map(String::as_str),
    )
    .await;
    kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
    for other in [left + 1, left + 2] {
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
        "{line}: livez was 200 in all {} probes of {time:?}",
        times.len()
    );
    let (median, _) = middle_and_longest(times);
    assert!(
        median <= DEADLINE + DEADLINE / 9,
        "usually late: {median:?}"
    );
}
