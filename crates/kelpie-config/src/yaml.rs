//! YAML -> a small tree that remembers where everything stood.
//!
//! Anchors, aliases and merge keys are resolved here, within limits that keep a hostile file cheap:
//! aliases share what they refer to, and what they stand for counts in full.

mod builder;

use std::rc::Rc;

use granit_parser::{ErrorKind, Marker, Parser};

use crate::problem::Place;
use crate::scalar::Scalar;
use builder::Builder;

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

/// Why there is no tree: a problem of encoding, size or syntax.
#[derive(Debug, PartialEq)]
pub(crate) struct Fault {
    pub place: Place,
    pub message: String,
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
    let options = granit_parser::options! {
        emit_unresolved_aliases: true,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut builder = Builder::default();
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) =
            next.map_err(|error| syntax(place(error.marker()), &in_plain_words(error.kind())))?;
        if let Some(surplus) = builder.take(event, &span)? {
            builder.document.surplus = Some(surplus);
            break;
        }
    }
    Ok(builder.document)
}

fn syntax(place: Place, message: &str) -> Fault {
    Fault {
        place,
        message: format!("the file is not valid YAML: {message}"),
    }
}

/// The parser's own words, except where its readers would need to know YAML's grammar.
fn in_plain_words(kind: &ErrorKind) -> String {
    let words = match kind {
        ErrorKind::RecursionLimitExceeded => return too_deep(),
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation => "a tab where only spaces may indent",
        ErrorKind::MappingValueNotAllowed => {
            "a `:` where no key can be; check the indentation, or put the text in quotes"
        }
        ErrorKind::SimpleKeyExpected => "a key without `: ` after it",
        ErrorKind::InvalidQuotedScalarIndent => {
            "quoted text goes on without indentation; is the closing quote missing?"
        }
        other => return other.to_string(),
    };
    words.to_owned()
}

fn too_deep() -> String {
    format!("nested deeper than {MAX_DEPTH} levels")
}

fn place(marker: &Marker) -> Place {
    Place {
        line: marker.line(),
        column: marker.col() + 1,
    }
}
