//! Samples read back from a batch.

use std::fmt;

use super::series::{FIRST, SECOND, TIMESTAMP, VALUE};
use super::varint;

/// A sample as the hub reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Sorted by name; `__name__` is one of them.
    pub labels: Vec<(String, String)>,
    /// NaN has Prometheus' bits.
    pub value: f64,
    /// Milliseconds since 1970.
    pub timestamp_ms: i64,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, (name, value)) in self.labels.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{name}={value:?}")?;
        }
        write!(f, "}} {} {}", self.value, self.timestamp_ms)
    }
}

/// Reads what a draft has written, nothing else.
pub(super) fn decode(mut request: &[u8]) -> Option<Vec<Sample>> {
    let mut samples = Vec::new();
    while !request.is_empty() {
        samples.push(series(field(&mut request, FIRST)?)?);
    }
    Some(samples)
}

fn series(mut series: &[u8]) -> Option<Sample> {
    let mut labels = Vec::new();
    while series.first() == Some(&FIRST) {
        let mut label = field(&mut series, FIRST)?;
        let name = field(&mut label, FIRST)?;
        let value = field(&mut label, SECOND)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        labels.push((text(name)?, text(value)?));
    }
    let sample = field(&mut series, SECOND)?;
    let (value, timestamp) = sample.strip_prefix(&[VALUE])?.split_first_chunk()?;
    let timestamp = varint::take(&mut timestamp.strip_prefix(&[TIMESTAMP])?)?;
    Some(Sample {
        labels,
        value: f64::from_le_bytes(*value),
        timestamp_ms: timestamp.cast_signed(),
    })
}

/// Takes a field with a length off the front.
fn field<'a>(from: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    *from = from.strip_prefix(&[tag])?;
    let length = varint::take(from)?;
    let (field, rest) = from.split_at_checked(usize::try_from(length).ok()?)?;
    *from = rest;
    Some(field)
}
