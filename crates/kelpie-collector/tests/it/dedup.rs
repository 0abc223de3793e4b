//! Samples that the hub has are not sent again.

use std::fmt::Write;
use std::sync::Arc;

use kelpie_collector::{Batch, DedupTable, FilterCause, TransformRules};

use crate::fixture::{NOW, PipelineOutput, run_chunks};

fn tick(dedup: &Arc<DedupTable>, body: &str) -> PipelineOutput {
    let outcome = run_chunks(TransformRules::new(), dedup, NOW, &[body.as_bytes()]);
    assert_eq!(outcome.result, Ok(()));
    outcome
}

fn acknowledge(dedup: &DedupTable, batches: &[Batch]) {
    for batch in batches {
        dedup.acknowledge(batch);
    }
}

#[test]
fn unchanged_timestamp_is_not_sent_again() {
    let dedup = Arc::default();
    let first = tick(&dedup, "a 1 1699999990000\nb 1 1699999990000\n");
    acknowledge(&dedup, &first.batches);
    dedup.end_tick();
    let second = tick(
        &dedup,
        "a 1 1699999990000\nb 2 1699999990001\nc 1 1699999990000\n",
    );
    assert_eq!(second.sent(), ["b 2 1699999990001", "c 1 1699999990000",]);
    assert_eq!((second.counts.unchanged, second.counts.sent), (1, 2));
}

#[test]
fn older_timestamp_is_not_sent() {
    let dedup = Arc::default();
    acknowledge(&dedup, &tick(&dedup, "a 1 1699999990000\n").batches);
    dedup.end_tick();
    assert_eq!(tick(&dedup, "a 1 1699999980000\n").counts.unchanged, 1);
}

#[test]
fn unacknowledged_samples_are_sent_again() {
    let dedup = Arc::default();
    let body = "a 1 1699999990000\n";
    assert_eq!(tick(&dedup, body).counts.sent, 1);
    dedup.end_tick();
    assert_eq!(tick(&dedup, body).counts.sent, 1);
}

#[test]
fn refused_sample_keeps_older_acknowledgement() {
    let dedup = Arc::default();
    acknowledge(&dedup, &tick(&dedup, "a 1 1699999990000\n").batches);
    dedup.end_tick();
    assert_eq!(tick(&dedup, "a 2 1699999995000\n").counts.sent, 1);
    dedup.end_tick();
    assert_eq!(tick(&dedup, "a 1 1699999990000\n").counts.unchanged, 1);
    assert_eq!(tick(&dedup, "a 2 1699999995000\n").counts.sent, 1);
}

#[test]
fn streams_of_a_tick_share_the_table() {
    let dedup = Arc::default();
    // A second stream of the same tick, before the hub has responded: two matchers overlap.
    assert_eq!(tick(&dedup, "a 1 1699999990000\n").counts.sent, 1);
    let other = tick(&dedup, "a 1 1699999990000\nb 1 1699999990000\n");
    assert_eq!(other.sent(), ["b 1 1699999990000"]);
    assert_eq!(other.counts.filtered(FilterCause::Repeated), 1);
}

#[test]
fn series_equal_after_eliding_are_sent_once() {
    let rules = TransformRules::new().elide("replica").unwrap();
    let body = b"a{replica=\"0\"} 1 1699999990000\na{replica=\"1\"} 2 1699999990000\n";
    let outcome = run_chunks(rules, &Arc::default(), NOW, &[body]);
    assert_eq!(outcome.sent(), ["a 1 1699999990000"]);
    assert_eq!(outcome.counts.filtered(FilterCause::Repeated), 1);
}

#[test]
fn one_sample_of_a_series_is_on_its_way() {
    let dedup = Arc::default();
    let first = tick(&dedup, "a 1 1699999990000\na 2 1699999991000\n");
    assert_eq!(first.sent(), ["a 1 1699999990000"]);
    assert_eq!(first.counts.filtered(FilterCause::Repeated), 1);
    // After the hub has it, the next one may follow in the same tick.
    acknowledge(&dedup, &first.batches);
    let second = tick(&dedup, "a 1 1699999990000\na 2 1699999991000\n");
    assert_eq!(second.sent(), ["a 2 1699999991000"]);
    assert_eq!(second.counts.unchanged, 1);
}

#[test]
fn series_absent_for_two_ticks_is_removed() {
    let dedup = Arc::default();
    let both = "a 1 1699999990000\nb 1 1699999990000\n";
    acknowledge(&dedup, &tick(&dedup, both).batches);
    dedup.end_tick();
    for left in [2, 1] {
        // An unchanged series is live too.
        assert_eq!(tick(&dedup, "a 1 1699999990000\n").counts.unchanged, 1);
        dedup.end_tick();
        assert_eq!(dedup.len(), left);
    }
    // Sending a sample once more is harmless.
    assert_eq!(tick(&dedup, both).counts.sent, 1);
}

#[test]
fn series_takes_under_24_bytes() {
    let dedup: Arc<DedupTable> = Arc::default();
    let mut body = String::new();
    for step in 0..40 {
        for series in 0..5_000 {
            writeln!(body, "a{{x=\"{step}-{series}\"}} 1").unwrap();
        }
        tick(&dedup, &body);
        body.clear();
        let (bytes, series) = (dedup.bytes(), dedup.len());
        assert_eq!(series, 5_000 * (step + 1));
        // Each shard of a small table has a few spare slots.
        let spare = 256 * 16 * 16;
        assert!(bytes <= 24 * series + spare, "{bytes} for {series}");
        assert!(step < 20 || bytes <= 24 * series, "{bytes} for {series}");
    }
    // Removed series free their memory.
    for _ in 0..3 {
        tick(&dedup, "b 1\n");
        dedup.end_tick();
    }
    assert_eq!(dedup.len(), 1);
    assert!(dedup.bytes() < 256 * 64, "{}", dedup.bytes());
}
