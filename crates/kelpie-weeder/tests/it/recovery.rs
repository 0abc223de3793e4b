//! Recovery from an etcd outage, during which API servers crash at growing intervals.

use std::time::Duration;

use kelpie_sim::resource::EVENTS;
use kelpie_sim::scenario::{ClusterSelection, Fault, Incident, Scenario};
use kelpie_sim::{LandscapePlan, ObjectSelector};
use kelpie_weeder::WeederOptions;
use serde_json::Value;

use crate::fixture::{ETCD_UP_AT, Fixture, advance_to};
use crate::replica::{single_replica, weeder};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn weeder_cuts_recovery_to_seconds() {
    let fixture = Fixture::new(2);
    let start = fixture.landscape.now();
    let watched_namespace = LandscapePlan::default().cluster_name(0);
    let options = WeederOptions {
        namespace: Some(watched_namespace),
        ..single_replica("weeder-0")
    };
    let weeder = weeder(&fixture.landscape, options);
    fixture.lose_etcd([]);
    advance_to(&fixture, start, ETCD_UP_AT + 900 * SECOND).await;
    let (with, without) = (fixture.recovery_seconds(0), fixture.recovery_seconds(1));
    assert!(with < 10.0, "{with} s");
    assert!(without > 120.0, "{without} s");
    assert_eq!((fixture.deletions(0), fixture.deletions(1)), (1, 0));
    assert!(
        fixture
            .landscape
            .snapshot()
            .iter()
            .all(|cluster| !cluster.is_down)
    );
    let seed = fixture.landscape.seed();
    let (events, _) = seed.store().list(&EVENTS, &ObjectSelector::all()).unwrap();
    let has_evidence = |event: &Value| event.to_string().contains("connection refused");
    assert!(events.iter().any(has_evidence), "{events:#?}");
    weeder.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_deletions_outside_recovery() {
    let fixture = Fixture::new(3);
    let start = fixture.landscape.now();
    let weeder = weeder(&fixture.landscape, single_replica("weeder-0"));
    fixture.lose_etcd([]);
    // The windows of the weeder's start are over by then.
    advance_to(&fixture, start, ETCD_UP_AT.saturating_sub(SECOND)).await;
    let early = fixture.deleted_at();
    advance_to(&fixture, start, ETCD_UP_AT + 3_600 * SECOND).await;
    let deleted = fixture.deleted_at();
    let late = ETCD_UP_AT.as_secs_f64() + 10.0;
    let outside = deleted.iter().skip(early.len()).filter(|at| **at > late);
    assert_eq!(outside.count(), 0, "{deleted:?}");
    // A pod that crashes in a window of the weeder's start may be deleted, up to the cap.
    assert!(early.len() <= 9, "{early:?}");
    assert!(early.iter().all(|at| *at < 331.0), "{early:?}");
    weeder.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn flapping_etcd_stays_within_cap() {
    let fixture = Fixture::new(1);
    let start = fixture.landscape.now();
    let weeder = weeder(&fixture.landscape, single_replica("weeder-0"));
    let again = Incident::new(
        ETCD_UP_AT + 3 * SECOND,
        Some(1_200 * SECOND),
        Fault::EtcdOutage,
    );
    fixture.lose_etcd([]);
    fixture.landscape.play(&Scenario {
        incidents: vec![again.in_clusters(ClusterSelection::All)],
        ..Scenario::default()
    });
    advance_to(&fixture, start, ETCD_UP_AT + 1_100 * SECOND).await;
    let deletions = fixture.deletions(0);
    assert!((2..=3).contains(&deletions), "{deletions}");
    weeder.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn hundred_recoveries_are_fast_and_rate_limited() {
    let fixture = Fixture::new(100);
    let start = fixture.landscape.now();
    let weeder = weeder(&fixture.landscape, single_replica("weeder-0"));
    fixture.lose_etcd([]);
    advance_to(&fixture, start, ETCD_UP_AT + 60 * SECOND).await;
    let back = ETCD_UP_AT.as_secs_f64();
    let mut deleted = fixture.deleted_at();
    deleted.retain(|at| *at >= back);
    assert_eq!(deleted.len(), 100);
    let took = deleted[99] - back;
    assert!(took < 5.0, "{took} s");
    let within_a_second = |from: &f64| {
        let second = *from..from + 1.0;
        deleted.iter().filter(|at| second.contains(*at)).count()
    };
    let busiest = deleted.iter().map(within_a_second).max();
    assert!(busiest <= Some(51), "{busiest:?}");
    weeder.stop().await.unwrap();
}
