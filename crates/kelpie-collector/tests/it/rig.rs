//! A pipeline whose batches are read back.

use std::sync::Arc;

use kelpie_collector::{Batch, Pipeline, Rules, Seen, Tally, TextError};

pub const NOW: i64 = 1_700_000_000_000;

/// What came out of a body.
#[derive(Debug)]
pub struct Outcome {
    pub batches: Vec<Batch>,
    pub tally: Tally,
    pub result: Result<(), TextError>,
}

impl Outcome {
    /// What is sent, as text.
    pub fn sent(&self) -> Vec<String> {
        let samples = self.batches.iter().flat_map(Batch::samples);
        samples.map(|sample| sample.to_string()).collect()
    }
}

/// A body that comes in one piece, to a hub that has nothing yet.
pub fn run(rules: Rules, body: &[u8]) -> Outcome {
    run_pieces(rules, &Arc::default(), NOW, &[body])
}

pub fn run_pieces(rules: Rules, seen: &Arc<Seen>, now_ms: i64, pieces: &[&[u8]]) -> Outcome {
    let pipeline = Pipeline::new(Arc::new(rules), Arc::clone(seen), now_ms);
    drain(pipeline, pieces)
}

pub fn drain(mut pipeline: Pipeline, pieces: &[&[u8]]) -> Outcome {
    let mut batches = Vec::new();
    let mut out = |batch| batches.push(batch);
    let mut pieces = pieces.iter();
    let fed = pieces.try_for_each(|piece| pipeline.feed(piece, &mut out));
    let result = fed.and(pipeline.finish(&mut out));
    let tally = pipeline.tally();
    Outcome {
        batches,
        tally,
        result,
    }
}
