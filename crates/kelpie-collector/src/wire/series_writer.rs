//! Encodes one series.

use prost::encoding::{encode_varint, encoded_len_varint};

use super::batch::SampleKey;

/// `WriteRequest.timeseries`, `TimeSeries.labels`, `Label.name`: field 1 with a length.
pub(super) const FIRST: u8 = 0x0a;
/// `TimeSeries.samples`, `Label.value`: field 2 with a length.
pub(super) const SECOND: u8 = 0x12;
/// `Sample.value`: field 1, eight bytes.
pub(super) const VALUE: u8 = 0x09;
/// `Sample.timestamp`: field 2, an integer.
pub(super) const TIMESTAMP: u8 = 0x10;

/// The ordinary NaN of Prometheus. Another one is its stale marker.
const NAN: f64 = f64::from_bits(0x7ff8_0000_0000_0001);

/// The bytes before the labels: a tag, and a length that takes two bytes in most cases.
const HEADER: [u8; 3] = [FIRST, 0, 0];

/// Writes a series to a request.
pub(crate) struct SeriesWriter<'a> {
    request: &'a mut Vec<u8>,
    keys: &'a mut Vec<SampleKey>,
    /// The start of the labels.
    start: usize,
}

impl<'a> SeriesWriter<'a> {
    pub(super) fn new(request: &'a mut Vec<u8>, keys: &'a mut Vec<SampleKey>) -> Self {
        request.extend_from_slice(&HEADER);
        Self {
            start: request.len(),
            request,
            keys,
        }
    }

    /// Appends a label. The caller must keep labels sorted and unique.
    pub(crate) fn label(&mut self, name: &[u8], value: &[u8]) {
        write_label(self.request, name, value);
    }

    /// Appends an encoded label.
    pub(crate) fn encoded_label(&mut self, label: &[u8]) {
        self.request.extend_from_slice(label);
    }

    /// Returns the encoded labels so far. Equal labels have equal encodings.
    pub(crate) fn labels(&self) -> &[u8] {
        &self.request[self.start..]
    }

    /// Appends the sample and adds the series to the batch.
    pub(crate) fn finish(self, hash: u64, value: f64, timestamp_ms: i64) {
        let Self {
            request,
            keys,
            start,
        } = self;
        let value = if value.is_nan() { NAN } else { value };
        let timestamp = timestamp_ms.cast_unsigned();
        let length = 1 + size_of::<f64>() + 1 + encoded_len_varint(timestamp);
        request.push(SECOND);
        encode_varint(length as u64, request);
        request.push(VALUE);
        request.extend_from_slice(&value.to_le_bytes());
        request.push(TIMESTAMP);
        encode_varint(timestamp, request);
        write_length(request, start);
        keys.push(SampleKey {
            hash,
            timestamp_ms,
            end: u32::try_from(request.len()).unwrap_or(u32::MAX),
        });
    }
}

/// Encodes a label, for [`SeriesWriter::encoded_label`].
pub(crate) fn encoded_label(name: &str, value: &str) -> Vec<u8> {
    let mut label = Vec::new();
    write_label(&mut label, name.as_bytes(), value.as_bytes());
    label
}

fn write_label(to: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let size = |part: &[u8]| 1 + encoded_len_varint(part.len() as u64) + part.len();
    let length = size(name) + size(value);
    // One capacity check for everything below.
    to.reserve(2 * HEADER.len() + length);
    to.push(FIRST);
    encode_varint(length as u64, to);
    to.push(FIRST);
    encode_varint(name.len() as u64, to);
    to.extend_from_slice(name);
    to.push(SECOND);
    encode_varint(value.len() as u64, to);
    to.extend_from_slice(value);
}

/// Writes the length of the series into its header, which has room for two bytes.
fn write_length(request: &mut Vec<u8>, start: usize) {
    let length = (request.len() - start) as u64;
    let header = start - 2..start;
    let [low, high, ..] = length.to_le_bytes();
    if encoded_len_varint(length) == header.len() {
        request[header].copy_from_slice(&[low | 0x80, (high << 1) | (low >> 7)]);
    } else {
        let mut bytes = Vec::with_capacity(encoded_len_varint(length));
        encode_varint(length, &mut bytes);
        request.splice(header, bytes);
    }
}
