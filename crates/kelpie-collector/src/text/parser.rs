//! Parses one line of the text format.

use std::str;

use memchr::memchr2;

use super::error::LineError;
use super::number;
use crate::label::{SeriesLabels, TextSpan};
use crate::name::{LABEL_BYTES, METRIC_BYTES};

/// The value and timestamp on a line. The name and labels are in [`SeriesLabels`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParsedSample {
    pub(crate) value: f64,
    pub(crate) timestamp_ms: Option<i64>,
}

/// Parses a line without its newline. Returns `None` for comments and empty lines.
///
/// The spans of `labels` refer to [`span_text`]: to `line`, or to `scratch` if that is not empty
/// afterwards. A line with escapes is copied there, followed by its unescaped values.
pub(crate) fn parse_line(
    line: &[u8],
    labels: &mut SeriesLabels,
    scratch: &mut Vec<u8>,
) -> Result<Option<ParsedSample>, LineError> {
    let mut cursor = Cursor { line, at: 0 };
    if cursor.is_comment() {
        return Ok(None);
    }
    let text = str::from_utf8(line).map_err(|error| LineError {
        expected: "UTF-8",
        at: error.valid_up_to(),
    })?;
    labels.clear();
    labels.name = cursor.take_name(&METRIC_BYTES);
    if !labels.name.is_empty() {
        cursor.skip_blanks();
    }
    if cursor.take(b'{') {
        parse_labels(&mut cursor, labels, scratch)?;
    }
    if labels.name.is_empty() {
        return Err(cursor.expected("the name of a metric"));
    }
    cursor.skip_blanks();
    let (start, end) = cursor.take_token();
    let value = number::value(&text[start..end]).ok_or(LineError {
        expected: "a value",
        at: start,
    })?;
    cursor.skip_blanks();
    let (start, end) = cursor.take_token();
    let timestamp_ms = if start == end {
        None
    } else {
        let timestamp = number::timestamp(&line[start..end]).ok_or(LineError {
            expected: "a timestamp in milliseconds, or the end of the line",
            at: start,
        })?;
        cursor.skip_blanks();
        Some(timestamp)
    };
    if cursor.peek().is_some() {
        return Err(cursor.expected("the end of the line"));
    }
    Ok(Some(ParsedSample {
        value,
        timestamp_ms,
    }))
}

/// Returns the text that the spans of the labels refer to.
pub(crate) fn span_text<'a>(line: &'a [u8], scratch: &'a [u8]) -> &'a [u8] {
    if scratch.is_empty() { line } else { scratch }
}

/// Parses from after the opening brace to after the closing one.
fn parse_labels(
    cursor: &mut Cursor<'_>,
    labels: &mut SeriesLabels,
    scratch: &mut Vec<u8>,
) -> Result<(), LineError> {
    loop {
        cursor.skip_blanks();
        if cursor.take(b'}') {
            return Ok(());
        }
        // Prometheus 3 quotes names that are not classic, also that of the metric.
        let is_quoted = cursor.take(b'"');
        let name = if is_quoted {
            labels.has_free_names = true;
            parse_quoted(cursor, scratch)?
        } else {
            cursor.take_name(&LABEL_BYTES)
        };
        if name.is_empty() {
            return Err(cursor.expected("the name of a label, or }"));
        }
        cursor.skip_blanks();
        if is_quoted && labels.name.is_empty() && matches!(cursor.peek(), Some(b',' | b'}')) {
            labels.name = name;
        } else {
            if !cursor.take(b'=') {
                return Err(cursor.expected("="));
            }
            cursor.skip_blanks();
            if !cursor.take(b'"') {
                return Err(cursor.expected("the value of a label, in double quotes"));
            }
            let value = parse_quoted(cursor, scratch)?;
            let text = span_text(cursor.line, scratch);
            labels.push(text, name, value);
            cursor.skip_blanks();
        }
        // As in Prometheus, a comma may follow the last label and may be missing between two.
        cursor.take(b',');
    }
}

/// Parses from after the opening quote to after the closing one.
fn parse_quoted(cursor: &mut Cursor<'_>, scratch: &mut Vec<u8>) -> Result<TextSpan, LineError> {
    let start = cursor.at;
    let mut has_escapes = false;
    loop {
        let rest = cursor.line.get(cursor.at..).unwrap_or_default();
        let Some(found) = memchr2(b'"', b'\\', rest) else {
            return Err(LineError {
                expected: "a closing quote",
                at: cursor.line.len(),
            });
        };
        cursor.at += found;
        if rest[found] == b'"' {
            break;
        }
        has_escapes = true;
        cursor.at += 2;
    }
    let raw = start..cursor.at;
    cursor.at += 1;
    if !has_escapes {
        return Ok(TextSpan::new(raw));
    }
    if scratch.is_empty() {
        scratch.extend_from_slice(cursor.line);
    }
    let start = scratch.len();
    unescape(&cursor.line[raw], scratch);
    Ok(TextSpan::new(start..scratch.len()))
}

fn unescape(raw: &[u8], to: &mut Vec<u8>) {
    let mut bytes = raw.iter();
    while let Some(&byte) = bytes.next() {
        match (byte, bytes.as_slice().first()) {
            (b'\\', Some(&next @ (b'\\' | b'"' | b'n'))) => {
                to.push(if next == b'n' { b'\n' } else { next });
                bytes.next();
            }
            // As in Prometheus, a backslash before any other byte is a backslash.
            _ => to.push(byte),
        }
    }
}

struct Cursor<'a> {
    line: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    /// Returns true for comments and empty lines. As in Prometheus, blanks may precede a comment
    /// but not a name.
    fn is_comment(&self) -> bool {
        let mut bytes = self.line.iter();
        let first = bytes.find(|byte| !matches!(byte, b' ' | b'\t'));
        matches!(first, None | Some(b'#'))
    }

    /// Takes a name of these bytes. It is empty if the next byte is a digit or not allowed.
    fn take_name(&mut self, is_allowed: &[bool; 256]) -> TextSpan {
        let start = self.at;
        if !self.peek().is_some_and(|first| first.is_ascii_digit()) {
            while self
                .peek()
                .is_some_and(|byte| is_allowed[usize::from(byte)])
            {
                self.at += 1;
            }
        }
        TextSpan::new(start..self.at)
    }

    /// Takes everything up to the next blank.
    fn take_token(&mut self) -> (usize, usize) {
        let start = self.at;
        while !matches!(self.peek(), None | Some(b' ' | b'\t')) {
            self.at += 1;
        }
        (start, self.at)
    }

    fn expected(&self, expected: &'static str) -> LineError {
        LineError {
            expected,
            at: self.at,
        }
    }
}
