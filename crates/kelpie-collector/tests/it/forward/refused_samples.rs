//! Samples that the hub refuses, and the result of their tick.

use std::time::Duration;

use kelpie_collector::TickSuccess;

use super::fake_hub::Reply;
use super::fixture::{Fixture, MINUTE, START, lines};

/// Stores newer samples than those of `lines` for the series of `name`.
fn store_newer(fixture: &Fixture, name: &str, count: usize, ahead_ms: i64) {
    let mut hub = fixture.hub.lock();
    for number in 0..count {
        let series = format!("{name}{{n=\"{number}\"}}");
        hub.series.insert(series, (START + ahead_ms, 0.5));
    }
}

const REFUSED: &str = "kelpie_collector_samples_refused_total";

#[tokio::test(start_paused = true)]
async fn out_of_order_sample_costs_only_itself() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 10_000, Duration::ZERO));
    store_newer(&fixture, "m", 1, 1_000);
    let outcome = fixture.tick().await;
    assert_eq!(outcome.result, Ok(TickSuccess::Sent));
    assert_eq!((outcome.accepted, outcome.refused()), (9_999, 1));
    let requests = fixture.sent().len();
    assert!(requests <= 65, "{requests} requests");
    assert_eq!(
        fixture.metric(&format!("{REFUSED}{{cause=\"out_of_order\"}}")),
        1
    );
    assert_eq!(fixture.hub.lock().stored, 9_999, "each once");
}

#[tokio::test(start_paused = true)]
async fn newer_sample_at_hub_counts_as_present() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 20, Duration::ZERO));
    store_newer(&fixture, "m", 20, 1_000);
    let outcome = fixture.tick().await;
    assert_eq!((outcome.accepted, outcome.refused()), (0, 20));
    assert_eq!(outcome.result, Ok(TickSuccess::Sent));
}

#[tokio::test(start_paused = true)]
async fn samples_refused_together_count_as_missing() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 5_000, Duration::ZERO));
    store_newer(&fixture, "m", 5_000, 1_000);
    let outcome = fixture.tick().await;
    assert_eq!((outcome.accepted, outcome.refused()), (0, 5_000));
    let message = outcome.result.unwrap_err();
    assert!(
        message.ends_with("HTTP 400: out of order sample"),
        "{message}"
    );
    assert_eq!(fixture.sent().len(), 65);
}

#[tokio::test(start_paused = true)]
async fn duplicate_timestamp_is_counted_as_refused() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 20, Duration::ZERO));
    store_newer(&fixture, "m", 1, 0);
    let outcome = fixture.tick().await;
    assert_eq!((outcome.accepted, outcome.refused()), (19, 1));
    assert_eq!(
        fixture.metric(&format!("{REFUSED}{{cause=\"duplicate\"}}")),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn future_sample_in_hub_fails_tick() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 30_000, Duration::ZERO));
    // Another client wrote a sample three hours ahead.
    store_newer(&fixture, "other", 1, 3 * 3_600_000);
    let outcome = fixture.tick().await;
    assert_eq!((outcome.accepted, outcome.refused()), (0, 30_000));
    let message = outcome.result.unwrap_err();
    let expected = "the hub refused more than half of the samples: HTTP 400: out of bounds";
    assert_eq!(message, expected);
    assert_eq!(fixture.sent().len(), 3 + 64, "64 extra requests at most");
    let counted = fixture.metric(&format!("{REFUSED}{{cause=\"out_of_bounds\"}}"));
    assert_eq!(counted, 30_000);
}

#[tokio::test(start_paused = true)]
async fn few_old_samples_do_not_fail_tick() {
    let mut fixture = Fixture::new();
    let old = lines("old", 2, 120 * MINUTE);
    fixture.text(format!("{}{old}", lines("m", 5_000, Duration::ZERO)));
    store_newer(&fixture, "other", 1, 0);
    let outcome = fixture.tick().await;
    assert_eq!(outcome.result, Ok(TickSuccess::Sent));
    assert_eq!((outcome.accepted, outcome.refused()), (5_000, 2));
}

