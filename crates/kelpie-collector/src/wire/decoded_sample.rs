//! Decodes the samples of a batch.

use std::fmt::{self, Write};

use prost::encoding::decode_varint;

use super::series_writer::{FIRST, SECOND, TIMESTAMP, VALUE};
use crate::name::{self, METRIC_NAME};

/// A sample of a batch, decoded as the hub reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedSample {
    /// The labels sorted by name, including `__name__`.
    pub labels: Vec<(String, String)>,
    /// The value. NaN has the bits that Prometheus uses.
    pub value: f64,
    /// The timestamp in Unix milliseconds.
    pub timestamp_ms: i64,
}

/// Formats a line of the text format. Names that are not classic are quoted, as in Prometheus 3.
impl fmt::Display for DecodedSample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (names, labels): (Vec<_>, Vec<_>) = self
            .labels
            .iter()
            .partition(|(name, _)| name == METRIC_NAME);
        let metric = names.first().map_or("", |(_, metric)| metric);
        let is_plain = name::is_metric(metric);
        f.write_str(if is_plain { metric } else { "" })?;
        let mut comma = "";
        if !labels.is_empty() || !is_plain {
            f.write_char('{')?;
            if !is_plain {
                write_quoted(metric, f)?;
                comma = ",";
            }
            for (name, value) in labels {
                f.write_str(comma)?;
                if name::is_label(name) {
                    f.write_str(name)?;
                } else {
                    write_quoted(name, f)?;
                }
                f.write_char('=')?;
                write_quoted(value, f)?;
                comma = ",";
            }
            f.write_char('}')?;
        }
        match self.value {
            f64::INFINITY => f.write_str(" +Inf")?,
            f64::NEG_INFINITY => f.write_str(" -Inf")?,
            value => write!(f, " {value}")?,
        }
        write!(f, " {}", self.timestamp_ms)
    }
}

fn write_quoted(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_char('"')?;
    for character in text.chars() {
        match character {
            '\\' => f.write_str("\\\\")?,
            '"' => f.write_str("\\\"")?,
            '\n' => f.write_str("\\n")?,
            other => f.write_char(other)?,
        }
    }
    f.write_char('"')
}

/// Decodes a request of [`super::BatchBuilder`]. Other encodings are not supported.
pub(super) fn decode(mut request: &[u8]) -> Option<Vec<DecodedSample>> {
    let mut samples = Vec::new();
    while !request.is_empty() {
        samples.push(series(field(&mut request, FIRST)?)?);
    }
    Some(samples)
}

fn series(mut series: &[u8]) -> Option<DecodedSample> {
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
    let timestamp = decode_varint(&mut timestamp.strip_prefix(&[TIMESTAMP])?).ok()?;
    Some(DecodedSample {
        labels,
        value: f64::from_le_bytes(*value),
        timestamp_ms: timestamp.cast_signed(),
    })
}

/// Reads a length-delimited field and advances `from` past it.
fn field<'a>(from: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    *from = from.strip_prefix(&[tag])?;
    let length = decode_varint(from).ok()?;
    let (field, rest) = from.split_at_checked(usize::try_from(length).ok()?)?;
    *from = rest;
    Some(field)
}
