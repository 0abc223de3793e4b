//! Properties that hold for any samples.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use kelpie_collector::{Batch, DecodedSample, FilterCause, InvalidNames, TransformRules};
use proptest::collection::{btree_map, vec};
use proptest::num::f64;
use proptest::prelude::*;

use crate::fixture::{NOW, run_chunks};

/// Writes samples in the text format, with blanks where they are allowed.
fn text(samples: &[DecodedSample], blank: &str) -> String {
    let line = |sample: &DecodedSample| {
        let mut name = "";
        let mut labels = String::new();
        for (label, value) in &sample.labels {
            if label == "__name__" {
                name = value;
                continue;
            }
            let value = value.replace('\\', "\\\\");
            let value = value.replace('"', "\\\"").replace('\n', "\\n");
            write!(labels, "{blank}{label}{blank}={blank}\"{value}\",").unwrap();
        }
        let (value, timestamp) = (sample.value, sample.timestamp_ms);
        format!("{name}{blank}{{{labels}}} {value}{blank} {timestamp}{blank}\n")
    };
    samples.iter().map(line).collect()
}

/// Generates series with distinct names, so that none is repeated.
fn samples() -> impl Strategy<Value = Vec<DecodedSample>> {
    let name = "[a-zA-Z_:][a-zA-Z0-9_:]{0,12}";
    // Values are never empty, because an empty label does not exist.
    let labels = btree_map("[a-zA-Z_][a-zA-Z0-9_]{0,9}", "(?s).{1,12}", 0..6);
    let age = 0..86_400_000_i64;
    let sample =
        (labels, f64::ANY, age).prop_map(|(labels, value, age)| (labels, value, NOW - age));
    btree_map(name, sample, 0..20).prop_map(|series| series.into_iter().map(sample_of).collect())
}

fn sample_of(
    (name, (mut labels, value, timestamp_ms)): (String, (BTreeMap<String, String>, f64, i64)),
) -> DecodedSample {
    labels.insert("__name__".into(), name);
    DecodedSample {
        labels: labels.into_iter().collect(),
        // Prometheus has only one NaN.
        value: if value.is_nan() {
            f64::from_bits(0x7ff8_0000_0000_0001)
        } else {
            value
        },
        timestamp_ms,
    }
}

/// Compares bit by bit: NaN equals itself, and zero has a sign.
fn exact(sample: &DecodedSample) -> (Vec<(String, String)>, u64, i64) {
    let DecodedSample {
        labels,
        value,
        timestamp_ms,
    } = sample;
    (labels.clone(), value.to_bits(), *timestamp_ms)
}

proptest! {
    #[test]
    fn chunked_text_round_trips(
        samples in samples(),
        blank in "[ \t]{0,2}",
        cuts in vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let body = text(&samples, &blank);
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        places.extend([0, body.len()]);
        places.sort_unstable();
        let chunks: Vec<&[u8]> =
            places.windows(2).map(|cut| &body.as_bytes()[cut[0]..cut[1]]).collect();
        let outcome = run_chunks(TransformRules::new(), &Arc::default(), NOW, &chunks);
        prop_assert_eq!(&outcome.result, &Ok(()));
        let read = outcome.batches.iter().flat_map(Batch::samples);
        let read: Vec<_> = read.map(|sample| exact(&sample)).collect();
        let written: Vec<_> = samples.iter().map(exact).collect();
        prop_assert_eq!(read, written);
    }

    #[test]
    fn displayed_sample_parses_to_itself(
        mut samples in samples(),
        metric in "(?s).{1,5}",
        label in "(?s).{1,5}",
    ) {
        // Quoted names of Prometheus 3 beside classic ones.
        samples.push(sample_of((metric, (BTreeMap::from([(label, "x".into())]), 1.0, NOW))));
        let lines = samples.iter().flat_map(|sample| [sample.to_string(), "\n".into()]);
        let body: String = lines.collect();
        let rules = TransformRules::new().invalid_names(InvalidNames::Keep);
        let outcome = run_chunks(rules, &Arc::default(), NOW, &[body.as_bytes()]);
        prop_assert_eq!(&outcome.result, &Ok(()));
        prop_assert_eq!(outcome.sent().concat(), body.replace('\n', ""));
    }

    #[test]
    fn all_samples_are_accounted_for(
        bytes in vec(prop::sample::select(b"a1{}=\",\\ \n.#\xc3\xa4_+".as_slice()), 0..60),
    ) {
        let counts = run_chunks(TransformRules::new(), &Arc::default(), NOW, &[&bytes]).counts;
        let filtered = FilterCause::ALL.map(|cause| counts.filtered(cause));
        let filtered: u64 = filtered.iter().sum();
        prop_assert_eq!(counts.read, counts.sent + counts.unchanged + filtered);
    }
}
