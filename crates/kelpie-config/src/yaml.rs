//! A small YAML tree that keeps the source position of every value.
//!
//! Anchors, aliases and merge keys are resolved here, within limits that keep a hostile file cheap.
//! Aliases share the node they refer to, but count in full against the limit on nodes.

mod error;
mod tree_builder;

use std::rc::Rc;

use granit_parser::{Marker, Parser};

use crate::problem::SourcePosition;
use crate::scalar::Scalar;
pub(crate) use error::YamlError;
use tree_builder::TreeBuilder;

/// The maximum size of a file. Larger files are rejected without being parsed.
pub const MAX_BYTES: usize = 1 << 20;
const MAX_DEPTH: usize = 64;
const MAX_NODES: usize = 100_000;

/// A value with the position at which it starts.
#[derive(Debug, PartialEq)]
pub(crate) struct YamlNode {
    pub position: SourcePosition,
    pub content: YamlContent,
}

#[derive(Debug, PartialEq)]
pub(crate) enum YamlContent {
    Scalar(Scalar),
    List(Vec<Rc<YamlNode>>),
    /// The entries in file order, duplicates included.
    Map(Vec<YamlEntry>),
}

/// A key of a map with its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct YamlEntry {
    pub key: String,
    /// The position at which the key starts.
    pub position: SourcePosition,
    pub value: Rc<YamlNode>,
}

/// The first document of a file.
#[derive(Debug, Default)]
pub(crate) struct YamlDocument {
    /// The top-level value; `None` if the file contains only comments.
    pub root: Option<Rc<YamlNode>>,
    /// The position of a second document with content.
    pub second_document: Option<SourcePosition>,
}

/// Decodes a file as UTF-8 and strips the byte order mark.
pub(crate) fn decode(bytes: &[u8]) -> Result<&str, YamlError> {
    if bytes.len() > MAX_BYTES {
        let message = format!("the file is too large; expected at most {MAX_BYTES} bytes");
        return Err(YamlError {
            position: SourcePosition::START,
            message,
        });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let (good, bad) = bytes.split_at(error.valid_up_to());
        let good = String::from_utf8_lossy(good);
        let last_line = good.rsplit('\n').next().unwrap_or_default();
        let position = SourcePosition {
            line: good.matches('\n').count() + 1,
            column: last_line.chars().count() + 1,
        };
        let byte = bad.first().copied().unwrap_or_default();
        let message = format!("the file is not UTF-8 text: byte 0x{byte:02x}; save it as UTF-8");
        YamlError { position, message }
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Parses the first document of `text`.
pub(crate) fn parse(text: &str) -> Result<YamlDocument, YamlError> {
    build_tree(text).map_err(|error| error::root_cause(text, error))
}

fn build_tree(text: &str) -> Result<YamlDocument, YamlError> {
    let options = granit_parser::options! {
        emit_unresolved_aliases: true,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut builder = TreeBuilder::default();
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| error::from_scan_error(text, &error))?;
        if let Some(second_document) = builder.push_event(event, &span)? {
            builder.document.second_document = Some(second_document);
            break;
        }
    }
    Ok(builder.document)
}

fn position(marker: &Marker) -> SourcePosition {
    SourcePosition {
        line: marker.line(),
        column: marker.col() + 1,
    }
}
