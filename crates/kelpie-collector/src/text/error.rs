//! What is wrong with a body.

use thiserror::Error;

/// Why the source's answer cannot be read on. All of them fail the tick.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TextError {
    /// A line that is not in the text format.
    #[error(
        "line {line} of the source's answer is not in the text format: {fault}; it begins with {begin:?}"
    )]
    Malformed {
        /// Counted from 1.
        line: u64,
        /// What is wrong, and where on the line.
        fault: Fault,
        /// How the line begins.
        begin: String,
    },
    /// A line longer than any sample.
    #[error(
        "line {line} of the source's answer is longer than {limit} bytes; it begins with {begin:?}"
    )]
    TooLong {
        /// Counted from 1.
        line: u64,
        /// Bytes a line may have.
        limit: usize,
        /// How the line begins.
        begin: String,
    },
    /// The body ended in the middle of a line.
    #[error(
        "the source's answer was cut in the middle of line {line}, which begins with {begin:?}"
    )]
    Cut {
        /// Counted from 1.
        line: u64,
        /// How the line begins.
        begin: String,
    },
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("expected {expected} at byte {at}")]
pub struct Fault {
    /// What should have stood there.
    pub expected: &'static str,
    /// Counted from 0.
    pub at: usize,
}

/// The beginning of a line, short enough for a message.
pub(super) fn begin(line: &[u8]) -> String {
    const SHOWN: usize = 80;
    String::from_utf8_lossy(&line[..line.len().min(SHOWN)]).into_owned()
}
