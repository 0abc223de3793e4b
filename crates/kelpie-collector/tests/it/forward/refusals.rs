//! What the hub refuses, and what that means for a tick.

use std::time::Duration;

use kelpie_collector::Success;

use super::hub::Reply;
use super::stage::{MINUTE, START, Stage, lines};

/// A hub that has the series of `name` at a later time than `lines` would have now.
fn newer(stage: &Stage, name: &str, count: usize, ahead_ms: i64) {
    let mut hub = stage.hub.lock();
    for number in 0..count {
        let series = format!("{name}{{n=\"{number}\"}}");
        hub.series.insert(series, (START + ahead_ms, 0.5));
    }
}

const REFUSED: &str = "kelpie_collector_samples_refused_total";

#[tokio::test(start_paused = true)]
async fn one_sample_out_of_order_costs_only_itself() {
    let mut stage = Stage::new();
    stage.text(lines("m", 10_000, Duration::ZERO));
    newer(&stage, "m", 1, 1_000);
    let outcome = stage.tick().await;
    assert_eq!(outcome.result, Ok(Success::Sent));
    assert_eq!((outcome.accepted, outcome.refused()), (9_999, 1));
    let requests = stage.sent().len();
    assert!(requests <= 65, "{requests} requests");
    assert_eq!(
        stage.metric(&format!("{REFUSED}{{cause=\"out_of_order\"}}")),
        1
    );
    assert_eq!(stage.hub.lock().stored, 9_999, "each once");
}

