//! Recovery from an etcd outage while the seed or the weeder itself has faults.

use std::time::Duration;

use kelpie_sim::scenario::{Fault, FaultSite, Incident};

use crate::fixture::{ETCD_UP_AT, Fixture, advance_to};
use crate::replica::{single_replica, weeder};

const SECOND: Duration = Duration::from_secs(1);

/// Returns the longest recovery of three clusters in seconds, and the number of deleted pods.
async fn recover(extra: impl IntoIterator<Item = Incident>) -> (f64, usize) {
    let fixture = Fixture::new(3);
    let start = fixture.landscape.now();
    let weeder = weeder(&fixture.landscape, single_replica("weeder-0"));
    fixture.lose_etcd(extra);
    advance_to(&fixture, start, ETCD_UP_AT + 900 * SECOND).await;
    weeder.stop().await.unwrap();
    let recoveries = (0..3).map(|cluster| fixture.recovery_seconds(cluster));
    let deletions = (0..3).map(|cluster| fixture.deletions(cluster));
    (recoveries.fold(0.0, f64::max), deletions.sum())
}

#[tokio::test(start_paused = true)]
async fn seed_faults_delay_but_never_repeat_deletions() {
    let rejection = |status| Fault::Refusal {
        site: FaultSite::Seed,
        status,
        share: 0.5,
    };
    let stale = Fault::StaleReads {
        site: FaultSite::Seed,
        share: 1.0,
    };
    let usual = recover([]).await;
    assert!(usual.0 < 10.0 && usual.1 == 3, "{usual:?}");
    for (name, fault, lasts) in [
        ("seed down", Fault::Outage(FaultSite::Seed), 30),
        ("connections stall", Fault::Stall(FaultSite::Seed), 30),
        ("half rejected: 429", rejection(429), 30),
        ("half rejected: 503", rejection(503), 30),
        ("slow", Fault::Latency(FaultSite::Seed, 2 * SECOND), 60),
        ("stale", stale, 30),
    ] {
        let start = ETCD_UP_AT.saturating_sub(2 * SECOND);
        let incident = Incident::new(start, Some(lasts * SECOND), fault);
        let (recovery, deletions) = recover([incident]).await;
        // Without the weeder it would be four and a half minutes.
        let limit = f64::from(lasts) + 45.0;
        assert!(recovery < limit, "{name}: {recovery} s");
        assert_eq!(deletions, 3, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_watches_miss_no_recovery() {
    let before = ETCD_UP_AT.saturating_sub(SECOND);
    for millis in [0, 999, 1_000, 1_001, 1_020, 2_000] {
        let at = before + Duration::from_millis(millis);
        let (recovery, deletions) = recover([Incident::new(at, None, Fault::WatchDrop)]).await;
        assert!(recovery < 30.0, "{millis} ms: {recovery} s");
        assert_eq!(deletions, 3, "{millis} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn restarted_weeder_handles_missed_recovery() {
    let fixture = Fixture::new(3);
    let start = fixture.landscape.now();
    let first = weeder(&fixture.landscape, single_replica("weeder-0"));
    fixture.lose_etcd([]);
    advance_to(&fixture, start, ETCD_UP_AT.saturating_sub(SECOND)).await;
    first.crash();
    advance_to(&fixture, start, ETCD_UP_AT + 20 * SECOND).await;
    assert_eq!(fixture.transitions_since(ETCD_UP_AT, 0), []);
    let second = weeder(&fixture.landscape, single_replica("weeder-1"));
    advance_to(&fixture, start, ETCD_UP_AT + 900 * SECOND).await;
    for cluster in 0..3 {
        // A new process spreads its first windows over half a minute.
        let recovery = fixture.recovery_seconds(cluster);
        assert!((20.0..60.0).contains(&recovery), "{recovery} s");
        assert_eq!(fixture.deletions(cluster), 1);
    }
    second.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn recovery_is_reproducible() {
    assert_eq!(recover([]).await, recover([]).await);
}
