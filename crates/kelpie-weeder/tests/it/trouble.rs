//! The same while the seed is in trouble, or the weeder itself.

use std::time::Duration;

use kelpie_sim::scenario::{Fault, Incident, Site};

use crate::replica::{alone, weeder};
use crate::stage::{BACK, Stage, until};

const SECOND: Duration = Duration::from_secs(1);

/// The longest wait of three clusters whose etcds are back, and how often pods were deleted then.
async fn recover(beside: impl IntoIterator<Item = Incident>) -> (f64, usize) {
    let stage = Stage::new(3);
    let start = stage.landscape.now();
    let weeder = weeder(&stage.landscape, alone("weeder-0"));
    stage.lose_etcd(beside);
    until(&stage, start, BACK + 900 * SECOND).await;
    weeder.end().await.unwrap();
    let waits = (0..3).map(|cluster| stage.wait_of(cluster));
    let deletions = (0..3).map(|cluster| stage.deletions(cluster));
    (waits.fold(0.0, f64::max), deletions.sum())
}

#[tokio::test(start_paused = true)]
async fn trouble_with_the_seed_at_the_recovery_delays_it_and_nothing_is_deleted_twice() {
    let refusal = |status| Fault::Refusal {
        site: Site::Seed,
        status,
        share: 0.5,
    };
    let usual = recover([]).await;
    assert!(usual.0 < 10.0 && usual.1 == 3, "{usual:?}");
    for (name, fault, lasts) in [
        ("the seed is gone", Fault::Outage(Site::Seed), 30),
        ("connections hang", Fault::Stall(Site::Seed), 30),
        ("half is refused: 429", refusal(429), 30),
        ("half is refused: 503", refusal(503), 30),
        ("slow", Fault::Latency(Site::Seed, 2 * SECOND), 60),
        ("stale", Fault::StaleReads(Site::Seed), 30),
    ] {
        let begins = BACK.saturating_sub(2 * SECOND);
        let incident = Incident::new(begins, Some(lasts * SECOND), fault);
        let (wait, deletions) = recover([incident]).await;
        // Without the weeder it would be four minutes and a half.
        let limit = f64::from(lasts) + 45.0;
        assert!(wait < limit, "{name}: {wait} s");
        assert_eq!(deletions, 3, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn watches_that_break_off_at_the_recovery_miss_nothing() {
    let before = BACK.saturating_sub(SECOND);
    for millis in [0, 999, 1_000, 1_001, 1_020, 2_000] {
        let at = before + Duration::from_millis(millis);
        let (wait, deletions) = recover([Incident::new(at, None, Fault::WatchDrop)]).await;
        assert!(wait < 30.0, "{millis} ms: {wait} s");
        assert_eq!(deletions, 3, "{millis} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_weeder_that_died_before_the_recovery_helps_when_it_is_there_again() {
    let stage = Stage::new(3);
    let start = stage.landscape.now();
    let first = weeder(&stage.landscape, alone("weeder-0"));
    stage.lose_etcd([]);
    until(&stage, start, BACK.saturating_sub(SECOND)).await;
    first.crash();
    until(&stage, start, BACK + 20 * SECOND).await;
    assert_eq!(stage.told_since(BACK, 0), []);
    let second = weeder(&stage.landscape, alone("weeder-1"));
    until(&stage, start, BACK + 900 * SECOND).await;
    for cluster in 0..3 {
        // Its first windows are spread over half a minute.
        let wait = stage.wait_of(cluster);
        assert!((20.0..60.0).contains(&wait), "{wait} s");
        assert_eq!(stage.deletions(cluster), 1);
    }
    second.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_recovery() {
    assert_eq!(recover([]).await, recover([]).await);
}
