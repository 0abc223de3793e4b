//! Batches: how large, how they are cut, what is in them.

use std::fmt::Write;
use std::sync::Arc;

use kelpie_collector::{Batch, Pipeline, Rules};

use crate::rig::{NOW, drain, run};

fn body(samples: usize) -> String {
    let mut body = String::new();
    for sample in 0..samples {
        writeln!(body, "a{{x=\"{sample}\"}} {sample} 1699999990000").unwrap();
    }
    body
}

fn texts(batch: &Batch) -> Vec<String> {
    batch.samples().iter().map(ToString::to_string).collect()
}

#[test]
fn a_batch_has_at_most_ten_thousand_samples() {
    let outcome = run(Rules::new(), body(25_000).as_bytes());
    let lengths: Vec<usize> = outcome.batches.iter().map(Batch::len).collect();
    assert_eq!(lengths, [10_000, 10_000, 5_000]);
    assert_eq!(outcome.tally.sent, 25_000);
    let last = texts(&outcome.batches[2]).pop();
    assert_eq!(last.as_deref(), Some(r#"a{x="24999"} 24999 1699999990000"#));
}

#[test]
fn a_hub_that_wants_less_gets_less() {
    let pipeline = Pipeline::new(Arc::new(Rules::new()), Arc::default(), NOW).batches_of(7);
    let outcome = drain(pipeline, &[body(20).as_bytes()]);
    let lengths: Vec<usize> = outcome.batches.iter().map(Batch::len).collect();
    assert_eq!(lengths, [7, 7, 6]);
}

#[test]
fn a_batch_of_long_series_is_limited_by_its_bytes() {
    let mut body = String::new();
    for series in 0..30 {
        writeln!(body, "a{{x=\"{series}{}\"}} 1", "y".repeat(500_000)).unwrap();
    }
    let outcome = run(Rules::new(), body.as_bytes());
    let lengths: Vec<usize> = outcome.batches.iter().map(Batch::len).collect();
    assert_eq!(lengths, [9, 9, 9, 3]);
    assert_eq!(outcome.sent().len(), 30);
}

#[test]
fn nothing_to_send_is_no_batch() {
    assert!(run(Rules::new(), b"").batches.is_empty());
    assert!(run(Rules::new(), b"a 1 0\n").batches.is_empty());
}

#[test]
fn halves_hold_what_the_whole_held_down_to_single_samples() {
    let batch = run(Rules::new(), body(9).as_bytes()).batches.remove(0);
    let mut parts = vec![batch.clone()];
    let mut cuts = 0;
    while let Some(place) = parts.iter().position(|part| part.len() > 1) {
        let (head, tail) = parts[place].halves().unwrap();
        parts.splice(place..=place, [head, tail]);
        cuts += 1;
    }
    assert_eq!((parts.len(), cuts), (9, 8));
    assert!(parts[0].halves().is_none());
    let singles: Vec<String> = parts.iter().flat_map(texts).collect();
    assert_eq!(singles, texts(&batch));
    let marks: Vec<(u64, i64)> = parts.iter().flat_map(Batch::marks).collect();
    assert_eq!(marks, batch.marks().collect::<Vec<_>>());
}

#[test]
fn samples_of_recording_rules_go_the_same_way() {
    let rules = Rules::new().inject("cluster", "spoke").unwrap();
    let mut pipeline = Pipeline::new(Arc::new(rules), Arc::default(), NOW);
    let mut batches = Vec::new();
    let mut out = |batch| batches.push(batch);
    let labels = [("x", "\"\n"), ("cluster", "me"), ("empty", "")];
    pipeline.sample("rule:a", labels, 0.5, 1_699_999_990_000, &mut out);
    pipeline.sample("rule:a", [("cluster", "me")], 1.0, 0, &mut out);
    pipeline.sample("rule:b", [], f64::NAN, NOW, &mut out);
    pipeline.finish(&mut out).unwrap();
    assert_eq!(
        texts(&batches[0]),
        [
            r#"rule:a{cluster="spoke",x="\"\n"} 0.5 1699999990000"#,
            r#"rule:b{cluster="spoke"} NaN 1700000000000"#
        ]
    );
    // As Prometheus has it, not as this machine has it.
    let bits = batches[0].samples()[1].value.to_bits();
    assert_eq!(bits, 0x7ff8_0000_0000_0001);
    assert_eq!(pipeline.tally().read, 3);
}

/// Against the bytes that the protobuf definition demands, written by hand.
#[test]
fn the_request_is_a_write_request_of_the_protocol() {
    let batch = run(Rules::new(), b"up{x=\"y\"} 1 1700000000000\n")
        .batches
        .remove(0);
    let request = snap::raw::Decoder::new()
        .decompress_vec(&batch.encoded())
        .unwrap();
    let mut expected = vec![0x0a, 42]; // timeseries
    expected.extend([0x0a, 14, 0x0a, 8]); // labels, name
    expected.extend(b"__name__");
    expected.extend([0x12, 2]); // value
    expected.extend(b"up");
    expected.extend([0x0a, 6, 0x0a, 1, b'x', 0x12, 1, b'y']);
    expected.extend([0x12, 16, 0x09]); // samples, value
    expected.extend(1.0_f64.to_le_bytes());
    expected.extend([0x10, 0x80, 0xd0, 0x95, 0xff, 0xbc, 0x31]); // timestamp
    assert_eq!(request, expected);
}

#[test]
fn lengths_of_any_size_are_written_right() {
    for length in [1, 80, 100, 101, 127, 128, 16_300, 16_383, 16_384, 300_000] {
        let value = "y".repeat(length);
        let outcome = run(
            Rules::new(),
            format!("a{{x=\"{value}\"}} 1\nb 2\n").as_bytes(),
        );
        let samples = outcome.batches[0].samples();
        assert_eq!(samples.len(), 2, "{length}");
        assert_eq!(samples[0].labels[1].1, value);
    }
}
