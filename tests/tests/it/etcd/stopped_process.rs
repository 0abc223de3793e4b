//! A stopped or missing process fails livez by its deadline.

use std::time::Duration;

use kelpie_e2e::{EtcdMember, Kelpie};
use tokio::time::Instant;

use super::fixture::{SLACK, TIMEOUT, on_every_release, start_kelpie};

const DEADLINE: Duration = Duration::from_millis(700);

#[tokio::test]
async fn stopped_process_fails_livez() {
    on_every_release(async |release| {
        let etcd = EtcdMember::start(release).await.unwrap();
        let pid = format!("--pid={}", etcd.process().id());
        let metrics = format!("--metrics-url={}/metrics", etcd.metrics_url());
        // It has answered before, so it is not booting, with or without further information.
        let deadline = "--livez-deadline=700ms";
        for known in [deadline, &pid, &metrics] {
            let flags: &[&str] = if known == deadline {
                &[known]
            } else {
                &[deadline, known]
            };
            let kelpie = start_kelpie(&etcd, flags).await;
            kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
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
                "{release}, stopped, {}: livez 503 after {:?}",
                known, live.took
            );
            kelpie.until_status("/livez", 200, TIMEOUT).await.unwrap();
            kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn pings_do_not_hide_a_stopped_process() {
    let etcd = EtcdMember::start("etcd").await.unwrap();
    let flags = [
        "--livez-deadline=700ms",
        "--keepalive-time=10s",
        "--keepalive-timeout=1s",
    ];
    let kelpie = start_kelpie(&etcd, &flags).await;
    kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
    etcd.pause().await.unwrap();
    let started = Instant::now();
    kelpie.until_status("/livez", 503, TIMEOUT).await.unwrap();
    // A ping closes the connection after 11 seconds. The new one must not count as a new boot.
    while started.elapsed() < Duration::from_secs(15) {
        let live = kelpie.get("/livez").await.unwrap();
        assert_eq!(live.status, 503, "{:?}: {live:?}", started.elapsed());
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    etcd.resume().unwrap();
    kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn silent_member_may_boot_unless_stopped() {
    let etcd = EtcdMember::start("etcd").await.unwrap();
    etcd.pause().await.unwrap();
    let short = "--livez-deadline=300ms";
    let unknown = start_kelpie(&etcd, &[short, "--boot-grace=3s"]).await;
    let pid = format!("--pid={}", etcd.process().id());
    let known = start_kelpie(&etcd, &[short, &pid]).await;
    assert_eq!(unknown.get("/livez").await.unwrap().status, 200);
    let live = known.get("/livez").await.unwrap();
    assert_eq!(live.status, 503, "{}", live.body);
    assert!(live.body.contains("stopped"), "{}", live.body);
    unknown.until_status("/livez", 503, TIMEOUT).await.unwrap();
    let took = unknown.started().elapsed();
    assert!(took >= Duration::from_secs(3), "{took:?}");
    etcd.resume().unwrap();
    for kelpie in [unknown, known] {
        kelpie.until_status("/livez", 200, TIMEOUT).await.unwrap();
    }
}

#[tokio::test]
async fn missing_member_fails_both_groups() {
    on_every_release(async |release| {
        let mut etcd = EtcdMember::start(release).await.unwrap();
        let kelpie = start_kelpie(&etcd, &[]).await;
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
        etcd.kill();
        for target in ["/livez", "/readyz"] {
            let gone = refused(&kelpie, target).await;
            println!("{release}, gone: {target} 503 after {gone:?}");
        }
        etcd.restart().await.unwrap();
        kelpie.until_status("/livez", 200, TIMEOUT).await.unwrap();
        kelpie.until_status("/readyz", 200, TIMEOUT).await.unwrap();
    })
    .await;
}

/// Returns the shortest duration of five responses, all of which report a refused connection.
async fn refused(kelpie: &Kelpie, target: &str) -> Duration {
    let mut times = Vec::new();
    for _ in 0..5 {
        let started = Instant::now();
        let reply = kelpie.get(target).await.unwrap();
        assert_eq!(reply.status, 503, "{target}");
        let output = reply
            .body
            .lines()
            .find(|line| line.contains("serializable_read"));
        let output = output.unwrap();
        assert!(output.contains("refused"), "{target}: {}", reply.body);
        times.push(started.elapsed());
    }
    let fastest = times.into_iter().min().unwrap();
    assert!(
        fastest < Duration::from_millis(100),
        "{target}: {fastest:?}"
    );
    fastest
}
