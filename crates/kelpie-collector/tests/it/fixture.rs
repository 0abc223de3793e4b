//! Runs a pipeline and decodes its batches.

use std::sync::Arc;

use kelpie_collector::{Batch, DedupTable, Pipeline, SampleCounts, TextError, TransformRules};

pub const NOW: i64 = 1_700_000_000_000;

/// The output of a pipeline for one body.
#[derive(Debug)]
pub struct PipelineOutput {
    pub batches: Vec<Batch>,
    pub counts: SampleCounts,
    pub result: Result<(), TextError>,
}

impl PipelineOutput {
    /// Returns the sent samples as text.
    pub fn sent(&self) -> Vec<String> {
        let samples = self.batches.iter().flat_map(Batch::samples);
        samples.map(|sample| sample.to_string()).collect()
    }
}

/// Runs a body in one chunk, for a hub without any samples.
pub fn run(rules: TransformRules, body: &[u8]) -> PipelineOutput {
    run_chunks(rules, &Arc::default(), NOW, &[body])
}

pub fn run_chunks(
    rules: TransformRules,
    dedup: &Arc<DedupTable>,
    now_ms: i64,
    chunks: &[&[u8]],
) -> PipelineOutput {
    let pipeline = Pipeline::new(Arc::new(rules), Arc::clone(dedup), now_ms);
    run_pipeline(pipeline, chunks)
}

pub fn run_pipeline(mut pipeline: Pipeline, chunks: &[&[u8]]) -> PipelineOutput {
    let mut batches = Vec::new();
    let mut out = |batch| batches.push(batch);
    let mut chunks = chunks.iter();
    let fed = chunks.try_for_each(|chunk| pipeline.feed(chunk, &mut out));
    let result = fed.and(pipeline.finish(&mut out));
    let counts = pipeline.counts();
    PipelineOutput {
        batches,
        counts,
        result,
    }
}
