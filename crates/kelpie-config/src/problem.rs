//! What is wrong with a file, and where.

use std::fmt;

use serde::Serialize;

/// A spot in a file; both numbers count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub line: usize,
    pub column: usize,
}

impl Place {
    pub(crate) const START: Self = Self { line: 1, column: 1 };
}

/// Whether a problem stops the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but not everything in it will do what it says.
    Warning,
}

/// One thing wrong with a file. Prints as `line:column: path: message`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Whether it stops the program.
    pub severity: Severity,
    /// Where in the structure, such as `dependentResourceInfos[1].scaleUp.level`; empty when it is
    /// about the file as a whole.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The value at fault, as written; shortened when it is long.
    pub value: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What would be right: the rest of a sentence that starts with "expected".
    pub expected: Option<String>,
    /// A way out.
    pub hint: Option<String>,
}

impl Problem {
    pub(crate) fn error(place: Place, path: &str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            path: path.to_owned(),
            line: place.line,
            column: place.column,
            value: None,
            message: message.into(),
            expected: None,
            hint: None,
        }
    }

    pub(crate) fn warning(place: Place, path: &str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(place, path, message)
        }
    }

    pub(crate) fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn value(mut self, value: impl Into<String>) -> Self {
        self.value = Some(value.into());
        self
    }

    /// The problem without its place: path, message, what was expected, hint.
    pub fn text(&self) -> impl fmt::Display {
        fmt::from_fn(move |f| {
            if !self.path.is_empty() {
                write!(f, "{}: ", self.path)?;
            }
            f.write_str(&self.message)?;
            if let Some(expected) = &self.expected {
                write!(f, "; expected {expected}")?;
            }
            if let Some(hint) = &self.hint {
                write!(f, "; {hint}")?;
            }
            Ok(())
        })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.line, self.column)?;
        if self.severity == Severity::Warning {
            f.write_str("warning: ")?;
        }
        self.text().fmt(f)
    }
}

/// Every problem of a file that cannot be used, in the order of the file. At least one is an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Report {
    /// The problems.
    pub problems: Vec<Problem>,
}

/// In the order of the file; what stands at one place stays in the order it was found.
pub(crate) fn sort(problems: &mut [Problem]) {
    problems.sort_by_key(|problem| (problem.line, problem.column));
}

/// One problem per line.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Report {}

/// Text as a message shows it: quoted, on one line, shortened when it is long.
pub(crate) fn quoted(text: &str) -> String {
    format!("{:?}", shortened(text))
}

/// The first 60 characters.
pub(crate) fn shortened(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
