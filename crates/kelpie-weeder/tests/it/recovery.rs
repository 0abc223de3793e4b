//! etcd goes, API servers crash ever more slowly, etcd returns.

use std::time::Duration;

use kelpie_sim::resource::EVENTS;
use kelpie_sim::scenario::{Clusters, Fault, Incident, Scenario};
use kelpie_sim::{Plan, Selection};
use kelpie_weeder::Options;
use serde_json::Value;

use crate::replica::{alone, weeder};
use crate::stage::{BACK, Stage, until};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn pods_are_back_in_seconds_where_the_weeder_looks_and_in_minutes_elsewhere() {
    let stage = Stage::new(2);
    let start = stage.landscape.now();
    let looked_after = Plan::default().cluster_name(0);
    let options = Options {
        namespace: Some(looked_after),
        ..alone("weeder-0")
    };
    let weeder = weeder(&stage.landscape, options);
    stage.lose_etcd([]);
    until(&stage, start, BACK + 900 * SECOND).await;
    let (with, without) = (stage.wait_of(0), stage.wait_of(1));
    assert!(with < 10.0, "{with} s");
    assert!(without > 120.0, "{without} s");
    assert_eq!((stage.deletions(0), stage.deletions(1)), (1, 0));
    assert!(stage.landscape.fleet().iter().all(|row| !row.is_down));
    let seed = stage.landscape.seed();
    let (events, _) = seed.store().list(&EVENTS, &Selection::all()).unwrap();
    let has_evidence = |event: &Value| event.to_string().contains("connection refused");
    assert!(events.iter().any(has_evidence), "{events:#?}");
    weeder.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_while_etcd_is_gone_or_nothing_is_wrong() {
    let stage = Stage::new(3);
    let start = stage.landscape.now();
    let weeder = weeder(&stage.landscape, alone("weeder-0"));
    stage.lose_etcd([]);
    // The windows of the start are over by then.
    until(&stage, start, BACK.saturating_sub(SECOND)).await;
    let early = stage.deleted_at();
    until(&stage, start, BACK + 3_600 * SECOND).await;
    let deleted = stage.deleted_at();
    let late = BACK.as_secs_f64() + 10.0;
    let amiss = deleted.iter().skip(early.len()).filter(|at| **at > late);
    assert_eq!(amiss.count(), 0, "{deleted:?}");
    // What crashes in the window of the weeder's own start may be deleted, up to the cap.
    assert!(early.len() <= 9, "{early:?}");
    assert!(early.iter().all(|at| *at < 331.0), "{early:?}");
    weeder.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_etcd_that_goes_again_at_once_costs_no_more_deletions_than_the_cap() {
    let stage = Stage::new(1);
    let start = stage.landscape.now();
    let weeder = weeder(&stage.landscape, alone("weeder-0"));
    let again = Incident::new(BACK + 3 * SECOND, Some(1_200 * SECOND), Fault::EtcdOutage);
    stage.lose_etcd([]);
    stage.landscape.play(&Scenario {
        incidents: vec![again.of(Clusters::All)],
        ..Scenario::default()
    });
    until(&stage, start, BACK + 1_100 * SECOND).await;
    let deletions = stage.deletions(0);
    assert!((2..=3).contains(&deletions), "{deletions}");
    weeder.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hundred_recoveries_at_once_are_done_in_seconds_and_at_a_pace() {
    let stage = Stage::new(100);
    let start = stage.landscape.now();
    let weeder = weeder(&stage.landscape, alone("weeder-0"));
    stage.lose_etcd([]);
    until(&stage, start, BACK + 60 * SECOND).await;
    let back = BACK.as_secs_f64();
    let mut deleted = stage.deleted_at();
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
    weeder.end().await.unwrap();
}
