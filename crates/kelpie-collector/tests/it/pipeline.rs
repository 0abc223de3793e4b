//! From text to batches.

use std::sync::Arc;

use kelpie_collector::{Pipeline, Rules, Sample, Seen};

const NOW: i64 = 1_700_000_000_000;

fn sent(body: &str, piece: usize) -> Vec<String> {
    let rules = Rules::new().inject("cluster", "spoke").unwrap();
    let seen = Arc::new(Seen::default());
    let mut pipeline = Pipeline::new(Arc::new(rules), seen, NOW);
    let mut samples: Vec<Sample> = Vec::new();
    let mut out = |batch: kelpie_collector::Batch| samples.extend(batch.samples());
    for piece in body.as_bytes().chunks(piece) {
        pipeline.feed(piece, &mut out).unwrap();
    }
    pipeline.finish(&mut out).unwrap();
    samples.iter().map(ToString::to_string).collect()
}

#[test]
fn any_cut_of_the_body_gives_the_same() {
    let body = "# HELP a b\n# TYPE a untyped\na{x=\"y\\\"z\\n\",cluster=\"me\",e=\"\"} 1.5 1699999999999\n\nb NaN\n";
    let whole = sent(body, body.len());
    assert_eq!(
        whole,
        [
            r#"{__name__="a",cluster="spoke",x="y\"z\n"} 1.5 1699999999999"#,
            r#"{__name__="b",cluster="spoke"} NaN 1700000000000"#,
        ]
    );
    for piece in 1..body.len() {
        assert_eq!(sent(body, piece), whole, "in pieces of {piece}");
    }
}