#[tokio::test(start_paused = true)]
async fn what_the_hub_has_newer_is_not_missing_there() {
    let mut stage = Stage::new();
    stage.text(lines("m", 20, Duration::ZERO));
    newer(&stage, "m", 20, 1_000);
    let outcome = stage.tick().await;
    assert_eq!((outcome.accepted, outcome.refused()), (0, 20));
    assert_eq!(outcome.result, Ok(Success::Sent));
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_together_is_not_known_to_be_there() {
    let mut stage = Stage::new();
    stage.text(lines("m", 5_000, Duration::ZERO));
    newer(&stage, "m", 5_000, 1_000);
    let outcome = stage.tick().await;
    assert_eq!((outcome.accepted, outcome.refused()), (0, 5_000));
    let said = outcome.result.unwrap_err();
    assert!(
        said.ends_with("it answered 400: out of order sample"),
        "{said}"
    );
    assert_eq!(stage.sent().len(), 65);
}

#[tokio::test(start_paused = true)]
async fn another_value_for_the_same_time_is_refused_and_counted() {
    let mut stage = Stage::new();
    stage.text(lines("m", 20, Duration::ZERO));
    newer(&stage, "m", 1, 0);
    let outcome = stage.tick().await;
    assert_eq!((outcome.accepted, outcome.refused()), (19, 1));
    assert_eq!(
        stage.metric(&format!("{REFUSED}{{cause=\"duplicate\"}}")),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_sample_from_the_future_that_voids_all_others_does_not_look_well() {
    let mut stage = Stage::new();
    stage.text(lines("m", 30_000, Duration::ZERO));
    // Somebody else has written three hours ahead.
    newer(&stage, "other", 1, 3 * 3_600_000);
    let outcome = stage.tick().await;
    assert_eq!((outcome.accepted, outcome.refused()), (0, 30_000));
    let said = outcome.result.unwrap_err();
    let expected = "the hub refuses more than half of the samples: it answered 400: out of bounds";
    assert_eq!(said, expected);
    assert_eq!(stage.sent().len(), 3 + 64, "64 extra requests at most");
    let counted = stage.metric(&format!("{REFUSED}{{cause=\"out_of_bounds\"}}"));
    assert_eq!(counted, 30_000);
}

#[tokio::test(start_paused = true)]
async fn a_few_old_samples_are_left_out_and_the_tick_succeeds() {
    let mut stage = Stage::new();
    let old = lines("old", 2, 120 * MINUTE);
    stage.text(format!("{}{old}", lines("m", 5_000, Duration::ZERO)));
    newer(&stage, "other", 1, 0);
    let outcome = stage.tick().await;
    assert_eq!(outcome.result, Ok(Success::Sent));
    assert_eq!((outcome.accepted, outcome.refused()), (5_000, 2));
}

#[tokio::test(start_paused = true)]
async fn too_old_samples_are_refused_although_the_status_is_500() {
    let mut stage = Stage::new();
    stage.text(lines("m", 4, Duration::ZERO));
    stage.hub.lock().always = Some(Reply::Status(500, "too old sample\n"));
    let outcome = stage.tick().await;
    assert_eq!(outcome.refused(), 4);
    assert!(outcome.result.unwrap_err().contains("too old sample"));
    assert_eq!(stage.sent(), [4, 2, 2, 1, 1, 1, 1], "halved, not repeated");
}

#[tokio::test(start_paused = true)]
async fn a_409_without_details_is_delivered_or_superseded() {
    let mut stage = Stage::new();
    stage.text(lines("m", 4, Duration::ZERO));
    stage.hub.lock().always = Some(Reply::Status(409, "conflict"));
    let outcome = stage.tick().await;
    assert_eq!(outcome.result, Ok(Success::Sent));
    assert_eq!((outcome.refused(), stage.sent().len()), (4, 1));
    assert_eq!(stage.metric(&format!("{REFUSED}{{cause=\"conflict\"}}")), 4);
}

#[tokio::test(start_paused = true)]
async fn a_409_with_details_is_halved_like_a_400() {
    let mut stage = Stage::new();
    stage.text(lines("m", 2, Duration::ZERO));
    let text = "store locally for endpoint: out of order sample";
    stage.hub.lock().script = [Reply::Status(409, text)].into();
    let outcome = stage.tick().await;
    assert_eq!((outcome.accepted, outcome.refused()), (2, 0));
    assert_eq!(stage.sent(), [2, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn requests_get_smaller_when_the_hub_says_so_and_stay_so() {
    let mut stage = Stage::new();
    stage.text(lines("m", 25_000, Duration::ZERO));
    stage.hub.lock().most = Some(3_000);
    let mut collector = stage.collector();
    let outcome = collector.tick().await;
    assert_eq!(outcome.result, Ok(Success::Sent));
    assert_eq!(outcome.accepted, 25_000);
    assert_eq!(stage.sent()[..3], [10_000, 5_000, 2_500]);
    assert!(stage.sent()[2..].iter().all(|samples| *samples <= 2_500));
    stage.hub.lock().requests.clear();
    stage.text(lines("n", 10_000, Duration::ZERO));
    assert_eq!(collector.tick().await.accepted, 10_000);
    assert_eq!(stage.sent(), [2_500; 4]);
}

#[tokio::test(start_paused = true)]
async fn samples_that_are_too_large_cost_only_themselves_and_only_this_time() {
    let mut stage = Stage::new();
    stage.hub.lock().most_bytes = Some(300_000);
    let mut text = String::new();
    for part in 0..5 {
        text += &large(part);
        text += &lines(&format!("m{part}"), 9_999, Duration::ZERO);
    }
    stage.text(text);
    let mut collector = stage.collector();
    let outcome = collector.tick().await;
    assert_eq!(outcome.result, Ok(Success::Sent));
    assert_eq!((outcome.accepted, outcome.refused()), (5 * 9_999, 5));
    assert_eq!(
        stage.metric(&format!("{REFUSED}{{cause=\"too_large\"}}")),
        5
    );
    let requests = stage.sent().len();
    assert!(requests <= 5 * 20, "{requests} requests");
    stage.hub.lock().requests.clear();
    stage.text(lines("n", 10_000, Duration::ZERO));
    assert_eq!(collector.tick().await.accepted, 10_000);
    assert_eq!(stage.sent(), [10_000]);
}

/// A series with a label of 400 KB that does not compress.
fn large(number: u64) -> String {
    let mut random = fastrand::Rng::with_seed(number);
    let noise: String = std::iter::repeat_with(|| random.alphanumeric())
        .take(400_000)
        .collect();
    format!("large{{n=\"{number}\",noise=\"{noise}\"}} 1 {START}\n")
}

#[tokio::test(start_paused = true)]
async fn requests_get_larger_again_when_the_hub_takes_them() {
    let mut stage = Stage::new();
    stage.text(lines("m", 10_000, Duration::ZERO));
    stage.hub.lock().most = Some(9_000);
    let mut collector = stage.collector();
    assert_eq!(collector.tick().await.accepted, 10_000);
    assert_eq!(stage.sent(), [10_000, 5_000, 5_000]);
    stage.hub.lock().most = None;
    for tick in 0..6 {
        stage.text(lines(&format!("n{tick}"), 30_000, Duration::ZERO));
        assert_eq!(collector.tick().await.accepted, 30_000);
    }
    assert_eq!(stage.sent().last(), Some(&10_000));
}
