//! Formats the problems of a configuration file for the terminal.

use anstyle::{AnsiColor, Style};
use kelpie_config::{ConfigProblem, Severity};

use crate::summary::pluralize;

/// Formats one line per problem.
pub(crate) fn lines(file: &str, problems: &[ConfigProblem]) -> String {
    let lines = problems.iter().map(|problem| line(file, problem) + "\n");
    lines.collect()
}

/// Formats a problem like a compiler: `file:line:column: message`.
fn line(file: &str, problem: &ConfigProblem) -> String {
    let bold = Style::new().bold();
    let (label, style) = match problem.severity {
        Severity::Error => ("", Style::new()),
        Severity::Warning => (
            "warning: ",
            Style::new().fg_color(Some(AnsiColor::Yellow.into())),
        ),
    };
    let ConfigProblem { line, column, .. } = problem;
    format!(
        "{bold}{file}:{line}:{column}:{bold:#} {style}{label}{style:#}{}",
        problem.text()
    )
}

/// Counts problems by severity: `2 errors, 1 warning`.
pub(crate) fn count(problems: &[ConfigProblem]) -> String {
    let of = |severity, one, many| {
        let problems = problems.iter().filter(|it| it.severity == severity);
        let number = u32::try_from(problems.count()).unwrap_or(u32::MAX);
        (number > 0).then(|| pluralize(number, one, many))
    };
    let errors = of(Severity::Error, "error", "errors");
    let warnings = of(Severity::Warning, "warning", "warnings");
    let parts: Vec<_> = errors.into_iter().chain(warnings).collect();
    parts.join(", ")
}
