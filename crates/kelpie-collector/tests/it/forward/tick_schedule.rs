//! The schedule of ticks, and the reports after them.

use std::time::Duration;

use kelpie_collector::ForwardReport;
use kelpie_core::addon::ForwardOutcome;
use kelpie_health::{LoopHeartbeat, Readiness};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::fixture::{Body, Fixture, INTERVAL, endless_lines, lines};

const NOW: Duration = Duration::ZERO;

/// Runs a collector for this long and returns its reports.
async fn run(
    fixture: &mut Fixture,
    duration: Duration,
    meanwhile: impl AsyncFnOnce(&Fixture),
) -> Vec<ForwardReport> {
    let collector = fixture.collector();
    let reports = collector.reports();
    let shutdown = CancellationToken::new();
    let ready = Readiness::new().handle("collector");
    let running =
        tokio::spawn(collector.run(shutdown.clone(), LoopHeartbeat::new(INTERVAL), ready));
    let collected = tokio::spawn(collect_reports(reports));
    meanwhile(fixture).await;
    sleep(duration.saturating_sub(fixture.started.elapsed())).await;
    shutdown.cancel();
    running.await.unwrap();
    collected.await.unwrap()
}

async fn collect_reports(
    mut reports: watch::Receiver<Option<ForwardReport>>,
) -> Vec<ForwardReport> {
    let mut collected = Vec::new();
    while reports.changed().await.is_ok() {
        collected.extend(reports.borrow_and_update().clone());
    }
    collected
}

fn results(reports: &[ForwardReport]) -> String {
    let letter = |report: &ForwardReport| match report.forward {
        ForwardOutcome::Successful => 'S',
        ForwardOutcome::Failure => 'F',
    };
    reports.iter().map(letter).collect()
}

async fn nothing(_: &Fixture) {}

#[tokio::test(start_paused = true)]
async fn every_success_is_reported() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 1, NOW));
    let reports = run(&mut fixture, INTERVAL * 3 + INTERVAL / 2, nothing).await;
    assert_eq!(results(&reports), "SSSS");
    assert!(
        reports
            .iter()
            .all(|report| report.message == reports[0].message)
    );
    assert_eq!(fixture.source.requests.lock().unwrap().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn cluster_has_its_own_offset() {
    let mut firsts = Vec::new();
    for cluster in ["spoke-1", "spoke-2", "spoke-1"] {
        let mut fixture = Fixture::new();
        fixture.text(lines("m", 1, NOW));
        fixture.settings.cluster = Some(cluster.to_owned());
        run(&mut fixture, INTERVAL, nothing).await;
        let hub = fixture.hub.lock();
        assert_eq!(hub.requests.len(), 1);
        firsts.push(hub.requests[0].at - fixture.started);
    }
    assert!(firsts[0].abs_diff(firsts[2]) < Duration::from_millis(50));
    assert!(firsts[0].abs_diff(firsts[1]) > Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn long_ticks_do_not_overlap() {
    let mut fixture = Fixture::new();
    fixture.body(endless_lines());
    run(&mut fixture, INTERVAL * 7 / 2, nothing).await;
    assert_eq!(fixture.source.requests.lock().unwrap().len(), 4);
    assert_eq!(
        fixture.metric("kelpie_collector_ticks_total{result=\"failure\"}"),
        3
    );
}

#[tokio::test(start_paused = true)]
async fn failure_is_debounced_and_success_is_not() {
    let mut fixture = Fixture::new();
    fixture.settings.interval = Duration::from_mins(1);
    fixture.text(lines("m", 1, NOW));
    let minutes = |count: u64| Duration::from_mins(count);
    let reports = run(&mut fixture, Duration::from_secs(690), async |fixture| {
        sleep(Duration::from_secs(30)).await;
        // A failure without retries, so that it is reported at its minute.
        fixture.body(Body::Status(400, ""));
        // Ticks fail at minutes 1 to 8. At minute 6 the first failure is five minutes old.
        sleep(minutes(8)).await;
        fixture.text(lines("m", 1, NOW));
    });
    let reports = reports.await;
    assert_eq!(results(&reports), "SFFFSSS");
    assert_eq!(
        reports[1].message,
        "source: /federate: HTTP 400 Bad Request"
    );
}

#[tokio::test(start_paused = true)]
async fn alternating_failures_are_never_reported() {
    let mut fixture = Fixture::new();
    fixture.settings.degrade_after = Duration::ZERO;
    fixture.text(lines("m", 1, NOW));
    let reports = run(
        &mut fixture,
        INTERVAL * 40 + INTERVAL / 2,
        async |fixture| {
            sleep(INTERVAL / 2).await;
            for _ in 0..20 {
                fixture.body(Body::Status(503, ""));
                sleep(INTERVAL).await;
                fixture.text(lines("m", 1, NOW));
                sleep(INTERVAL).await;
            }
        },
    );
    assert_eq!(results(&reports.await), "S".repeat(21));
    let failures = fixture.metric("kelpie_collector_ticks_total{result=\"failure\"}");
    assert_eq!(failures, 20);
}

#[tokio::test(start_paused = true)]
async fn empty_rule_does_not_hide_failed_federation() {
    let mut fixture = Fixture::new();
    fixture.settings.degrade_after = Duration::ZERO;
    fixture.body(Body::Status(500, ""));
    let empty = r#"{"data":{"resultType":"vector","result":[]}}"#;
    fixture.rule("r", "r", 200, empty);
    let reports = run(&mut fixture, INTERVAL * 11 / 2, nothing).await;
    assert_eq!(results(&reports), "FFFF");
}
