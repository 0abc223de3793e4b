//! Parses, transforms, deduplicates and encodes one stream of samples.

use std::sync::Arc;

use crate::dedup::{DedupResult, DedupTable};
use crate::label::SeriesLabels;
use crate::sample_counts::{FilterCause, SampleCounts};
use crate::text::{LineReader, TextError, parse_line, span_text};
use crate::transform::{TransformRules, check_timestamp};
use crate::wire::{Batch, BatchBuilder};

/// One stream of samples on its way to the hub: the response to one federate request or recording
/// rule.
///
/// Its memory is bounded by one line and one batch.
pub struct Pipeline {
    lines: LineReader,
    labels: SeriesLabels,
    /// A line with unescaped values, or the text of a sample that was given in parts.
    scratch: Vec<u8>,
    encoder: SampleEncoder,
}

/// Transforms, deduplicates and encodes parsed samples.
struct SampleEncoder {
    rules: Arc<TransformRules>,
    dedup: Arc<DedupTable>,
    now_ms: i64,
    builder: BatchBuilder,
    counts: SampleCounts,
}

impl Pipeline {
    /// Creates a stream. Samples without a timestamp get `now_ms`.
    pub fn new(rules: Arc<TransformRules>, dedup: Arc<DedupTable>, now_ms: i64) -> Self {
        let encoder = SampleEncoder {
            rules,
            dedup,
            now_ms,
            builder: BatchBuilder::default(),
            counts: SampleCounts::default(),
        };
        Self {
            lines: LineReader::default(),
            labels: SeriesLabels::default(),
            scratch: Vec::new(),
            encoder,
        }
    }

    /// Limits batches to this many samples instead of 10,000, for a hub that answers 413.
    #[must_use]
    pub fn with_batch_size(mut self, samples: usize) -> Self {
        self.encoder.builder.set_max_samples(samples);
        self
    }

    /// Processes the next bytes of the body, which may be split anywhere.
    ///
    /// After an error the rest of the body is lost. [`Pipeline::finish`] still returns the samples
    /// before it.
    pub fn feed(&mut self, bytes: &[u8], out: &mut impl FnMut(Batch)) -> Result<(), TextError> {
        let Self {
            lines,
            labels,
            scratch,
            encoder,
        } = self;
        lines.feed(bytes, |line| {
            scratch.clear();
            if let Some(sample) = parse_line(line, labels, scratch)? {
                if labels.has_free_names && scratch.is_empty() {
                    // New names are appended to the text.
                    scratch.extend_from_slice(line);
                }
                if !encoder.fix_names(labels, scratch) {
                    return Ok(());
                }
                let text = span_text(line, scratch);
                let timestamp_ms = sample.timestamp_ms.unwrap_or(encoder.now_ms);
                encoder.encode(text, labels, sample.value, timestamp_ms, out);
            }
            Ok(())
        })
    }

    /// Processes a sample that is not text: a result of a recording rule.
    pub fn push_sample<'a>(
        &mut self,
        name: &str,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        value: f64,
        timestamp_ms: i64,
        out: &mut impl FnMut(Batch),
    ) {
        self.labels.set(name, labels, &mut self.scratch);
        if !self.encoder.fix_names(&mut self.labels, &mut self.scratch) {
            return;
        }
        let (text, labels) = (&self.scratch, &mut self.labels);
        self.encoder.encode(text, labels, value, timestamp_ms, out);
    }

    /// Ends the body and returns the last batch, also after an error. Fails if the body ended
    /// within a line: then it was truncated, and the partial line is not sent.
    pub fn finish(&mut self, out: &mut impl FnMut(Batch)) -> Result<(), TextError> {
        if let Some(batch) = self.encoder.builder.take() {
            out(batch);
        }
        self.lines.finish()
    }

    /// Returns the counts of the samples so far.
    pub fn counts(&self) -> SampleCounts {
        self.encoder.counts
    }

    /// Returns the counts since the last call.
    pub(crate) fn take_counts(&mut self) -> SampleCounts {
        std::mem::take(&mut self.encoder.counts)
    }
}

impl SampleEncoder {
    /// Makes the names valid, or counts the sample and returns false.
    fn fix_names(&mut self, labels: &mut SeriesLabels, text: &mut Vec<u8>) -> bool {
        let is_valid =
            !labels.has_free_names || labels.fix_names(self.rules.invalid_names, text).is_some();
        if !is_valid {
            self.counts.read += 1;
            self.counts.count_filtered(FilterCause::InvalidName);
        }
        is_valid
    }

    /// Encodes a sample, or counts why it is left out. The spans of `labels` refer to `text`.
    fn encode(
        &mut self,
        text: &[u8],
        labels: &mut SeriesLabels,
        value: f64,
        timestamp_ms: i64,
        out: &mut impl FnMut(Batch),
    ) {
        self.counts.read += 1;
        if let Some(cause) = check_timestamp(timestamp_ms, self.now_ms) {
            return self.counts.count_filtered(cause);
        }
        let mut series = self.builder.start_series();
        if let Err(cause) = self.rules.write_labels(text, labels, &mut series) {
            return self.counts.count_filtered(cause);
        }
        let hash = self.dedup.hash(series.labels());
        match self.dedup.offer(hash, timestamp_ms) {
            DedupResult::Unchanged => self.counts.unchanged += 1,
            DedupResult::Repeated => self.counts.count_filtered(FilterCause::Repeated),
            DedupResult::New => {
                series.finish(hash, value, timestamp_ms);
                self.counts.sent += 1;
                if let Some(batch) = self.builder.take_full() {
                    out(batch);
                }
            }
        }
    }
}
