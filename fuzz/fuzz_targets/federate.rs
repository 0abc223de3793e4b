//! Any bytes as the answer of a source, whole and in pieces.
#![no_main]

use std::sync::Arc;

use kelpie_collector::{Batch, Pipeline, Rules, Sample, Seen, Tally, TextError};

const NOW: i64 = 1_700_000_000_000;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let rules = Rules::new().inject("cluster", "spoke").expect("a label");
    let rules = Arc::new(rules.elide("replica").expect("a label"));
    let whole = read(&rules, bytes, bytes.len());
    assert_eq!(shown(&read(&rules, bytes, 7)), shown(&whole));
    let (samples, ..) = whole;
    for sample in &samples {
        assert!(sample.labels.is_sorted_by(|(a, _), (b, _)| a < b), "{sample}");
        assert!(sample.labels.iter().all(|(_, value)| !value.is_empty()), "{sample}");
    }
    // What is shown of a sample is read as the same sample.
    let lines: String = samples.iter().flat_map(|sample| [sample.to_string(), "\n".into()]).collect();
    let (again, ..) = read(&rules, lines.as_bytes(), lines.len());
    let again: Vec<String> = again.iter().map(ToString::to_string).collect();
    assert_eq!(again, lines.lines().collect::<Vec<_>>());
});

type Outcome = (Vec<Sample>, Tally, Result<(), TextError>);

fn read(rules: &Arc<Rules>, bytes: &[u8], piece: usize) -> Outcome {
    let seen = Arc::new(Seen::with_key(1));
    let mut pipeline = Pipeline::new(Arc::clone(rules), seen, NOW).batches_of(3);
    let mut samples = Vec::new();
    let mut out = |batch: Batch| {
        if let Some((head, tail)) = batch.halves() {
            samples.extend([head, tail].iter().flat_map(Batch::samples));
        } else {
            samples.extend(batch.samples());
        }
    };
    let mut pieces = bytes.chunks(piece.max(1));
    let fed = pieces.try_for_each(|piece| pipeline.feed(piece, &mut out));
    let result = fed.and(pipeline.finish(&mut out));
    (samples, pipeline.tally(), result)
}

/// NaN is not equal to itself, its text is.
fn shown((samples, tally, result): &Outcome) -> (Vec<String>, Tally, Result<(), TextError>) {
    let samples = samples.iter().map(ToString::to_string).collect();
    (samples, *tally, result.clone())
}
