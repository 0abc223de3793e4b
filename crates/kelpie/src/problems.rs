//! What is wrong with a configuration file, for people.

use anstyle::{AnsiColor, Style};
use kelpie_config::{Problem, Severity};

/// One line for each.
pub(crate) fn lines(file: &str, problems: &[Problem]) -> String {
    let lines = problems.iter().map(|problem| line(file, problem) + "\n");
    lines.collect()
}

/// A problem the way compilers print them.
fn line(file: &str, problem: &Problem) -> String {
    let place = Style::new().bold();
    let (label, style) = match problem.severity {
        Severity::Error => ("", Style::new()),
        Severity::Warning => (
            "warning: ",
            Style::new().fg_color(Some(AnsiColor::Yellow.into())),
        ),
    };
    let Problem { line, column, .. } = problem;
    format!(
        "{place}{file}:{line}:{column}:{place:#} {style}{label}{style:#}{}",
        problem.text()
    )
}

/// `2 errors, 1 warning`.
pub(crate) fn count(problems: &[Problem]) -> String {
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
