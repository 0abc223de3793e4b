//! Why a file has no tree, in words that do not ask for YAML's grammar.

use granit_parser::{ErrorKind, ScanError};

use super::{MAX_DEPTH, place};
use crate::problem::Place;

/// A problem of encoding, size or syntax.
#[derive(Debug, PartialEq)]
pub(crate) struct Fault {
    pub place: Place,
    pub message: String,
}

const TAB: &str = "a tab where only spaces may indent; replace it with spaces";
const INDENTATION: &str =
    "this does not fit what stands above it; check the indentation of this line and the one above";

/// A problem of syntax.
pub(super) fn syntax(place: Place, message: &str) -> Fault {
    Fault {
        place,
        message: format!("the file is not valid YAML: {message}"),
    }
}

pub(super) fn too_deep() -> String {
    format!("nested deeper than {MAX_DEPTH} levels")
}

/// What the parser says about `text`.
pub(super) fn of_parser(text: &str, error: &ScanError) -> Fault {
    let place = place(error.marker());
    // The parser points to where the text began that the tab ends.
    let suspects = match error.kind() {
        ErrorKind::TabInPlainScalar => usize::MAX,
        _ => 1,
    };
    match first_tab(text, place.line, suspects) {
        Some(tab) => syntax(tab, TAB),
        None => syntax(place, &in_plain_words(error.kind())),
    }
}

/// The fault that is behind `fault`, where the lines of `text` give it away.
pub(super) fn root_cause(text: &str, fault: Fault) -> Fault {
    if let Some(line) = text.lines().position(|line| line.starts_with("<<<<<<<")) {
        return Fault {
            place: Place {
                line: line + 1,
                column: 1,
            },
            message: "the file has a merge conflict; resolve it and remove the lines that mark it"
                .to_owned(),
        };
    }
    let index = fault.place.line.saturating_sub(1);
    let line = text.lines().nth(index).unwrap_or_default();
    match line.split_once("{{") {
        Some((before, after)) if after.contains("}}") => Fault {
            place: Place {
                column: before.chars().count() + 1,
                ..fault.place
            },
            message: "the file is a template; render it first and check the result".to_owned(),
        },
        _ => fault,
    }
}

/// The first tab that indents one of `count` lines of `text`, from line `from` on.
fn first_tab(text: &str, from: usize, count: usize) -> Option<Place> {
    let lines = text.lines().enumerate();
    let mut suspects = lines.skip(from.saturating_sub(1)).take(count);
    suspects.find_map(|(index, line)| {
        let spaces = line.len() - line.trim_start_matches(' ').len();
        line[spaces..].starts_with('\t').then_some(Place {
            line: index + 1,
            column: spaces + 1,
        })
    })
}

/// The parser's own words only where they are plain enough.
fn in_plain_words(kind: &ErrorKind) -> String {
    let words = match kind {
        ErrorKind::RecursionLimitExceeded => return too_deep(),
        ErrorKind::UnexpectedCharacter { character } => {
            let character = character.escape_default();
            return format!("no text can begin with {character} here; put it in quotes");
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
            "a `:` where no key can be; check the indentation, or put the text in quotes"
        }
        ErrorKind::InvalidColonPlacement => {
            "a `:` where no key can be; is a closing bracket missing above?"
        }
        ErrorKind::SimpleKeyExpected => "a key without `: ` after it",
        ErrorKind::InvalidQuotedScalarIndent => {
            "quoted text goes on without indentation; is the closing quote missing?"
        }
        ErrorKind::InvalidTrailingSingleQuotedScalar
        | ErrorKind::InvalidTrailingDoubleQuotedScalar => {
            "text after the closing quote; put all of it in the quotes"
        }
        ErrorKind::ExpectedFlowMappingSeparator => "expected `,` or `}` here",
        ErrorKind::ExpectedFlowSequenceSeparator => "expected `,` or `]` here",
        ErrorKind::MisplacedFlowCollectionEnd => {
            "a closing bracket that none opens; remove it, or put the text in quotes"
        }
        other => return other.to_string(),
    };
    words.to_owned()
}
