//! A file fits a sitting: a report of lengths, and a limit.

use std::cmp::Reverse;

use super::Problem;
use super::source::Source;

/// Lines a file may have that is not all tests.
const LIMIT: usize = 800;

pub(super) fn check(source: &Source) -> Option<Problem> {
    let lines = source.text.lines().count();
    (lines > LIMIT && !source.is_test()).then(|| {
        let text = format!("{lines} lines, limit {LIMIT}: split it by concept");
        source.problem(LIMIT + 1, text)
    })
}

/// Median, 90th percentile and the longest files.
pub(super) fn report(sources: &[Source]) -> String {
    let mut lengths: Vec<(usize, &str)> = sources
        .iter()
        .map(|source| (source.text.lines().count(), source.path.as_str()))
        .collect();
    lengths.sort_by_key(|(lines, path)| (Reverse(*lines), *path));
    let at = |percent: usize| {
        let place = lengths.len() * (100 - percent) / 100;
        lengths.get(place).map_or(0, |(lines, _)| *lines)
    };
    let summary = format!(
        "{} files: median {} lines, p90 {}; the longest:",
        lengths.len(),
        at(50),
        at(90)
    );
    let longest = lengths.iter().take(5);
    let longest = longest.map(|(lines, path)| format!("\n{lines:>6} {path}"));
    [summary].into_iter().chain(longest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, lines: usize) -> Source {
        Source::new(path, &"x\n".repeat(lines))
    }

    #[test]
    fn a_long_file_is_a_problem_unless_it_is_a_test() {
        assert!(check(&source("crates/x/src/a.rs", 800)).is_none());
        assert_eq!(check(&source("crates/x/src/a.rs", 801)).unwrap().line, 801);
        assert!(check(&source("crates/x/tests/a.rs", 801)).is_none());
    }

    #[test]
    fn the_report_has_median_p90_and_the_longest() {
        let sources: Vec<Source> = (1..=20)
            .map(|n| source(&format!("crates/x/src/{n:02}.rs"), n * 10))
            .collect();
        let report = report(&sources);
        let lines: Vec<&str> = report.lines().collect();
        assert_eq!(
            lines[0],
            "20 files: median 100 lines, p90 180; the longest:"
        );
        assert_eq!(lines[1], "   200 crates/x/src/20.rs");
        assert_eq!(lines.len(), 6);
    }
}
