//! What the hub has is not sent again.

use std::fmt::Write;
use std::sync::Arc;

use kelpie_collector::{Batch, Cause, Rules, Seen};

use crate::rig::{NOW, Outcome, run_pieces};

fn tick(seen: &Arc<Seen>, body: &str) -> Outcome {
    let outcome = run_pieces(Rules::new(), seen, NOW, &[body.as_bytes()]);
    assert_eq!(outcome.result, Ok(()));
    outcome
}

fn acknowledge(seen: &Seen, batches: &[Batch]) {
    for batch in batches {
        seen.acknowledge(batch);
    }
}

#[test]
fn a_series_whose_timestamp_did_not_advance_is_not_sent_again() {
    let seen = Arc::default();
    let first = tick(&seen, "a 1 1699999990000\nb 1 1699999990000\n");
    acknowledge(&seen, &first.batches);
    seen.turn();
    let second = tick(
        &seen,
        "a 1 1699999990000\nb 2 1699999990001\nc 1 1699999990000\n",
    );
    assert_eq!(second.sent(), ["b 2 1699999990001", "c 1 1699999990000",]);
    assert_eq!((second.tally.unchanged, second.tally.sent), (1, 2));
}

#[test]
fn a_timestamp_that_went_back_is_not_sent_either() {
    let seen = Arc::default();
    acknowledge(&seen, &tick(&seen, "a 1 1699999990000\n").batches);
    seen.turn();
    assert_eq!(tick(&seen, "a 1 1699999980000\n").tally.unchanged, 1);
}

#[test]
fn what_was_not_acknowledged_is_sent_again() {
    let seen = Arc::default();
    let body = "a 1 1699999990000\n";
    assert_eq!(tick(&seen, body).tally.sent, 1);
    seen.turn();
    assert_eq!(tick(&seen, body).tally.sent, 1);
}

#[test]
fn a_refused_sample_does_not_hide_that_the_hub_has_an_older_one() {
    let seen = Arc::default();
    acknowledge(&seen, &tick(&seen, "a 1 1699999990000\n").batches);
    seen.turn();
    assert_eq!(tick(&seen, "a 2 1699999995000\n").tally.sent, 1);
    seen.turn();
    assert_eq!(tick(&seen, "a 1 1699999990000\n").tally.unchanged, 1);
    assert_eq!(tick(&seen, "a 2 1699999995000\n").tally.sent, 1);
}

#[test]
fn streams_share_what_was_sent_in_a_tick() {
    let seen = Arc::default();
    // A second stream of the same tick, before the hub has answered: two matchers that overlap.
    assert_eq!(tick(&seen, "a 1 1699999990000\n").tally.sent, 1);
    let other = tick(&seen, "a 1 1699999990000\nb 1 1699999990000\n");
    assert_eq!(other.sent(), ["b 1 1699999990000"]);
    assert_eq!(other.tally.filtered(Cause::Repeated), 1);
}

#[test]
fn series_that_differ_in_elided_labels_only_are_sent_once() {
    let rules = Rules::new().elide("replica").unwrap();
    let body = b"a{replica=\"0\"} 1 1699999990000\na{replica=\"1\"} 2 1699999990000\n";
    let outcome = run_pieces(rules, &Arc::default(), NOW, &[body]);
    assert_eq!(outcome.sent(), ["a 1 1699999990000"]);
    assert_eq!(outcome.tally.filtered(Cause::Repeated), 1);
}

#[test]
fn several_samples_of_a_series_are_sent_as_long_as_they_advance() {
    let body = "a 1 1699999990000\na 2 1699999991000\na 3 1699999990500\n";
    let outcome = tick(&Arc::default(), body);
    assert_eq!((outcome.tally.sent, outcome.sent().len()), (2, 2));
}

#[test]
fn a_series_that_did_not_show_in_two_ticks_is_forgotten() {
    let seen = Arc::default();
    let both = "a 1 1699999990000\nb 1 1699999990000\n";
    acknowledge(&seen, &tick(&seen, both).batches);
    seen.turn();
    for left in [2, 1] {
        // Unchanged is seen too.
        assert_eq!(tick(&seen, "a 1 1699999990000\n").tally.unchanged, 1);
        seen.turn();
        assert_eq!(seen.len(), left);
    }
    // One resend is harmless.
    assert_eq!(tick(&seen, both).tally.sent, 1);
}

#[test]
fn a_series_takes_less_than_24_bytes_at_any_size() {
    let seen: Arc<Seen> = Arc::default();
    let mut body = String::new();
    for step in 0..40 {
        for series in 0..5_000 {
            writeln!(body, "a{{x=\"{step}-{series}\"}} 1").unwrap();
        }
        tick(&seen, &body);
        body.clear();
        let (bytes, series) = (seen.bytes(), seen.len());
        assert_eq!(series, 5_000 * (step + 1));
        // A shard of a small table has a few places to spare.
        let spare = 256 * 16 * 16;
        assert!(bytes <= 24 * series + spare, "{bytes} for {series}");
        assert!(step < 20 || bytes <= 24 * series, "{bytes} for {series}");
    }
    // And what goes gives its memory back.
    for _ in 0..3 {
        tick(&seen, "b 1\n");
        seen.turn();
    }
    assert_eq!(seen.len(), 1);
    assert!(seen.bytes() < 256 * 64, "{}", seen.bytes());
}
