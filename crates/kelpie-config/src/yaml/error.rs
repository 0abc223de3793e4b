//! Errors that leave a file without a tree, worded without the terms of YAML's grammar.

use granit_parser::{ErrorKind, ScanError};

use super::{MAX_DEPTH, position};
use crate::problem::SourcePosition;

/// An error in the encoding, size or syntax of a file.
#[derive(Debug, PartialEq)]
pub(crate) struct YamlError {
    pub position: SourcePosition,
    pub message: String,
}

const TAB: &str = "a tab in the indentation; replace it with spaces";
const INDENTATION: &str =
    "this does not fit the lines above; check the indentation of this line and the one above";

/// Creates a syntax error.
pub(super) fn syntax_error(position: SourcePosition, message: &str) -> YamlError {
    YamlError {
        position,
        message: format!("the file is not valid YAML: {message}"),
    }
}

pub(super) fn too_deep() -> String {
    format!("nested deeper than {MAX_DEPTH} levels")
}

/// Translates the parser's error about `text`.
pub(super) fn from_scan_error(text: &str, error: &ScanError) -> YamlError {
    let position = position(error.marker());
    // For a tab within plain text, the parser reports the start of that text, which may be several
    // lines above the tab.
    let lines_to_search = match error.kind() {
        ErrorKind::TabInPlainScalar => usize::MAX,
        _ => 1,
    };
    match first_tab(text, position.line, lines_to_search) {
        Some(tab) => syntax_error(tab, TAB),
        None => syntax_error(position, &describe(error.kind())),
    }
}

/// Replaces `error` by its likely cause: a merge conflict or an unrendered template.
pub(super) fn root_cause(text: &str, error: YamlError) -> YamlError {
    if let Some(line) = text.lines().position(|line| line.starts_with("<<<<<<<")) {
        return YamlError {
            position: SourcePosition {
                line: line + 1,
                column: 1,
            },
            message: "the file has a merge conflict; resolve it and remove the conflict markers"
                .to_owned(),
        };
    }
    let index = error.position.line.saturating_sub(1);
    let line = text.lines().nth(index).unwrap_or_default();
    match line.split_once("{{") {
        Some((before, after)) if after.contains("}}") => YamlError {
            position: SourcePosition {
                column: before.chars().count() + 1,
                ..error.position
            },
            message: "the file is a template; render it first and check the result".to_owned(),
        },
        _ => error,
    }
}

/// Finds the first tab in the indentation of up to `count` lines, starting at line `from`.
fn first_tab(text: &str, from: usize, count: usize) -> Option<SourcePosition> {
    let lines = text.lines().enumerate();
    let mut lines = lines.skip(from.saturating_sub(1)).take(count);
    lines.find_map(|(index, line)| {
        let spaces = line.len() - line.trim_start_matches(' ').len();
        line[spaces..].starts_with('\t').then_some(SourcePosition {
            line: index + 1,
            column: spaces + 1,
        })
    })
}

/// Describes an error of the parser. Only kinds that are not listed keep the parser's own wording.
fn describe(kind: &ErrorKind) -> String {
    let description = match kind {
        ErrorKind::RecursionLimitExceeded => return too_deep(),
        ErrorKind::UnexpectedCharacter { character } => {
            let character = character.escape_default();
            return format!("a value cannot start with {character} here; put it in quotes");
        }
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabInPlainScalar => TAB,
        ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry
        | ErrorKind::ExpectedDocumentStart
        | ErrorKind::BlockSequenceEntryNotAllowed
        | ErrorKind::InvalidFlowScalarIndent
        | ErrorKind::InvalidIndentation => INDENTATION,
        ErrorKind::MappingValueNotAllowed => {
            "unexpected `:`; check the indentation, or put the text in quotes"
        }
        ErrorKind::InvalidColonPlacement => "unexpected `:`; is a closing bracket missing above?",
        ErrorKind::SimpleKeyExpected => "a key without `: ` after it",
        ErrorKind::InvalidQuotedScalarIndent => {
            "a quoted string continues without indentation; is the closing quote missing?"
        }
        ErrorKind::InvalidTrailingSingleQuotedScalar
        | ErrorKind::InvalidTrailingDoubleQuotedScalar => {
            "text after the closing quote; put all of it inside the quotes"
        }
        ErrorKind::ExpectedFlowMappingSeparator => "expected `,` or `}` here",
        ErrorKind::ExpectedFlowSequenceSeparator => "expected `,` or `]` here",
        ErrorKind::MisplacedFlowCollectionEnd => {
            "a closing bracket without an opening one; remove it, or put the text in quotes"
        }
        other => return other.to_string(),
    };
    description.to_owned()
}
