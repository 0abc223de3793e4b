//! When ticks begin, and what is said after them.

use std::time::Duration;

use kelpie_collector::Word;
use kelpie_core::addon::Forward;
use kelpie_health::{Pulse, Readiness};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::stage::{Body, INTERVAL, Stage, lines};

const NOW: Duration = Duration::ZERO;

/// Runs a collector for so long; gives everything it said.
async fn run(stage: &mut Stage, long: Duration, meanwhile: impl AsyncFnOnce(&Stage)) -> Vec<Word> {
    let collector = stage.collector();
    let words = collector.words();
    let shutdown = CancellationToken::new();
    let ready = Readiness::new().handle("collector");
    let running = tokio::spawn(collector.run(shutdown.clone(), Pulse::new(INTERVAL), ready));
    let said = tokio::spawn(listen(words));
    meanwhile(stage).await;
    sleep(long.saturating_sub(stage.began.elapsed())).await;
    shutdown.cancel();
    running.await.unwrap();
    said.await.unwrap()
}

async fn listen(mut words: watch::Receiver<Option<Word>>) -> Vec<Word> {
    let mut said = Vec::new();
    while words.changed().await.is_ok() {
        said.extend(words.borrow_and_update().clone());
    }
    said
}

fn forwards(words: &[Word]) -> String {
    let letter = |word: &Word| match word.forward {
        Forward::Successful => 'S',
        Forward::Failure => 'F',
    };
    words.iter().map(letter).collect()
}

async fn nothing(_: &Stage) {}

#[tokio::test(start_paused = true)]
async fn ticks_come_every_interval_and_each_success_is_told() {
    let mut stage = Stage::new();
    stage.text(lines("m", 1, NOW));
    let words = run(&mut stage, INTERVAL * 3 + INTERVAL / 2, nothing).await;
    assert_eq!(forwards(&words), "SSSS");
    assert!(words.iter().all(|word| word.message == words[0].message));
    assert_eq!(stage.source.requests.lock().unwrap().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_begins_at_its_own_place_in_the_interval() {
    let mut firsts = Vec::new();
    for cluster in ["spoke-1", "spoke-2", "spoke-1"] {
        let mut stage = Stage::new();
        stage.text(lines("m", 1, NOW));
        stage.settings.cluster = Some(cluster.to_owned());
        run(&mut stage, INTERVAL, nothing).await;
        let hub = stage.hub.lock();
        assert_eq!(hub.requests.len(), 1);
        firsts.push(hub.requests[0].at - stage.began);
    }
    assert!(firsts[0].abs_diff(firsts[2]) < Duration::from_millis(50));
    assert!(firsts[0].abs_diff(firsts[1]) > Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn ticks_that_take_all_their_time_do_not_overlap() {
    let mut stage = Stage::new();
    stage.body(Body::Silence);
    run(&mut stage, INTERVAL * 7 / 2, nothing).await;
    assert_eq!(stage.source.requests.lock().unwrap().len(), 4);
    assert_eq!(
        stage.metric("kelpie_collector_ticks_total{result=\"failure\"}"),
        3
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_after_three_and_five_minutes_and_a_success_at_once() {
    let mut stage = Stage::new();
    stage.settings.interval = Duration::from_mins(1);
    stage.text(lines("m", 1, NOW));
    let minutes = |count: u64| Duration::from_mins(count);
    let words = run(&mut stage, Duration::from_secs(690), async |stage| {
        sleep(Duration::from_secs(30)).await;
        stage.body(Body::Status(503, ""));
        // Failures at minutes 1 to 8; the first is five minutes old at minute 6.
        sleep(minutes(8)).await;
        stage.text(lines("m", 1, NOW));
    });
    let words = words.await;
    assert_eq!(forwards(&words), "SFFFSSS");
    assert_eq!(
        words[1].message,
        "the source: /federate: it answered 503 Service Unavailable"
    );
}

#[tokio::test(start_paused = true)]
async fn one_failure_in_two_is_never_told() {
    let mut stage = Stage::new();
    stage.settings.degrade_after = Duration::ZERO;
    stage.text(lines("m", 1, NOW));
    let words = run(&mut stage, INTERVAL * 40 + INTERVAL / 2, async |stage| {
        sleep(INTERVAL / 2).await;
        for _ in 0..20 {
            stage.body(Body::Status(503, ""));
            sleep(INTERVAL).await;
            stage.text(lines("m", 1, NOW));
            sleep(INTERVAL).await;
        }
    });
    assert_eq!(forwards(&words.await), "S".repeat(21));
    let failures = stage.metric("kelpie_collector_ticks_total{result=\"failure\"}");
    assert_eq!(failures, 20);
}

#[tokio::test(start_paused = true)]
async fn a_rule_without_results_does_not_hide_a_federation_that_fails() {
    let mut stage = Stage::new();
    stage.settings.degrade_after = Duration::ZERO;
    stage.body(Body::Status(500, ""));
    let empty = r#"{"data":{"resultType":"vector","result":[]}}"#;
    stage.rule("r", "r", 200, empty);
    let words = run(&mut stage, INTERVAL * 11 / 2, nothing).await;
    assert_eq!(forwards(&words), "FFFF");
}
