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
        // It has answered before, so it is not booting, whatever else is known of it.
        let deadline = "--livez-deadline=700ms";
        for known in [deadline, &pid, &metrics] {
            let flags: &[&str] = if known == deadline {
                &[known]
            } else {
                &[deadline, known]
            };
            let kelpie = beside(&etcd, flags).await;
            kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
            etcd.pause().await.unwrap();
            let (live, ready) = tokio::join!(kelpie.get("/livez"), kelpie.get("/readyz"));
            etcd.resume().unwrap();
            let (live, ready) = (live.unwrap(), ready.unwrap());
            assert_eq!(live.status, 503, "with {}: {}", known, live.body);
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
                known, live.took
            );
            kelpie.until("/livez", 200, PATIENCE).await.unwrap();
            kelpie.until("/readyz", 200, PATIENCE).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_member_that_was_silent_from_the_start_may_be_booting_unless_its_process_is_stopped() {
    let etcd = Etcd::start("etcd").await.unwrap();
    etcd.pause().await.unwrap();
    let short = "--livez-deadline=300ms";
    let unknown = beside(&etcd, &[short, "--boot-grace=3s"]).await;
    let pid = format!("--pid={}", etcd.process().id());
    let known = beside(&etcd, &[short, &pid]).await;
    assert_eq!(unknown.get("/livez").await.unwrap().status, 200);
    let live = known.get("/livez").await.unwrap();
    assert_eq!(live.status, 503, "{}", live.body);
    assert!(live.body.contains("stopped"), "{}", live.body);
    unknown.until("/livez", 503, PATIENCE).await.unwrap();
    let took = unknown.started().elapsed();
    assert!(took >= Duration::from_secs(3), "{took:?}");
    etcd.resume().unwrap();
    for kelpie in [unknown, known] {
        kelpie.until("/livez", 200, PATIENCE).await.unwrap();
    }
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
