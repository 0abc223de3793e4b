//! A batch that is being written.

use snap::raw::{Encoder, max_compress_len};

use super::batch::{Batch, Mark};
use super::series::Series;

/// Samples in a batch.
const SAMPLES: usize = 10_000;
/// Bytes in a batch before compression, however few samples they are.
const BYTES: usize = 4 << 20;

/// A batch that is being written. Its buffers are used again for the next one.
pub(crate) struct Draft {
    limit: usize,
    request: Vec<u8>,
    marks: Vec<Mark>,
    compressed: Vec<u8>,
    encoder: Encoder,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            limit: SAMPLES,
            request: Vec::new(),
            marks: Vec::new(),
            compressed: Vec::new(),
            encoder: Encoder::new(),
        }
    }
}

impl Draft {
    /// At most so many samples in a batch.
    pub(crate) fn limit(&mut self, samples: usize) {
        self.limit = samples.clamp(1, SAMPLES);
    }

    /// Begins a series. Unless it is completed, nothing of it stays.
    pub(crate) fn begin(&mut self) -> Series<'_> {
        let start = self.marks.last().map_or(0, |mark| mark.end as usize);
        self.request.truncate(start);
        Series::begin(&mut self.request, &mut self.marks)
    }

    /// The batch, if it is full.
    pub(crate) fn take_full(&mut self) -> Option<Batch> {
        let is_full = self.marks.len() >= self.limit || self.request.len() >= BYTES;
        is_full.then(|| self.take()).flatten()
    }

    /// The batch, if there is anything in it.
    pub(crate) fn take(&mut self) -> Option<Batch> {
        let end = self.marks.last()?.end as usize;
        let marks = self.marks.as_slice().into();
        let batch = Batch::pack(
            &self.request[..end],
            marks,
            &mut self.compressed,
            &mut self.encoder,
        );
        self.marks.clear();
        self.request.clear();
        Some(batch)
    }
}

/// Compresses into a buffer that is used again; nothing that fits a batch is too long for it.
pub(super) fn compress<'a>(request: &[u8], to: &'a mut Vec<u8>, encoder: &mut Encoder) -> &'a [u8] {
    let needed = max_compress_len(request.len());
    if to.len() < needed {
        to.resize(needed, 0);
    }
    let length = encoder.compress(request, to).unwrap_or_default();
    &to[..length]
}
