//! Parses arbitrary bytes as the response of a source, as a whole and in chunks.
#![no_main]

use std::sync::Arc;

use kelpie_collector::{
    Batch, DecodedSample, DedupTable, Pipeline, SampleCounts, TextError, TransformRules,
};

const NOW: i64 = 1_700_000_000_000;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let rules = TransformRules::new()
        .inject("cluster", "spoke")
        .expect("a label");
    let rules = Arc::new(rules.elide("replica").expect("a label"));
    let whole = read(&rules, bytes, bytes.len());
    assert_eq!(comparable(&read(&rules, bytes, 7)), comparable(&whole));
    let (samples, ..) = whole;
    for sample in &samples {
        assert!(
            sample.labels.is_sorted_by(|(a, _), (b, _)| a < b),
            "{sample}"
        );
        assert!(
            sample.labels.iter().all(|(_, value)| !value.is_empty()),
            "{sample}"
        );
    }
    // The text of a sample parses as the same sample.
    let lines: String = samples
        .iter()
        .flat_map(|sample| [sample.to_string(), "\n".into()])
        .collect();
    let (again, ..) = read(&rules, lines.as_bytes(), lines.len());
    let again: Vec<String> = again.iter().map(ToString::to_string).collect();
    assert_eq!(again, lines.lines().collect::<Vec<_>>());
});

type ReadOutcome = (Vec<DecodedSample>, SampleCounts, Result<(), TextError>);

fn read(rules: &Arc<TransformRules>, bytes: &[u8], chunk: usize) -> ReadOutcome {
    let dedup = Arc::new(DedupTable::with_key(1));
    let mut pipeline = Pipeline::new(Arc::clone(rules), dedup, NOW).with_batch_size(3);
    let mut samples = Vec::new();
    let mut out = |batch: Batch| {
        if let Some((head, tail)) = batch.halves() {
            samples.extend([head, tail].iter().flat_map(Batch::samples));
        } else {
            samples.extend(batch.samples());
        }
    };
    let mut chunks = bytes.chunks(chunk.max(1));
    let fed = chunks.try_for_each(|chunk| pipeline.feed(chunk, &mut out));
    let result = fed.and(pipeline.finish(&mut out));
    (samples, pipeline.counts(), result)
}

/// Converts samples to text, because NaN is not equal to itself.
fn comparable(
    (samples, counts, result): &ReadOutcome,
) -> (Vec<String>, SampleCounts, Result<(), TextError>) {
    let samples = samples.iter().map(ToString::to_string).collect();
    (samples, *counts, result.clone())
}
