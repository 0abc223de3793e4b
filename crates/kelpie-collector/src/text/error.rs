//! Errors of the text format.

use thiserror::Error;

/// A response of the source that cannot be parsed further. Every error fails the tick. `line`
/// counts from 1, and `start` is the start of that line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the doc of the enum explains the fields")]
pub enum TextError {
    /// The line is not in the text format.
    #[error(
        "line {line} of the source's response is not in the text format: {error}; \
         it starts with {start:?}"
    )]
    Malformed {
        line: u64,
        error: LineError,
        start: String,
    },
    /// The line is longer than `limit`, which no sample needs.
    #[error(
        "line {line} of the source's response is longer than {limit} bytes; it starts with \
         {start:?}"
    )]
    TooLong {
        line: u64,
        limit: usize,
        start: String,
    },
    /// The body ended within a line.
    #[error("the source's response was truncated within line {line}, which starts with {start:?}")]
    Truncated { line: u64, start: String },
}

/// The first error on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("expected {expected} at byte {at}")]
pub struct LineError {
    /// A description of the expected input.
    pub expected: &'static str,
    /// The offset within the line, from 0.
    pub at: usize,
}

/// Returns the start of a line, short enough for a message.
pub(super) fn line_start(line: &[u8]) -> String {
    const MAX_BYTES: usize = 80;
    String::from_utf8_lossy(&line[..line.len().min(MAX_BYTES)]).into_owned()
}
