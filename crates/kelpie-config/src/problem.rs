//! Problems of a configuration file, each with its position.

use std::fmt;

use serde::Serialize;

/// A position in a file. Lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SourcePosition {
    pub line: usize,
    pub column: usize,
}

impl SourcePosition {
    pub(crate) const START: Self = Self { line: 1, column: 1 };
}

/// The severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but a setting will not work as written.
    Warning,
}

/// One problem of a file. Displays as `line:column: path: message`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigProblem {
    /// Errors make the file unusable; warnings do not.
    pub severity: Severity,
    /// The path of the setting, such as `dependentResourceInfos[1].scaleUp.level`. Empty if the
    /// problem concerns the file as a whole.
    pub path: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The invalid value as written in the file, truncated to 60 characters.
    pub value: Option<String>,
    /// The description of the problem.
    pub message: String,
    /// The allowed values: the rest of a sentence that starts with "expected".
    pub expected: Option<String>,
    /// A suggestion on how to fix the problem.
    pub hint: Option<String>,
}

impl ConfigProblem {
    pub(crate) fn error(position: SourcePosition, path: &str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            path: path.to_owned(),
            line: position.line,
            column: position.column,
            value: None,
            message: message.into(),
            expected: None,
            hint: None,
        }
    }

    pub(crate) fn warning(
        position: SourcePosition,
        path: &str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(position, path, message)
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

    pub(crate) fn hint_if(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }

    pub(crate) fn value(mut self, value: impl Into<String>) -> Self {
        self.value = Some(value.into());
        self
    }

    /// Displays the problem without its position: path, message, expectation and hint.
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

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.line, self.column)?;
        if self.severity == Severity::Warning {
            f.write_str("warning: ")?;
        }
        self.text().fmt(f)
    }
}

/// All problems of a file that cannot be used. At least one of them is an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ConfigError {
    /// Errors and warnings in file order.
    pub problems: Vec<ConfigProblem>,
}

/// Displays one problem per line.
impl fmt::Display for ConfigError {
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

impl std::error::Error for ConfigError {}

/// Formats text for a message: quoted, on one line, truncated.
pub(crate) fn quoted(text: &str) -> String {
    format!("{:?}", truncated(text))
}

/// Truncates text to 60 characters.
pub(crate) fn truncated(text: &str) -> String {
    const MAX_LENGTH: usize = 60;
    match text.char_indices().nth(MAX_LENGTH) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
