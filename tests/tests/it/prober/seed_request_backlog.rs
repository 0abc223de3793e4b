//! Routine requests that wait for the client's rate limit delay nothing urgent.

use std::time::Duration;

use kelpie_e2e::landscape::{ProberConfigFile, ProberProcess, Timings};
use tokio::time::Instant;

use super::fixture::*;

/// At this rate a read of one target takes five seconds, and reading all of them takes three
/// minutes. Some requests are therefore always waiting.
#[tokio::test]
async fn backlog_delays_neither_handover_nor_fence() {
    const CLUSTERS: usize = 12;
    let flags = [
        "--kube-api-qps=0.2",
        "--kube-api-burst=20",
        "--enable-leader-election=true",
    ];
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.kubelets(3, timings).await;
    let mut shoots = Vec::new();
    for number in 0..CLUSTERS {
        let name = format!("shoot-{number}");
        shoots.push(fixture.shoot(&name, &kubelets).await);
    }
    let interceptor = fixture.interceptor().await;
    let config = ProberConfigFile::gardener_targets(timings);
    let first = fixture.prober_through(&interceptor, &config, &flags).await;
    until_leading(&first.kelpie).await;
    let second = fixture.prober(&config, &flags).await;
    for prober in [&first, &second] {
        for shoot in &shoots {
            until_healthy(prober, shoot).await;
        }
    }
    let requests = interceptor.requests();
    let reads = requests
        .iter()
        .filter(|request| request.is_deployment_call())
        .count();
    assert!(reads < CLUSTERS * 3, "no backlog: {reads} reads");

    let first_gap = hand_over(first, &second).await;
    kubelets.partition(1.0).await;
    for shoot in &shoots {
        shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
    }
    let third = fixture.prober(&config, &flags).await;
    for shoot in &shoots {
        let fence = third.until_verdict(&shoot.name, "fence", TIMEOUT);
        fence.await.unwrap();
    }
    let second_gap = hand_over(second, &third).await;
    // If the Lease had not been released, the successor would have to wait until it expires.
    let gap = first_gap.min(second_gap);
    assert!(gap < Duration::from_secs(10), "{gap:?}");
}

/// Stops the leader with SIGTERM and returns the time until `next` leads.
async fn hand_over(leader: ProberProcess, next: &ProberProcess) -> Duration {
    let start = Instant::now();
    let gap = async {
        until_leading(&next.kelpie).await;
        start.elapsed()
    };
    let (exit, gap) = tokio::join!(leader.kelpie.stop(), gap);
    let exit = exit.unwrap();
    println!(
        "exited after {:?}, the successor leads after {gap:?}",
        exit.took
    );
    assert_eq!(exit.code, Some(0));
    gap
}
