//! Builds batches.

use snap::raw::{Encoder, max_compress_len};

use super::batch::{Batch, SampleKey};
use super::series_writer::SeriesWriter;

/// Limits the samples of a batch.
const MAX_SAMPLES: usize = 10_000;
/// Limits the bytes of a batch before compression.
const MAX_BYTES: usize = 4 << 20;

/// Builds one batch after the other and reuses the buffers.
pub(crate) struct BatchBuilder {
    max_samples: usize,
    request: Vec<u8>,
    keys: Vec<SampleKey>,
    compressed: Vec<u8>,
    encoder: Encoder,
}

impl Default for BatchBuilder {
    fn default() -> Self {
        Self {
            max_samples: MAX_SAMPLES,
            request: Vec::new(),
            keys: Vec::new(),
            compressed: Vec::new(),
            encoder: Encoder::new(),
        }
    }
}

impl BatchBuilder {
    /// Limits the number of samples in a batch.
    pub(crate) fn set_max_samples(&mut self, samples: usize) {
        self.max_samples = samples.clamp(1, MAX_SAMPLES);
    }

    /// Starts a series. It is discarded unless it is finished.
    pub(crate) fn start_series(&mut self) -> SeriesWriter<'_> {
        let start = self.keys.last().map_or(0, |key| key.end as usize);
        self.request.truncate(start);
        SeriesWriter::new(&mut self.request, &mut self.keys)
    }

    /// Returns the batch if it is full.
    pub(crate) fn take_full(&mut self) -> Option<Batch> {
        let is_full = self.keys.len() >= self.max_samples || self.request.len() >= MAX_BYTES;
        is_full.then(|| self.take()).flatten()
    }

    /// Returns the batch if it is not empty.
    pub(crate) fn take(&mut self) -> Option<Batch> {
        let end = self.keys.last()?.end as usize;
        let keys = self.keys.as_slice().into();
        let batch = Batch::pack(
            &self.request[..end],
            keys,
            &mut self.compressed,
            &mut self.encoder,
        );
        self.keys.clear();
        self.request.clear();
        Some(batch)
    }
}

/// Compresses into a reusable buffer. No batch is too long for snappy.
pub(super) fn compress<'a>(request: &[u8], to: &'a mut Vec<u8>, encoder: &mut Encoder) -> &'a [u8] {
    let needed = max_compress_len(request.len());
    if to.len() < needed {
        to.resize(needed, 0);
    }
    let length = encoder.compress(request, to).unwrap_or_default();
    &to[..length]
}
