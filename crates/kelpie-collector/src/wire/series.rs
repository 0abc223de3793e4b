//! One series, as it stands on the wire.

use super::batch::Mark;
use super::varint;

/// `WriteRequest.timeseries`, `TimeSeries.labels`, `Label.name`: field 1 with a length.
pub(super) const FIRST: u8 = 0x0a;
/// `TimeSeries.samples`, `Label.value`: field 2 with a length.
pub(super) const SECOND: u8 = 0x12;
/// `Sample.value`: field 1, eight bytes.
pub(super) const VALUE: u8 = 0x09;
/// `Sample.timestamp`: field 2, an integer.
pub(super) const TIMESTAMP: u8 = 0x10;

/// Prometheus' ordinary NaN. Others mean something: one is its stale marker.
const NAN: f64 = f64::from_bits(0x7ff8_0000_0000_0001);

/// What stands before the labels: a tag and the length, of two bytes in most cases.
const HEAD: [u8; 3] = [FIRST, 0, 0];

/// A series that is being written.
pub(crate) struct Series<'a> {
    request: &'a mut Vec<u8>,
    marks: &'a mut Vec<Mark>,
    /// Where its labels begin.
    start: usize,
}

impl<'a> Series<'a> {
    pub(super) fn begin(request: &'a mut Vec<u8>, marks: &'a mut Vec<Mark>) -> Self {
        request.extend_from_slice(&HEAD);
        Self {
            start: request.len(),
            request,
            marks,
        }
    }

    /// Appends a label. The caller keeps them sorted and unique.
    pub(crate) fn label(&mut self, name: &[u8], value: &[u8]) {
        put_label(self.request, name, value);
    }

    /// Appends a label that is encoded already.
    pub(crate) fn encoded_label(&mut self, label: &[u8]) {
        self.request.extend_from_slice(label);
    }

    /// All labels so far, in a form that is the same for the same labels.
    pub(crate) fn labels(&self) -> &[u8] {
        &self.request[self.start..]
    }

    /// Appends the sample: the series is part of the batch.
    pub(crate) fn complete(self, hash: u64, value: f64, timestamp_ms: i64) {
        let Self {
            request,
            marks,
            start,
        } = self;
        let value = if value.is_nan() { NAN } else { value };
        let timestamp = timestamp_ms.cast_unsigned();
        let length = 1 + size_of::<f64>() + 1 + varint::size(timestamp);
        request.push(SECOND);
        varint::put(request, length as u64);
        request.push(VALUE);
        request.extend_from_slice(&value.to_le_bytes());
        request.push(TIMESTAMP);
        varint::put(request, timestamp);
        close(request, start);
        marks.push(Mark {
            hash,
            timestamp_ms,
            end: u32::try_from(request.len()).unwrap_or(u32::MAX),
        });
    }
}

/// A label as it stands on the wire.
pub(crate) fn encoded_label(name: &str, value: &str) -> Vec<u8> {
    let mut label = Vec::new();
    put_label(&mut label, name.as_bytes(), value.as_bytes());
    label
}

fn put_label(to: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let size = |part: &[u8]| 1 + varint::size(part.len() as u64) + part.len();
    let length = size(name) + size(value);
    // One check for all that follows.
    to.reserve(2 * HEAD.len() + length);
    to.push(FIRST);
    varint::put(to, length as u64);
    to.push(FIRST);
    varint::put(to, name.len() as u64);
    to.extend_from_slice(name);
    to.push(SECOND);
    varint::put(to, value.len() as u64);
    to.extend_from_slice(value);
}

/// Puts the length of the series into its head, which has room for two bytes.
fn close(request: &mut Vec<u8>, start: usize) {
    let length = (request.len() - start) as u64;
    let place = start - 2..start;
    let [low, high, ..] = length.to_le_bytes();
    if varint::size(length) == place.len() {
        request[place].copy_from_slice(&[low | 0x80, (high << 1) | (low >> 7)]);
    } else {
        let mut bytes = Vec::with_capacity(varint::size(length));
        varint::put(&mut bytes, length);
        request.splice(place, bytes);
    }
}
