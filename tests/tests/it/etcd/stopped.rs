//! A process that is stopped or gone: livez says so by its deadline.

use std::time::Duration;

use kelpie_e2e::{Etcd, Kelpie};
use tokio::time::Instant;

use super::stage::{PATIENCE, SLACK, beside, on_every_line};

const DEADLINE: Duration = Duration::from_millis(700);

#[tokio::test]
async fn a_stopped_process_fails_livez_by_its_deadline_and_comes_back() {
    on_every_line(async |line| {
        let etcd = Etcd::start(line).await.unwrap();
        let pid = format!("--pid={}", etcd.process().id());
        let metrics = format!("--metrics-url={}/metrics", etcd.metrics_url());
        // Either knowledge is enough to tell a stopped process from a booting one.
        for known in [[pid.as_str()], [metrics.as_str()]] {
            let kelpie = beside(&etcd, &["--livez-deadline=700ms", known[0]]).await;
            kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
            etcd.pause().unwrap();
            let (live, ready) = tokio::join!(kelpie.get("/livez"), kelpie.get("/readyz"));
            etcd.resume().unwrap();
            let (live, ready) = (live.unwrap(), ready.unwrap());
            assert_eq!(live.status, 503, "with {}: {}", known[0], live.body);
            assert!(
                live.body.contains("[-]serializable_read failed: "),
                "{}",
                live.body
            );
            assert!(live.took <= DEADLINE + SLACK, "late: {live:?}");
            assert!(
                ready.took <= Duration::from_millis(900) + SLACK,
                "late: {ready:?}"
            );
            println!(
                "{line}, stopped, {}: livez 503 after {:?}",
                known[0], live.took
            );
            kelpie.until("/livez", 200, PATIENCE).await.unwrap();
            kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_silent_member_of_which_nothing_is_known_fails_livez_after_the_grace() {
    let etcd = Etcd::start("etcd").await.unwrap();
    let kelpie = beside(&etcd, &["--livez-deadline=500ms", "--boot-grace=3s"]).await;
    kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
    let started = kelpie.started();
    etcd.pause().unwrap();
    kelpie.until("/livez", 503, PATIENCE).await.unwrap();
    assert!(
        started.elapsed() >= Duration::from_secs(3),
        "{:?}",
        started.elapsed()
    );
    etcd.resume().unwrap();
    kelpie.until("/livez", 200, PATIENCE).await.unwrap();
}

#[tokio::test]
async fn a_member_that_is_gone_fails_both_at_once_and_comes_back() {
    on_every_line(async |line| {
        let mut etcd = Etcd::start(line).await.unwrap();
        let kelpie = beside(&etcd, &[]).await;
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        etcd.kill();
        for target in ["/livez", "/readyz"] {
            let gone = refused(&kelpie, target).await;
            println!("{line}, gone: {target} 503 after {gone:?}");
        }
        etcd.restart().await.unwrap();
        kelpie.until("/livez", 200, PATIENCE).await.unwrap();
        kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
    })
    .await;
}

/// The shortest of five answers: all say that the connection is refused.
async fn refused(kelpie: &Kelpie, target: &str) -> Duration {
    let mut times = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        let reply = kelpie.get(target).await.unwrap();
        assert_eq!(reply.status, 503, "{target}");
        let said = reply
            .body
            .lines()
            .find(|line| line.contains("serializable_read"));
        let said = said.unwrap();
        assert!(said.contains("refused"), "{target}: {}", reply.body);
        times.push(began.elapsed());
    }
    let fastest = times.into_iter().min().unwrap();
    assert!(
        fastest < Duration::from_millis(100),
        "{target}: {fastest:?}"
    );
    fastest
}