#[tokio::test(start_paused = true)]
async fn too_old_is_refused_despite_500() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 4, Duration::ZERO));
    fixture.hub.lock().always = Some(Reply::Status(500, "too old sample\n"));
    let outcome = fixture.tick().await;
    assert_eq!(outcome.refused(), 4);
    assert!(outcome.result.unwrap_err().contains("too old sample"));
    assert_eq!(
        fixture.sent(),
        [4, 2, 2, 1, 1, 1, 1],
        "halved, not repeated"
    );
}

#[tokio::test(start_paused = true)]
async fn plain_409_counts_as_present() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 4, Duration::ZERO));
    fixture.hub.lock().always = Some(Reply::Status(409, "conflict"));
    let outcome = fixture.tick().await;
    assert_eq!(outcome.result, Ok(TickSuccess::Sent));
    assert_eq!((outcome.refused(), fixture.sent().len()), (4, 1));
    assert_eq!(
        fixture.metric(&format!("{REFUSED}{{cause=\"conflict\"}}")),
        4
    );
}

#[tokio::test(start_paused = true)]
async fn detailed_409_is_bisected() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 2, Duration::ZERO));
    let text = "store locally for endpoint: out of order sample";
    fixture.hub.lock().script = [Reply::Status(409, text)].into();
    let outcome = fixture.tick().await;
    assert_eq!((outcome.accepted, outcome.refused()), (2, 0));
    assert_eq!(fixture.sent(), [2, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn request_size_shrinks_and_stays() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 25_000, Duration::ZERO));
    fixture.hub.lock().max_samples = Some(3_000);
    let mut collector = fixture.collector();
    let outcome = collector.tick().await;
    assert_eq!(outcome.result, Ok(TickSuccess::Sent));
    assert_eq!(outcome.accepted, 25_000);
    assert_eq!(fixture.sent()[..3], [10_000, 5_000, 2_500]);
    assert!(fixture.sent()[2..].iter().all(|samples| *samples <= 2_500));
    fixture.hub.lock().requests.clear();
    fixture.text(lines("n", 10_000, Duration::ZERO));
    assert_eq!(collector.tick().await.accepted, 10_000);
    assert_eq!(fixture.sent(), [2_500; 4]);
}

#[tokio::test(start_paused = true)]
async fn oversized_samples_cost_only_themselves() {
    let mut fixture = Fixture::new();
    fixture.hub.lock().max_bytes = Some(300_000);
    let mut text = String::new();
    for part in 0..5 {
        text += &large(part);
        text += &lines(&format!("m{part}"), 9_999, Duration::ZERO);
    }
    fixture.text(text);
    let mut collector = fixture.collector();
    let outcome = collector.tick().await;
    assert_eq!(outcome.result, Ok(TickSuccess::Sent));
    assert_eq!((outcome.accepted, outcome.refused()), (5 * 9_999, 5));
    assert_eq!(
        fixture.metric(&format!("{REFUSED}{{cause=\"too_large\"}}")),
        5
    );
    let requests = fixture.sent().len();
    assert!(requests <= 5 * 20, "{requests} requests");
    fixture.hub.lock().requests.clear();
    fixture.text(lines("n", 10_000, Duration::ZERO));
    assert_eq!(collector.tick().await.accepted, 10_000);
    assert_eq!(fixture.sent(), [10_000]);
}

/// Returns a series with an incompressible label of 400 KB.
fn large(number: u64) -> String {
    let mut random = fastrand::Rng::with_seed(number);
    let noise: String = std::iter::repeat_with(|| random.alphanumeric())
        .take(400_000)
        .collect();
    format!("large{{n=\"{number}\",noise=\"{noise}\"}} 1 {START}\n")
}

#[tokio::test(start_paused = true)]
async fn request_size_grows_back() {
    let mut fixture = Fixture::new();
    fixture.text(lines("m", 10_000, Duration::ZERO));
    fixture.hub.lock().max_samples = Some(9_000);
    let mut collector = fixture.collector();
    assert_eq!(collector.tick().await.accepted, 10_000);
    assert_eq!(fixture.sent(), [10_000, 5_000, 5_000]);
    fixture.hub.lock().max_samples = None;
    for tick in 0..6 {
        fixture.text(lines(&format!("n{tick}"), 30_000, Duration::ZERO));
        assert_eq!(collector.tick().await.accepted, 30_000);
    }
    assert_eq!(fixture.sent().last(), Some(&10_000));
}
