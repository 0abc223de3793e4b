//! Two replicas: one acts, the other is ready to.

use kelpie_e2e::landscape::{PodSpec, Weeder};
use kelpie_e2e::poll;

use super::stage::*;

const ELECTION: [&str; 4] = [
    "--enable-leader-election=true",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=1s",
];

async fn leads(weeder: &Weeder) -> bool {
    weeder.state().await.unwrap()["leads"] == true
}

async fn until_leading(weeder: &Weeder) {
    let leading = poll::until("a leader", PATIENCE, async || {
        Ok(leads(weeder).await.then_some(()))
    });
    leading.await.unwrap();
}

#[tokio::test]
async fn exactly_one_replica_deletes_and_the_next_one_begins_as_a_new_process_would() {
    let stage = Stage::start().await;
    let made = stage.without_etcd("shoot").await;
    let first = stage.weeder(CONFIG, &ELECTION).await;
    until_leading(&first).await;
    let second = stage.weeder(CONFIG, &ELECTION).await;
    made.pod(&PodSpec::new("a")).await.unwrap();
    made.set(ETCD, &[Some(true)]).await.unwrap();
    made.until_alive(&[], PATIENCE).await.unwrap();
    // The standby has seen the same, and done nothing.
    until_seen(&second, "shoot", true).await;
    assert!(!leads(&second).await);
    until_deletions(&second, 0.0).await;
    assert_eq!(second.kelpie.lines(&["window opened"]).len(), 0);

    let ended = first.kelpie.stop().await.unwrap();
    assert_eq!(ended.code, Some(0));
    until_leading(&second).await;
    made.pod(&PodSpec::new("b")).await.unwrap();
    made.until_alive(&[], PATIENCE).await.unwrap();

    // A leader that was stopped finds out that it leads no more before it deletes anything.
    let third = stage.weeder(CONFIG, &ELECTION).await;
    second.kelpie.process().signal("STOP").unwrap();
    until_leading(&third).await;
    until_window(&third, "shoot").await;
    third.kelpie.process().signal("STOP").unwrap();
    made.pod(&PodSpec::new("c")).await.unwrap();
    second.kelpie.process().signal("CONT").unwrap();
    let line = ["this replica observes"];
    second.kelpie.until_line(&line, PATIENCE).await.unwrap();
    until_no_window(&second, "shoot").await;
    until_deletions(&second, 1.0).await;
    third.kelpie.process().signal("CONT").unwrap();
    made.until_alive(&[], PATIENCE).await.unwrap();
}
