//! One stream of samples: read, transform, leave out what the hub has, encode.

use std::sync::Arc;

use crate::label::Identity;
use crate::seen::{Offer, Seen};
use crate::tally::{Cause, Tally};
use crate::text::{Lines, TextError, read, text_of};
use crate::transform::{Rules, judge_time};
use crate::wire::{Batch, Draft};

/// One stream of samples on its way to the hub: the answer to one federate request, or to one rule.
///
/// What it holds is bounded by one line and one batch.
pub struct Pipeline {
    lines: Lines,
    identity: Identity,
    /// A line with its escapes undone, or the text of a sample that came in parts.
    scratch: Vec<u8>,
    stage: Stage,
}

/// What comes after a sample is read.
struct Stage {
    rules: Arc<Rules>,
    seen: Arc<Seen>,
    now_ms: i64,
    draft: Draft,
    tally: Tally,
}

impl Pipeline {
    /// A stream that begins now. A sample without a timestamp is of now.
    pub fn new(rules: Arc<Rules>, seen: Arc<Seen>, now_ms: i64) -> Self {
        let stage = Stage {
            rules,
            seen,
            now_ms,
            draft: Draft::default(),
            tally: Tally::default(),
        };
        Self {
            lines: Lines::default(),
            identity: Identity::default(),
            scratch: Vec::new(),
            stage,
        }
    }

    /// Batches of at most so many samples instead of 10,000: for a hub that answers 413.
    #[must_use]
    pub fn batches_of(mut self, samples: usize) -> Self {
        self.stage.draft.limit(samples);
        self
    }

    /// The next bytes of the body. How they are cut makes no difference.
    ///
    /// After an error the rest of the body is lost; [`Pipeline::finish`] brings what came before.
    pub fn feed(&mut self, bytes: &[u8], out: &mut impl FnMut(Batch)) -> Result<(), TextError> {
        let Self {
            lines,
            identity,
            scratch,
            stage,
        } = self;
        lines.feed(bytes, |line| {
            scratch.clear();
            if let Some(reading) = read(line, identity, scratch)? {
                let text = text_of(line, scratch);
                let timestamp_ms = reading.timestamp_ms.unwrap_or(stage.now_ms);
                stage.offer(text, identity, reading.value, timestamp_ms, out);
            }
            Ok(())
        })
    }

    /// A sample that does not come as text: a result of a recording rule.
    pub fn sample<'a>(
        &mut self,
        name: &str,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        value: f64,
        timestamp_ms: i64,
        out: &mut impl FnMut(Batch),
    ) {
        self.identity.spell(name, labels, &mut self.scratch);
        let (text, identity) = (&self.scratch, &mut self.identity);
        self.stage.offer(text, identity, value, timestamp_ms, out);
    }

    /// The body has ended, well or badly: what was read of it goes out. An error if it ended in
    /// the middle of a line: then it was cut, and the half line is not sent.
    pub fn finish(&mut self, out: &mut impl FnMut(Batch)) -> Result<(), TextError> {
        if let Some(batch) = self.stage.draft.take() {
            out(batch);
        }
        self.lines.finish()
    }

    /// What became of the samples so far.
    pub fn tally(&self) -> Tally {
        self.stage.tally
    }

    /// The same, since this was last asked.
    pub(crate) fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.stage.tally)
    }
}

impl Stage {
    /// `text` is what the identity's places are in.
    fn offer(
        &mut self,
        text: &[u8],
        identity: &mut Identity,
        value: f64,
        timestamp_ms: i64,
        out: &mut impl FnMut(Batch),
    ) {
        self.tally.read += 1;
        if let Some(cause) = judge_time(timestamp_ms, self.now_ms) {
            return self.tally.count(cause);
        }
        let mut series = self.draft.begin();
        if let Err(cause) = self.rules.write(text, identity, &mut series) {
            return self.tally.count(cause);
        }
        let hash = self.seen.hash(series.labels());
        match self.seen.offer(hash, timestamp_ms) {
            Offer::Unchanged => self.tally.unchanged += 1,
            Offer::Repeated => self.tally.count(Cause::Repeated),
            Offer::New => {
                series.complete(hash, value, timestamp_ms);
                self.tally.sent += 1;
                if let Some(batch) = self.draft.take_full() {
                    out(batch);
                }
            }
        }
    }
}
