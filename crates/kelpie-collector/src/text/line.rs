//! One line of the text format.

use std::str;

use memchr::memchr2;

use super::error::Fault;
use super::number;
use crate::label::{Identity, Span};
use crate::name::{LABEL_BYTES, METRIC_BYTES};

/// What a line says besides the identity of its series.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) value: f64,
    pub(crate) timestamp_ms: Option<i64>,
}

/// Reads a line without its newline; nothing for comments and empty lines.
///
/// The places of the identity are in `line`, or in `scratch` if it is not empty afterwards: a line
/// with escapes is copied there, and what they stand for is put behind it.
pub(crate) fn read(
    line: &[u8],
    identity: &mut Identity,
    scratch: &mut Vec<u8>,
) -> Result<Option<Reading>, Fault> {
    let mut cursor = Cursor { line, at: 0 };
    if cursor.is_comment() {
        return Ok(None);
    }
    let text = str::from_utf8(line).map_err(|error| Fault {
        expected: "UTF-8",
        at: error.valid_up_to(),
    })?;
    identity.clear();
    identity.name = cursor.word(&METRIC_BYTES);
    if !identity.name.is_empty() {
        cursor.skip_blanks();
    }
    if cursor.take(b'{') {
        read_labels(&mut cursor, identity, scratch)?;
    }
    if identity.name.is_empty() {
        return Err(cursor.expected("the name of a metric"));
    }
    cursor.skip_blanks();
    let (start, end) = cursor.token();
    let value = number::value(&text[start..end]).ok_or(Fault {
        expected: "a value",
        at: start,
    })?;
    cursor.skip_blanks();
    let (start, end) = cursor.token();
    let timestamp_ms = if start == end {
        None
    } else {
        let timestamp = number::timestamp(&line[start..end]).ok_or(Fault {
            expected: "a timestamp in milliseconds, or the end of the line",
            at: start,
        })?;
        cursor.skip_blanks();
        Some(timestamp)
    };
    if cursor.peek().is_some() {
        return Err(cursor.expected("the end of the line"));
    }
    Ok(Some(Reading {
        value,
        timestamp_ms,
    }))
}

/// What the places of an identity are in.
pub(crate) fn text_of<'a>(line: &'a [u8], scratch: &'a [u8]) -> &'a [u8] {
    if scratch.is_empty() { line } else { scratch }
}

/// From behind the opening brace to behind the closing one.
fn read_labels(
    cursor: &mut Cursor<'_>,
    identity: &mut Identity,
    scratch: &mut Vec<u8>,
) -> Result<(), Fault> {
    loop {
        cursor.skip_blanks();
        if cursor.take(b'}') {
            return Ok(());
        }
        // Prometheus 3 quotes names that are not of the old form, also the metric's own.
        let is_quoted = cursor.take(b'"');
        let name = if is_quoted {
            quoted(cursor, scratch)?
        } else {
            cursor.word(&LABEL_BYTES)
        };
        if name.is_empty() {
            return Err(cursor.expected("the name of a label, or }"));
        }
        cursor.skip_blanks();
        if is_quoted && identity.name.is_empty() && matches!(cursor.peek(), Some(b',' | b'}')) {
            identity.name = name;
        } else {
            if !cursor.take(b'=') {
                return Err(cursor.expected("="));
            }
            cursor.skip_blanks();
            if !cursor.take(b'"') {
                return Err(cursor.expected("the value of a label, in double quotes"));
            }
            let value = quoted(cursor, scratch)?;
            let text = text_of(cursor.line, scratch);
            identity.push(text, name, value);
            cursor.skip_blanks();
        }
        // Like Prometheus: one may follow the last label, and none is missed between two.
        cursor.take(b',');
    }
}

/// From behind the opening quote to behind the closing one.
fn quoted(cursor: &mut Cursor<'_>, scratch: &mut Vec<u8>) -> Result<Span, Fault> {
    let start = cursor.at;
    let mut has_escapes = false;
    loop {
        let rest = cursor.line.get(cursor.at..).unwrap_or_default();
        let Some(found) = memchr2(b'"', b'\\', rest) else {
            return Err(Fault {
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
        return Ok(Span::new(raw));
    }
    if scratch.is_empty() {
        scratch.extend_from_slice(cursor.line);
    }
    let start = scratch.len();
    undo_escapes(&cursor.line[raw], scratch);
    Ok(Span::new(start..scratch.len()))
}

fn undo_escapes(raw: &[u8], to: &mut Vec<u8>) {
    let mut bytes = raw.iter();
    while let Some(&byte) = bytes.next() {
        match (byte, bytes.as_slice().first()) {
            (b'\\', Some(&next @ (b'\\' | b'"' | b'n'))) => {
                to.push(if next == b'n' { b'\n' } else { next });
                bytes.next();
            }
            // Like Prometheus: a backslash before anything else is a backslash.
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

    /// Whether the line says nothing about samples. Blanks may come before a comment, but not, in
    /// Prometheus' eyes, before a name.
    fn is_comment(&self) -> bool {
        let mut bytes = self.line.iter();
        let first = bytes.find(|byte| !matches!(byte, b' ' | b'\t'));
        matches!(first, None | Some(b'#'))
    }

    /// A name of these bytes; none begins with a digit.
    fn word(&mut self, is_part: &[bool; 256]) -> Span {
        let start = self.at;
        if !self.peek().is_some_and(|first| first.is_ascii_digit()) {
            while self.peek().is_some_and(|byte| is_part[usize::from(byte)]) {
                self.at += 1;
            }
        }
        Span::new(start..self.at)
    }

    /// Up to the next blank.
    fn token(&mut self) -> (usize, usize) {
        let start = self.at;
        while !matches!(self.peek(), None | Some(b' ' | b'\t')) {
            self.at += 1;
        }
        (start, self.at)
    }

    fn expected(&self, expected: &'static str) -> Fault {
        Fault {
            expected,
            at: self.at,
        }
    }
}
