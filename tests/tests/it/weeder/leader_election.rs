//! Two replicas: the leader deletes pods, and the standby is ready to take over.

use kelpie_e2e::landscape::TestPod;

use super::fixture::*;

#[tokio::test]
async fn one_replica_deletes_and_successor_starts_fresh() {
    let fixture = Fixture::start().await;
    let namespace = fixture.namespace_without_etcd("shoot").await;
    let first = fixture.weeder(CONFIG, &ELECTION).await;
    until_leading(&first.kelpie).await;
    let second = fixture.weeder(CONFIG, &ELECTION).await;
    namespace.create_pod(&TestPod::new("a")).await.unwrap();
    namespace.set_endpoints(ETCD, &[Some(true)]).await.unwrap();
    namespace.until_live_pods(&[], TIMEOUT).await.unwrap();
    // The standby has observed the recovery, and has deleted nothing.
    until_observed(&second, "shoot", true).await;
    assert!(!leads(&second.kelpie).await);
    until_deletions(&second, 0.0).await;
    assert_eq!(second.kelpie.lines(&["window opened"]).len(), 0);

    let exit = first.kelpie.stop().await.unwrap();
    assert_eq!(exit.code, Some(0));
    until_leading(&second.kelpie).await;
    namespace.create_pod(&TestPod::new("b")).await.unwrap();
    namespace.until_live_pods(&[], TIMEOUT).await.unwrap();

    // A suspended leader notices that it is no longer the leader before it deletes anything.
    let third = fixture.weeder(CONFIG, &ELECTION).await;
    second.kelpie.process().signal("STOP").unwrap();
    until_leading(&third.kelpie).await;
    until_window(&third, "shoot").await;
    third.kelpie.process().signal("STOP").unwrap();
    namespace.create_pod(&TestPod::new("c")).await.unwrap();
    second.kelpie.process().signal("CONT").unwrap();
    let line = ["standby: not the leader"];
    second.kelpie.until_line(&line, TIMEOUT).await.unwrap();
    until_no_window(&second, "shoot").await;
    until_deletions(&second, 1.0).await;
    third.kelpie.process().signal("CONT").unwrap();
    namespace.until_live_pods(&[], TIMEOUT).await.unwrap();
}
