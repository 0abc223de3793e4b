//! Lines out of a body that comes in pieces.

use memchr::memchr;

use super::error::{Fault, TextError, begin};

/// Bytes a line may have. A sample with 100 labels of 255 bytes takes 50 kB.
const LIMIT: usize = 1 << 20;

/// Joins what the network has cut. Lines within one piece are not copied.
#[derive(Default)]
pub(crate) struct Lines {
    /// The beginning of a line whose end has not come yet.
    carry: Vec<u8>,
    /// Whole lines so far.
    count: u64,
}

impl Lines {
    /// Hands every line that ends in these bytes to `take`, without its newline.
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), Fault>,
    ) -> Result<(), TextError> {
        while let Some(end) = memchr(b'\n', bytes) {
            let (head, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = rest;
            let line = if self.carry.is_empty() {
                head
            } else {
                self.keep(head)?;
                &self.carry
            };
            self.count += 1;
            check_length(line, self.count)?;
            take(line).map_err(|fault| TextError::Malformed {
                line: self.count,
                fault,
                begin: begin(line),
            })?;
            self.carry.clear();
        }
        self.keep(bytes)
    }

    /// The body has ended. A line without its newline was cut: its value may lack digits.
    pub(crate) fn finish(&self) -> Result<(), TextError> {
        if self.carry.is_empty() {
            return Ok(());
        }
        let (line, begin) = (self.count + 1, begin(&self.carry));
        Err(TextError::Cut { line, begin })
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), TextError> {
        // Nothing beyond the limit is kept, however much comes in one piece.
        let room = (LIMIT + 1).saturating_sub(self.carry.len());
        self.carry
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        check_length(&self.carry, self.count + 1)
    }
}

fn check_length(line: &[u8], number: u64) -> Result<(), TextError> {
    if line.len() <= LIMIT {
        return Ok(());
    }
    Err(TextError::TooLong {
        line: number,
        limit: LIMIT,
        begin: begin(line),
    })
}
