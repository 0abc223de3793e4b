//! Every invariant in `docs/ARCHITECTURE.md` names the tests that prove it, and so does every
//! attack in `docs/security.md`.
//!
//! An invariant is an entry of the numbered list under "Invariants". It names a test as a code span
//! of the form `path/to/file.rs::test_name`.

use super::Violation;
use super::markdown::MarkdownPage;
use super::source_file::SourceFile;

const PAGE: &str = "docs/ARCHITECTURE.md";
const SECTION: &str = "## Invariants";
const ATTACKS_PAGE: &str = "docs/security.md";

/// The invariants of the architecture page.
pub(super) struct Invariants {
    entries: Vec<Invariant>,
    /// The tests that the page about attacks names.
    of_attacks: Vec<TestReference>,
}

/// One entry of the list.
struct Invariant {
    tests: Vec<TestReference>,
}

/// A code span that names a test.
struct TestReference {
    page: &'static str,
    /// The line of the page, counted from 1.
    line: usize,
    file: String,
    function: String,
}

impl Invariants {
    pub(super) fn of(pages: &[MarkdownPage]) -> Self {
        let page = pages.iter().find(|page| page.path == PAGE);
        let mut entries = Vec::<Invariant>::new();
        for (number, line) in page.into_iter().flat_map(section) {
            if is_start_of_entry(line) {
                entries.push(Invariant { tests: Vec::new() });
            }
            if let Some(entry) = entries.last_mut() {
                entry.tests.extend(test_references(PAGE, number, line));
            }
        }
        let attacks = pages.iter().find(|page| page.path == ATTACKS_PAGE);
        let of_attacks = attacks.into_iter().flat_map(MarkdownPage::prose_lines);
        let of_attacks = of_attacks
            .flat_map(|(number, line)| test_references(ATTACKS_PAGE, number, line))
            .collect();
        Self {
            entries,
            of_attacks,
        }
    }

    /// Reports references to files or tests that do not exist.
    pub(super) fn check(&self, sources: &[SourceFile]) -> Vec<Violation> {
        let tests = self.entries.iter().flat_map(|entry| &entry.tests);
        tests
            .chain(&self.of_attacks)
            .filter_map(|test| {
                let TestReference { file, function, .. } = test;
                let text = match sources.iter().find(|source| source.path == *file) {
                    None => format!("there is no {file}: name the file with the test"),
                    Some(source) if !defines(source, function) => {
                        format!("{file} has no test {function}: name the test that proves this")
                    }
                    Some(_) => return None,
                };
                Some(Violation {
                    file: test.page.to_owned(),
                    line: test.line,
                    text,
                })
            })
            .collect()
    }

    /// Returns a note about the invariants that name no test.
    pub(super) fn note(&self) -> Option<String> {
        let all = self.entries.len();
        let unproven = self.entries.iter().filter(|entry| entry.tests.is_empty());
        match unproven.count() {
            0 => None,
            count => Some(format!("{PAGE}: {count} of {all} invariants name no test")),
        }
    }
}

/// Returns the lines of the section about invariants.
fn section(page: &MarkdownPage) -> impl Iterator<Item = (usize, &str)> {
    let lines = page.prose_lines().skip_while(|(_, line)| *line != SECTION);
    lines
        .skip(1)
        .take_while(|(_, line)| !line.starts_with("## "))
}

fn is_start_of_entry(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < line.len() && rest.starts_with(". ")
}

fn test_references(page: &'static str, line: usize, text: &str) -> Vec<TestReference> {
    // Every second part is between backticks.
    let spans = text.split('`').skip(1).step_by(2);
    spans
        .filter_map(|span| {
            let (file, path) = span.split_once(".rs::")?;
            let function = path.rsplit("::").next().unwrap_or(path);
            Some(TestReference {
                page,
                line,
                file: format!("{file}.rs"),
                function: function.to_owned(),
            })
        })
        .collect()
}

fn defines(source: &SourceFile, function: &str) -> bool {
    source.code.split("fn ").skip(1).any(|rest| {
        let rest = rest.strip_prefix(function);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Architecture\n\n1. No invariant.\n\n## Invariants\n\n\
        1. **A fence is recorded.** `crates/x/tests/it/a.rs::fence_is_recorded`, and by type.\n\
        2. **Time is an argument.** `crates/x/src/b.rs::tests::gone`\n   `crates/x/src/c.rs::no`\n\
        3. **No busy loop.** See `schedule.rs`.\n\n\
        ## Next\n\n1. `crates/x/src/d.rs::elsewhere`\n";

    fn invariants() -> Invariants {
        Invariants::of(&[MarkdownPage::new(PAGE, TEXT)])
    }

    fn violations(sources: &[SourceFile]) -> Vec<String> {
        let violations = invariants().check(sources);
        violations.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn named_tests_must_exist() {
        let sources = [
            SourceFile::new(
                "crates/x/tests/it/a.rs",
                "#[test]\nfn fence_is_recorded() {}\n",
            ),
            SourceFile::new("crates/x/src/b.rs", "fn gone_too() {}\n// fn gone() {}\n"),
        ];
        assert_eq!(
            violations(&sources),
            [
                "docs/ARCHITECTURE.md:8: crates/x/src/b.rs has no test gone: name the test that \
                 proves this",
                "docs/ARCHITECTURE.md:9: there is no crates/x/src/c.rs: name the file with the \
                 test",
            ]
        );
    }

    #[test]
    fn invariants_without_a_test_are_counted() {
        let note = invariants().note();
        let expected = "docs/ARCHITECTURE.md: 1 of 3 invariants name no test";
        assert_eq!(note.as_deref(), Some(expected));
        assert_eq!(Invariants::of(&[]).note(), None);
    }
}
