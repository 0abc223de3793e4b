//! Splits a body that arrives in chunks into lines.

use memchr::memchr;

use super::error::{LineError, TextError, line_start};

/// Limits the length of a line. A sample with 100 labels of 255 bytes takes 50 kB.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Joins lines that were split by the network. Lines within one chunk are not copied.
#[derive(Default)]
pub(crate) struct LineReader {
    /// The start of a line whose end has not arrived yet.
    partial: Vec<u8>,
    /// The number of complete lines so far.
    count: u64,
}

impl LineReader {
    /// Calls `handle` for every line that ends in these bytes, without its newline.
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        mut handle: impl FnMut(&[u8]) -> Result<(), LineError>,
    ) -> Result<(), TextError> {
        while let Some(end) = memchr(b'\n', bytes) {
            let (head, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = rest;
            let line = if self.partial.is_empty() {
                head
            } else {
                self.append(head)?;
                &self.partial
            };
            self.count += 1;
            check_length(line, self.count)?;
            handle(line).map_err(|error| TextError::Malformed {
                line: self.count,
                error,
                start: line_start(line),
            })?;
            self.partial.clear();
        }
        self.append(bytes)
    }

    /// Ends the body. A line without a newline was truncated, and its value may lack digits.
    pub(crate) fn finish(&self) -> Result<(), TextError> {
        if self.partial.is_empty() {
            return Ok(());
        }
        let (line, start) = (self.count + 1, line_start(&self.partial));
        Err(TextError::Truncated { line, start })
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), TextError> {
        // At most one byte beyond the limit is kept, even of a large chunk.
        let room = (MAX_LINE_BYTES + 1).saturating_sub(self.partial.len());
        self.partial
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        check_length(&self.partial, self.count + 1)
    }
}

fn check_length(line: &[u8], number: u64) -> Result<(), TextError> {
    if line.len() <= MAX_LINE_BYTES {
        return Ok(());
    }
    Err(TextError::TooLong {
        line: number,
        limit: MAX_LINE_BYTES,
        start: line_start(line),
    })
}
