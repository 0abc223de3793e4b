//! YAML -> a small tree that remembers where everything stood.
//!
//! Anchors, aliases and merge keys are resolved here, within limits that keep a hostile file cheap:
//! aliases share what they refer to, and what they stand for counts in full.

mod builder;
mod fault;

use std::rc::Rc;

use granit_parser::{Marker, Parser};

use crate::problem::Place;
use crate::scalar::Scalar;
use builder::Builder;
pub(crate) use fault::Fault;

/// Files longer than this are refused unread.
pub const MAX_BYTES: usize = 1 << 20;
const MAX_DEPTH: usize = 64;
const MAX_NODES: usize = 100_000;

/// A value and where it starts.
#[derive(Debug, PartialEq)]
pub(crate) struct Node {
    pub place: Place,
    pub content: Content,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Content {
    Scalar(Scalar),
    List(Vec<Rc<Node>>),
    /// In the order of the file, duplicates included.
    Map(Vec<Entry>),
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub key: String,
    /// Where the key starts.
    pub place: Place,
    pub value: Rc<Node>,
}

/// The first document of a file.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// `None`: there is nothing but comments.
    pub root: Option<Rc<Node>>,
    /// Where a further document with content starts.
    pub surplus: Option<Place>,
}

/// The bytes as text, without byte order mark.
pub(crate) fn decode(bytes: &[u8]) -> Result<&str, Fault> {
    if bytes.len() > MAX_BYTES {
        let message = format!("the file is too large; expected at most {MAX_BYTES} bytes");
        return Err(Fault {
            place: Place::START,
            message,
        });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let (good, bad) = bytes.split_at(error.valid_up_to());
        let good = String::from_utf8_lossy(good);
        let last_line = good.rsplit('\n').next().unwrap_or_default();
        let place = Place {
            line: good.matches('\n').count() + 1,
            column: last_line.chars().count() + 1,
        };
        let byte = bad.first().copied().unwrap_or_default();
        let message = format!("the file is not UTF-8 text: byte 0x{byte:02x}; save it as UTF-8");
        Fault { place, message }
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Reads the first document of `text`.
pub(crate) fn read(text: &str) -> Result<Document, Fault> {
    parse(text).map_err(|fault| fault::root_cause(text, fault))
}

fn parse(text: &str) -> Result<Document, Fault> {
    let options = granit_parser::options! {
        emit_unresolved_aliases: true,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut builder = Builder::default();
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| fault::of_parser(text, &error))?;
        if let Some(surplus) = builder.take(event, &span)? {
            builder.document.surplus = Some(surplus);
            break;
        }
    }
    Ok(builder.document)
}

fn place(marker: &Marker) -> Place {
    Place {
        line: marker.line(),
        column: marker.col() + 1,
    }
}
