//! File lengths: a limit, and a report.

use std::cmp::Reverse;

use super::Violation;
use super::source_file::SourceFile;

/// The maximum number of lines of a file, tests excepted.
const LIMIT: usize = 800;

pub(super) fn check(source: &SourceFile) -> Option<Violation> {
    let lines = source.text.lines().count();
    (lines > LIMIT && !source.is_test()).then(|| {
        let text = format!("{lines} lines, limit {LIMIT}: split it by concept");
        source.violation(LIMIT + 1, text)
    })
}

/// Returns the median, the 90th percentile and the longest files.
pub(super) fn report(sources: &[SourceFile]) -> String {
    let mut lengths: Vec<(usize, &str)> = sources
        .iter()
        .map(|source| (source.text.lines().count(), source.path.as_str()))
        .collect();
    lengths.sort_by_key(|(lines, path)| (Reverse(*lines), *path));
    let percentile = |percent: usize| {
        let index = lengths.len() * (100 - percent) / 100;
        lengths.get(index).map_or(0, |(lines, _)| *lines)
    };
    let summary = format!(
        "{} files: median {} lines, p90 {}; the longest:",
        lengths.len(),
        percentile(50),
        percentile(90)
    );
    let longest = lengths.iter().take(5);
    let longest = longest.map(|(lines, path)| format!("\n{lines:>6} {path}"));
    [summary].into_iter().chain(longest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, lines: usize) -> SourceFile {
        SourceFile::new(path, &"x\n".repeat(lines))
    }

    #[test]
    fn long_files_are_violations_except_tests() {
        assert!(check(&source("crates/x/src/a.rs", 800)).is_none());
        assert_eq!(check(&source("crates/x/src/a.rs", 801)).unwrap().line, 801);
        assert!(check(&source("crates/x/tests/a.rs", 801)).is_none());
    }

    #[test]
    fn report_has_median_p90_and_longest_files() {
        let sources: Vec<SourceFile> = (1..=20)
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
