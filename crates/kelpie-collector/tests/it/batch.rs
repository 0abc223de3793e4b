//! The size, splitting and encoding of batches.

use std::fmt::Write;
use std::sync::Arc;

use kelpie_collector::{Batch, Pipeline, TransformRules};

use crate::fixture::{NOW, run, run_pipeline};

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
fn batch_has_at_most_10000_samples() {
    let outcome = run(TransformRules::new(), body(25_000).as_bytes());
    let lengths: Vec<usize> = outcome.batches.iter().map(Batch::len).collect();
    assert_eq!(lengths, [10_000, 10_000, 5_000]);
    assert_eq!(outcome.counts.sent, 25_000);
    let last = texts(&outcome.batches[2]).pop();
    assert_eq!(last.as_deref(), Some(r#"a{x="24999"} 24999 1699999990000"#));
}

#[test]
fn batch_size_is_configurable() {
    let pipeline =
        Pipeline::new(Arc::new(TransformRules::new()), Arc::default(), NOW).with_batch_size(7);
    let outcome = run_pipeline(pipeline, &[body(20).as_bytes()]);
    let lengths: Vec<usize> = outcome.batches.iter().map(Batch::len).collect();
    assert_eq!(lengths, [7, 7, 6]);
}

#[test]
fn batch_is_limited_by_bytes() {
    let mut body = String::new();
    for series in 0..30 {
        writeln!(body, "a{{x=\"{series}{}\"}} 1", "y".repeat(500_000)).unwrap();
    }
    let outcome = run(TransformRules::new(), body.as_bytes());
    let lengths: Vec<usize> = outcome.batches.iter().map(Batch::len).collect();
    assert_eq!(lengths, [9, 9, 9, 3]);
    assert_eq!(outcome.sent().len(), 30);
}

#[test]
fn empty_input_has_no_batch() {
    assert!(run(TransformRules::new(), b"").batches.is_empty());
    assert!(run(TransformRules::new(), b"a 1 0\n").batches.is_empty());
}

#[test]
fn halves_keep_all_samples() {
    let batch = run(TransformRules::new(), body(9).as_bytes())
        .batches
        .remove(0);
    let mut parts = vec![batch.clone()];
    let mut cuts = 0;
    while let Some(index) = parts.iter().position(|part| part.len() > 1) {
        let (head, tail) = parts[index].halves().unwrap();
        parts.splice(index..=index, [head, tail]);
        cuts += 1;
    }
    assert_eq!((parts.len(), cuts), (9, 8));
    assert!(parts[0].halves().is_none());
    let singles: Vec<String> = parts.iter().flat_map(texts).collect();
    assert_eq!(singles, texts(&batch));
    let keys: Vec<(u64, i64)> = parts.iter().flat_map(Batch::sample_keys).collect();
    assert_eq!(keys, batch.sample_keys().collect::<Vec<_>>());
}

#[test]
fn recording_rule_samples_are_transformed() {
    let rules = TransformRules::new().inject("cluster", "spoke").unwrap();
    let mut pipeline = Pipeline::new(Arc::new(rules), Arc::default(), NOW);
    let mut batches = Vec::new();
    let mut out = |batch| batches.push(batch);
    let labels = [("x", "\"\n"), ("cluster", "me"), ("empty", "")];
    pipeline.push_sample("rule:a", labels, 0.5, 1_699_999_990_000, &mut out);
    pipeline.push_sample("rule:a", [("cluster", "me")], 1.0, 0, &mut out);
    pipeline.push_sample("rule:b", [], f64::NAN, NOW, &mut out);
    pipeline.finish(&mut out).unwrap();
    assert_eq!(
        texts(&batches[0]),
        [
            r#"rule:a{cluster="spoke",x="\"\n"} 0.5 1699999990000"#,
            r#"rule:b{cluster="spoke"} NaN 1700000000000"#
        ]
    );
    // The NaN of Prometheus, not that of this machine.
    let bits = batches[0].samples()[1].value.to_bits();
    assert_eq!(bits, 0x7ff8_0000_0000_0001);
    assert_eq!(pipeline.counts().read, 3);
}

/// Compares with bytes that were written by hand from the protobuf definition.
#[test]
fn request_is_a_valid_write_request() {
    let batch = run(TransformRules::new(), b"up{x=\"y\"} 1 1700000000000\n")
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
fn lengths_of_any_size_are_encoded() {
    for length in [1, 80, 100, 101, 127, 128, 16_300, 16_383, 16_384, 300_000] {
        let value = "y".repeat(length);
        let outcome = run(
            TransformRules::new(),
            format!("a{{x=\"{value}\"}} 1\nb 2\n").as_bytes(),
        );
        let samples = outcome.batches[0].samples();
        assert_eq!(samples.len(), 2, "{length}");
        assert_eq!(samples[0].labels[1].1, value);
    }
}
