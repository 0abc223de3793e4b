//! One line of the text format.

use std::str;

use super::error::Fault;
use super::number;
use crate::label::{Identity, Label, Span};

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
    cursor.skip_blanks();
    if matches!(cursor.peek(), None | Some(b'#')) {
        return Ok(None);
    }
    let text = str::from_utf8(line).map_err(|error| Fault {
        expected: "UTF-8",
        at: error.valid_up_to(),
    })?;
    identity.clear();
    identity.name = cursor.word(is_name);
    cursor.skip_blanks();
    if cursor.take(b'{') {
        read_labels(&mut cursor, identity, scratch)?;
    }
    if identity.name.is_empty() {
        return Err(cursor.expected("a metric name"));
    }
    cursor.skip_blanks();
    let (start, end) = cursor.token();
    let value = number::value(&text[start..end]).ok_or(Fault {
        expected: "a value",
        at: start,
    })?;
    cursor.skip_blanks();
    let timestamp_ms = if cursor.peek().is_none() {
        None
    } else {
        let (start, end) = cursor.token();
        let expected = "a timestamp in milliseconds or the end of the line";
        let fault = Fault {
            expected,
            at: start,
        };
        Some(number::timestamp(&line[start..end]).ok_or(fault)?)
    };
    cursor.skip_blanks();
    if cursor.peek().is_some() {
        return Err(cursor.expected("the end of the line"));
    }
    Ok(Some(Reading {
        value,
        timestamp_ms,
    }))
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
            cursor.word(is_label)
        };
        if name.is_empty() {
            return Err(cursor.expected("a label name or }"));
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
                return Err(cursor.expected("a quoted label value"));
            }
            let value = quoted(cursor, scratch)?;
            identity.labels.push(Label { name, value });
            cursor.skip_blanks();
        }
        cursor.take(b',');
    }
}

/// From behind the opening quote to behind the closing one.
fn quoted(cursor: &mut Cursor<'_>, scratch: &mut Vec<u8>) -> Result<Span, Fault> {
    let start = cursor.at;
    let mut has_escapes = false;
    loop {
        match cursor.peek() {
            Some(b'"') => break,
            Some(b'\\') => {
                has_escapes = true;
                cursor.at += 2;
            }
            Some(_) => cursor.at += 1,
            None => return Err(cursor.expected("a closing quote")),
        }
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

    /// Bytes of a name, which does not begin with a digit.
    fn word(&mut self, is_part: fn(u8) -> bool) -> Span {
        let start = self.at;
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            while self.peek().is_some_and(is_part) {
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
        let at = self.at.min(self.line.len());
        Fault { expected, at }
    }
}

fn is_name(byte: u8) -> bool {
    is_label(byte) || byte == b':'
}

fn is_label(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
