//! Lines fit on the screen: 100 columns in Rust, 120 in Markdown.

use super::Violation;
use super::markdown::MarkdownPage;
use super::source_file::SourceFile;

const RUST_COLUMNS: usize = 100;
const MARKDOWN_COLUMNS: usize = 120;

/// Checks every line of a Rust file. rustfmt leaves comments and string literals alone.
pub(super) fn check_source(source: &SourceFile) -> Vec<Violation> {
    let lines = (1..).zip(source.text.lines());
    let wide = lines.filter(|(_, line)| width(line) > RUST_COLUMNS);
    wide.map(|(number, line)| source.violation(number, message(line, RUST_COLUMNS)))
        .collect()
}

/// Checks the lines of a Markdown page, except tables and fenced code, which cannot be wrapped.
pub(super) fn check_page(page: &MarkdownPage) -> Vec<Violation> {
    let lines = page.prose_lines();
    let wide = lines.filter(|(_, line)| !is_table_row(line) && width(line) > MARKDOWN_COLUMNS);
    wide.map(|(number, line)| page.violation(number, message(line, MARKDOWN_COLUMNS)))
        .collect()
}

fn width(line: &str) -> usize {
    line.chars().count()
}

fn is_table_row(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

fn message(line: &str, limit: usize) -> String {
    format!("{} columns, limit {limit}: wrap the line", width(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_rust_lines_are_violations() {
        let text = format!("{}\n{}\n", "ä".repeat(100), "x".repeat(101));
        let violations = check_source(&SourceFile::new("crates/x/src/a.rs", &text));
        let shown: Vec<String> = violations.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            ["crates/x/src/a.rs:2: 101 columns, limit 100: wrap the line"]
        );
    }

    #[test]
    fn tables_and_fenced_code_may_be_wide() {
        let (fits, wide) = ("x".repeat(120), "x".repeat(121));
        let text = format!("{fits}\n| {wide} |\n```\n{wide}\n```\n{wide}\n");
        let violations = check_page(&MarkdownPage::new("docs/a.md", &text));
        let lines: Vec<usize> = violations.iter().map(|found| found.line).collect();
        assert_eq!(lines, [6]);
    }
}
