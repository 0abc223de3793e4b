//! A batch that is being written.

use snap::raw::{Encoder, max_compress_len};

use super::batch::{Batch, Mark};
use super::varint;

/// Samples in a batch.
const SAMPLES: usize = 10_000;
/// Bytes in a batch before compression, however few samples they are.
const BYTES: usize = 4 << 20;

/// `WriteRequest.timeseries`, `TimeSeries.labels`, `Label.name`: field 1 with a length.
pub(super) const FIRST: u8 = 0x0a;
/// `TimeSeries.samples`, `Label.value`: field 2 with a length.
pub(super) const SECOND: u8 = 0x12;
/// `Sample.value`: field 1, eight bytes.
pub(super) const VALUE: u8 = 0x09;
/// `Sample.timestamp`: field 2, an integer.
pub(super) const TIMESTAMP: u8 = 0x10;

/// What stands before the labels of a series: a tag and the length, of two bytes in most cases.
const HEAD: usize = 3;

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
        self.request.extend_from_slice(&[FIRST, 0, 0]);
        Series { draft: self, start }
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

/// A series that is being written.
pub(crate) struct Series<'a> {
    draft: &'a mut Draft,
    start: usize,
}

impl Series<'_> {
    /// Appends a label. The caller keeps them sorted and unique.
    pub(crate) fn label(&mut self, name: &[u8], value: &[u8]) {
        let size = |part: &[u8]| 1 + varint::size(part.len() as u64) + part.len();
        let to = &mut self.draft.request;
        to.push(FIRST);
        varint::put(to, (size(name) + size(value)) as u64);
        to.push(FIRST);
        varint::put(to, name.len() as u64);
        to.extend_from_slice(name);
        to.push(SECOND);
        varint::put(to, value.len() as u64);
        to.extend_from_slice(value);
    }

    /// All labels so far, in a form that is the same for the same labels.
    pub(crate) fn labels(&self) -> &[u8] {
        &self.draft.request[self.start + HEAD..]
    }

    /// Appends the sample: the series is part of the batch.
    pub(crate) fn complete(self, hash: u64, value: f64, timestamp_ms: i64) {
        let Self { draft, start } = self;
        let to = &mut draft.request;
        let timestamp = timestamp_ms.cast_unsigned();
        to.push(SECOND);
        varint::put(to, (1 + 8 + 1 + varint::size(timestamp)) as u64);
        to.push(VALUE);
        to.extend_from_slice(&value.to_le_bytes());
        to.push(TIMESTAMP);
        varint::put(to, timestamp);
        close(to, start);
        draft.marks.push(Mark {
            hash,
            timestamp_ms,
            end: u32::try_from(to.len()).unwrap_or(u32::MAX),
        });
    }
}

/// Puts the length of the series into its head, which had room for two bytes.
fn close(request: &mut Vec<u8>, start: usize) {
    let length = (request.len() - start - HEAD) as u64;
    let place = start + 1..start + HEAD;
    let [low, high, ..] = length.to_le_bytes();
    if varint::size(length) == place.len() {
        let low_bits = low | 0x80;
        let high_bits = (high << 1) | (low >> 7);
        request[place].copy_from_slice(&[low_bits, high_bits]);
    } else {
        let mut bytes = Vec::with_capacity(10);
        varint::put(&mut bytes, length);
        request.splice(place, bytes);
    }
}

/// Compresses into a buffer that is used again; nothing that fits a batch is too long for it.
pub(super) fn compress<'a>(request: &[u8], to: &'a mut Vec<u8>, encoder: &mut Encoder) -> &'a [u8] {
    to.resize(max_compress_len(request.len()), 0);
    let length = encoder.compress(request, to).unwrap_or_default();
    &to[..length]
}
