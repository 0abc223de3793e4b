//! Formats the problems of a configuration file for the terminal.

use anstyle::{AnsiColor, Style};
use kelpie_config::{ConfigProblem, Severity};

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
    let of = |severity| {
        problems
            .iter()
            .filter(|problem| problem.severity == severity)
            .count()
    };
    let (errors, warnings) = (of(Severity::Error), of(Severity::Warning));
    let plural = |number, word| match number {
        0 => None,
        1 => Some(format!("1 {word}")),
        _ => Some(format!("{number} {word}s")),
    };
    let parts: Vec<_> = [plural(errors, "error"), plural(warnings, "warning")]
        .into_iter()
        .flatten()
        .collect();
    parts.join(", ")
}
